//! Compares the parser of headers with another one.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| firstmatch_fuzz::wire(data));
