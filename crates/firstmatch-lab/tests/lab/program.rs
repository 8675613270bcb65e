//! Tests the program with definitions that are good, bad, wrong or too demanding.

use std::fs;
use std::path::Path;

use crate::{folder, run};

const GOOD: &str = r#"
shows = "what a test shows"
[[sets]]
name = "small"
generate = { profile = "fw", rules = 200, seed = 5, headers = 3000 }
digest = "DIGEST"
[[engines]]
engine = "tuplemerge"
[[engines]]
engine = "tuplemerge"
name = "as published"
config = { collision_limit = 40, spill = false }
simd = "scalar"
[[engines]]
engine = "linear"
name = "tight"
run_bytes = 1000
[lookup]
threads = [2]
[updates]
"#;

fn measure(folder: &Path, args: &[&str]) -> (i32, String) {
    run(folder, &[&["measure"], args].concat())
}

/// Returns the good definition with the digest that the program states.
fn good(folder: &Path) -> String {
    let path = folder.join("digest.toml");
    let without: String =
        GOOD.lines().filter(|line| !line.starts_with("digest")).map(|line| format!("{line}\n")).collect();
    fs::write(&path, without).expect("a file");
    let (code, out) = measure(folder, &["digest.toml", "--test"]);
    assert_eq!(code, 0, "{out}");
    let (_, digest) = out.rsplit_once("keys and answers is ").expect("it says the digest");
    GOOD.replace("DIGEST", digest.trim())
}

#[test]
fn a_definition_is_measured_and_recorded() {
    let folder = folder("measured");
    let definition = good(&folder)
        .replace("[lookup]", "[lookup]\nrounds = 2")
        .replace("[updates]", "[updates]\ncount = 500\nrounds = 1");
    fs::write(folder.join("good.toml"), definition).expect("a file");
    let (code, out) = measure(&folder, &["good.toml", "--test"]);
    assert_eq!(code, 0, "{out}");
    for expected in [
        "good: what a test shows",
        "small: 200 rules",
        "| noise floor ",
        "| tuplemerge again ",
        "| as published ",
        "| limit ",
        "| linear ",
        "tight: the engine needs ",
        "M keys/s, 2 threads",
        "| with readers |",
    ] {
        assert!(out.contains(expected), "{expected}: {out}");
    }
    let records = || folder.join("record").exists() || folder.join("benchmarks").exists();
    assert!(!records(), "a test records nothing");
    let (code, out) = measure(&folder, &["good.toml", "--test", "--record"]);
    assert!(code == 2 && out.contains("cannot be used with"), "{code}: {out}");
    let (code, out) = measure(&folder, &["good.toml"]);
    assert!(code == 0 && !records(), "{code}: nothing is recorded unasked: {out}");

    let (code, out) = measure(&folder, &["good.toml", "--record=record"]);
    assert_eq!(code, 0, "{out}");
    let path = out.lines().find_map(|line| line.strip_prefix("recorded in ")).expect("it says where");
    let text = fs::read_to_string(folder.join(path)).expect("the record");
    assert!(text.starts_with("# ") && text.contains("# firstmatch-lab measure good\n"), "{text}");
    let mut csv = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
    let heads = csv.headers().expect("heads").clone();
    let at = |name: &str| heads.iter().position(|head| head == name).unwrap_or_else(|| panic!("{name}: {heads:?}"));
    let rows: Vec<csv::StringRecord> = csv.records().collect::<Result<_, _>>().expect("rows");
    let of = |engine: &str, measure: &str| {
        rows.iter().filter(|row| &row[at("engine")] == engine && &row[at("measure")] == measure).count()
    };
    assert_eq!((of("tuplemerge", "lookup"), of("tuplemerge", "lookup, dependent")), (4, 1));
    assert_eq!((of("as published", "latency, p99"), of("as published", "updates with readers")), (3, 1));
    assert_eq!((of("limit", "run"), of("linear", "worst case"), of("tight", "run")), (1, 2, 0));
    for row in rows.iter().filter(|row| &row[at("measure")] == "lookup") {
        let floor: f64 = row[at("noise_floor")].parse().expect("a floor");
        assert_eq!(&row[at("void")], if floor > 0.08 { "true" } else { "false" });
        assert!(!row[at("of_limit")].is_empty() && !row[at("of_linear")].is_empty());
        assert!(row[at("drift")].parse::<f64>().is_ok_and(|drift| drift >= 0.0), "three sittings");
    }
}

/// Every engine and yardstick answers frames of protocols with ports and without.
#[test]
fn packets_are_looked_up_from_frames() {
    let folder = folder("frames");
    let with_frames = |definition: String| {
        let (head, _) = definition.split_once("[[engines]]").expect("it has engines");
        let lookup = "[lookup]\nbatches = [1, 32]\ndependent = false\nframes = true\nrounds = 1\n";
        format!("{head}[[engines]]\nengine = \"tuplemerge\"\n{lookup}")
    };
    fs::write(folder.join("none.toml"), with_frames(GOOD.replace("DIGEST", "of no set"))).expect("a file");
    let (code, out) = measure(&folder, &["none.toml", "--test"]);
    let (_, digest) = out.split_once("keys and answers have the digest ").expect("it says the digest");
    let digest = digest.split(',').next().expect("a word");
    let of_keys = good(&folder);
    assert!(code == 1 && !of_keys.contains(digest), "{code}: ports that a protocol lacks are absent in frames: {out}");
    fs::write(folder.join("frames.toml"), with_frames(GOOD.replace("DIGEST", digest))).expect("a file");
    let (code, out) = measure(&folder, &["frames.toml", "--record=record"]);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("| 32 from frames |"), "{out}");
    let path = out.lines().find_map(|line| line.strip_prefix("recorded in ")).expect("it says where");
    let text = fs::read_to_string(folder.join(path)).expect("the record");
    for (engine, rows) in [("tuplemerge", 2), ("tuplemerge again", 2), ("linear", 2), ("limit", 0)] {
        let of_engine = format!(",{engine},frame to decision,");
        assert_eq!(text.lines().filter(|line| line.contains(&of_engine)).count(), rows, "{engine}: {text}");
    }
    let six = GOOD.replace("headers = 3000", "headers = 3000, family = \"ipv6\"");
    fs::write(folder.join("six.toml"), with_frames(six)).expect("a file");
    let (_, out) = measure(&folder, &["six.toml", "--test"]);
    assert!(out.contains("small: not run: frames are made of IPv4 packets alone"), "{out}");
}

/// Times are recorded on a slow machine too, where `limit` takes long for one key a call.
#[test]
fn times_of_a_slow_machine_are_recorded() {
    let folder = folder("slow");
    let good = good(&folder);
    let (definition, _) = good.split_once("[[engines]]").expect("it has engines");
    let text = format!("{definition}[[engines]]\nengine = \"linear\"\n[lookup]\nbatches = [1]\nrounds = 1\n");
    fs::write(folder.join("slow.toml"), text).expect("a file");
    let (code, out) = measure(&folder, &["slow.toml", "--record=record"]);
    assert_eq!(code, 0, "{out}");
    let path = out.lines().find_map(|line| line.strip_prefix("recorded in ")).expect("it says where");
    let text = fs::read_to_string(folder.join(path)).expect("the record");
    let limit = text.lines().find(|line| line.contains(",limit,lookup,")).expect("the yardstick");
    let median: f64 = limit.split(',').nth(8).unwrap_or_default().parse().expect("its time");
    assert!(median > 0.0, "{limit}");
}

#[test]
fn what_is_bad_is_named_and_the_rest_runs() {
    let folder = folder("bad");
    let good = good(&folder);
    let bad = [
        ("toml.toml", "shows = 3\n".to_owned(), "toml.toml: TOML parse error at line 1, column 9"),
        ("word.toml", good.replace("headers", "heders"), "unknown field `heders`"),
        (
            "engine.toml",
            good.replacen("\"tuplemerge\"", "\"tuplemurge\"", 1),
            "there is no engine `tuplemurge`; expected one of ",
        ),
        ("config.toml", good.replace("spill", "spil"), "this engine has no option `spil`"),
        (
            "aside.toml",
            good.replacen("[[engines]]", "[[engines]]\nsteps_aside = false", 1),
            "`steps_aside` needs a `flow_cache` or a `rule_cache`",
        ),
        ("profile.toml", good.replace("\"fw\"", "\"fv\""), "expected one of acl, acl1, acl2, "),
        ("level.toml", good.replace("scalar", "neon"), "expected one of scalar, avx2"),
        ("twice.toml", good.replace("as published", "tuplemerge"), "two engines are called `tuplemerge`"),
        ("batch.toml", good.replace("threads = [2]", "batches = [0]"), "batches: expected numbers from 1"),
    ];
    for (name, text, expected) in &bad {
        fs::write(folder.join(name), text).expect("a file");
        let (code, out) = measure(&folder, &[name, "--test"]);
        assert_eq!(code, 2, "{name}: {out}");
        assert!(out.contains(&format!("not run: {name}")) && out.contains(expected), "{name}: {out}");
    }
    let files = "rules = \"$SETS/none.rules\"\ntrace = \"$SETS/none.trace\"";
    let missing = good.replace("generate = { profile = \"fw\", rules = 200, seed = 5, headers = 3000 }", files);
    fs::write(folder.join("missing.toml"), &missing).expect("a file");
    fs::write(folder.join("good.toml"), &good).expect("a file");
    let (code, out) = measure(&folder, &["missing.toml", "toml.toml", "good.toml", "--test"]);
    assert_eq!(code, 2, "{out}");
    assert!(out.contains("small: not run: its files lie in a folder of sets") && out.contains("| limit "), "{out}");
    let (code, out) = measure(&folder, &["missing.toml", "--test", "--sets", "nowhere"]);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("not run: nowhere/none.rules"), "{out}");
    let (code, out) = measure(&folder, &["no-such-file.toml", "--test"]);
    assert_eq!(code, 2, "{out}");
}

#[test]
fn other_answers_fail_the_run() {
    let folder = folder("wrong");
    let definition = good(&folder).replace("seed = 5", "seed = 6");
    fs::write(folder.join("wrong.toml"), definition).expect("a file");
    let (code, out) = measure(&folder, &["wrong.toml", "--test"]);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("small: FAILED: the rules, keys and answers have the digest"), "{out}");
}

const RATE: &str = r#"
[fig1]
shows = "rates of one worker and of many"
run = "rate"
profile = "acl1"
sizes = [100]
packet_bytes = 128
seconds = 0.01
[[fig1.planes]]
name = "one"
form = "replicated"
workers = [1]
engine = { engine = "tuplemerge" }
cores = 1
[[fig1.planes]]
name = "many"
form = "replicated"
workers = [6]
engine = { engine = "tuplemerge" }
cores = 10000
[[fig1.claims]]
id = "one"
of = "gbps"
planes = ["one"]
[[fig1.claims]]
id = "both"
of = "mpps"
planes = ["many", "one"]
"#;

/// A rate on more cores than there are is projected, and its record says so.
#[test]
fn rates_are_measured_or_projected() {
    let folder = folder("rate");
    let claim = |id: &str, values: &str, shape: &str| {
        format!("[[claims]]\nid = '{id}'\nentry = 'fig1'\nclaim = 'c'\nwhere = 'w'\n{values}\nshape = {shape}\n")
    };
    let claims = claim("one", "value = 12\nunit = 'Gbps'", "{ stated = true }")
        + &claim("both", "values = [17, 12]", "{ stated = true }");
    fs::create_dir_all(folder.join("papers/own")).expect("a folder");
    fs::write(folder.join("papers/own/expected.toml"), claims).expect("a file");
    fs::write(folder.join("papers/own/experiment.toml"), RATE).expect("a file");
    let (code, out) = run(&folder, &["reproduce", "own", "--record"]);
    assert_eq!(code, 0, "{out}");
    for expected in ["| one ", " measured |", "| many ", " projected |", "holds 0, FAILS 0, stated 2"] {
        assert!(out.contains(expected), "{expected}: {out}");
    }
    let record = fs::read_to_string(folder.join("papers/own/record.csv")).expect("a record");
    let row = |id: &str| record.lines().find(|line| line.contains(&format!(",{id},"))).expect("a row");
    assert!(row("both").contains("(projected)") && !row("one").contains("(projected)"), "{record}");
}

/// The exit code tells a paper without experiments from one that was run.
#[test]
fn papers_without_experiments_have_an_exit_code_of_their_own() {
    let folder = folder("papers");
    fs::create_dir_all(folder.join("none/own")).expect("a folder");
    let claim =
        "[[claims]]\nid = 'one'\nentry = 'fig1'\nclaim = 'c'\nwhere = 'w'\nvalue = 1\nshape = { at_most = true }\n";
    fs::write(folder.join("none/own/expected.toml"), claim).expect("a file");
    fs::write(folder.join("none/own/experiment.toml"), "").expect("a file");
    for (entry, text) in
        [("own", "own has no experiments: nothing is measured"), ("own/fig1", "own/fig1: there is no experiment")]
    {
        let (code, out) = run(&folder, &["reproduce", entry, "--papers", "none"]);
        assert!(code == 3 && out.contains(text), "{entry}: {code}: {out}");
    }
    let papers = concat!(env!("CARGO_MANIFEST_DIR"), "/../../papers");
    for (entry, expected, text) in [
        ("tuplemerge/s3-a", 3, "tuplemerge/s3-a: there is no experiment"),
        ("tuplemerge/table3", 0, "holds 3, FAILS 0, stated 0, undecided 0, not run 0"),
        ("tuplemerge/fig9", 2, "tuplemerge/fig9 has nothing to compare: drawing of the test bed"),
        ("tuplemerge/fig99", 2, "tuplemerge has no entry `fig99`"),
    ] {
        let (code, out) = run(&folder, &["reproduce", entry, "--papers", papers]);
        assert!(code == expected && out.contains(text), "{entry}: {code}: {out}");
    }
    assert!(!folder.join("papers").exists(), "nothing is written unasked");
}

#[test]
fn no_file_imports_itself_through_others() {
    firstmatch_testkit::layers::check_circles(env!("CARGO_MANIFEST_DIR"), 70);
}
