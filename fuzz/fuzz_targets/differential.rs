//! Compares every engine and instruction set with the oracle.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| firstmatch_fuzz::differential(data));
