//! Tests of `firstmatch watch` on interfaces of their own, in network namespaces without a name.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "tests")]

mod counts;
mod ends;
mod namespace;
mod reload;
mod traffic;
mod watch;
