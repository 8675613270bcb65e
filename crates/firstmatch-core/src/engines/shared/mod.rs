//! Building blocks that several engines share.

mod chunked;
mod entry;
pub(crate) mod places;
mod rest;
pub(crate) mod wide;

pub(crate) use chunked::{Chunked, PIECE, vec_growth, with_room};
pub(crate) use entry::{match_of, match_words, priority_of};
pub(crate) use places::Places;
pub(crate) use rest::Rest;
