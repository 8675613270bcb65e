//! Tests of the functions of C: answers beside a definition that walks the rules and beside DPDK's own library, error
//! codes, and memory.
#![expect(unsafe_code, reason = "functions of C; every pointer leads to memory of the test")]

mod beside;
mod codes;
mod guard;
mod header;
mod layers;
#[cfg(target_os = "linux")]
mod memory;
mod oracle;
mod random;
mod script;
mod threads;
