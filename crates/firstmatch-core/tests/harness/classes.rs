//! Analysis of rules whose regions exceed the limits: over classes of values, and beside rules that exceed them even so.

use std::collections::BTreeMap;

use firstmatch_core::analyze::{Analysis, Config, Difference, Differences, Kind, Report, diff};
use firstmatch_core::rule::{FieldValues, Rule, first_match};
use firstmatch_formats::RuleFile;
use firstmatch_testkit::rng::Rng;

use super::analyze::{packets, parse, states_regions, verdict};

/// Returns a configuration under which a rule may have this many regions.
fn limited(regions_per_rule: usize) -> Config {
    let mut config = Config::default();
    config.expansion.regions_per_rule = regions_per_rule;
    config.regions = 1_000;
    config
}

/// Returns rules on lists of values, some of them absent; a condition has at most four pieces.
fn random_lists(rng: &mut Rng) -> String {
    let mut text = format!(
        "schema {{\nx 3 range\ny 3 range\nz 2 exact optional\n}}\ndefault {}\n",
        rng.any_of(&["permit", "deny"])
    );
    let lists: Vec<String> = (0..4)
        .map(|_| {
            let values: Vec<String> = (0..1 + rng.below(4)).map(|_| rng.below(8).to_string()).collect();
            values.join(", ")
        })
        .collect();
    for _ in 0..2 + rng.below(10) {
        text.push_str(rng.any_of(&["permit", "deny", "permit", "deny", "mark 1"]));
        for name in ["x", "y"] {
            match rng.below(8) {
                0 => text.push_str(&format!(" {name} {}", rng.below(8))),
                1 => text.push_str(&format!(" {name} {}-{}", rng.below(4), 4 + rng.below(4))),
                2 => {}
                3 => text.push_str(&format!(" {name} not {}", rng.below(8))),
                _ => text.push_str(&format!(" {name} {{ {} }}", lists[rng.below(lists.len())])),
            }
        }
        match rng.below(5) {
            0 => text.push_str(" z { 0, 2 }"),
            1 => text.push_str(" z { 1, 3, absent }"),
            2 => text.push_str(" z not 1"),
            _ => {}
        }
        text.push('\n');
    }
    text
}

/// Checks what a report claims against brute force; `kinds` are those of a report over values.
fn check_report(text: &str, file: &RuleFile, report: &Report, kinds: &BTreeMap<u32, Kind>) {
    let (set, default) = (&file.rules, file.policy.default);
    let (packets, all): (_, Vec<&Rule>) = (packets(set), set.iter().collect());
    let line = |id| set.get(id).and_then(|rule| rule.line).map_or(0, u32::from);
    let first = |packet: &FieldValues| first_match(set, packet).map(|rule| rule.id);
    for finding in &report.findings {
        let rule = set.get(finding.rule).expect("a rule");
        let is_taken = matches!(finding.kind, Kind::Shadowed | Kind::Duplicate);
        if is_taken || finding.kind == Kind::Unmatchable {
            assert!(packets.iter().all(|packet| first(packet) != Some(rule.id)), "{text}: {finding:?}");
        }
        if let Some(packet) = &finding.packet {
            assert!(rule.matches(&set.schemas()[0], packet), "{text}: {finding:?}");
            if report.beyond.is_empty() {
                let first = first(packet).expect("it matches");
                let is_right = if is_taken { finding.by.contains(&first) } else { first == rule.id };
                assert!(is_right, "{text}: {finding:?}");
            }
        }
    }
    // All rules that are found can go together.
    let is_found =
        |rule: &Rule| report.findings.iter().any(|finding| finding.rule == rule.id && finding.kind != Kind::Undecided);
    let left: Vec<&Rule> = all.iter().copied().filter(|rule| !is_found(rule)).collect();
    for packet in &packets {
        assert_eq!(verdict(&all, set, default, packet), verdict(&left, set, default, packet), "{text}: {packet:?}");
    }
    let found: BTreeMap<u32, Kind> = report.findings.iter().map(|finding| (line(finding.rule), finding.kind)).collect();
    if report.is_complete() {
        assert_eq!(found, *kinds, "{text}");
    }
    for rule in all.iter().filter(|rule| !found.contains_key(&line(rule.id))) {
        let decides = packets.iter().any(|packet| first(packet) == Some(rule.id));
        assert!(decides, "{text}: {rule:?} never decides, and nothing is said about it");
    }
    for &rule in &report.beyond {
        let finding = report.findings.iter().find(|finding| finding.rule == rule);
        assert!(finding.is_some_and(|finding| finding.kind == Kind::Undecided), "{text}");
    }
}

#[test]
fn classes_agree_with_values() {
    let mut rng = Rng::new(71);
    let (mut complete, mut partly, mut decided) = (0, 0, 0);
    for _ in 0..2_000 {
        let text = random_lists(&mut rng);
        let file = parse(&text);
        let check = |config: &Config| Analysis::new(&file.rules, &file.policy, config).expect("products").check();
        let line = |id| file.rules.get(id).and_then(|rule| rule.line).map_or(0, u32::from);
        let kinds = check(&Config::default()).findings;
        let kinds = kinds.iter().map(|finding| (line(finding.rule), finding.kind)).collect();
        for most in [4, 6, 12] {
            let report = check(&limited(most));
            check_report(&text, &file, &report, &kinds);
            match report.beyond.len() {
                0 => complete += 1,
                _ => {
                    partly += 1;
                    decided += report.findings.iter().filter(|finding| finding.kind != Kind::Undecided).count();
                }
            }
        }
    }
    assert!(complete > 2_000 && partly > 300 && decided > 100, "{complete} {partly} {decided}");
}

#[test]
fn overlaps_are_those_over_values() {
    let mut rng = Rng::new(72);
    let (mut complete, mut partly) = (0, 0);
    for _ in 0..500 {
        let text = random_lists(&mut rng);
        let file = parse(&text);
        let find =
            |config: &Config| Analysis::new(&file.rules, &file.policy, config).expect("products").overlaps(1_000);
        let pairs: Vec<_> = find(&Config::default()).pairs.iter().map(|pair| (pair.later, pair.earlier)).collect();
        for most in [4, 8] {
            let found = find(&limited(most));
            for pair in &found.pairs {
                let schema = &file.rules.schemas()[0];
                let mut matching = file.rules.iter().filter(|rule| rule.matches(schema, &pair.packet));
                let first = [matching.next(), matching.next()].map(|rule| rule.map(|rule| rule.id));
                assert_eq!(first, [Some(pair.earlier), Some(pair.later)], "{text}: {pair:?}");
            }
            let own: Vec<_> = found.pairs.iter().map(|pair| (pair.later, pair.earlier)).collect();
            if found.undecided == 0 {
                assert_eq!(own, pairs, "{text}");
                complete += 1;
            } else {
                assert!(own.iter().all(|pair| pairs.contains(pair)), "{text}");
                partly += 1;
            }
        }
    }
    assert!(complete > 300 && partly > 50, "{complete} {partly}");
}

/// Pairs are those of brute force; where a rule is beyond the limits, none is wrong and no agreement is claimed.
#[test]
fn differences_are_those_over_values() {
    let mut rng = Rng::new(73);
    let (mut complete, mut partly, mut equal, mut stated) = (0, 0, 0, 0);
    for round in 0..1_500 {
        let one = random_lists(&mut rng);
        let mut lines: Vec<&str> = one.lines().collect();
        let other = match round % 3 {
            0 => random_lists(&mut rng),
            1 => {
                lines.remove(6 + rng.below(lines.len() - 6));
                lines.join("\n")
            }
            _ => format!("{one}permit x {{ 1, 3 }} y {{ 2, 4, 6 }}\n"),
        };
        let (first, second) = (parse(&one), parse(&other));
        let compare = |config: &Config| -> Differences {
            diff((&first.rules, &first.policy), (&second.rules, &second.policy), config).expect("products")
        };
        let rules = |found: &Differences| found.pairs.iter().map(|pair| pair.rules).collect::<Vec<_>>();
        let over_values = compare(&Config::default());
        for most in [4, 8] {
            let found = compare(&limited(most));
            for pair in &found.pairs {
                check_pair(&first, &second, pair);
                stated += usize::from(!pair.has_more_regions);
            }
            if found.undecided == 0 && found.beyond.iter().all(Vec::is_empty) {
                assert_eq!(rules(&found), rules(&over_values), "{one}\n{other}");
                complete += 1;
                equal += usize::from(found.is_none());
            } else {
                assert!(!found.is_none());
                let all = rules(&over_values);
                assert!(rules(&found).iter().all(|pair| all.contains(pair)), "{one}\n{other}");
                partly += 1;
            }
        }
    }
    assert!(complete > 1_000 && partly > 200 && equal > 50 && stated > 500, "{complete} {partly} {equal} {stated}");
}

fn check_pair(one: &RuleFile, other: &RuleFile, pair: &Difference) {
    let rules = [one, other].map(|file| first_match(&file.rules, &pair.packet).map(|rule| rule.id));
    assert_eq!(rules, pair.rules, "{pair:?}");
    if !pair.has_more_regions {
        states_regions(one, other, pair);
    }
}

/// Keys of a sample have the rule of the oracle, and rules beyond the limits count.
#[test]
fn sampled_keys_of_classes_have_the_rule_of_the_oracle() {
    let mut rng = Rng::new(74);
    let (mut all, mut hits) = (0, 0);
    for _ in 0..400 {
        let text = random_lists(&mut rng);
        let file = parse(&text);
        let schema = &file.rules.schemas()[0];
        for most in [4, 8] {
            let mut analysis = Analysis::new(&file.rules, &file.policy, &limited(most)).expect("products");
            let beyond = analysis.beyond();
            let mut seen = std::collections::HashSet::new();
            let sampled = analysis.sample(0, 2_000, |key, rule| {
                let packet = FieldValues { family: None, values: schema.values(key) };
                assert_eq!(first_match(&file.rules, &packet).map(|rule| rule.id), rule, "{text}: {packet:?}");
                hits += usize::from(rule.is_some_and(|rule| beyond.contains(&rule)));
                seen.insert(rule);
            });
            if sampled.is_all {
                let first = |packet: &FieldValues| first_match(&file.rules, packet).map(|rule| rule.id);
                assert!(packets(&file.rules).iter().all(|packet| seen.contains(&first(packet))), "{text}");
                all += 1;
            }
        }
    }
    assert!(all > 300 && hits > 100, "{all} {hits}");
}

/// Rules of 2,000 × 2,000 × 20 values, and 40 of 200 × 100 × 20, are decided in both families.
#[test]
fn long_lists_are_decided() {
    for (family, address) in [("ipv4", "10."), ("ipv6", "2001:db8::")] {
        let host = |number: usize| match family {
            "ipv4" => format!("{address}{}.{}.{}", number >> 15, number >> 7 & 0xFF, number << 1 & 0xFF),
            _ => format!("{address}{:x}:{:x}", number >> 12, number << 4 & 0xFFFF),
        };
        let list = |from: usize, count: usize| (from..from + count).map(host).collect::<Vec<_>>().join(", ");
        let ports: Vec<String> = (0..20).map(|port| (1000 + 2 * port).to_string()).collect();
        let (clients, servers, ports) = (list(0, 2000), list(5000, 2000), ports.join(", "));
        let text = |servers: &str| {
            format!(
                "family {family}\npermit tcp src {{ {clients} }} dst {{ {servers} }} dport {{ {ports} }}\n\
                 deny tcp src {} dst {{ {} }} dport 1004\npermit tcp src {} dst {} dport 1005\n",
                host(7),
                list(5100, 50),
                host(7),
                host(5001)
            )
        };
        let file = parse(&text(&servers));
        let report = Analysis::new(&file.rules, &file.policy, &Config::default()).expect("products").check();
        assert!(report.is_complete() && report.beyond.is_empty());
        let found: Vec<_> = report.findings.iter().map(|finding| finding.kind).collect();
        assert_eq!(found, [Kind::Shadowed]);
        let fewer = parse(&text(&list(5000, 1999)));
        let pairs = |one: &RuleFile, other: &RuleFile| {
            let found = diff((&one.rules, &one.policy), (&other.rules, &other.policy), &limited(1 << 20));
            found.expect("products")
        };
        assert!(pairs(&file, &file).is_none());
        let found = pairs(&file, &fewer);
        let [pair] = &found.pairs[..] else { panic!("{found:?}") };
        let last = pair.packet.values[1].map(|last| match family {
            "ipv4" => std::net::Ipv4Addr::from(last as u32).to_string(),
            _ => std::net::Ipv6Addr::from(last).to_string(),
        });
        assert_eq!(last, host(6999).parse::<std::net::IpAddr>().ok().map(|last| last.to_string()));
        let rules = [&file, &fewer].map(|file| first_match(&file.rules, &pair.packet).map(|rule| rule.id));
        assert!(rules == pair.rules && rules[1].is_none());

        let mut many = format!("family {family}\n");
        let mut rng = Rng::new(75);
        for _ in 0..40 {
            let mut drawn = |count| (0..count).map(|_| host(rng.below(4_000_000))).collect::<Vec<_>>().join(", ");
            let (clients, servers) = (drawn(200), drawn(100));
            many += &format!("permit tcp src {{ {clients} }} dst {{ {servers} }} dport {{ {ports} }}\n");
        }
        many += "mark 1 tcp dport 1-999\n";
        let file = parse(&many);
        let report = Analysis::new(&file.rules, &file.policy, &Config::default()).expect("products").check();
        assert!(report.is_complete() && report.beyond.is_empty() && report.findings.is_empty(), "{report:?}");
    }
}
