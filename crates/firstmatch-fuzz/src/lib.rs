//! What the fuzz targets do with their bytes: they compare answers.
//!
//! `fuzz/` is a workspace of its own, because a fuzzer wants its own compiler flags; its targets only call the
//! functions below. Here they are ordinary code: what a fuzzer has found lies in `fuzz/found/`, and `tests/replay.rs`
//! puts every file of it, and every seed, through the same functions.
//!
//! A target panics when an answer is wrong. Packets, rules, engines and the other parser are those of the tests of
//! `firstmatch` and `firstmatch-net`.
#![deny(unsafe_code)]
#![expect(dead_code, reason = "the harness's own tests use the rest of it")]

use std::path::{Path, PathBuf};

mod differential;
mod draw;
mod parse_rules;
mod readers;
mod updates;
mod wire;

// Parts of the tests' own code, as they are.
#[path = "../../firstmatch/tests/harness/broken.rs"]
mod broken;
#[path = "../../firstmatch/tests/harness/case.rs"]
mod case;
#[path = "../../firstmatch/tests/harness/corners.rs"]
mod corners;
#[path = "../../firstmatch/tests/harness/engines.rs"]
mod engines;
#[path = "../../firstmatch/tests/harness/generate.rs"]
mod generate;
#[path = "../../firstmatch/tests/harness/rng.rs"]
mod rng;

#[path = "../../firstmatch-net/tests/common/mod.rs"]
mod common;
#[path = "../../firstmatch-net/tests/invariants/mod.rs"]
mod invariants;
#[path = "../../firstmatch-net/tests/reference/mod.rs"]
mod reference;

pub use differential::differential;
pub use parse_rules::parse_rules;
pub use readers::readers;
pub use updates::updates;
pub use wire::wire;

/// What a target does with its bytes. It panics when an answer is wrong.
pub type Target = fn(&[u8]);

/// The targets by name.
pub const TARGETS: [(&str, Target); 5] = [
    ("parse_rules", parse_rules),
    ("readers", readers),
    ("wire", wire),
    ("differential", differential),
    ("updates", updates),
];

/// The folder `fuzz/`.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// The files of a folder in `fuzz/` with their bytes, in order; none where it is not there.
pub fn files(folder: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(self::folder().join(folder)).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    paths.sort();
    paths.into_iter().filter_map(|path| std::fs::read(&path).ok().map(|bytes| (path, bytes))).collect()
}
