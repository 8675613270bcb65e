//! format/mod
