//! Building blocks that several engines share.

mod blocks;
mod chunked;
mod classes;
mod entry;
mod layout;
pub(crate) mod leaves;
mod masked;
mod numbered;
mod overflow;
mod pairs;
pub(crate) mod places;
mod products;
mod region_list;
mod sweep;
pub(crate) mod wide;

pub(crate) use blocks::{BLOCK, Columns};
pub(crate) use chunked::{Chunked, PIECE, vec_growth, with_room};
pub(crate) use classes::{Classes, Room, Set};
pub(crate) use entry::{match_of, match_words, priority_of};
pub use layout::Layout;
pub(crate) use layout::{Group, place};
pub(crate) use leaves::{FieldSet, FieldWords, Leaves};
pub(crate) use masked::{combinations, common, common_bits, eights, mask_for};
pub(crate) use numbered::build_by_fields;
pub(crate) use overflow::OverflowList;
pub(crate) use pairs::pairs;
pub(crate) use places::Places;
pub(crate) use products::{Interval, Masks, Products, unite};
pub(crate) use region_list::RegionList;
pub(crate) use sweep::sweep;
