//! Addresses of both families as numbers.

use std::fmt::Debug;
use std::hash::Hash;

/// Address of one family: a number of 32 or 128 bits.
pub(crate) trait Address: Copy + Ord + Debug + Hash + Send + Sync + 'static {
    /// Smallest and largest address.
    const ENDS: [Self; 2];

    /// Returns the address of a whole field value; its upper bits are 0.
    fn of(value: u128) -> Self;

    /// Returns the address behind this one; `None` behind the largest.
    fn next(self) -> Option<Self>;

    /// Returns the address before this one; `None` before the smallest.
    fn previous(self) -> Option<Self>;

    /// Returns the address in the key words of its field.
    fn of_words(words: &[u32]) -> Self;
}

macro_rules! address {
    ($of:ty) => {
        impl Address for $of {
            const ENDS: [Self; 2] = [Self::MIN, Self::MAX];

            fn of(value: u128) -> Self {
                value as Self
            }

            #[inline(always)]
            fn next(self) -> Option<Self> {
                self.checked_add(1)
            }

            #[inline(always)]
            fn previous(self) -> Option<Self> {
                self.checked_sub(1)
            }

            #[inline(always)]
            fn of_words(words: &[u32]) -> Self {
                words.iter().fold(0, |all, &word| (u128::from(all) << 32 | u128::from(word)) as Self)
            }
        }
    };
}

address!(u32);
address!(u128);
