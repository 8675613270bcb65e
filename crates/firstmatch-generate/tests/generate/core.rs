//! Sets of the profile `core` beside what its documentation states, and beside Table III of Bitmap-RFC (Liu et al.
//! 2008).

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::common::{DPORT, DST, SPORT, SRC, digest, generate, length, shadowed, test_of};
use firstmatch_core::rule::{FieldValues, Rule, Test, first_match};
use firstmatch_core::{Policy, RuleSet};
use firstmatch_generate::profile::{Profile, core};
use firstmatch_generate::rules::{self, Config, Families};
use firstmatch_generate::trace::{self, Coverage, Form};
use firstmatch_generate::{Statistics, stretch};

fn config(rules: usize, seed: u64) -> Config {
    Config { rules, seed, profile: Profile::core(), ..Config::default() }
}

fn native(set: &RuleSet) -> String {
    let mut text = String::new();
    firstmatch_formats::write::native(set, &Policy::default(), &mut text).expect("it fits");
    text
}

/// Closed interval of a field's values.
type Span = (u32, u32);

fn span(rule: &Rule, field: usize) -> Span {
    match test_of(rule, field) {
        None if field < SPORT => (0, u32::MAX),
        None => (0, 0xFFFF),
        Some(Test::Prefix { value, len }) => (value as u32, value as u32 | rest(len)),
        Some(Test::Value(value)) => (value as u32, value as u32),
        Some(Test::Range { lo, hi }) => (lo as u32, hi as u32),
        other => panic!("{other:?} is neither a prefix nor a range"),
    }
}

/// Returns the mask of the bits behind a prefix of `len` bits.
fn rest(len: u32) -> u32 {
    u32::MAX.checked_shr(len).unwrap_or(0)
}

fn holds((lo, hi): Span, value: u32) -> bool {
    (lo..=hi).contains(&value)
}

/// Returns 64 mixed bits for a rule; sets of rules are told apart by the sums of these.
fn mixed(rule: usize) -> u64 {
    let bits = (rule as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (bits ^ bits >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

/// Returns the first value of each interval in which no span begins or ends.
fn starts(spans: impl Iterator<Item = Span>) -> Vec<u32> {
    let starts: BTreeSet<u32> = spans.flat_map(|(lo, hi)| [Some(lo), hi.checked_add(1)]).flatten().chain([0]).collect();
    starts.into_iter().collect()
}

/// Returns the number of classes of 16 bits: two values that the same spans hold are in one class.
fn classes(spans: &[Span]) -> usize {
    let mut steps: BTreeMap<u32, u64> = BTreeMap::from([(0, 0)]);
    for (rule, &(lo, hi)) in spans.iter().enumerate() {
        let begin = steps.entry(lo).or_default();
        *begin = begin.wrapping_add(mixed(rule));
        let end = steps.entry(hi + 1).or_default();
        *end = end.wrapping_sub(mixed(rule));
    }
    let mut sum = 0u64;
    let sums = steps.range(..=0xFFFF).map(|(_, step)| {
        sum = sum.wrapping_add(*step);
        sum
    });
    sums.collect::<HashSet<u64>>().len()
}

/// Returns the higher and the lower 16 bits of a prefix.
fn halves((lo, hi): Span) -> [Span; 2] {
    let low = if lo >> 16 == hi >> 16 { (lo & 0xFFFF, hi & 0xFFFF) } else { (0, 0xFFFF) };
    [(lo >> 16, hi >> 16), low]
}

/// Returns the number of classes of pairs of an address and a port.
fn pair_classes(set: &RuleSet, address: usize, port: usize) -> usize {
    let ports = starts(set.iter().map(|rule| span(rule, port)));
    // For each prefix and each interval of ports, the sum over the rules of both.
    let mut prefixes: BTreeMap<Span, Vec<u64>> = BTreeMap::new();
    for (place, rule) in set.iter().enumerate() {
        let sums = prefixes.entry(span(rule, address)).or_insert_with(|| vec![0; ports.len()]);
        let own = span(rule, port);
        for (sum, _) in sums.iter_mut().zip(&ports).filter(|(_, port)| holds(own, **port)) {
            *sum = sum.wrapping_add(mixed(place));
        }
    }
    let mut seen = HashSet::new();
    for start in starts(prefixes.keys().copied()) {
        let mut sums = vec![0u64; ports.len()];
        for own in (0..=32).filter_map(|len| prefixes.get(&(start & !rest(len), start | rest(len)))) {
            sums.iter_mut().zip(own).for_each(|(sum, own)| *sum = sum.wrapping_add(*own));
        }
        seen.extend(sums);
    }
    seen.len()
}

/// Returns the spans of a field, of an address those of its higher (0) or lower half (1).
fn chunk(set: &RuleSet, field: usize, half: usize) -> Vec<Span> {
    let of = |rule| if field < SPORT { halves(span(rule, field))[half] } else { span(rule, field) };
    set.iter().map(of).collect()
}

/// Returns the sizes of RFC's tables X, Y and Z, in millions of bytes.
///
/// X combines the source's two chunks and its port, Y those of the destination, and Z combines X and Y. An entry has
/// two bytes.
fn tables(set: &RuleSet) -> [f64; 3] {
    let side = |address, port| {
        let chunks = [chunk(set, address, 0), chunk(set, address, 1), chunk(set, port, 0)];
        (chunks.map(|spans| classes(&spans)).into_iter().product::<usize>(), pair_classes(set, address, port))
    };
    let ((x, x_classes), (y, y_classes)) = (side(SRC, SPORT), side(DST, DPORT));
    [x, y, x_classes * y_classes].map(|entries| 2.0 * entries as f64 / 1e6)
}

#[test]
fn class_counts_are_those_of_sets_of_rules() {
    let set = generate(&config(150, 3));
    let of = |spans: &[Span], value: u32| -> Vec<usize> {
        (0..spans.len()).filter(|&rule| holds(spans[rule], value)).collect()
    };
    for (field, half) in [(SRC, 0), (SRC, 1), (DST, 0), (DST, 1), (SPORT, 0), (DPORT, 0)] {
        let spans = chunk(&set, field, half);
        let sets: HashSet<Vec<usize>> = (0..=0xFFFF).map(|value| of(&spans, value)).collect();
        assert_eq!(classes(&spans), sets.len(), "field {field}, half {half}");
    }
    for (address, port) in [(SRC, SPORT), (DST, DPORT)] {
        let all = |field| -> Vec<Span> { set.iter().map(|rule| span(rule, field)).collect() };
        let (addresses, ports) = (all(address), all(port));
        let mut sets: HashSet<Vec<usize>> = HashSet::new();
        for at in starts(addresses.iter().copied()) {
            let own = of(&addresses, at);
            let with = |port_at: u32| own.iter().copied().filter(|&rule| holds(ports[rule], port_at)).collect();
            sets.extend(starts(ports.iter().copied()).into_iter().filter(|&at| at <= 0xFFFF).map(with));
        }
        // The interval behind the last port has the rules of no port, as an address in no prefix has.
        sets.insert(Vec::new());
        assert_eq!(pair_classes(&set, address, port), sets.len(), "field {address}");
    }
}

/// Sizes of tables X, Y and Z in Table III, in MB, by the number of rules.
const TABLE_III: [(usize, [f64; 3]); 4] = [
    (5700, [59.2, 25.8, 64.1]),
    (8050, [80.7, 64.3, 127.7]),
    (12_000, [106.5, 106.3, 284.9]),
    (17_000, [191.0, 185.0, 570.7]),
];

/// Each table is within a factor of 1.8 of the paper's, for each seed.
#[test]
fn tables_of_rfc_are_as_large_as_in_table_iii() {
    let mut outside = Vec::new();
    for (rules, paper) in TABLE_III {
        for seed in [1, 2, 3] {
            let ours = tables(&generate(&config(rules, seed)));
            for ((name, ours), paper) in ["X", "Y", "Z"].into_iter().zip(ours).zip(paper) {
                if ours > 1.8 * paper || paper > 1.8 * ours {
                    outside.push(format!("{rules} rules, seed {seed}: {name} has {ours:.1} MB for {paper}"));
                }
            }
        }
    }
    assert!(outside.is_empty(), "{outside:#?}");
}

/// Returns the mean and the most of the distinct pairs of prefixes that hold the addresses of a header.
fn pairs_of_headers(set: &RuleSet) -> (f64, usize) {
    let spans: Vec<[Span; 2]> = set.iter().map(|rule| [SRC, DST].map(|field| span(rule, field))).collect();
    let config = trace::Config { headers: 500, coverage: Coverage::Drawn, ..trace::Config::default() };
    let headers = trace::generate(set, &config).expect("rules can be hit");
    let counts = headers.iter().map(|header| {
        let own = spans.iter().filter(|[src, dst]| holds(*src, header.src as u32) && holds(*dst, header.dst as u32));
        own.collect::<HashSet<_>>().len()
    });
    let counts: Vec<usize> = counts.collect();
    (counts.iter().sum::<usize>() as f64 / counts.len() as f64, counts.into_iter().max().unwrap_or(0))
}

#[test]
fn sets_have_the_figures_that_are_documented() {
    let mut outside = Vec::new();
    for rules in core::PAPER_SIZES {
        for seed in [1, 2, 3] {
            let set = generate(&config(rules, seed));
            let statistics = Statistics::of(&set);
            let share = |count: usize| count as f64 / rules as f64;
            let field = |at: usize| &statistics.fields[at];
            let common = |at: usize| {
                let with: usize = [16, 24, 32].iter().filter_map(|len| field(at).lengths.get(len)).sum();
                with as f64 / (rules - field(at).wildcards) as f64
            };
            let open_with_port = |address, port| {
                let both = |rule: &&Rule| length(rule, address) == 0 && test_of(rule, port).is_some();
                set.iter().filter(both).count()
            };
            let (mean, most) = pairs_of_headers(&set);
            for (what, value, least, most) in [
                ("rules", set.len() as f64, rules as f64, rules as f64),
                ("copies", statistics.copies as f64, 0.0, 0.0),
                ("wildcard sources", share(field(SRC).wildcards), 0.05, 0.09),
                ("wildcard destinations", share(field(DST).wildcards), 0.02, 0.05),
                ("wildcard source ports", share(field(SPORT).wildcards), 0.87, 0.93),
                ("wildcard destination ports", share(field(DPORT).wildcards), 0.35, 0.42),
                ("source ports", field(SPORT).unique as f64, 10.0, 14.0),
                ("destination ports", field(DPORT).unique as f64, 10.0, 12.0),
                ("nested sources", field(SRC).deepest as f64, 3.0, 4.0),
                ("nested destinations", field(DST).deepest as f64, 3.0, 4.0),
                ("common source lengths", common(SRC), 0.7, 0.9),
                ("common destination lengths", common(DST), 0.8, 0.98),
                ("pairs of addresses", share(statistics.address_pairs), 0.95, 1.0),
                ("wildcard sources with a port", open_with_port(SRC, SPORT) as f64, 0.0, 0.0),
                ("wildcard destinations with a port", open_with_port(DST, DPORT) as f64, 0.0, 0.0),
                ("mean pairs of a header", mean, 1.0, 2.5),
                ("most pairs of a header", most as f64, 1.0, 12.0),
            ] {
                if !(least..=most).contains(&value) {
                    outside.push(format!("{rules} rules, seed {seed}: {what} {value:.3}, not {least} to {most}"));
                }
            }
        }
    }
    assert!(outside.is_empty(), "{outside:#?}");
}

#[test]
fn larger_sets_share_more_prefixes() {
    for field in [SRC, DST] {
        let unique = core::PAPER_SIZES
            .map(|rules| Statistics::of(&generate(&config(rules, 1))).fields[field].unique as f64 / rules as f64);
        assert!(unique.is_sorted_by(|one, next| one > next), "field {field}: {unique:?}");
        assert!(unique[0] > 0.85 && unique[6] < 0.75, "field {field}: {unique:?}");
    }
}

#[test]
fn the_native_text_is_the_same_for_a_seed_and_reads_back() {
    let text = native(&generate(&config(2000, 7)));
    assert_eq!(digest(text.as_bytes()), DIGEST, "what seeds give has changed: that is a change of version");
    assert_ne!(native(&generate(&config(2000, 8))), text);
    let file = firstmatch_formats::parse(&text, &firstmatch_formats::Options::default()).expect("it is well-formed");
    assert_eq!(file.rules.schemas(), generate(&config(2000, 7)).schemas());
    let names: Vec<_> = file.rules.schemas()[0].fields().iter().map(|field| field.name().to_owned()).collect();
    assert_eq!((names.join(" "), file.rules.schemas()[0].words().len()), ("src dst sport dport".to_owned(), 4));
    assert_eq!(native(&file.rules), text);
}

const DIGEST: u64 = 15784385352516854101;

#[test]
fn headers_have_the_rule_that_the_oracle_finds() {
    let set = generate(&Config { catch_all: true, ..config(300, 5) });
    for form in [Form::Lines, Form::Packets] {
        let trace = trace::generate(&set, &trace::Config { headers: 2000, form, ..Default::default() });
        let trace = trace.expect("rules can be hit");
        assert_eq!(trace.coverage().hit + trace.coverage().unreachable.len(), set.len());
        for header in trace.iter() {
            let values = [header.src, header.dst, header.sport.into(), header.dport.into()].map(Some);
            let found = first_match(&set, &FieldValues { family: None, values: values.into() });
            let rule = header.rule.and_then(|place| set.iter().nth(place as usize));
            assert_eq!(found.map(|rule| rule.id), rule.map(|rule| rule.id), "{header:?}");
        }
    }
}

#[test]
fn rules_without_a_protocol_may_be_shadowed_and_of_ipv6_but_not_of_both_families() {
    let set = generate(&Config { shadowed: 0.2, ..config(500, 5) });
    let shadowed = shadowed(&set);
    assert_eq!(shadowed.len(), 100);
    let with_source_port = shadowed.iter().filter_map(|&place| set.iter().nth(place)).filter(|rule| {
        // No rule of the profile itself has it.
        length(rule, SRC) == 0 && test_of(rule, SPORT).is_some()
    });
    assert!(with_source_port.count() > 0);

    let six = generate(&Config { families: Families::Ipv6, ..config(500, 5) });
    assert_eq!(six.schemas()[0].words().len(), 10);
    let lengths: BTreeSet<u32> = six.iter().map(|rule| length(rule, SRC)).collect();
    assert!(lengths.is_superset(&[16, 24, 32].map(|len| stretch(len).into()).into()), "{lengths:?}");

    let families = Families::Both { ipv6: 0.5 };
    for refused in [Config { families, ..config(500, 5) }, Config { flags: true, ..config(500, 5) }] {
        let error = rules::generate(&refused).expect_err("there is no protocol");
        assert!(error.is_config() && error.to_string().contains("profile core have no field"), "{error}");
    }
    let mut two = Profile::core();
    two.protocols.push(two.protocols[0].clone());
    assert!(two.check().is_err_and(|error| error.to_string().contains("the wildcard is its only protocol")));
}

#[test]
fn no_file_imports_itself_through_others() {
    firstmatch_testkit::layers::check_circles(env!("CARGO_MANIFEST_DIR"), 30);
}
