//! tuple/mod
