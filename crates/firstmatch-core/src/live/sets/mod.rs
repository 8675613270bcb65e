//! Live sets: addresses that rules test, and that change without a rebuild.

mod field;
mod leaf;
mod rows;
mod tree;
