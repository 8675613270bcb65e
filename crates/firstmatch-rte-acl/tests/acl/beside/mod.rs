//! Random calls beside DPDK's own library, each in a process of its own.
//!
//! Both processes walk the same script of contexts, rules without ties, builds, lookups and resets, and write what they
//! see to a file. Without DPDK nothing is compared, which is said. `BESIDE_LOOKUPS` is the number of keys.

mod api;

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;

use api::Api;
use firstmatch_testkit::rng::Rng;

use crate::script::Layout;

/// Number of keys unless `BESIDE_LOOKUPS` says otherwise.
const LOOKUPS: usize = 100_000;

/// End of the line of a build for which there is no memory.
const NO_MEMORY: &str = " -12";

/// Walks the script and writes code and results of each call.
fn walk(api: &Api, lookups: usize, out: &mut impl Write) {
    let mut done = 0;
    for seed in 0.. {
        if done >= lookups {
            break;
        }
        let rng = &mut Rng::new(seed);
        let layout = Layout::plain(rng, 3);
        let context = api.create(&format!("beside{seed}"), layout.rule_size, 200);
        let mut rules = 0;
        writeln!(out, "context {seed}").expect("written");
        for _ in 0..3 {
            let categories = 1 + rng.below(16) as u32;
            let count = 1 + rng.below(20);
            let new: Vec<_> = (0..count)
                .map(|_| {
                    rules += 1;
                    // Priorities differ, but not in the order of the rules.
                    let priority = 1 + (rules * 7919) % 100_003;
                    let mask = if rng.percent(40) { 0xFFFF } else { rng.next() as u32 | 1 << rng.below(16) };
                    let userdata = if rng.one_in(20) { 0 } else { rng.next() as u32 };
                    layout.rule(rng, mask, priority, userdata)
                })
                .collect();
            let added = context.add(&new);
            let built = context.build(&layout.config(categories));
            let kinds =
                layout.defs.iter().map(|def| format!("{}x{}", def.kind, def.size)).collect::<Vec<_>>().join(" ");
            writeln!(out, "{kinds}: {added} {built}").expect("written");
            if built == -libc::ENOMEM {
                break;
            }
            let keys: Vec<_> = (0..rng.any_of(&[1, 7, 64, 400])).map(|_| layout.key(rng)).collect();
            let asked = rng.any_of(&[1, 4, 8, 16, 3, 0]);
            if built == 0 {
                // A lookup without a table would end the original.
                writeln!(out, "{:?}", context.classify(&keys, asked)).expect("written");
                done += keys.len();
            }
            if rng.percent(20) {
                context.reset_rules();
                rules = 0;
                if built == 0 {
                    writeln!(out, "{:?}", context.classify(&keys, asked)).expect("written");
                }
            } else if rng.percent(20) {
                context.reset();
                rules = 0;
            }
        }
    }
}

/// Part of the test that runs in the processes.
#[test]
#[ignore = "the other test starts it"]
fn child() {
    let path = std::env::var_os("BESIDE_OUT").expect("the file to write");
    let original = std::env::var_os("BESIDE_ORIGINAL").is_some();
    let lookups = std::env::var("BESIDE_LOOKUPS").map_or(LOOKUPS, |number| number.parse().expect("a number"));
    let api = if original { Api::original().expect("DPDK's library") } else { Api::own() };
    let mut out = BufWriter::new(File::create(path).expect("a file"));
    walk(&api, lookups, &mut out);
    out.flush().expect("written");
}

fn run(name: &str, original: bool) -> String {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "beside::child", "--ignored"]).env("BESIDE_OUT", &out);
    if original {
        command.env("BESIDE_ORIGINAL", "1");
    }
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stdout));
    fs::read_to_string(out).expect("what it saw")
}

#[test]
fn answers_are_those_of_the_original() {
    if !Api::has_original() {
        firstmatch_testkit::skip("librte_acl beside the original: there is no DPDK (apt-get install dpdk-dev)");
        return;
    }
    let (own, original) = (run("own", false), run("original", true));
    let (mut built, mut refused) = (0, 0);
    for (own, original) in own.split("context ").zip(original.split("context ")) {
        // The original needs gigabytes for some rules of wide ranges; the context ends there.
        let end = original.lines().position(|line| line.ends_with(NO_MEMORY));
        refused += usize::from(end.is_some());
        let end = end.unwrap_or(usize::MAX);
        for (line, (own, original)) in own.lines().zip(original.lines()).enumerate().take(end) {
            assert_eq!(own, original, "line {line} of {original}");
            built += usize::from(own.ends_with(" 0 0"));
        }
        assert!(end < usize::MAX || own.lines().count() == original.lines().count());
    }
    assert!(built > 200 && refused * 100 <= built, "{built} tables were built, {refused} refused");
}
