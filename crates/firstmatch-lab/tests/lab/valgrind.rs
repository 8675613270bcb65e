//! Tests what needs Valgrind: counted instructions.
//!
//! Without Valgrind nothing is tested, which is said; in continuous integration that is a failure.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::{folder, run};

/// Returns whether there is Valgrind; if not, says that the test is skipped, and again at the end of `ci.sh`.
fn has_valgrind(test: &str) -> bool {
    let found = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status();
    if found.is_ok_and(|status| status.success()) {
        return true;
    }
    let is_ci = std::env::var_os("CI").is_some_and(|ci| !ci.is_empty());
    assert!(!is_ci, "there is no valgrind (apt-get install valgrind)");
    firstmatch_testkit::skip(&format!("{test}: there is no valgrind (apt-get install valgrind)"));
    false
}

const DEFINITION: &str = r#"
shows = "what a test shows"
[[sets]]
name = "small"
generate = { profile = "fw", rules = 40, seed = 5, headers = 60 }
digest = "DIGEST"
[[engines]]
engine = "linear"
[[engines]]
engine = "tuplemerge"
"#;

/// Runs the program in a folder with one definition, `small.toml`.
fn with(folder: &Path, definition: &str, args: &[&str]) -> (i32, String) {
    fs::write(folder.join("small.toml"), definition).expect("a file");
    run(folder, args)
}

/// Returns the definition with the digest that the program states.
fn good(folder: &Path) -> String {
    let (code, out) = with(folder, DEFINITION, &["measure", "small.toml", "--test"]);
    let (_, digest) = out.split_once("keys and answers have the digest ").unwrap_or_else(|| panic!("{code:?}: {out}"));
    DEFINITION.replace("DIGEST", digest.split(',').next().expect("a word"))
}

/// Instructions are counted twice for the first engine, are the same both times, and are recorded.
#[test]
fn instructions_are_counted_and_recorded() {
    if !has_valgrind("instructions by callgrind") {
        return;
    }
    let folder = folder("instructions");
    let good = good(&folder) + "[instructions]\nbatches = [1, 20]\nlookups = 100\n";
    let (code, out) = with(&folder, &good, &["measure", "small.toml", "--record=record"]);
    assert_eq!(code, 0, "{out}");
    let path = out.lines().find_map(|line| line.strip_prefix("recorded in ")).unwrap_or_else(|| panic!("{out}"));
    let text = fs::read_to_string(folder.join(path)).expect("the record");
    let of = |engine: &str, batch: usize| -> f64 {
        let line = format!(",{engine},\"instructions, callgrind\",{batch},1,instructions/key,");
        let line = text.lines().find_map(|text| text.split_once(&line)).unwrap_or_else(|| panic!("{line}: {text}"));
        line.1.split(',').next().unwrap_or_default().parse().expect("a number")
    };
    for batch in [1, 20] {
        let (linear, tuples) = (of("linear", batch), of("tuplemerge", batch));
        assert!(linear > 40.0 && tuples > 40.0 && linear < 1e5 && tuples < 1e5, "{linear} {tuples}");
        assert!((of("linear again", batch) - linear).abs() < 0.5, "the same work twice: {text}");
    }
    assert!(of("linear", 1) > of("linear", 20), "a call for each key costs more: {text}");
    for (change, expected) in [
        ("batches = []", "[instructions] batches is empty"),
        ("batches = [0]", "[instructions] batches and lookups: expected numbers from 1"),
        ("batchs = [1]", "unknown field `batchs`"),
    ] {
        let (code, out) = with(&folder, &good.replace("batches = [1, 20]", change), &["measure", "small.toml"]);
        assert!(code == 2 && out.contains(expected), "{expected}: {code:?}: {out}");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_firstmatch-lab"));
    fs::write(folder.join("small.toml"), &good).expect("a file");
    let run = command.current_dir(&folder).env("PATH", "").args(["measure", "small.toml"]).output().expect("it runs");
    let out = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.code() == Some(2) && out.contains("apt-get install valgrind"), "{out}");
}
