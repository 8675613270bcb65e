//! Columns of tables as packets: addresses and numbers in Arrow's memory layouts in, rows of keys out.
//!
//! A table of flows has a row for each packet or flow, and a column for each header field. This crate reads columns as
//! other programs hold them (text, views, dictionaries, byte strings, integers; both address families) and writes rows
//! of keys into a [`Batch`](firstmatch::net::wire::Batch), in which a [`Worker`](firstmatch::Worker) then classifies
//! them. It borrows everything, has no unsafe code, and depends on no implementation of Arrow: whoever has the arrays
//! gives their buffers as slices ([`Column`]).
//!
//! - [`Column`]: borrowed values, with the rows that are null.
//! - [`Prepared`]: a column whose dictionary is decoded, for several threads.
//! - [`Decoder`]: a block of columns to rows of keys, and what is wrong with the other rows ([`Status`]).
#![deny(unsafe_code)]

mod cells;
mod column;
mod decoder;
mod text;

pub use cells::{Cells, Content, Malformed, NumberText, Prepared, family_of};
pub use column::{Bits, Bytes, Column, Integers, Values};
pub use decoder::{BLOCK, Decoder, Input, Status};
pub use firstmatch::formats::{parse_ipv4, parse_ipv6};
