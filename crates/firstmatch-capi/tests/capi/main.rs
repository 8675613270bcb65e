//! Tests of the C interface: `c` compiles and runs programs in C, `header` compares the header with the crate.

mod c;
mod header;
