//! Tests of systems: the answers of every form are the oracle's.

mod form;
