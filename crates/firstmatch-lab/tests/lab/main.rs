//! Tests of the program as it is run: its outputs, the files that it writes, and its exit codes.

mod program;
mod readme;
mod report;
mod valgrind;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Returns an empty folder for a test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).expect("what an earlier run left goes");
    }
    fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

/// Runs the program in a folder; returns the exit code and the outputs.
fn lab(folder: &Path, args: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_firstmatch-lab"));
    let Output { status, stdout, stderr } =
        command.args(args).current_dir(folder).env_remove("FIRSTMATCH_SETS").output().expect("it runs");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (status.code().unwrap_or(-1), text(&stdout), text(&stderr))
}

/// Runs the program in a folder; returns the exit code and both outputs in one.
fn run(folder: &Path, args: &[&str]) -> (i32, String) {
    let (code, out, err) = lab(folder, args);
    (code, out + &err)
}
