//! Planes of threads, simulated for cores that this machine does not have.
#![cfg_attr(not(test), expect(dead_code, unused_imports, reason = "no command simulates planes yet"))]

pub(crate) mod simulate;
