//! Reads files of packets, whole and in pieces.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| firstmatch_fuzz::readers(data));
