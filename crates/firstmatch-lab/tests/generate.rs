//! Tests of reference sets that are equal, different or unknown, and of other files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const DIGESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benchmarks/reference.toml");

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("generate").join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).expect("what an earlier test left goes");
    }
    fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

/// Runs the program in a folder; returns the exit code and the outputs.
fn generate(folder: &Path, args: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_firstmatch-lab"));
    let Output { status, stdout, stderr } =
        command.arg("generate").args(args).current_dir(folder).output().expect("it runs");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (status.code().unwrap_or(-1), text(&stdout), text(&stderr))
}

/// Returns the output of a command that succeeds.
fn output(folder: &Path, line: &str) -> String {
    let (code, out, err) = generate(folder, &line.split(' ').collect::<Vec<_>>());
    assert_eq!(code, 0, "{line}: {err}");
    out
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).expect("a file");
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("a file")
}

#[test]
fn reference_sets_are_those_that_are_recorded() {
    let folder = folder("recorded");
    let args = ["reference", "acl1", "ipc2", "--sizes", "1000", "--out", "sets", "--digests", DIGESTS];
    // In the second turn all files exist.
    for _ in 0..2 {
        let (code, out, err) = generate(&folder, &args);
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(
            lines[0].starts_with("acl1_1k: 1000 rules; ") && lines[1].starts_with("ipc2_1k: 1000 rules; "),
            "{out}"
        );
        assert!(lines.iter().all(|line| line.ends_with(": equal")), "{out}");
    }
    let six = ["reference", "fw1", "--ipv6", "--sizes", "1000", "--out", "sets", "--digests", DIGESTS];
    let (code, out, _) = generate(&folder, &six);
    assert!(code == 0 && out.starts_with("fw1_v6_1k: ") && out.ends_with(": equal\n"), "{out}");
    for name in ["acl1_1k", "ipc2_1k", "fw1_v6_1k"] {
        let file = |end: &str| folder.join(format!("sets/{name}.{end}"));
        let rules = firstmatch_formats::parse(&read(&file("rules")), &firstmatch_formats::Options::default())
            .expect("rules")
            .rules;
        assert_eq!((rules.len(), read(&file("trace")).lines().count()), (1000, 100_000), "{name}");
    }

    let acl1 = read(&folder.join("sets/acl1_1k.rules"));
    write(&folder.join("sets/acl1_1k.rules"), &acl1[1..]);
    let (code, _, err) = generate(&folder, &args);
    assert!(code == 2 && err.contains("sets/acl1_1k.rules: there is another file of this name"), "{err}");
    assert_eq!(read(&folder.join("sets/acl1_1k.rules")), acl1[1..]);
}

#[test]
fn what_differs_from_its_digest_fails() {
    let folder = folder("differs");
    let args = ["reference", "fw2", "ipc1", "--sizes", "200", "--out", "sets", "--digests", "digests.toml"];
    let (code, out, err) = generate(&folder, &args);
    assert!(code == 2 && err.contains("digests.toml") && !folder.join("sets").exists(), "{out}{err}");
    let (code, out, _) = generate(&folder, &[&args[..], &["--record"]].concat());
    assert!(code == 0 && out.lines().all(|line| line.ends_with(": recorded")), "{out}");
    let recorded = read(&folder.join("digests.toml"));
    let (_, digest) =
        out.lines().next().and_then(|line| line.trim_end_matches(": recorded").rsplit_once(' ')).expect("two");
    write(&folder.join("digests.toml"), &recorded.replace(digest, "00"));
    let (code, out, _) = generate(&folder, &args);
    assert_eq!(code, 1, "{out}");
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].contains(": DIFFERS, recorded are ") && lines[0].ends_with(" 00"), "{out}");
    assert!(lines[1].ends_with(": equal"), "{out}");
    let (code, out, _) =
        generate(&folder, &["reference", "acl3", "--sizes", "200", "--out", "sets", "--digests", "digests.toml"]);
    assert!(code == 0 && out.ends_with(": not recorded\n"), "{out}");
    write(&folder.join("digests.toml"), "[profile]\n");
    let (code, _, err) = generate(&folder, &args);
    assert!(code == 2 && err.contains("unknown field `profile`"), "{err}");
}

/// Returns a parameter file of TCP rules between prefixes of two bits, of which there are 16.
fn parameters() -> String {
    let one = ["1.0"].into_iter().chain([("0.0"); 24]).collect::<Vec<_>>().join("\t");
    let mut text = format!("-scale\n10\n#\n-prots\n6\t1.0\t{one}\n#\n-flags\n#\n-extra\n0\n#\n");
    for section in ["spar", "spem", "dpar", "dpem"] {
        text += &format!("-{section}\n#\n");
    }
    let names = ["wc", "lo", "hi", "em", "ar"];
    for name in names.iter().flat_map(|source| names.map(|destination| format!("{source}_{destination}"))) {
        text += &format!("-{name}\n4,1.0\t2,1.0\n#\n");
    }
    text + "-snest\n3\n#\n-sskew\n0\t0.0\t1.0\t0.0\n#\n-dnest\n3\n#\n-dskew\n0\t0.0\t1.0\t0.0\n#\n-pcorr\n1\t0.5\n#\n"
}

#[test]
fn sets_of_parameter_files_are_known_by_their_text() {
    let folder = folder("parameters");
    let file = folder.join("fw3_seed");
    write(&file, &parameters());
    let line = "reference fw3 --seeds . --sizes 1000 --out sets --digests digests.toml";
    let out = output(&folder, &format!("{line} --record"));
    assert!(out.starts_with("fw3_1k: 16 rules (984 fewer than asked for); "), "{out}");
    assert!(output(&folder, line).ends_with(": equal\n"));
    // The sets are the same, but the file's digest is unknown.
    write(&file, &(parameters() + "# with a remark\n"));
    assert!(output(&folder, line).ends_with(": not recorded\n"));

    assert_eq!(output(&folder, "rules --parameters fw3_seed --rules 1000 --fewer").lines().count(), 16);
    let (code, out, err) = generate(&folder, &["rules", "--parameters", "fw3_seed", "--rules", "1000"]);
    assert!(code == 2 && out.is_empty() && err.contains("the profile fw3 yields 16 distinct rules"), "{err}");

    write(&file, &parameters().replace("\n-extra\n0\n", "\n-extra\n1\n"));
    for args in [
        &["rules", "--parameters", "fw3_seed"][..],
        &line.replace("out sets", "out new").split(' ').collect::<Vec<_>>(),
    ] {
        let (code, _, err) = generate(&folder, args);
        assert!(code == 2 && err.contains("fw3_seed:10:1: `1` is not "), "{err}");
    }
    let (code, _, err) = generate(&folder, &["reference", "--seeds", ".", "--out", "new", "--digests", "digests.toml"]);
    assert!(code == 2 && err.contains("acl1_seed"), "{err}");
    assert!(!folder.join("new").exists(), "nothing is written before all is read");
}

#[test]
fn rules_and_traces_are_as_asked_for() {
    let folder = folder("streams");
    let count = |text: &str| {
        firstmatch_formats::parse(text, &firstmatch_formats::Options::default()).expect("rules").rules.len()
    };
    let plain = output(&folder, "rules --profile fw1 --rules 60 --seed 3");
    assert_eq!(count(&plain), 60);
    let options = "--smoothing 16,--address-scope -0.9,--application-scope 0.9,--ipv6,--flags";
    for option in options.split(',') {
        let other = output(&folder, &format!("rules --profile fw1 --rules 60 --seed 3 {option}"));
        assert!(count(&other) == 60 && other != plain, "{option}");
    }
    assert_ne!(output(&folder, "rules --profile fw1 --rules 60 --seed 4"), plain);
    write(&folder.join("fw.rules"), &plain);

    let last = |trace: &str| -> Vec<String> {
        trace.lines().map(|line| line.rsplit('\t').next().unwrap_or_default().to_owned()).collect()
    };
    let mut traces = Vec::new();
    for locality in ["uniform", "zipf:1.5", "pareto:1,1", "flows:1,1000"] {
        let line = format!("trace fw.rules --headers 600 --seed 2 --phases 3 --unmatched 0.25 --locality {locality}");
        let rules = last(&output(&folder, &line));
        assert_eq!((rules.len(), rules.iter().filter(|rule| *rule == "-1").count()), (600, 150), "{locality}");
        traces.push(rules);
    }
    assert!((1..4).all(|at| !traces[..at].contains(&traces[at])), "each kind has its own");
    let (code, _, err) = generate(&folder, &["trace", "fw.rules", "--locality", "zipf"]);
    assert!(code == 2 && err.contains("expected `uniform`, `zipf:S`"), "{err}");

    write(&folder.join("fw.trace"), &output(&folder, "trace fw.rules --headers 100"));
    let core = output(&folder, "rules --profile core --rules 40");
    assert!(core.starts_with("schema {\n    src 32 prefix from src\n"), "{core}");
    write(&folder.join("core.rules"), &core);
    assert_eq!(output(&folder, "trace core.rules --headers 100").lines().count(), 100);
    let openflow = output(&folder, "openflow --rules 40 --seed 5");
    assert!(openflow.starts_with("schema openflow\n") && count(&openflow) == 40);
    for line in ["npf fw.rules --rules 40", "npf --trace fw.trace --rules 40 --seed 2"] {
        let npf = output(&folder, line);
        assert!(npf.starts_with("family ipv4\n") && count(&npf) == 40, "{line}");
    }
    let (code, _, err) = generate(&folder, &["npf", "fw.rules", "--ipv6"]);
    assert!(code == 2 && err.contains("the pool of "), "{err}");
    write(&folder.join("bad.rules"), "match foo\n");
    let (code, _, err) = generate(&folder, &["trace", "bad.rules"]);
    assert!(code == 2 && err.contains("bad.rules:") && err.contains("1:7: unknown field"), "{err}");
}
