//! The README's table is the one that the records give.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn readme(args: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_firstmatch-lab"));
    let Output { status, stdout, stderr } =
        command.arg("readme").args(args).current_dir(root()).output().expect("it runs");
    (status.code().unwrap_or(-1), String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned())
}

#[test]
fn the_table_is_that_of_the_records() {
    let text = fs::read_to_string(root().join("README.md")).expect("a README");
    let (_, rest) = text.split_once("<!-- firstmatch-lab readme ").expect("the table begins");
    let (machine, _) = rest.split_once(" -->").expect("it names the machine");
    let (code, table) = readme(&[machine]);
    assert_eq!(code, 0, "{table}");
    assert!(text.contains(table.trim_end()), "run `firstmatch-lab readme {machine} --write README.md`: {table}");
    assert!(table.contains("least lead of `bit_select`"), "{table}");

    // A file with another table gets this one, and keeps the rest.
    let (before, after) = text.split_once(table.trim_end()).expect("it is there");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("README.md");
    let other = format!("{before}<!-- firstmatch-lab readme x -->\n| 1 |\n<!-- end of the table -->{after}");
    fs::write(&path, other).expect("a file");
    let (code, out) = readme(&[machine, "--write", &path.to_string_lossy()]);
    assert_eq!((code, out), (0, table));
    assert_eq!(fs::read_to_string(&path).expect("the file").trim_end(), text.trim_end());
}

#[test]
fn what_is_not_there_is_named() {
    let (code, out) = readme(&["no-such-cpu"]);
    assert!(code == 2 && out.contains("there is no record of `no-such-cpu`; expected one of amd-"), "{code}: {out}");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("without-table.md");
    fs::write(&path, "nothing\n").expect("a file");
    let (code, out) = readme(&["amd-epyc-family-25-model-unknown", "--write", &path.to_string_lossy()]);
    assert!(code == 2 && out.contains("without-table.md: expected `<!-- firstmatch-lab readme"), "{code}: {out}");
}
