//! Tests of systems: the answers of every form are the oracle's.

mod fixture;
mod form;
mod pnpf;
mod shared;
mod storm;
mod verdict;
