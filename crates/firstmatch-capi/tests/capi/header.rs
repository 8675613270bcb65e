//! The header is the crate's, number by number, and cbindgen makes the same where it is installed.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use firstmatch_capi::*;

const FOLDER: &str = env!("CARGO_MANIFEST_DIR");

fn header() -> String {
    fs::read_to_string(Path::new(FOLDER).join("include/firstmatch.h")).expect("the header")
}

/// Returns the names of functions that a text declares after `before`.
fn functions<'t>(text: &'t str, before: &str) -> BTreeSet<&'t str> {
    let names =
        text.lines().filter(|line| line.contains(before) && line.contains('(') && !line.trim_start().starts_with("//"));
    names.filter_map(|line| line.split('(').next()?.split([' ', '*']).next_back()).collect()
}

#[test]
fn functions_of_the_header_are_those_of_the_crate() {
    let folder = Path::new(FOLDER).join("src");
    let files =
        [folder.clone(), folder.join("arrow")].into_iter().flat_map(|folder| fs::read_dir(folder).expect("sources"));
    let files = files.map(|file| file.expect("a file").path()).filter(|path| path.is_file());
    let sources: String = files.map(|path| fs::read_to_string(path).expect("a source")).collect();
    let header = header();
    let declared: BTreeSet<_> =
        functions(&header, "firstmatch_").into_iter().filter(|name| name.starts_with("firstmatch_")).collect();
    assert_eq!(declared, functions(&sources, "extern \"C\" fn firstmatch_"));
    assert!(declared.len() >= 15, "{declared:?}");
}

/// Returns every declaration of a header on a line of its own, without comments.
fn declarations(header: &str) -> BTreeSet<String> {
    let is_code = |line: &&str| !["//", "/*", "#", "extern \"C\"", "}  //"].iter().any(|begin| line.starts_with(begin));
    let mut depth = 0;
    let code: Vec<&str> = header.lines().map(str::trim).filter(is_code).collect();
    let code = code.join(" ");
    let each = code.split_inclusive(|character| {
        depth += i32::from(character == '{') - i32::from(character == '}');
        character == ';' && depth == 0
    });
    let each = each.map(|declaration| declaration.split_whitespace().collect::<Vec<_>>().join(" "));
    each.filter(|declaration| declaration.ends_with(';')).collect()
}

/// A program that was compiled with an older header of the same number finds all that it calls, word for word.
#[test]
fn the_number_of_the_interface_rises_before_a_declaration_changes() {
    let now = declarations(&header());
    let file = format!("tests/abi/{FIRSTMATCH_ABI_VERSION}.txt");
    let frozen = fs::read_to_string(Path::new(FOLDER).join(&file)).expect("the declarations of this number");
    let frozen: BTreeSet<String> = frozen.lines().map(str::to_owned).collect();
    let gone: Vec<&String> = frozen.difference(&now).collect();
    assert!(gone.is_empty(), "these may not change under this FIRSTMATCH_ABI_VERSION: {gone:#?}");
    let new: Vec<&String> = now.difference(&frozen).collect();
    assert!(new.is_empty(), "these belong into {file}, too: {new:#?}");
    // A change of one parameter is a change.
    let other = header().replacen("uint32_t firstmatch_abi_version(void)", "uint64_t firstmatch_abi_version(void)", 1);
    assert_ne!(declarations(&other), now);
}

#[test]
fn numbers_never_change() {
    let frozen = fs::read_to_string(Path::new(FOLDER).join("tests/numbers.txt")).expect("the frozen list");
    let header = header();
    let defined = header.lines().filter_map(|line| line.strip_prefix("#define FIRSTMATCH_"));
    let defined: Vec<_> = defined.filter(|line| line.contains(' ')).collect();
    assert_eq!(defined, frozen.lines().collect::<Vec<_>>());
}

#[test]
fn structs_have_the_sizes_of_c() {
    assert_eq!((size_of::<Decision>(), align_of::<Decision>()), (32, 8));
    assert_eq!(std::mem::offset_of!(Decision, value), 24);
    assert_eq!(size_of::<Slice>(), 16);
    assert_eq!((size_of::<OptionsC>(), std::mem::offset_of!(OptionsC, engine)), (56, 48));
    assert_eq!((size_of::<TestC>(), size_of::<ConditionC>(), size_of::<RuleC>()), (40, 32, 56));
    assert_eq!((std::mem::offset_of!(TestC, second), std::mem::offset_of!(RuleC, text)), (24, 40));
    assert_eq!((size_of::<CountC>(), size_of::<StatsC>(), size_of::<SchemaC>()), (16, 48, 24));
    assert_eq!((size_of::<EntryC>(), size_of::<RangeC>(), size_of::<TableFieldC>()), (48, 40, 16));
    assert_eq!((size_of::<ArrowSchema>(), size_of::<ArrowArray>(), size_of::<ArrowOptionsC>()), (72, 80, 16));
    assert_eq!((size_of::<FieldC>(), size_of::<PlaceC>()), (32, 24));
    assert_eq!((size_of::<FaultC>(), std::mem::offset_of!(FaultC, message)), (16, 8));
}

#[test]
fn cbindgen_makes_the_same_header() {
    let program = std::env::var("CBINDGEN").unwrap_or_else(|_| "cbindgen".to_owned());
    let Ok(version) = Command::new(&program).arg("--version").output() else {
        firstmatch_testkit::skip(
            "firstmatch.h beside its source: there is no cbindgen (cargo install cbindgen --version ^0.29)",
        );
        return;
    };
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    if !version.contains(" 0.29.") {
        firstmatch_testkit::skip(&format!("firstmatch.h beside its source: {} is not 0.29", version.trim()));
        return;
    }
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("firstmatch.h");
    let mut command = Command::new(program);
    command.args(["--quiet", "--config", "cbindgen.toml", "--output"]).arg(&out).current_dir(FOLDER);
    assert!(command.status().expect("it runs").success());
    assert!(fs::read_to_string(out).expect("the new header") == header(), "include/firstmatch.h is not up to date");
}
