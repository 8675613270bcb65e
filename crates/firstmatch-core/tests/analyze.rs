//! Analysis of rule sets: worked values, and brute force over small domains.

use firstmatch_core::analyze::{Analysis, Config, Finding, Kind, Report};
use firstmatch_core::policy::Verdict;
use firstmatch_core::rule::{FieldValues, Rule, RuleSet, first_match};
use firstmatch_formats::{Options, RuleFile};
use firstmatch_testkit::rng::Rng;

fn parse(text: &str) -> RuleFile {
    firstmatch_formats::parse(text, &Options::default()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn check(text: &str) -> Vec<(Kind, u32, Vec<u32>)> {
    let file = parse(text);
    let report = Analysis::new(&file.rules, &file.policy, &Config::default()).expect("regions").check();
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
        (
            "fragments layer3\npermit tcp dport 0-1023\npermit tcp dport 1024-65535\npermit tcp\n",
            vec![(Redundant, 2, vec![4]), (Redundant, 3, vec![4])],
        ),
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

/// Returns all packets of a schema of small fields.
fn packets(rules: &RuleSet) -> Vec<FieldValues> {
    let mut all = vec![Vec::new()];
    for field in rules.schemas()[0].fields() {
        let values = (0..=field.max()).map(Some).chain(field.is_optional().then_some(None));
        all =
            values.flat_map(|value| all.iter().map(move |before: &Vec<_>| [&before[..], &[value]].concat())).collect();
    }
    all.into_iter().map(|values| FieldValues { family: None, values }).collect()
}

/// Verdict on a packet by some of the rules.
fn verdict(rules: &[&Rule], set: &RuleSet, default: Verdict, packet: &FieldValues) -> Verdict {
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
    for _ in 0..6_000 {
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
        for rule in all.iter().rev().filter(|rule| !never(&all, rule)) {
            let without: Vec<&Rule> = left.iter().copied().filter(|other| other.id != rule.id).collect();
            let same = packets
                .iter()
                .all(|packet| verdict(&left, set, default, packet) == verdict(&without, set, default, packet));
            assert_eq!(kind(rule) == Some(Kind::Redundant), same, "{text}: {rule:?}");
            if same {
                left = without;
                redundant += 1;
            }
        }
        for packet in &packets {
            let whole = first_match(set, packet).map_or(default, |rule| rule.action.into());
            assert_eq!(whole, verdict(&left, set, default, packet), "{text}");
        }
    }
    assert!(shadowed > 3_000 && together > 300 && redundant > 3_000, "{shadowed} {together} {redundant}");
}
