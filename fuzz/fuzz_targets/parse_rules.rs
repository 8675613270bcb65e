//! Reads text as rules.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| firstmatch_fuzz::parse_rules(data));
