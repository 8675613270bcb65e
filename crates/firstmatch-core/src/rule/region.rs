//! Regions: rules lower to them, and engines search them.

use crate::error::UpdateError;

/// Region: a closed interval for each key word, and a value under a mask for each ternary word.
///
/// A key lies in the region if every word passes both tests. For example, the region of `dst 192.0.2.0/24` over an IPv4
/// 5-tuple has the prefix in its second word and all values in the others.
///
/// ```
/// use firstmatch_core::rule::Region;
///
/// // Addresses 8 to 15 and ports 8 to 11.
/// let region = Region { lo: &[8, 8], hi: &[15, 11], ternary: None };
/// assert!(region.contains(&[11, 9]) && !region.contains(&[11, 12]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region<'a> {
    /// Smallest value of each word.
    pub lo: &'a [u32],
    /// Largest value of each word.
    pub hi: &'a [u32],
    /// Value and mask of each word, if some word is ternary.
    ///
    /// The interval of each word is then the hull of the values that pass both tests. Its ends therefore pass the mask,
    /// which [`Regions::try_push`] checks.
    pub ternary: Option<(&'a [u32], &'a [u32])>,
}

impl Region<'_> {
    /// Whether the row `key` lies inside.
    pub fn contains(&self, key: &[u32]) -> bool {
        let inside = self.lo.iter().zip(self.hi).zip(key).all(|((lo, hi), k)| lo <= k && k <= hi);
        inside
            && self.ternary.is_none_or(|(value, mask)| {
                value.iter().zip(mask).zip(key).all(|((value, mask), k)| k & mask == *value)
            })
    }
}

/// Regions over the same key words, in a flat array.
///
/// ```
/// use firstmatch_core::rule::{Region, Regions};
///
/// let mut regions = Regions::new(2); // words a key
/// regions.push(Region { lo: &[8, 80], hi: &[15, 80], ternary: None });
/// assert!(regions.get(0).contains(&[9, 80]) && regions.len() == 1);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Regions {
    key_words: usize,
    /// For each region `lo` of every word, then `hi` of every word.
    bounds: Vec<u32>,
    count: usize,
    /// For each region its index in `masks`, or `NOT_TERNARY`.
    ///
    /// Regions behind the last ternary one are left out.
    ternary: Vec<u32>,
    /// For each ternary region `value` of every word, then `mask` of every word.
    masks: Vec<u32>,
}

const NOT_TERNARY: u32 = u32::MAX;

impl Regions {
    /// Builds a list without regions, over `key_words` key words.
    pub fn new(key_words: usize) -> Self {
        Self { key_words, ..Self::default() }
    }

    /// Number of words of a region.
    pub fn key_words(&self) -> usize {
        self.key_words
    }

    /// Number of regions.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no region.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the region of index `index`.
    ///
    /// # Panics
    /// If there is no such region.
    pub fn get(&self, index: usize) -> Region<'_> {
        let (lo, hi) = self.bounds[index * 2 * self.key_words..][..2 * self.key_words].split_at(self.key_words);
        let ternary = self.ternary.get(index).filter(|&&place| place != NOT_TERNARY);
        let ternary = ternary.map(|&place| {
            self.masks[place as usize * 2 * self.key_words..][..2 * self.key_words].split_at(self.key_words)
        });
        Region { lo, hi, ternary }
    }

    /// Returns the regions in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Region<'_>> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// Adds a region.
    ///
    /// # Panics
    /// If [`Regions::try_push`] refuses it.
    pub fn push(&mut self, region: Region<'_>) {
        if let Err(error) = self.try_push(region) {
            panic!("{error}");
        }
    }

    /// Adds a region that may be malformed.
    ///
    /// # Errors
    /// If the number of its words is not that of this list, an interval is empty (`lo > hi`), or an end of an interval
    /// does not pass the mask of its word. Nothing is added then.
    pub fn try_push(&mut self, region: Region<'_>) -> Result<(), UpdateError> {
        let Region { lo, hi, ternary } = region;
        let parts = ternary.map_or([lo, hi, lo, hi], |(value, mask)| [lo, hi, value, mask]);
        if let Some(part) = parts.into_iter().find(|part| part.len() != self.key_words) {
            return Err(UpdateError::bad_region(format!("it has {} words instead of {}", part.len(), self.key_words)));
        }
        if let Some(word) = (0..self.key_words).find(|&word| lo[word] > hi[word]) {
            let what = format!("word {word} goes from {} to {}", lo[word], hi[word]);
            return Err(UpdateError::bad_region(what));
        }
        if let Some((value, mask)) = ternary
            && let Some(word) = (0..self.key_words).find(|&at| [lo, hi].map(|end| end[at] & mask[at]) != [value[at]; 2])
        {
            let what = format!("the ends of word {word} do not have the value {} under its mask", value[word]);
            return Err(UpdateError::bad_region(what));
        }
        self.bounds.extend_from_slice(lo);
        self.bounds.extend_from_slice(hi);
        self.count += 1;
        let Some((value, mask)) = ternary else { return Ok(()) };
        self.ternary.resize(self.count - 1, NOT_TERNARY);
        // At most 2^24 regions are lowered, so the index fits.
        self.ternary.push((self.masks.len() / (2 * self.key_words)) as u32);
        self.masks.extend_from_slice(value);
        self.masks.extend_from_slice(mask);
        Ok(())
    }

    /// Makes room for `count` more regions without ternary words.
    pub(super) fn reserve(&mut self, count: usize) {
        self.bounds.reserve(count * 2 * self.key_words);
    }

    /// Adds a region of intervals, given for each word as `(lo, hi)`.
    pub(super) fn push_intervals(&mut self, intervals: impl Iterator<Item = (u32, u32)> + Clone) {
        self.bounds.extend(intervals.clone().map(|(lo, _)| lo));
        self.bounds.extend(intervals.map(|(_, hi)| hi));
        self.count += 1;
        debug_assert_eq!(self.bounds.len(), self.count * 2 * self.key_words);
    }

    /// Returns the interval of one word of the last region, as `(lo, hi)`.
    pub(super) fn last_interval(&mut self, word: usize) -> (&mut u32, &mut u32) {
        let start = self.bounds.len() - 2 * self.key_words;
        let (lo, hi) = self.bounds[start..].split_at_mut(self.key_words);
        (&mut lo[word], &mut hi[word])
    }

    /// Removes the last region, which must not be ternary.
    pub(super) fn pop_intervals(&mut self) {
        self.bounds.truncate(self.bounds.len() - 2 * self.key_words);
        self.count -= 1;
    }

    /// Number of bytes on the heap.
    pub(crate) fn bytes(&self) -> usize {
        (self.bounds.capacity() + self.ternary.capacity() + self.masks.capacity()) * size_of::<u32>()
    }

    /// Removes every region and keeps the memory.
    pub fn clear(&mut self) {
        self.count = 0;
        self.bounds.clear();
        self.ternary.clear();
        self.masks.clear();
    }

    /// Returns the indices of the words on which some region is ternary.
    pub fn ternary_words(&self) -> Vec<usize> {
        let any = |word| self.iter().any(|r| r.ternary.is_some_and(|(_, mask)| mask[word] != 0));
        if self.masks.is_empty() { Vec::new() } else { (0..self.key_words).filter(|&word| any(word)).collect() }
    }
}

/// Returns the mask of the longest prefix of a word that holds `lo..=hi`.
///
/// For example, `4..=6` lies in the prefix of 4 with two free bits, so the mask is `!3`.
pub(crate) fn containing_prefix(lo: u32, hi: u32) -> u32 {
    let differ = lo ^ hi;
    u32::MAX.checked_shl(32 - differ.leading_zeros()).unwrap_or(0)
}

/// Returns the mask of the bits that `region` fixes in the key word `word`.
///
/// These are the bits of its containing prefix and of its ternary mask.
pub(crate) fn fixed_bits(region: &Region<'_>, word: usize) -> u32 {
    containing_prefix(region.lo[word], region.hi[word]) | region.ternary.map_or(0, |(_, mask)| mask[word])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ternary_words_are_those_with_a_mask() {
        let mut regions = Regions::new(3);
        assert!(regions.ternary_words().is_empty());
        regions.push(Region { lo: &[1, 2, 4], hi: &[1, 3, 4], ternary: None });
        regions.push(Region { lo: &[0, 1, 4], hi: &[9, 3, 4], ternary: Some((&[0, 1, 0], &[0, 1, 0])) });
        assert_eq!(regions.ternary_words(), [1]);
        regions.push(Region { lo: &[1, 2, 4], hi: &[3, 3, 4], ternary: Some((&[1, 0, 0], &[1, 0, 0])) });
        assert_eq!(regions.ternary_words(), [0, 1]);
    }

    #[test]
    fn bytes_are_those_of_bounds_and_masks() {
        let mut regions = Regions::new(2);
        assert_eq!(regions.bytes(), 0);
        regions.reserve(100);
        let plain = regions.bytes();
        assert!((1600..3200).contains(&plain), "{plain}");
        (0..100).for_each(|_| regions.push(Region { lo: &[0, 1], hi: &[9, 1], ternary: Some((&[0, 1], &[0, 1])) }));
        let masks = regions.bytes() - plain;
        assert!((1600 + 400..2 * (1600 + 400)).contains(&masks), "{masks}");
    }

    #[test]
    fn a_malformed_region_is_refused_and_changes_nothing() {
        let mut regions = Regions::new(2);
        regions.push(Region { lo: &[1, 2], hi: &[1, 3], ternary: Some((&[1, 0], &[1, 0])) });
        let before = regions.clone();
        let refused = [
            Region { lo: &[0, 4], hi: &[9, 3], ternary: None },
            Region { lo: &[0], hi: &[9, 3], ternary: None },
            Region { lo: &[0, 0], hi: &[9, 3, 1], ternary: None },
            Region { lo: &[0, 0], hi: &[9, 9], ternary: Some((&[0, 0], &[0])) },
            Region { lo: &[0, 0], hi: &[9, 9], ternary: Some((&[0, 1], &[0, 1])) },
            Region { lo: &[0, 1], hi: &[9, 8], ternary: Some((&[0, 1], &[0, 1])) },
            Region { lo: &[0, 1], hi: &[9, 9], ternary: Some((&[0, 3], &[0, 1])) },
        ];
        let errors = refused.map(|region| regions.try_push(region).expect_err("malformed").to_string());
        assert_eq!(errors[0], "the region is malformed: word 1 goes from 4 to 3");
        assert_eq!(errors[1], "the region is malformed: it has 1 words instead of 2");
        assert_eq!(regions, before);
    }
}
