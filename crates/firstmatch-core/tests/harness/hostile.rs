//! Rules that nothing separates: `meta` is judged by counted cache lines, because times depend on the machine.

use firstmatch_core::engines::registry::{ENGINES, Settings};
use firstmatch_core::live::{self, Config, Engine, Front, Kind, Limits, Strategy};
use firstmatch_core::rule::{ExpansionLimits, Lowered, RuleSet, lower};
use firstmatch_core::{Budget, Classifier, KeyBuf, Schema};

use crate::case::Case;
use crate::corners;
use crate::counter::counted;
use crate::rng::Rng;

/// Rules in the native format, by name and number of rules.
type Text = fn(u32) -> String;

/// Rule sets in which most rules overlap, the narrowest first.
const SETS: [(&str, Text); 5] = [
    ("nested ports", |rules| {
        (0..rules).map(|at| format!("deny tcp dport {}-{}\n", 32_767 - at, 32_768 + at)).collect()
    }),
    ("nested addresses", |rules| {
        let address = |value: u32| std::net::Ipv4Addr::from(value);
        let middle = 1 << 31;
        let rule = |at: u32| format!("deny src {}-{}\n", address(middle - 1 - 900 * at), address(middle + 900 * at));
        (0..rules).map(rule).collect()
    }),
    ("nested in both ports", |rules| {
        let range = |at: u32| format!("{}-{}", 32_767 - at, 32_768 + at);
        (0..rules).map(|at| format!("deny tcp sport {0} dport {0}\n", range(at))).collect()
    }),
    ("a staircase", |rules| (0..rules).map(|at| format!("deny tcp dport {}-{}\n", 3 * at, 3 * at + 30_000)).collect()),
    ("equal", |rules| "deny tcp src 10.0.0.0/8 dport 80-9000\n".repeat(rules as usize)),
];

fn rules_of(text: &str) -> RuleSet {
    let text = format!("family ipv4\n{text}");
    firstmatch_formats::parse(&text, &firstmatch_formats::Options::default()).expect("rules").rules
}

/// Returns the mean number of cache lines that a lookup of `keys` touches.
fn lines(engine: &dyn Classifier, keys: &KeyBuf) -> f64 {
    let mut found = vec![None; keys.len()];
    let counts = engine.count_batch(&mut engine.scratch(), &keys.keys(), &mut found);
    counts.get("lines").expect("lines are counted") as f64 / keys.len() as f64
}

fn built(set: &Lowered, config: &Config) -> Engine {
    Engine::build(set, config).expect("no budget")
}

/// On rules that nothing separates, the base touches few lines, and hardly more than the best engine by name.
///
/// With a trial of the default size the bases that read every rule are compared or known to be long. With a tiny one,
/// nothing is counted or timed, and the stated worst cases decide.
#[test]
fn hostile_rules_get_a_base_of_few_lines() {
    let schema = Schema::ipv4();
    for (name, text) in SETS {
        for rules in [1_000, 6_000] {
            let set = rules_of(&text(rules));
            let lowered = lower(&set, &schema, &ExpansionLimits::default()).expect("within the caps");
            let case = Case::new(&set, &schema, corners::of_set(&set, &schema, &mut Rng::new(7), 300));
            let by_name = |name: &str| {
                let entry = ENGINES.iter().find(|entry| entry.name == name).expect("it is there");
                lines(&(entry.build)(&lowered, &Settings::default()).expect("no limit"), &case.keys)
            };
            let least = ["bit_select", "tuplemerge", "hicuts", "decomposition", "npf", "linear"].map(by_name);
            let least = least.into_iter().fold(f64::INFINITY, f64::min);
            for (trial, is_large) in [(None, false), (Some(64), true)] {
                let engine = built(&lowered, &Config { trial, seed: Some(1), ..Config::default() });
                let explained = engine.explain();
                let own = lines(&engine, &case.keys);
                let is_few = own <= 5.0 * least.max(8.0) || is_large && rules < 4096;
                assert!(is_few, "{name}, {rules} rules: {own} lines, at best {least}: {explained}");
                case.check(&engine).unwrap_or_else(|error| panic!("{name}: {error}"));
            }
        }
    }
}

/// Rules that trees separate have no `decomposition`, because its build would be in vain.
#[test]
fn rules_that_trees_separate_build_no_more_candidates() {
    let text: String =
        (0..3_000).map(|at| format!("deny dst 10.{}.{}.0/24 dport {at}\n", at / 256, at % 256)).collect();
    let set = rules_of(&text);
    let lowered = lower(&set, &Schema::ipv4(), &ExpansionLimits::default()).expect("within the caps");
    let explained = built(&lowered, &Config { seed: Some(1), ..Config::default() }).explain();
    let left = explained.candidates.iter().find(|of| of.kind == Kind::Decomposition).expect("it is listed");
    assert!(left.visits.is_none() && left.to_string().contains("not built: another touches"), "{explained}");
    let forced = Config { strategy: Strategy::Force(Kind::Decomposition), ..Config::default() };
    assert_eq!(built(&lowered, &forced).explain().kind, Kind::Decomposition);
}

/// Returns rules whose words have about as many classes as there are rules, so that tables of classes explode.
fn of_many_classes(rules: u32) -> RuleSet {
    let mut rng = Rng::new(11);
    let mut rule = |_| {
        let [a, b, c, d] = [(); 4].map(|()| rng.next() as u32);
        let [src, dst] = [a, b].map(std::net::Ipv4Addr::from);
        let [sport, dport] = [c, d].map(|port| (port & 0x7FFF, (port & 0x7FFF) + (port >> 17)));
        format!("deny tcp src {src} dst {dst} sport {}-{} dport {}-{}\n", sport.0, sport.1, dport.0, dport.1)
    };
    rules_of(&(0..rules).map(&mut rule).collect::<String>())
}

/// Tables that multiply classes are counted before memory is asked for: the build ends with an error.
///
/// Two of 10,000 classes each are 10^8 entries, and four such slots 10^16.
#[test]
fn tables_that_explode_are_refused_within_their_bytes() {
    let set = of_many_classes(6_000);
    let lowered = lower(&set, &Schema::ipv4(), &ExpansionLimits::default()).expect("within the caps");
    let most = 32 << 20;
    for name in ["rfc", "bitmap_rfc"] {
        let entry = ENGINES.iter().find(|entry| entry.name == name).expect("it is there");
        for paper in ["true", "false"] {
            for (run_bytes, build_bytes) in [(most, most), (usize::MAX, most)] {
                let mut settings = Settings::default().with_option("paper", paper).with_option("prune", "false");
                (settings.budget, settings.build_bytes) = (Budget { run_bytes }, build_bytes);
                let (built, count) = counted(|| (entry.build)(&lowered, &settings).map(|_| ()));
                let error = built.expect_err("it cannot fit");
                assert!(error.budget_exceeded(), "{name}: {error}");
                assert!(count.peak < 4 * most as isize, "{name}, {paper}: {} bytes for {error}", count.peak);
            }
        }
        // Without any limit, four gigabytes are the budget of the tables.
        let settings = Settings::default().with_option("paper", "true");
        let (built, count) = counted(|| (entry.build)(&lowered, &settings).map(|_| ()));
        let error = built.expect_err("it cannot fit");
        assert!(error.budget_exceeded() && count.peak < 2 << 30, "{name}: {error}, {} bytes", count.peak);
        // A front is held to the bytes of the build, too.
        let limits = Limits { build_bytes: most, ..Limits::default() };
        let config = Config { front: Some(Front::of(entry, &[])), limits, ..Config::default() };
        let (opened, count) = counted(|| live::open(set.clone(), &config).map(|_| ()));
        let error = opened.expect_err("the front cannot fit");
        assert!(error.budget_exceeded() && count.peak < 4 * most as isize, "{name}: {error}, {} bytes", count.peak);
    }
}

/// A build that compares far more than its class is refused by its visits.
#[test]
fn long_builds_are_refused_by_their_visits() {
    let nested = rules_of(&SETS[0].1(3_000));
    let alike =
        rules_of(&(0..3_000).map(|at| format!("deny tcp src 10.{}.{}.0/24\n", at / 256, at % 256)).collect::<String>());
    let many = of_many_classes(800);
    for (name, option, set, visits, is_refused) in [
        ("partitionsort", None, &nested, 1_000_000, true),
        ("partitionsort", None, &alike, 1_000_000, false),
        ("rfc", Some("visits"), &many, 1_000_000, true),
        ("bitmap_rfc", Some("visits"), &many, 1_000_000, true),
        ("rfc", None, &many, 1_000_000, true),
    ] {
        let entry = ENGINES.iter().find(|entry| entry.name == name).expect("it is there");
        let lowered = lower(set, &Schema::ipv4(), &ExpansionLimits::default()).expect("within the caps");
        let mut settings = Settings::default();
        match option {
            Some(option) => settings = settings.with_option(option, &visits.to_string()),
            None => settings.visits = visits,
        }
        let built = (entry.build)(&lowered, &settings);
        assert_eq!(built.is_err(), is_refused, "{name}: {:?}", built.err());
        assert!(built.err().is_none_or(|error| error.to_string().contains("region visits")), "{name}");
    }
}
