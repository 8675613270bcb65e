//! Builds under a limit of the address space: each answers 0 or `-ENOMEM`, and none ends the process.

use std::process::Command;

use firstmatch_rte_acl::abi::{Config, FieldDef, RuleResults, TYPE_BITMASK, TYPE_MASK, TYPE_RANGE};
use firstmatch_rte_acl::*;
use firstmatch_testkit::rng::Rng;

use crate::random::Owned;

const ENOMEM: i32 = -libc::ENOMEM;
const EINVAL: i32 = -libc::EINVAL;
/// Bytes of a rule of five fields.
const SIZE: usize = 16 + 5 * 16;

/// Returns rules of a protocol, two prefixes and two ranges of ports.
fn rules(count: usize, categories: u32) -> Vec<Vec<u8>> {
    let mut rng = Rng::new(count as u64);
    let one = |at: usize| {
        let mut rule = vec![0; SIZE];
        let mask = if categories == 1 { 1 } else { 1 << rng.below(categories as usize) };
        let head = [mask, 1 + rng.below(1000) as u32, at as u32 + 1];
        head.iter().enumerate().for_each(|(at, word)| rule[4 * at..][..4].copy_from_slice(&word.to_ne_bytes()));
        let low = rng.below(65_000) as u32;
        let [src, dst] = [(); 2].map(|()| (rng.next() as u32, 8 + rng.below(25) as u32));
        let ports = [if rng.percent(60) { (0, 0xFFFF) } else { (low, low + 5) }, (low, low)];
        let fields = [(6, 0xFF), src, dst, ports[0], ports[1]];
        for (field, (value, other)) in fields.into_iter().enumerate() {
            rule[16 + 16 * field..][..4].copy_from_slice(&u32::to_ne_bytes(value));
            rule[24 + 16 * field..][..4].copy_from_slice(&u32::to_ne_bytes(other));
        }
        rule
    };
    (0..count).map(one).collect()
}

fn config(num_categories: u32) -> Config {
    let mut config = Config { num_categories, num_fields: 5, defs: [FieldDef::default(); 64], max_size: 0 };
    let fields = [(TYPE_BITMASK, 1, 0), (TYPE_MASK, 4, 1), (TYPE_MASK, 4, 5), (TYPE_RANGE, 2, 9), (TYPE_RANGE, 2, 11)];
    for (index, (kind, size, offset)) in (0..).zip(fields) {
        config.defs[usize::from(index)] = FieldDef { kind, size, field_index: index, input_index: index, offset };
    }
    config
}

/// Returns the bytes of the address space of this process.
fn address_space() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: u64 = text.split(' ').next().and_then(|pages| pages.parse().ok()).expect("a number");
    pages * 4096
}

/// Part of the test that runs in the processes: adds rules, builds, commits and copies, with so much more memory.
#[test]
#[ignore = "the other test starts it"]
fn child() {
    let number = |name: &str| -> u64 { std::env::var(name).expect("set").parse().expect("a number") };
    let (count, more, categories): (u64, u64, u64) =
        (number("MEMORY_RULES"), number("MEMORY_MORE"), number("MEMORY_CATEGORIES"));
    let rules = rules(count as usize, categories as u32).concat();
    let context = Owned::new("memory", SIZE, 1 << 20);
    let limit = libc::rlimit { rlim_cur: address_space() + more, rlim_max: libc::RLIM_INFINITY };
    let config = config(categories as u32);
    let (mut out, mut result, key) = ([RuleResults::default()], 0, [0u8; 64]);
    // SAFETY: a limit, whole rules and structs, and a live handle.
    let codes = unsafe {
        assert_eq!(libc::setrlimit(libc::RLIMIT_AS, &raw const limit), 0);
        [
            rte_acl_add_rules(context.0, rules.as_ptr().cast(), count as u32),
            firstmatch_acl_set_counting(context.0, 1),
            rte_acl_build(context.0, &raw const config),
            firstmatch_acl_commit(context.0),
            firstmatch_acl_remove(context.0, 1, 1).min(0),
            if firstmatch_acl_copy(context.0, c"copy of memory".as_ptr()).is_null() { ENOMEM } else { 0 },
            rte_acl_classify(context.0, [key.as_ptr()].as_mut_ptr(), &raw mut result, 1, 1),
            firstmatch_acl_count_rules(context.0, out.as_mut_ptr(), 1, std::ptr::null_mut()).min(0),
        ]
    };
    // Printing takes memory, too.
    let limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: a limit.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
    println!("codes {codes:?}");
}

#[test]
fn functions_answer_when_memory_runs_out() {
    for (count, categories) in [(20_000, 1), (5000, 4)] {
        let (mut refused, mut more) = (0, 0);
        loop {
            let mut command = Command::new(std::env::current_exe().expect("this program"));
            command.args(["--exact", "memory::child", "--ignored", "--nocapture", "--test-threads=1"]);
            command.env("MEMORY_RULES", count.to_string()).env("MEMORY_CATEGORIES", categories.to_string());
            // The heap of a thread of its own would take address space before the limit.
            command.env("MALLOC_ARENA_MAX", "1").env("MEMORY_MORE", more.to_string());
            let output = command.output().expect("it starts");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{count} rules, {more} bytes: {text}{errors}");
            let codes = text.split_once("codes [").and_then(|(_, codes)| codes.split_once(']')).expect("codes").0;
            let codes: Vec<i32> = codes.split(", ").map(|code| code.parse().expect("a code")).collect();
            assert!(
                codes.iter().all(|code| [0, ENOMEM, EINVAL].contains(code)),
                "{count} rules, {more} bytes: {codes:?}"
            );
            if codes.iter().all(|&code| code == 0) {
                break;
            }
            // Nothing is refused for another reason, unless there are no rules or no table.
            assert!(codes.contains(&ENOMEM), "{count} rules, {more} bytes: {codes:?}");
            refused += 1;
            more += 512 << 10;
        }
        assert!(refused > 5, "{count} rules are refused in {refused} limits");
    }
}
