//! Box for a value of any type, with its type beside the pointer.

use std::any::{Any, TypeId};

/// Value of any type.
///
/// Keeps the `TypeId` beside the pointer, so that `get_mut` checks the type without the indirect call of `dyn Any`.
/// That call matters when keys are looked up singly.
pub(crate) struct Erased {
    value: Box<dyn Any + Send>,
    /// Type of the value.
    of: TypeId,
}

impl Erased {
    pub(crate) fn new<T: Send + 'static>(value: T) -> Self {
        Self { value: Box::new(value), of: TypeId::of::<T>() }
    }

    /// Returns the value, if it is a `T`.
    pub(crate) fn get<T: 'static>(&self) -> Option<&T> {
        self.value.downcast_ref()
    }

    /// Returns the value for changes, if it is a `T`.
    #[inline(always)]
    pub(crate) fn get_mut<T: 'static>(&mut self) -> Option<&mut T> {
        if self.of != TypeId::of::<T>() {
            return None;
        }
        // SAFETY: `new` has put a value of the type `of` into the box, nothing replaces it, and `T` is that type.
        Some(unsafe { &mut *(&raw mut *self.value).cast::<T>() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_of_their_own_type_alone() {
        let mut erased = Erased::new([1u32, 2]);
        assert!(erased.get::<[u32; 1]>().is_none() && erased.get_mut::<u64>().is_none());
        erased.get_mut::<[u32; 2]>().expect("its type")[1] = 3;
        assert_eq!(erased.get(), Some(&[1u32, 3]));
    }
}
