//! Tests of the program as its users see it: output, exit codes, bad input.
#![expect(clippy::unwrap_used, reason = "tests")]

mod bad_input;
mod bases;
mod cases;
mod check;
mod classify;
mod convert;
mod copies;
mod diff;
mod ends;
mod explain;
mod fixture;
mod flow_formats;
mod flow_logs;
mod generate;
mod import;
mod layers;
mod live_sets;
mod prove;
mod structure;
mod systems;
mod terminal;
mod workers;
