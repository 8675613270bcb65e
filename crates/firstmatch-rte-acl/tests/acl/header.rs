//! The header and the example in C: they compile, and declare the functions of this crate.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Checks the syntax of a file with a compiler, warnings as errors; says so if there is none.
fn compile(compiler: &str, language: &[&str], file: &Path) {
    if !Command::new(compiler).arg("--version").output().is_ok_and(|found| found.status.success()) {
        firstmatch_testkit::skip(&format!("firstmatch_rte_acl.h with {compiler}: it is not installed"));
        return;
    }
    let mut command = Command::new(compiler);
    command.args(["-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-pedantic"]).args(language);
    let output = command.arg("-I").arg(path("include")).arg("-I").arg(path("tests/c")).arg(file).output();
    let output = output.expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn header_and_example_compile() {
    let header = path("include/firstmatch_rte_acl.h");
    for compiler in ["gcc", "clang"] {
        compile(compiler, &["-x", "c", "-std=c99"], &header);
        compile(compiler, &["-std=c99"], &path("examples/changes.c"));
    }
    for compiler in ["g++", "clang++"] {
        compile(compiler, &["-x", "c++", "-std=c++11"], &header);
    }
}

/// Returns the names of functions of this library's own that a text declares or defines.
fn names(text: &str) -> BTreeSet<&str> {
    let after = text.match_indices("firstmatch_acl_").map(|(at, _)| &text[at..]);
    let calls = after.filter_map(|text| text.split_once('(')).map(|(name, _)| name);
    calls.filter(|name| name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_')).collect()
}

/// Header, crate, page and the list that is linked agree.
#[test]
fn the_header_declares_the_functions_of_the_crate() {
    let read = |name: &str| fs::read_to_string(path(name)).expect("a file");
    let (header, source, page) =
        (read("include/firstmatch_rte_acl.h"), read("src/own.rs"), read("../../docs/from-rte-acl.md"));
    let declared = names(&header);
    let defined: String = source.lines().filter(|line| line.contains("extern \"C\" fn")).collect();
    assert_eq!(declared, names(&defined));
    assert!(declared.len() >= 10, "{declared:?}");
    let missing: Vec<_> = declared.iter().filter(|name| !page.contains(&format!("| `{name}` |"))).collect();
    assert!(missing.is_empty(), "docs/from-rte-acl.md lacks {missing:?}");
}
