//! Array that grows by pieces of one size, some of which may be missing.
//!
//! Items never move, so that no step of its growth takes long. A piece is allocated when an item in it is first held.
//! For example, an array whose only item has index 1,000 holds one piece of 128 items and seven empty pointers.

/// Number of items in a piece.
pub(crate) const PIECE: usize = 128;

#[derive(Debug)]
pub(crate) struct Chunked<T> {
    pieces: Vec<Option<Box<[T; PIECE]>>>,
    /// Number of pieces that are allocated.
    held: usize,
    len: usize,
}

impl<T> Default for Chunked<T> {
    fn default() -> Self {
        Self { pieces: Vec::new(), held: 0, len: 0 }
    }
}

impl<T: Copy> Clone for Chunked<T> {
    fn clone(&self) -> Self {
        Self { pieces: with_room(&self.pieces), ..*self }
    }
}

/// Returns a copy with the same capacity.
///
/// Two copies that get the same changes then take the same memory.
pub(crate) fn with_room<T: Clone>(list: &Vec<T>) -> Vec<T> {
    let mut copy = Vec::with_capacity(list.capacity());
    copy.extend_from_slice(list);
    copy
}

impl<T: Copy> Chunked<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        self.piece(index).map(|piece| &piece[index % PIECE])
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.piece_mut(index).map(|piece| &mut piece[index % PIECE])
    }

    /// Returns the piece that holds the item of `index`, at `index % PIECE`.
    #[inline(always)]
    pub(crate) fn piece(&self, index: usize) -> Option<&[T; PIECE]> {
        self.pieces.get(index / PIECE)?.as_deref()
    }

    /// Returns the piece that holds the item of `index`, for writing.
    pub(crate) fn piece_mut(&mut self, index: usize) -> Option<&mut [T; PIECE]> {
        self.pieces.get_mut(index / PIECE)?.as_deref_mut()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.pieces.iter_mut().flatten().flat_map(|piece| piece.iter_mut())
    }

    /// Adds an item and returns its index; a new piece is filled with `vacant`.
    pub(crate) fn push(&mut self, item: T, vacant: T) -> usize {
        let index = self.len;
        *self.hold(index, vacant) = item;
        index
    }

    /// Returns the item of `index`, allocating its piece if it is missing.
    ///
    /// Pieces before it may stay missing.
    pub(crate) fn hold(&mut self, index: usize, vacant: T) -> &mut T {
        let Self { pieces, held, len } = self;
        *len = (*len).max(index + 1);
        if pieces.len() <= index / PIECE {
            pieces.resize(index / PIECE + 1, None);
        }
        let piece = pieces[index / PIECE].get_or_insert_with(|| {
            *held += 1;
            Box::new([vacant; PIECE])
        });
        &mut piece[index % PIECE]
    }

    /// Grows the array to at least `len` items, with no piece missing among the new ones.
    pub(crate) fn grow(&mut self, len: usize, vacant: T) {
        while self.pieces.len() * PIECE < len {
            self.hold(self.pieces.len() * PIECE, vacant);
        }
        self.len = self.len.max(len);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.held * size_of::<[T; PIECE]>() + self.pieces.capacity() * size_of::<Box<[T; PIECE]>>()
    }

    /// Returns an upper bound of the bytes that holding an item of `index` adds.
    pub(crate) fn growth_at(&self, index: usize) -> usize {
        let piece = if self.get(index).is_some() { 0 } else { size_of::<[T; PIECE]>() };
        let pieces = (index / PIECE + 1).saturating_sub(self.pieces.len());
        piece + vec_growth(self.pieces.len(), self.pieces.capacity(), pieces) * size_of::<Box<T>>()
    }

    /// Returns an upper bound of the bytes that [`Chunked::grow`] to `len` adds.
    pub(crate) fn growth(&self, len: usize) -> usize {
        let pieces = len.div_ceil(PIECE).saturating_sub(self.pieces.len());
        pieces * size_of::<[T; PIECE]>()
            + vec_growth(self.pieces.len(), self.pieces.capacity(), pieces) * size_of::<Box<T>>()
    }
}

/// Returns an upper bound of the capacity that a vector gains for `more` items.
pub(crate) fn vec_growth(len: usize, capacity: usize, more: usize) -> usize {
    if len + more > capacity { capacity.max(len + more - capacity).max(4) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list grows by at most the predicted number of places, and by hardly fewer.
    #[test]
    fn a_list_grows_as_is_said() {
        for len in 0..40 {
            for more in 0..90 {
                let mut list = vec![0u64; len];
                let before = list.capacity();
                list.resize(len + more, 0);
                let (grown, said) = (list.capacity() - before, vec_growth(len, before, more));
                assert!(grown <= said && said <= grown + 4, "{more} to {len}: {said} said, {grown} grown");
            }
        }
    }
}
