//! An array that grows by pieces of one size: what is in never moves, so no step of its growth is long.

/// Items in a piece.
const PIECE: usize = 128;

#[derive(Debug)]
pub(super) struct Chunked<T> {
    pieces: Vec<Box<[T; PIECE]>>,
    len: usize,
}

impl<T> Default for Chunked<T> {
    fn default() -> Self {
        Self { pieces: Vec::new(), len: 0 }
    }
}

impl<T: Copy> Clone for Chunked<T> {
    fn clone(&self) -> Self {
        Self { pieces: with_room(&self.pieces), len: self.len }
    }
}

/// A copy with as much room: copies that change alike take the same memory.
pub(super) fn with_room<T: Clone>(list: &Vec<T>) -> Vec<T> {
    let mut copy = Vec::with_capacity(list.capacity());
    copy.extend_from_slice(list);
    copy
}

impl<T: Copy> Chunked<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, index: usize) -> Option<&T> {
        self.pieces.get(index / PIECE).map(|piece| &piece[index % PIECE])
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.pieces.get_mut(index / PIECE).map(|piece| &mut piece[index % PIECE])
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.pieces.iter_mut().flat_map(|piece| piece.iter_mut())
    }

    /// Adds an item; new pieces are filled with `vacant`. Its index.
    pub(super) fn push(&mut self, item: T, vacant: T) -> usize {
        self.grow(self.len + 1, vacant);
        self.pieces[(self.len - 1) / PIECE][(self.len - 1) % PIECE] = item;
        self.len - 1
    }

    /// Makes it at least this long.
    pub(super) fn grow(&mut self, len: usize, vacant: T) {
        while self.pieces.len() * PIECE < len {
            self.pieces.push(Box::new([vacant; PIECE]));
        }
        self.len = self.len.max(len);
    }

    pub(super) fn bytes(&self) -> usize {
        self.pieces.len() * size_of::<[T; PIECE]>() + self.pieces.capacity() * size_of::<Box<[T; PIECE]>>()
    }

    /// At most how many bytes it grows by to be this long.
    pub(super) fn growth(&self, len: usize) -> usize {
        let pieces = len.div_ceil(PIECE).saturating_sub(self.pieces.len());
        pieces * size_of::<[T; PIECE]>()
            + vec_growth(self.pieces.len(), self.pieces.capacity(), pieces) * size_of::<Box<T>>()
    }
}

/// At most how many places a vector grows by for so many more items.
pub(super) fn vec_growth(len: usize, capacity: usize, more: usize) -> usize {
    if len + more > capacity { capacity.max(len + more - capacity).max(4) } else { 0 }
}
