//! Engines: each finds the first rule that matches in a way of its own. They never import each other.
//!
//! `docs/algorithms.md` in the repository takes seven rules and one packet through all of them, step by step. The test
//! `guide` compares its drawings and counts with the engines.

pub mod bit_select;
pub mod bit_vector;
pub mod cut_tree;
pub mod decomposition;
pub mod interval_tree;
pub mod linear;
pub mod partition_sort;
pub mod registry;
pub mod rfc;
pub mod set_pairs;
pub(crate) mod shared;
pub mod tuple;
