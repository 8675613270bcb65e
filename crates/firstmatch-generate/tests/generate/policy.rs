//! Tests of policies: shares and sizes are as the module says, and the text holds the same rules.

use std::collections::HashSet;

use firstmatch_core::rule::{ExpansionLimits, FieldValues, Lowered, first_match, lower};
use firstmatch_core::{RuleSet, rule};
use firstmatch_formats::Options;
use firstmatch_generate::policy::{self, Config, GroupedRules};
use firstmatch_generate::rules::{Actions, Families};

use super::common::{DPORT, DST, PROTO, SPORT, SRC, digest};

fn generate(rules: usize, seed: u64, families: Families) -> GroupedRules {
    policy::generate(&Config { rules, seed, families, ..Config::default() }).expect("a policy")
}

fn text(policy: &GroupedRules) -> String {
    let mut text = String::new();
    policy.write(&mut text).expect("a string takes it");
    text
}

const FAMILIES: [Families; 3] = [Families::Ipv4, Families::Ipv6, Families::Both { ipv6: 0.4 }];

/// Shares of 10,000 rules are within four standard deviations of the documented ones.
#[test]
fn shares_are_as_documented() {
    for families in FAMILIES {
        let policy = generate(10_000, 1, families);
        let rules = policy.rules();
        let share = |is: &dyn Fn(&rule::Rule) -> bool| {
            100.0 * rules.iter().filter(|rule| is(rule)).count() as f64 / rules.len() as f64
        };
        let close = |found: f64, wanted: f64| {
            let deviation = (wanted * (100.0 - wanted) / rules.len() as f64).sqrt();
            assert!((found - wanted).abs() < 4.0 * deviation, "{families:?}: {found} for {wanted}");
        };
        let on = |rule: &rule::Rule, field: usize| rule.conditions.on(field).map(rule::ConditionRef::count);
        let negated = |rule: &rule::Rule| rule.conditions.on(DST).is_some_and(|condition| condition.negated);
        let proto = |rule: &rule::Rule, of: u128| {
            let mut tests = rule.conditions.on(PROTO).into_iter().flat_map(rule::ConditionRef::tests);
            tests.any(|(_, test)| test == rule::Test::Value(of))
        };
        for (number, wanted) in [(6, 70.0), (17, 20.0)] {
            close(share(&|rule| proto(rule, number)), wanted);
        }
        close(share(&|rule| proto(rule, 1) || proto(rule, 58)), 3.0);
        close(share(&|rule| on(rule, PROTO).is_none()), 7.0);
        close(share(&|rule| on(rule, SRC).is_none()), 8.0);
        close(share(&|rule| on(rule, DST).is_none()), 4.0);
        close(share(&negated), 1.5);
        close(share(&|rule| on(rule, DPORT).is_some()), 0.9 * 95.0);
        assert!(rules.iter().all(|rule| rule.conditions.on(SPORT).is_none()));
        // A group of addresses has two members at least, and no member alone is a list.
        close(share(&|rule| on(rule, SRC).is_some_and(|count| count > 1)), 92.0 * 0.75);
        close(share(&|rule| on(rule, DST).is_some_and(|count| count > 1) && !negated(rule)), 94.5 * 0.75);
        let [addresses, ports] = policy.group_sizes();
        assert_eq!((addresses.len(), ports.len()), (2500, 500));
        assert!(
            addresses.iter().all(|size| (2..=60).contains(size)) && ports.iter().all(|size| (1..=25).contains(size))
        );
        // Pareto's law with exponent a exceeds x in a share of x^-a.
        let above = |sizes: &[usize], than: usize| {
            100.0 * sizes.iter().filter(|size| **size >= than).count() as f64 / sizes.len() as f64
        };
        for (sizes, than, wanted) in [
            (&addresses, 6, 100.0 * 5f64.powf(-0.9)),
            (&addresses, 60, 100.0 * 59f64.powf(-0.9)),
            (&ports, 4, 100.0 * 4f64.powf(-1.1)),
        ] {
            let deviation = (wanted * (100.0 - wanted) / sizes.len() as f64).sqrt();
            assert!((above(sizes, than) - wanted).abs() < 4.0 * deviation, "{} for {wanted}", above(sizes, than));
        }
        // Broad rules stand last.
        let is_broad = |rule: &rule::Rule| on(rule, SRC).is_none() && (on(rule, DST).is_none() || negated(rule));
        assert!(rules.iter().any(&is_broad) && rules.iter().skip_while(|rule| !is_broad(rule)).all(is_broad));
        let distinct: HashSet<String> = rules.iter().map(|rule| format!("{:?}", rule.conditions)).collect();
        assert_eq!(distinct.len(), rules.len());
    }
}

#[test]
fn members_are_of_the_documented_kinds() {
    for (families, lens) in [(Families::Ipv4, [24, 20, 16]), (Families::Ipv6, [64, 48, 32])] {
        let text = text(&generate(10_000, 1, families));
        let of_hosts = text.split("set ").filter(|set| set.starts_with("hosts_"));
        let members = of_hosts.filter_map(|set| set.split_once('{')?.1.split_once('}'));
        let members: Vec<&str> = members.flat_map(|(members, _)| members.split(',').map(str::trim)).collect();
        let share = |is: &dyn Fn(&str) -> bool| {
            100.0 * members.iter().filter(|member| is(member)).count() as f64 / members.len() as f64
        };
        let found = [
            share(&|member| !member.contains(['/', '-'])),
            share(&|member| member.ends_with(&format!("/{}", lens[0]))),
            share(&|member| member.ends_with(&format!("/{}", lens[1]))),
            share(&|member| member.ends_with(&format!("/{}", lens[2]))),
            share(&|member| member.contains('-')),
        ];
        // Members of a group differ, so that few networks are drawn again.
        let is_close = |(found, wanted): (f64, f64)| (found - wanted).abs() < 1.5;
        assert!(found.into_iter().zip([55.0, 30.0, 8.0, 4.0, 3.0]).all(is_close), "{found:?}");
        let starts: HashSet<&str> =
            members.iter().filter_map(|member| member.strip_suffix(&format!("/{}", lens[2]))).collect();
        assert_eq!(starts.len(), 31);
    }
}

/// A policy has some 50 regions a rule.
#[test]
fn groups_multiply() {
    for family in [Families::Ipv4, Families::Ipv6] {
        let policy = generate(1000, 1, family);
        let lowered = lowered(policy.rules());
        let regions = lowered.regions().len();
        assert!((30_000..80_000).contains(&regions), "{regions}");
    }
}

fn lowered(set: &RuleSet) -> Lowered {
    lower(set, &set.schemas()[0], &ExpansionLimits::default()).expect("within the limits")
}

#[test]
fn the_text_has_the_same_rules() {
    for families in FAMILIES {
        for rules in [1, 7, 2000] {
            let policy = generate(rules, 5, families);
            let text = text(&policy);
            let read = firstmatch_formats::parse(&text, &Options::default()).unwrap_or_else(|error| panic!("{error}"));
            assert!(read.warnings.iter().all(|warning| !warning.message.contains("set")), "{:?}", read.warnings);
            assert_eq!(read.rules.schemas(), policy.rules().schemas());
            let said = |set: &RuleSet| -> Vec<_> {
                set.iter().map(|rule| (rule.action, rule.conditions.clone(), rule.family)).collect()
            };
            assert_eq!(said(&read.rules), said(policy.rules()));
            assert!(text.lines().all(|line| line.len() <= 110));
        }
    }
}

/// Answers of the rules are those of a walk over the groups, member by member.
#[test]
fn a_rule_holds_for_the_members_of_its_groups() {
    let policy = generate(200, 3, Families::Ipv4);
    let text = text(&policy).replace(",\n", ",");
    let (mut sets, mut rules) = (std::collections::HashMap::new(), Vec::new());
    for line in text.lines() {
        if let Some((name, members)) = line.strip_prefix("set ").and_then(|rest| rest.split_once(" = ")) {
            let members = members.trim_matches(['{', '}', ' ']).split(',').map(|one| span(one.trim()));
            sets.insert(format!("${name}"), members.collect::<Vec<_>>());
        } else if line.starts_with("permit") || line.starts_with("deny") {
            rules.push(line.split(' ').collect::<Vec<_>>());
        }
    }
    let holds = |words: &[&str], values: &[u128; 5]| {
        let mut words = words[1..].iter();
        let mut all = true;
        while let Some(&word) = words.next() {
            let field = match word {
                "tcp" | "udp" | "icmp" => {
                    let proto = [("tcp", 6), ("udp", 17), ("icmp", 1)].iter().find(|(name, _)| *name == word);
                    all &= proto.is_some_and(|(_, proto)| *proto == values[PROTO]);
                    continue;
                }
                "src" => SRC,
                "dst" => DST,
                _ => DPORT,
            };
            let mut of = *words.next().expect("values");
            let negated = of == "not";
            if negated {
                of = words.next().expect("values");
            }
            let one = [span(of.trim_start_matches('$'))];
            let spans = sets.get(of).map_or(&one[..], Vec::as_slice);
            all &= negated != spans.iter().any(|&(lo, hi)| (lo..=hi).contains(&values[field]));
        }
        all
    };
    let keys = firstmatch_generate::trace::generate(
        policy.rules(),
        &firstmatch_generate::trace::Config {
            headers: 3000,
            coverage: firstmatch_generate::trace::Coverage::Drawn,
            unmatched: 0.2,
            ..Default::default()
        },
    );
    let mut hits = 0;
    for header in keys.expect("a trace").iter() {
        let values = [header.src, header.dst, header.sport.into(), header.dport.into(), header.proto.into()];
        let wanted = rules.iter().position(|words| holds(words, &values)).map(|index| index as u32 + 1);
        let fields = FieldValues { family: Some(header.family), values: values.map(Some).into() };
        let found = first_match(policy.rules(), &fields).and_then(|rule| rule.line).map(std::num::NonZero::get);
        assert_eq!(found, wanted, "{header:?}");
        hits += u32::from(wanted.is_some());
    }
    assert!((2000..3000).contains(&hits), "{hits}");
}

/// Returns the interval of a member of a set as text; (1, 0) if it is none.
fn span(text: &str) -> (u128, u128) {
    let value = |text: &str| {
        let address = text.parse::<std::net::Ipv4Addr>().map(|address| u128::from(u32::from(address)));
        address.or_else(|_| text.parse::<u128>())
    };
    let both = |lo: &str, hi: &str| Some((value(lo).ok()?, value(hi).ok()?));
    if let Some((address, len)) = text.split_once('/') {
        let last = (1u128 << (32 - len.parse::<u32>().expect("a length"))) - 1;
        return value(address).map_or((1, 0), |lo| (lo, lo + last));
    }
    let (lo, hi) = text.split_once('-').unwrap_or((text, text));
    both(lo, hi).unwrap_or((1, 0))
}

#[test]
fn a_seed_gives_the_same_bytes() {
    let digests = FAMILIES.map(|families| digest(text(&generate(1000, 1, families)).as_bytes()));
    assert_eq!(digests, FAMILIES.map(|families| digest(text(&generate(1000, 1, families)).as_bytes())));
    assert_eq!(digests, [18049503223110762288, 12691166004661572479, 3252456018673806663]);
    assert_ne!(text(&generate(1000, 1, Families::Ipv4)), text(&generate(1000, 2, Families::Ipv4)));
    // Actions change no condition.
    let of = |actions| {
        let policy = policy::generate(&Config { rules: 300, actions, ..Config::default() }).expect("a policy");
        policy.rules().iter().map(|rule| rule.conditions.clone()).collect::<Vec<_>>()
    };
    assert_eq!(of(Actions::Unstated), of(Actions::Stated { deny: 0.1, mark: 0.5 }));
}

#[test]
fn values_out_of_bounds_are_errors() {
    let base = Config::default();
    for bad in [
        Config { rules: 0, ..base.clone() },
        Config { rules: policy::MAX_RULES + 1, ..base.clone() },
        Config { families: Families::Both { ipv6: 1.5 }, ..base.clone() },
        Config { actions: Actions::Stated { deny: 0.7, mark: 0.7 }, ..base },
    ] {
        assert!(policy::generate(&bad).expect_err("out of bounds").is_config());
    }
}
