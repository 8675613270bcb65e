//! Building blocks that several engines share.

mod chunked;
mod entry;
mod overflow;
pub(crate) mod places;
pub(crate) mod wide;

pub(crate) use chunked::{Chunked, PIECE, vec_growth, with_room};
pub(crate) use entry::{match_of, match_words, priority_of};
pub(crate) use overflow::OverflowList;
pub(crate) use places::Places;
