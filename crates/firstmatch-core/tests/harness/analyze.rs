//! Analysis of rule sets: worked values, and brute force over small domains.

use std::collections::BTreeMap;

use firstmatch_core::KeyBuf;
use firstmatch_core::analyze::{Analysis, Config, Difference, Differences, Finding, KeySpace, Kind, Report, diff};
use firstmatch_core::policy::Verdict;
use firstmatch_core::rule::{FieldValues, Rule, RuleSet, first_match};
use firstmatch_formats::{Options, RuleFile};
use firstmatch_testkit::rng::Rng;

pub(crate) fn parse(text: &str) -> RuleFile {
    firstmatch_formats::parse(text, &Options::default()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn check(text: &str) -> Vec<(Kind, u32, Vec<u32>)> {
    check_with(text, &Config::default())
}

fn check_with(text: &str, config: &Config) -> Vec<(Kind, u32, Vec<u32>)> {
    let file = parse(text);
    let report = Analysis::new(&file.rules, &file.policy, config).expect("regions").check();
    let line = |id| file.rules.get(id).and_then(|rule| rule.line).map_or(0, u32::from);
    let lines = |finding: &Finding| finding.by.iter().map(|&rule| line(rule)).collect();
    report.findings.iter().map(|finding| (finding.kind, line(finding.rule), lines(finding))).collect()
}

#[test]
fn worked_values() {
    use Kind::{Duplicate, Redundant, Shadowed, Undecided, Unmatchable};
    let small = "schema {\nx 4 range\ny 4 range\n}\n";
    for (text, expected) in [
        ("permit x 0-7\npermit x 8-15\nmark 1 y 5\n", vec![(Shadowed, 7, vec![5, 6])]),
        ("permit x 0-7\npermit x 9-15\nmark 1 y 5\n", vec![]),
        // Masks and intervals of one word.
        ("permit x 0/3\npermit x 1/3\npermit x 2/3\nmark 1 x 0-15\n", vec![]),
        (
            "permit x 0/3\npermit x 1/3\npermit x 2/3\npermit x 3/3\nmark 1 x 0-15\n",
            vec![(Shadowed, 9, vec![5, 6, 7, 8])],
        ),
        ("permit x 4/12\ndeny x 4-7\n", vec![(Duplicate, 6, vec![5])]),
        ("permit x 4/12\ndeny x 4-7 y 3\n", vec![(Shadowed, 6, vec![5])]),
        // The first rule is needed, the second is not; with a permit for all else, both can go.
        ("permit x 1\npermit x 1\n", vec![(Duplicate, 6, vec![5])]),
        ("permit x 1\npermit x 1\npermit\n", vec![(Redundant, 5, vec![7]), (Duplicate, 6, vec![5])]),
        ("permit x 3\ndeny x 3 y 3\n", vec![(Shadowed, 6, vec![5])]),
        ("permit x 0-3 y 1\ndeny x 0-9\npermit y 1\n", vec![]),
        ("permit x 0-3 y 1\ndeny x 10\npermit y 1\n", vec![(Redundant, 5, vec![7])]),
        ("mark 1 x 1\nmark 2 x 0-3\n", vec![]),
        ("mark 2 x 1\nmark 2 x 0-3\n", vec![(Redundant, 5, vec![6])]),
        ("deny x 1\npermit x not 1\n", vec![(Redundant, 5, vec![])]),
    ] {
        assert_eq!(check(&format!("{small}{text}")), expected, "{text}");
    }
    let ip = [
        // No packet of TCP lacks its ports, unless later fragments are classified.
        ("mark 1 tcp dport 0-1023\nmark 2 tcp dport 1024-65535\npermit tcp\n", vec![(Shadowed, 3, vec![1, 2])]),
        // Without ports in any rule, packets that were cut short before their ports are no longer unknown, and denied.
        ("fragments layer3\npermit tcp dport 0-1023\npermit tcp dport 1024-65535\npermit tcp\n", vec![]),
        ("permit src 10.1.0.0/16\ndeny src 10.0.0.0/8 dport 23\npermit src 10.0.0.0/8\n", vec![]),
        ("permit src 10.1.0.0/16\npermit src 10.0.0.0/8\n", vec![(Redundant, 1, vec![2])]),
        // A rule for both families is shadowed if it is in both.
        ("permit family ipv4 udp\nmark 1 udp dport 53\n", vec![]),
        ("permit family ipv4 udp\npermit family ipv6 udp\ndeny udp dport 53\n", vec![(Shadowed, 3, vec![1, 2])]),
        ("permit udp tcp_flags 0x02\n", vec![(Unmatchable, 1, vec![])]),
        (
            "permit icmp dport 53\npermit proto 44 family ipv6\n",
            vec![(Unmatchable, 1, vec![]), (Unmatchable, 2, vec![])],
        ),
        ("match tcp\nmatch\n", vec![]),
    ];
    for (text, expected) in ip {
        assert_eq!(check(text), expected, "{text}");
    }
    // A question beyond its cap is not answered.
    let file = parse("schema {\nx 4 range\ny 4 range\n}\npermit x 0-7 y 0-7\npermit x 5-15 y 5-15\npermit y 2-9\n");
    let mut config = Config::default();
    config.limits.work = 0;
    let report = Analysis::new(&file.rules, &file.policy, &config).expect("regions").check();
    assert!(!report.is_complete() && report.findings.iter().all(|finding| finding.kind == Undecided), "{report:?}");
}

/// A caller that fills the rows may have TCP without ports.
#[test]
fn any_row_counts_where_it_is_asked_for() {
    let text = "mark 1 tcp dport 0-1023\nmark 2 tcp dport 1024-65535\npermit tcp\n";
    let mut config = Config::default();
    config.keys = KeySpace::Any;
    assert_eq!(check_with(text, &config), []);
    assert_eq!(check(text).len(), 1);
}

/// A redundant rule is found behind more rules of other verdicts than are looked for one by one.
#[test]
fn many_rules_of_other_verdicts() {
    let marks: String = (0..10).map(|y| format!("mark {y} y {y}\n")).collect();
    let text = |taken: &str| {
        format!("schema {{\nx 4 range\ny 4 range\n}}\ndeny x 0-7 y {taken}\npermit x 0-7\n{marks}permit\n")
    };
    assert_eq!(check(&text("0-9")), [(Kind::Redundant, 6, vec![17])]);
    for needed in ["0-8", "1-9"] {
        assert_eq!(check(&text(needed)), []);
    }
}

/// Verdicts beyond the 63rd share a bit, and are still told apart.
#[test]
fn many_verdicts() {
    let marks: String = (0..70).map(|x| format!("mark {x} x {x}\n")).collect();
    let text = |second: u32| {
        format!("schema {{\nx 8 range\n}}\n{marks}mark 80 x 200-203\nmark {second} x 203-204\nmark 80 x 200-210\n")
    };
    let redundant = |line| (Kind::Redundant, line, vec![76]);
    assert_eq!(check(&text(80)), [redundant(74), redundant(75)]);
    assert_eq!(check(&text(81)), []);
    let lines: Vec<_> = differences(&text(80), &text(81)).into_iter().map(|(lines, _)| lines).collect();
    assert_eq!(lines, [[75, 75]]);
}

/// Number of times that the random sets are as many as in a short run (`ANALYZE_ROUNDS`).
fn rounds() -> usize {
    std::env::var("ANALYZE_ROUNDS").map_or(1, |rounds| rounds.parse().expect("a number of rounds"))
}

/// Returns all packets of a schema of small fields.
pub(crate) fn packets(rules: &RuleSet) -> Vec<FieldValues> {
    let mut all = vec![Vec::new()];
    for field in rules.schemas()[0].fields() {
        let values = (0..=field.max()).map(Some).chain(field.is_optional().then_some(None));
        all =
            values.flat_map(|value| all.iter().map(move |before: &Vec<_>| [&before[..], &[value]].concat())).collect();
    }
    all.into_iter().map(|values| FieldValues { family: None, values }).collect()
}

/// Verdict on a packet by some of the rules.
pub(crate) fn verdict(rules: &[&Rule], set: &RuleSet, default: Verdict, packet: &FieldValues) -> Verdict {
    let found = rules.iter().find(|rule| rule.matches(&set.schemas()[0], packet));
    found.map_or(default, |rule| rule.action.into())
}

fn random_rules(rng: &mut Rng) -> String {
    let mut text = format!(
        "schema {{\nx 2 range\ny 2 mask\nz 1 exact optional\n}}\ndefault {}\n",
        rng.any_of(&["permit", "deny"])
    );
    for _ in 0..1 + rng.below(14) {
        text.push_str(rng.any_of(&["permit", "deny", "permit", "deny", "mark 1"]));
        for (name, max) in [("x", 4), ("y", 4), ("z", 2)] {
            if rng.one_in(3) {
                continue;
            }
            let (a, b) = (rng.below(max), rng.below(max));
            let value = match rng.below(4) {
                0 => format!("{a}"),
                1 => format!("{}-{}", a.min(b), a.max(b)),
                2 => format!("not {a}"),
                _ if name == "y" => format!("{}/{b}", a & b),
                _ => format!("{{ {a}, {b} }}"),
            };
            text.push_str(&format!(" {name} {value}"));
        }
        text.push('\n');
    }
    text
}

/// Rules are found that brute force finds, with their causes; all of them together change no verdict.
#[test]
fn brute_force_agrees() {
    let mut rng = Rng::new(55);
    let (mut shadowed, mut together, mut redundant) = (0, 0, 0);
    for _ in 0..2_000 * rounds() {
        let text = random_rules(&mut rng);
        let file = parse(&text);
        let (set, default) = (&file.rules, file.policy.default);
        let report: Report = Analysis::new(set, &file.policy, &Config::default()).expect("regions").check();
        assert!(report.is_complete());
        let (packets, all): (_, Vec<&Rule>) = (packets(set), set.iter().collect());
        let never = |rules: &[&Rule], rule: &Rule| {
            let first =
                |packet: &FieldValues| rules.iter().find(|rule| rule.matches(&set.schemas()[0], packet)).map(|r| r.id);
            packets.iter().all(|packet| first(packet) != Some(rule.id))
        };
        let kind =
            |rule: &Rule| report.findings.iter().find(|finding| finding.rule == rule.id).map(|finding| finding.kind);
        for finding in &report.findings {
            let rule = set.get(finding.rule).expect("a rule");
            if let Some(packet) = &finding.packet {
                assert!(rule.matches(&set.schemas()[0], packet), "{text}: {finding:?}");
                let first = first_match(set, packet).map(|rule| rule.id).expect("it matches");
                let is_taken = matches!(finding.kind, Kind::Shadowed | Kind::Duplicate);
                assert!(if is_taken { finding.by.contains(&first) } else { first == rule.id }, "{text}: {finding:?}");
            }
            let of: Vec<&Rule> = all.iter().copied().filter(|rule| finding.by.contains(&rule.id)).collect();
            match finding.kind {
                Kind::Shadowed | Kind::Duplicate => {
                    assert!(never(&[&of[..], &[rule]].concat(), rule), "{text}: {finding:?}");
                    for without in 0..of.len() {
                        let mut fewer = of.clone();
                        fewer.remove(without);
                        assert!(!never(&[&fewer[..], &[rule]].concat(), rule), "{text}: {finding:?}");
                    }
                    together += usize::from(of.len() > 1);
                }
                Kind::Unmatchable => assert!(never(&[rule], rule) && finding.packet.is_none(), "{text}"),
                _ => {}
            }
        }
        // Shadowed rules first, then from the last one on those without which nothing changes.
        let mut left = all.clone();
        for rule in &all {
            let is_shadowed = matches!(kind(rule), Some(Kind::Shadowed | Kind::Duplicate | Kind::Unmatchable));
            assert_eq!(is_shadowed, never(&all, rule), "{text}: {rule:?}");
            shadowed += usize::from(is_shadowed);
        }
        left.retain(|rule| !never(&all, rule));
        let mut is_end = true;
        for rule in all.iter().rev().filter(|rule| !never(&all, rule)) {
            let without: Vec<&Rule> = left.iter().copied().filter(|other| other.id != rule.id).collect();
            let same = packets
                .iter()
                .all(|packet| verdict(&left, set, default, packet) == verdict(&without, set, default, packet));
            // Rules at the end that state the default are none.
            let is_whole = packets.iter().all(|packet| rule.matches(&set.schemas()[0], packet));
            is_end &= is_whole && Verdict::from(rule.action) == default;
            assert_eq!(kind(rule) == Some(Kind::Redundant), same && !is_end, "{text}: {rule:?}");
            if same && !is_end {
                left = without;
                redundant += 1;
            }
        }
        for packet in &packets {
            let whole = first_match(set, packet).map_or(default, |rule| rule.action.into());
            assert_eq!(whole, verdict(&left, set, default, packet), "{text}");
        }
    }
    assert!(shadowed > 1_000 && together > 100 && redundant > 1_000, "{shadowed} {together} {redundant}");
}

/// Pairs are those of which brute force finds a packet that the later rule would decide otherwise.
#[test]
fn brute_force_finds_the_same_overlaps() {
    let mut rng = Rng::new(58);
    let mut count = 0;
    for _ in 0..700 * rounds() {
        let text = random_rules(&mut rng);
        let file = parse(&text);
        let schema = &file.rules.schemas()[0];
        let found = Analysis::new(&file.rules, &file.policy, &Config::default()).expect("regions").overlaps(1_000);
        assert!(!found.has_more && found.undecided == 0);
        let mut expected = BTreeMap::new();
        for packet in packets(&file.rules) {
            let mut matching = file.rules.iter().filter(|rule| rule.matches(schema, &packet));
            let (Some(first), Some(second)) = (matching.next(), matching.next()) else { continue };
            if first.action != second.action {
                expected.entry((second.priority, first.priority)).or_insert_with(Vec::new).push(packet);
            }
        }
        let priority = |id| file.rules.get(id).expect("a rule").priority;
        let pairs: Vec<_> = found.pairs.iter().map(|pair| (priority(pair.later), priority(pair.earlier))).collect();
        assert!(pairs.iter().eq(expected.keys()), "{text}: {pairs:?}");
        assert!(
            found.pairs.iter().zip(expected.values()).all(|(pair, packets)| packets.contains(&pair.packet)),
            "{text}"
        );
        count += pairs.len();
        if let [first, ..] = &found.pairs[..] {
            let few = Analysis::new(&file.rules, &file.policy, &Config::default()).expect("regions").overlaps(1);
            assert_eq!((&few.pairs[..], few.has_more), (&[first.clone()][..], pairs.len() > 1), "{text}");
            assert_eq!(few.findings()[0].by, [first.earlier]);
        }
    }
    assert!(count > 2_500, "{count}");
}

fn differences(one: &str, other: &str) -> Vec<([u32; 2], FieldValues)> {
    let (one, other) = (parse(one), parse(other));
    let mut config = Config::default();
    config.regions = 1_000;
    let compare = |config| diff((&one.rules, &one.policy), (&other.rules, &other.policy), config).expect("regions");
    let found = compare(&config);
    assert_eq!(found.undecided, 0);
    // Without regions the pairs are the same, perhaps with other packets.
    let rules = |found: &Differences| found.pairs.iter().map(|pair| (pair.rules, pair.verdicts)).collect::<Vec<_>>();
    assert_eq!(rules(&found), rules(&compare(&Config::default())));
    for pair in &found.pairs {
        assert!(!pair.has_more_regions);
        states_regions(&one, &other, pair);
    }
    let line = |file: &RuleFile, id: Option<_>| id.and_then(|id| file.rules.get(id)?.line).map_or(0, u32::from);
    let pair = |pair: &Difference| {
        let lines = [line(&one, pair.rules[0]), line(&other, pair.rules[1])];
        (lines, pair.packet.clone())
    };
    found.pairs.iter().map(pair).collect()
}

/// Panics unless the regions of a pair hold, each once, just the packets whose first matches are the two rules.
pub(crate) fn states_regions(one: &RuleFile, other: &RuleFile, pair: &Difference) {
    let schemas = one.rules.schemas();
    let holders = |packet: &FieldValues| {
        let schema = schemas.iter().position(|schema| schema.family() == packet.family).expect("its schema");
        let mut keys = KeyBuf::new(&schemas[schema]);
        keys.push_values(packet);
        let key = &keys.keys().row(0)[..schemas[schema].words().len()];
        let regions = pair.regions.iter().filter(|(index, _)| *index == schema).flat_map(|(_, regions)| regions.iter());
        regions.filter(|region| region.contains(key)).count()
    };
    assert_eq!(holders(&pair.packet), 1, "{pair:?}");
    if schemas[0].family().is_none() {
        for packet in packets(&one.rules) {
            let rules = [one, other].map(|file| first_match(&file.rules, &packet).map(|rule| rule.id));
            assert_eq!(holders(&packet), usize::from(rules == pair.rules), "{pair:?} {packet:?}");
        }
    }
}

#[test]
fn worked_differences() {
    let lines =
        |one: &str, other: &str| differences(one, other).into_iter().map(|(lines, _)| lines).collect::<Vec<_>>();
    let permit = "permit src 10.0.0.0/8\n";
    assert_eq!(lines(permit, permit), [[0; 2]; 0]);
    assert_eq!(lines(permit, "deny src 10.0.0.0/9\npermit src 10.0.0.0/8\n"), [[1, 1]]);
    // Rules that changed places differ where both match.
    let two = differences("deny dport 22\npermit src 10.0.0.0/8\n", "permit src 10.0.0.0/8\ndeny dport 22\n");
    assert_eq!(two.iter().map(|(lines, _)| *lines).collect::<Vec<_>>(), [[1, 1]]);
    assert_eq!((two[0].1.values[0].expect("a source") >> 24, two[0].1.values[3]), (10, Some(22)));
    assert_eq!(lines("permit udp\n", "default permit\npermit udp\n"), [[0, 0]]);
    assert_eq!(lines("permit udp\n", "permit family ipv4 udp\n"), [[1, 0]]);
    assert_eq!(lines("permit tcp\n", "permit tcp dport 0-65535\n"), [[0; 2]; 0]);
    assert_eq!(lines("mark 1 tcp\n", "mark 2 tcp\n"), [[1, 1]]);
    // Both sides of a gap are one region each, and too many regions are not stated.
    let (one, other) = (parse("permit dport 5\n"), parse("permit dport 5\npermit proto tcp dport 1-9\n"));
    let mut config = Config::default();
    for (regions, stated) in [(4, 4), (3, 0)] {
        config.regions = regions;
        let found = diff((&one.rules, &one.policy), (&other.rules, &other.policy), &config).expect("regions");
        let [pair] = &found.pairs[..] else { panic!("one pair") };
        let count: usize = pair.regions.iter().map(|(_, regions)| regions.len()).sum();
        assert_eq!((count, pair.has_more_regions), (stated, stated == 0), "{pair:?}");
    }
}

/// Pairs are those that brute force finds, each with a packet; and no pair proves that the sets agree.
#[test]
fn brute_force_finds_the_same_differences() {
    let mut rng = Rng::new(56);
    let (mut pairs, mut equal) = (0, 0);
    for round in 0..1_500 * rounds() {
        let one = random_rules(&mut rng);
        // Another file, or this one with a line less or two lines that changed places.
        let mut lines: Vec<&str> = one.lines().collect();
        let other = match round % 4 {
            0 => random_rules(&mut rng),
            1 if lines.len() > 7 => {
                lines.remove(6 + rng.below(lines.len() - 6));
                lines.join("\n")
            }
            2 if lines.len() > 8 => {
                let at = 6 + rng.below(lines.len() - 7);
                lines.swap(at, at + 1);
                lines.join("\n")
            }
            _ => format!("{one}{} x 1-2\n", rng.any_of(&["permit", "deny"])),
        };
        let (first, second) = (parse(&one), parse(&other));
        let found = differences(&one, &other);
        let mut expected = BTreeMap::new();
        for packet in packets(&first.rules) {
            let of = |file: &RuleFile| {
                let rule = first_match(&file.rules, &packet);
                let line = rule.and_then(|rule| rule.line).map_or(0, u32::from);
                (line, rule.map_or(file.policy.default, |rule| rule.action.into()))
            };
            let (one, other) = (of(&first), of(&second));
            if one.1 != other.1 {
                expected.entry([one.0, other.0]).or_insert_with(Vec::new).push(packet);
            }
        }
        let known: BTreeMap<[u32; 2], &FieldValues> = found.iter().map(|(lines, packet)| (*lines, packet)).collect();
        assert_eq!(known.len(), found.len());
        assert!(known.keys().eq(expected.keys()), "{one}\n{other}: {found:?}, {:?}", expected.keys());
        assert!(known.iter().all(|(lines, packet)| expected[lines].contains(packet)), "{one}\n{other}");
        pairs += found.len();
        equal += usize::from(found.is_empty());
    }
    assert!(pairs > 1_500 && equal > 100, "{pairs} {equal}");
}

/// Keys of all cells are all packets of a small domain, with the rule that the oracle gives; of large ones they are
/// rows.
#[test]
fn sampled_keys_have_the_rule_of_the_oracle() {
    let mut rng = Rng::new(57);
    let mut all = 0;
    for round in 0..600 {
        let text = if round % 2 == 0 {
            random_rules(&mut rng)
        } else {
            let port = rng.below(65_536);
            format!(
                "permit src 10.0.0.0/{} tcp dport {port}\ndeny udp dport not {port}\npermit vlan_vid 7\n",
                8 + rng.below(25)
            )
        };
        let file = parse(&text);
        let mut analysis = Analysis::new(&file.rules, &file.policy, &Config::default()).expect("regions");
        for (index, schema) in file.rules.schemas().iter().enumerate() {
            let (mut count, mut hits, mut seen) = (0, 0, Vec::new());
            let sampled = analysis.sample(index, 2_000, |key, rule| {
                let packet = FieldValues { family: schema.family(), values: schema.values(key) };
                assert_eq!(first_match(&file.rules, &packet).map(|rule| rule.id), rule, "{text}: {packet:?}");
                let mut keys = KeyBuf::new(schema);
                keys.push_values(&packet);
                assert_eq!(&keys.keys().row(0)[..key.len()], key, "{text}: no row of a packet");
                count += 1;
                hits += usize::from(rule.is_some());
                seen.push(key.to_vec());
            });
            let mut again = Vec::new();
            analysis.sample(index, 2_000, |key, _| again.push(key.to_vec()));
            assert!(seen == again, "{text}: other keys at the second call");
            assert_eq!(sampled.packets, count);
            assert!(count <= 2_000 && (sampled.is_all || round % 2 == 0 || hits > 100), "{text}: {count} {hits}");
            all += usize::from(sampled.is_all);
        }
    }
    assert!((50..900).contains(&all), "{all}");
}
