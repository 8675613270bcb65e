//! Tests what needs Valgrind: simulated caches beside Cachegrind's, misses of lookups, and counted instructions.
//!
//! Without Valgrind nothing is tested, which is said; in continuous integration that is a failure.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const LAB: &str = env!("CARGO_BIN_EXE_firstmatch-lab");

/// Returns whether there is Valgrind; if not, says that the test is skipped, and again at the end of `ci.sh`.
fn has_valgrind(test: &str) -> bool {
    let found = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status();
    if found.is_ok_and(|status| status.success()) {
        return true;
    }
    let is_ci = std::env::var_os("CI").is_some_and(|ci| !ci.is_empty());
    assert!(!is_ci, "there is no valgrind (apt-get install valgrind)");
    let line = format!("!! SKIPPED: {test}: there is no valgrind (apt-get install valgrind)");
    let _ignored = writeln!(std::io::stderr(), "{line}");
    if let Some(list) = std::env::var_os("FIRSTMATCH_SKIPPED") {
        let list = OpenOptions::new().create(true).append(true).open(list);
        list.and_then(|mut list| writeln!(list, "{line}")).expect("the list of what is skipped");
    }
    false
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

/// Returns the program under a tool of Valgrind. Nothing depends on the environment or the place of the test.
fn under(tool: &str, options: &[&str], folder: &Path) -> Command {
    let mut command = Command::new("valgrind");
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").current_dir(folder);
    command.args(["--quiet", &format!("--tool={tool}")]).args(options).args(["ls", "/"]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Returns Cachegrind's counts by the name of the event, such as `D1mr`.
fn cachegrind(options: &[&str], folder: &Path) -> impl Fn(&str) -> u64 + use<> {
    let options = [&["--cache-sim=yes", "--cachegrind-out-file=cachegrind.out"], options].concat();
    let run = under("cachegrind", &options, folder).stderr(Stdio::piped()).output().expect("it runs");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let text = fs::read_to_string(folder.join("cachegrind.out")).expect("its counts");
    let words = |head: &str| -> Vec<String> {
        let line = text.lines().find_map(|line| line.strip_prefix(head)).unwrap_or_else(|| panic!("{head}: {text}"));
        line.split_whitespace().map(str::to_owned).collect()
    };
    let (events, counts) = (words("events:"), words("summary:"));
    move |name| {
        let at = events.iter().position(|event| event == name).unwrap_or_else(|| panic!("{name}: {events:?}"));
        counts[at].parse().expect("a count")
    }
}

/// Returns accesses and misses of each level as `firstmatch-lab misses` prints them.
fn simulated(trace: &Path, shapes: &[&str]) -> impl Fn(&str) -> [u64; 2] + use<> {
    let input = File::open(trace).expect("the trace");
    let mut command = Command::new(LAB);
    let run = command.args(["misses", "--trace", "-"]).args(shapes).stdin(input).output().expect("it runs");
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success(), "{text}{}", String::from_utf8_lossy(&run.stderr));
    move |level| {
        let mut rows = text.lines().map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
        let row = rows.find(|row| row.get(1) == Some(&level)).unwrap_or_else(|| panic!("{level}: {text}"));
        [3, 4].map(|column| row[column].parse().expect("a count"))
    }
}

/// Caches of lines, then TLBs as caches whose lines are pages: every count is the same.
#[test]
fn the_simulator_counts_what_cachegrind_counts() {
    if !has_valgrind("the simulator beside cachegrind") {
        return;
    }
    let folder = folder("cachegrind");
    let trace = folder.join("trace");
    let log = File::create(&trace).expect("a file");
    assert!(under("lackey", &["--trace-mem=yes"], &folder).stderr(log).status().expect("it runs").success());

    for (code, data, last) in [
        ("32768,8,64", "32768,8,64", "524288,8,64"),
        ("4096,1,64", "8192,2,64", "65536,16,64"),
        ("1024,4,32", "2048,64,32", "16384,128,128"),
    ] {
        let options = [format!("--I1={code}"), format!("--D1={data}"), format!("--LL={last}")];
        let theirs = cachegrind(&options.each_ref().map(String::as_str), &folder);
        let ours = simulated(&trace, &["--code", code, "--data", data, last]);
        assert_eq!(ours("L1, instructions"), [theirs("Ir"), theirs("I1mr")], "{code}");
        let both = |read: &str, write: &str| theirs(read) + theirs(write);
        assert_eq!(ours("L1, data"), [both("Dr", "Dw"), both("D1mr", "D1mw")], "{data}");
        let firsts = theirs("I1mr") + both("D1mr", "D1mw");
        let lasts = theirs("ILmr") + both("DLmr", "DLmw");
        assert_eq!(ours("L2, both"), [firsts, lasts], "{last}");
        assert!(lasts > 1000 && firsts > lasts + 1000, "{firsts} {lasts}: the levels differ");
    }

    let options = ["--I1=32768,8,4096", "--D1=65536,16,4096", "--LL=1048576,16,4096"];
    let theirs = cachegrind(&options, &folder);
    let ours = simulated(&trace, &["--tlb", "65536,full,4096"]);
    let misses = theirs("D1mr") + theirs("D1mw");
    assert_eq!(ours("TLB 1, pages of 4 KiB"), [theirs("Dr") + theirs("Dw"), misses]);
    assert!(misses > 100, "{misses}");
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
fn lab(folder: &Path, definition: &str, args: &[&str]) -> (Option<i32>, String) {
    fs::write(folder.join("small.toml"), definition).expect("a file");
    let mut command = Command::new(LAB);
    let run = command.current_dir(folder).env_remove("FIRSTMATCH_SETS").args(args).output().expect("it runs");
    (run.status.code(), String::from_utf8_lossy(&[run.stdout, run.stderr].concat()).into_owned())
}

/// Returns the definition with the digest that the program states.
fn good(folder: &Path) -> String {
    let (code, out) = lab(folder, DEFINITION, &["measure", "small.toml", "--test"]);
    let (_, digest) = out.split_once("keys and answers have the digest ").unwrap_or_else(|| panic!("{code:?}: {out}"));
    DEFINITION.replace("DIGEST", digest.split(',').next().expect("a word"))
}

/// Lookups of an engine are cut out of the trace by the marks, and their answers are compared.
#[test]
fn lookups_are_traced_between_marks() {
    if !has_valgrind("misses of lookups") {
        return;
    }
    let folder = folder("misses");
    let good = good(&folder);
    let misses = |more: &[&str]| lab(&folder, &good, &[&["misses", "small.toml", "--lookups", "200"], more].concat());
    let (code, out) = misses(&["linear", "--data", "1024,2,64", "16777216,full,64", "--tlb", "65536,full,4096"]);
    assert_eq!(code, Some(0), "{out}");
    let row = out.lines().find(|line| line.contains("| linear ")).unwrap_or_else(|| panic!("{out}"));
    let figures: Vec<f64> = row.split('|').filter_map(|cell| cell.trim().parse().ok()).collect();
    let [instructions, accesses, _, first, second, tlb] = figures[..] else { panic!("{out}") };
    // 40 rules are tested. All of them fit the second cache and the TLB, which the first pass has filled.
    assert!(instructions > 40.0 && accesses > 10.0 && instructions > accesses, "{out}");
    assert!(first > 5.0 && first < accesses && second < 0.1 && tlb < 0.1, "{out}");
    assert!(!out.contains("tuplemerge"), "only what was named is traced: {out}");
    for (more, expected) in [
        (["nobody", "--batch", "1"], "there is no engine `nobody`; expected one of linear, tuplemerge"),
        (["linear", "--set", "none"], "there is no set `none` in small"),
        (["linear", "--data", "32768,8"], "expected BYTES,WAYS,LINE"),
    ] {
        let (code, out) = misses(&more);
        assert!(code == Some(2) && out.contains(expected), "{expected}: {code:?}: {out}");
    }
}

/// Instructions are counted twice for the first engine, are the same both times, and are recorded.
#[test]
fn instructions_are_counted_and_recorded() {
    if !has_valgrind("instructions by callgrind") {
        return;
    }
    let folder = folder("instructions");
    let good = good(&folder) + "[instructions]\nbatches = [1, 20]\nlookups = 100\n";
    let (code, out) = lab(&folder, &good, &["measure", "small.toml", "--record=record"]);
    assert_eq!(code, Some(0), "{out}");
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
        let (code, out) = lab(&folder, &good.replace("batches = [1, 20]", change), &["measure", "small.toml"]);
        assert!(code == Some(2) && out.contains(expected), "{expected}: {code:?}: {out}");
    }
    let mut command = Command::new(LAB);
    fs::write(folder.join("small.toml"), &good).expect("a file");
    let run = command.current_dir(&folder).env("PATH", "").args(["measure", "small.toml"]).output().expect("it runs");
    let out = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.code() == Some(2) && out.contains("apt-get install valgrind"), "{out}");
}
