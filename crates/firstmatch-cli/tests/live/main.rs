//! Tests of `firstmatch watch` and `firstmatch bridge` on interfaces of their own, in network namespaces without a name.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "tests")]

mod bridge;
mod browser;
mod counts;
mod ends;
mod http;
mod iptables;
mod lanes;
mod metrics;
mod namespace;
mod page;
mod ports;
mod reload;
mod systems;
mod tcp;
mod traffic;
mod watch;
mod web;
