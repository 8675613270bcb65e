//! Programs in C over the header and the static library, with each compiler that is installed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use firstmatch_testkit::skip;

const FOLDER: &str = env!("CARGO_MANIFEST_DIR");
/// Libraries that the static library needs, as `rustc --print native-static-libs` says.
const NEEDED: [&str; 6] = ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"];
const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-pedantic"];

fn has(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok_and(|found| found.status.success())
}

/// Returns the compilers of a language that are installed: of gcc and clang.
fn compilers(names: [&'static str; 2]) -> Vec<&'static str> {
    let (found, missing): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| has(name));
    missing.iter().for_each(|name| skip(&format!("firstmatch.h with {name}: it is not installed")));
    assert!(!found.is_empty(), "there is a compiler: {names:?}");
    found
}

/// Returns the static library, which Cargo builds for this test because the crate has that type, too.
///
/// Cargo leaves it beside this program, under a name that it chooses; older builds may be there, so the newest counts.
fn library() -> PathBuf {
    let program = std::env::current_exe().expect("this program");
    let files = program.parent().expect("a folder").read_dir().expect("the folder of this program");
    let paths = files.map(|file| file.expect("a file").path());
    let is_library = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.starts_with("libfirstmatch_capi") && name.ends_with(".a")
    };
    let built = |path: &PathBuf| path.metadata().and_then(|data| data.modified()).expect("a time");
    paths.filter(is_library).max_by_key(built).expect("Cargo has built the static library")
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{told}{}", String::from_utf8_lossy(&output.stdout));
    output
}

/// Compiles a file of `tests/c` and returns the program.
fn compile(compiler: &str, file: &str, more: &[&str]) -> PathBuf {
    let name = format!("{compiler}-{file}{}", more.concat()).replace(['.', '/', '='], "-");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut command = Command::new(compiler);
    command.args(WARNINGS).args(["-O1", "-g", "-I"]).arg(Path::new(FOLDER).join("include")).args(more);
    command.arg(Path::new(FOLDER).join("tests/c").join(file)).arg(library()).args(NEEDED);
    succeed(command.arg("-o").arg(&program));
    program
}

/// Compiles a file of `tests/c` with every compiler and runs the programs.
fn run(file: &str) {
    for compiler in compilers(["gcc", "clang"]) {
        succeed(&mut Command::new(compile(compiler, file, &["-std=c11"])));
    }
}

#[test]
fn the_header_compiles_as_every_language_that_it_promises() {
    let header: OsString = Path::new(FOLDER).join("include/firstmatch.h").into();
    for (compilers, language, standards) in [
        (compilers(["gcc", "clang"]), "c", ["c99", "c11", "c17"]),
        (compilers(["g++", "clang++"]), "c++", ["c++11", "c++17", "c++20"]),
    ] {
        for (compiler, standard) in compilers.iter().flat_map(|compiler| standards.map(|standard| (compiler, standard)))
        {
            let mut command = Command::new(compiler);
            command.args(WARNINGS).args(["-fsyntax-only", "-x", language]).arg(format!("-std={standard}"));
            succeed(command.arg(&header));
        }
    }
}

#[test]
fn rules_workers_frames_and_errors() {
    run("basic.c");
}

#[test]
fn updates_structures_and_questions() {
    run("update.c");
}

#[test]
fn headers_records_and_rows() {
    run("packets.c");
}

#[test]
fn threads_beside_a_writer() {
    run("threads.c");
}

#[test]
fn tables_beside_a_walk_through_their_entries() {
    run("table.c");
}

#[test]
fn no_byte_outside_a_buffer_is_touched() {
    run("guard.c");
}

#[test]
fn bad_arguments_answer_a_code() {
    run("bad.c");
}

/// Runs the tests in C under Valgrind, which finds reads of freed or unwritten memory, and lost memory.
#[test]
fn valgrind_finds_nothing() {
    if !has("valgrind") {
        let is_ci = std::env::var_os("CI").is_some_and(|ci| !ci.is_empty());
        assert!(!is_ci, "there is no valgrind (apt-get install valgrind)");
        skip("firstmatch.h under Valgrind: there is no valgrind (apt-get install valgrind)");
        return;
    }
    for file in ["basic.c", "packets.c", "update.c", "bad.c", "arrow.c"] {
        let program = compile("gcc", file, &["-std=c11", "-O0"]);
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--quiet", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite"]);
        succeed(valgrind.arg(program).env("BAD_CALLS", "3000").env("BAD_FREED", "0"));
    }
}

#[test]
fn columns_by_arrow() {
    run("arrow.c");
}
