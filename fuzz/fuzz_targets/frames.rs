//! Compares the fast way for common frames with the way through their headers.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| firstmatch_fuzz::frames(data));
