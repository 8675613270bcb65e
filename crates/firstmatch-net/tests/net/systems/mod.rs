//! Tests of systems: the answers of every form are the oracle's.

mod fixture;
mod form;
mod ordered;
mod pnpf;
mod rfc;
mod shared;
mod storm;
mod verdict;
