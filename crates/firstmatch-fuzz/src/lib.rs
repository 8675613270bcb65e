//! Fuzz targets as ordinary functions that compare answers.
//!
//! `fuzz/` is a workspace of its own, because a fuzzer wants its own compiler flags; its targets only call the
//! functions below. An input that a fuzzer once failed on is kept as a file in `fuzz/found/`. `tests/replay.rs` passes
//! every such file, and every seed, to the same functions.
//!
//! A target panics when an answer is wrong. The packets, rules, engines and the reference parser are those of
//! `firstmatch-testkit`, as in the tests.
#![deny(unsafe_code)]

use std::path::{Path, PathBuf};

mod differential;
mod draw;
mod frames;
mod parse_rules;
mod readers;
mod updates;
mod wire;

use firstmatch_testkit::{case, corners, engines, frames as common, generate, ids, invariants, reference, rng, ways};

pub use differential::differential;
pub use frames::frames;
pub use parse_rules::parse_rules;
pub use readers::readers;
pub use updates::updates;
pub use wire::wire;

/// Function of a target, which panics when an answer is wrong.
pub type Target = fn(&[u8]);

/// All targets, each with its name.
pub const TARGETS: [(&str, Target); 6] = [
    ("parse_rules", parse_rules),
    ("readers", readers),
    ("wire", wire),
    ("frames", frames),
    ("differential", differential),
    ("updates", updates),
];

/// Returns the path of the folder `fuzz/`.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// Returns the files of a folder in `fuzz/` with their bytes, sorted; none if it is missing.
pub fn files(folder: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(self::folder().join(folder)).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    paths.sort();
    paths.into_iter().filter_map(|path| std::fs::read(&path).ok().map(|bytes| (path, bytes))).collect()
}
