//! Tests of the C interface: `c` compiles and runs programs in C, `header` compares the header with the crate, `arrow`
//! decides columns that `made` makes.

mod arrow;
mod c;
mod header;
mod made;
