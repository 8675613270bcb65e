//! Lists of thousands of addresses in one condition: right answers, at a linear cost.

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use firstmatch_core::rule::{ExpansionLimits, FieldValues, RuleSet, lower};
use firstmatch_core::schema::Family;
use firstmatch_core::{Classifier, Schema, live};
use firstmatch_formats::Options;

use crate::case::Case;
use crate::counter::counted;
use crate::engines::engines;
use crate::rng::Rng;

/// Draws prefixes of addresses: first and last address, and length.
///
/// Most of them are whole addresses, half of them in clusters.
fn prefixes(family: Family, rng: &mut Rng, count: usize) -> Vec<(u128, u128, u32)> {
    let width = family.address_bits();
    let mut clusters: Vec<u128> = (0..count / 20 + 1).map(|_| rng.bits(width)).collect();
    clusters.iter_mut().for_each(|cluster| *cluster &= !0xFFF);
    let prefix = |_| {
        let near = *rng.pick(&clusters) | rng.bits(12);
        let address = if rng.percent(50) { near } else { rng.bits(width) };
        let len = if rng.percent(70) { width } else { width - 1 - rng.below(16) as u32 };
        let open = (1u128 << (width - len)) - 1;
        (address & !open, address | open, len)
    };
    (0..count).map(prefix).collect()
}

fn text(family: Family, prefixes: &[(u128, u128, u32)]) -> String {
    let mut text = String::new();
    for (at, &(first, _, len)) in prefixes.iter().enumerate() {
        let comma = if at == 0 { "" } else { ",\n" };
        match family {
            Family::Ipv4 => write!(text, "{comma}{}/{len}", Ipv4Addr::from(first as u32)),
            Family::Ipv6 => write!(text, "{comma}{}/{len}", Ipv6Addr::from(first)),
        }
        .expect("a string");
    }
    text
}

/// Draws packets from and beside listed addresses, and from anywhere.
fn packets(schema: &Schema, prefixes: &[(u128, u128, u32)], rng: &mut Rng, count: usize) -> Vec<FieldValues> {
    let max = schema.fields()[0].max();
    let packet = |_| {
        let &(first, last, _) = rng.pick(prefixes);
        let near = [first, last, first.saturating_sub(1), last.saturating_add(1).min(max)];
        let src = if rng.percent(80) { *rng.pick(&near) } else { rng.bits(schema.fields()[0].width()) };
        let dst = rng.bits(schema.fields()[1].width());
        let ports = if rng.percent(80) { [Some(rng.bits(16)), Some(443)] } else { [None, None] };
        let proto = *rng.pick(&[6, 17, 1]);
        let values = [Some(src), Some(dst), ports[0], ports[1], Some(proto)];
        FieldValues { family: schema.family(), values: values.to_vec() }
    };
    (0..count).map(packet).collect()
}

fn rules(text: &str) -> RuleSet {
    firstmatch_formats::parse(text, &Options::default()).unwrap_or_else(|error| panic!("{error}")).rules
}

#[test]
fn lists_answer_as_the_oracle_says() {
    let others = "permit tcp dport 443\ndeny udp sport 1-1024\npermit icmp\n";
    for (family, negated, count) in
        [(Family::Ipv4, "", 3000), (Family::Ipv4, "not ", 3000), (Family::Ipv6, "", 1500), (Family::Ipv6, "not ", 300)]
    {
        let mut rng = Rng::new(count as u64);
        let prefixes = prefixes(family, &mut rng, count);
        let list = text(family, &prefixes);
        for (turn, (before, behind)) in [("", ""), ("", others), (others, "")].into_iter().enumerate() {
            let name = family.name();
            let set = rules(&format!(
                "family {name}\nset listed = {{ {list} }}\n{before}deny src {negated}$listed\n{behind}"
            ));
            let schema = &set.schemas()[0];
            let case = Case::new(&set, schema, packets(schema, &prefixes, &mut rng, 200));
            let matched = case.want.iter().flatten().count();
            assert!((60..200).contains(&matched) || !before.is_empty(), "{matched} of 200 match");
            let lowered = lower(&set, schema, &ExpansionLimits::default()).expect("within the limits");
            // Each turn takes a third of the engines, so that all together have lists of every kind.
            for subject in engines().into_iter().skip((turn + count / 300) % 3).step_by(3) {
                let engine = match subject.try_build(&lowered, Default::default()) {
                    // The vectors of many regions take more than they may.
                    Err(error) if subject.name.starts_with("bit_vector") && error.budget_exceeded() => continue,
                    built => built.unwrap_or_else(|error| panic!("{}: {error}", subject.name)),
                };
                let checked = case.check(&*engine).and_then(|()| case.check_lengths(&*engine, [1, 2, 3, 4, 9, 40]));
                checked.unwrap_or_else(|what| panic!("{}, {name}, {negated}: {what}", subject.name));
            }
        }
    }
}

/// The bytes of a rule with 100,000 addresses grow with the addresses, part by part.
///
/// It does not matter whether some of them touch.
#[test]
fn a_list_costs_its_length() {
    for spread in [!1, !0] {
        let mut rng = Rng::new(100_000);
        let drawn = prefixes(Family::Ipv4, &mut rng, 100_000);
        let all: Vec<_> = drawn.into_iter().map(|(first, ..)| (first & spread, first & spread, 32)).collect();
        let list = text(Family::Ipv4, &all);
        let rules = rules(&format!("family ipv4\nset listed = {{ {list} }}\ndeny src $listed\n"));
        let each = |bytes: usize| bytes as f64 / all.len() as f64;
        let conditions: usize = rules.iter().map(|rule| rule.conditions.bytes()).sum();
        assert!(each(conditions) < 6.01, "{} bytes of conditions", each(conditions));
        // Five words of two bounds, and the match.
        let (lowered, count) =
            counted(|| lower(&rules, &rules.schemas()[0], &ExpansionLimits::default()).expect("the default limits"));
        assert!(each(count.live as usize) <= 56.01, "{} bytes of regions", each(count.live as usize));
        let engine = live::Engine::build(&lowered, &live::Config::default()).expect("no budget");
        let stats = Classifier::stats(&engine);
        assert!(each(stats.total_bytes()) <= 16.0, "{} bytes: {stats:?}", each(stats.total_bytes()));
    }
}
