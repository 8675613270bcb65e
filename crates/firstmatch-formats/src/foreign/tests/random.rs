//! Random chains: the list against a walk of the chains by one packet, as the kernel does it.

use firstmatch_core::rule::Action;
use firstmatch_core::schema::Family;
use firstmatch_testkit::rng::Rng;

use super::super::chains::{ChainIndex, Effect};
use super::super::iptables;
use super::super::options::{Hook, Import};
use super::super::view::Hooks;
use super::{all_fields, verdict, view};
use crate::report::Report;
use crate::{Format, Options, parse};

/// Returns the verdict of a chain on a packet; `None` if it falls off the end.
fn walk(hooks: &Hooks, chain: ChainIndex, values: &[Option<u128>]) -> Option<Action> {
    for rule in &hooks.chains[chain].rules {
        if !rule.products.iter().any(|product| product.holds(values)) {
            continue;
        }
        match rule.effect {
            Effect::Verdict(action) => return Some(action),
            Effect::Return => return None,
            Effect::Goto(to) => return walk(hooks, to, values),
            Effect::Jump(to) => {
                if let Some(action) = walk(hooks, to, values) {
                    return Some(action);
                }
            }
            Effect::Nothing => {}
        }
    }
    None
}

fn condition(rng: &mut Rng) -> String {
    let not = if rng.below(3) == 0 { "! " } else { "" };
    let port = 1 + rng.below(4);
    match rng.below(14) {
        0 => format!("{not}-s 10.0.0.{}/31", 2 * rng.below(2)),
        1 => format!("-s 10.0.0.{},10.0.0.3", rng.below(3)),
        2 => format!("{not}-p tcp"),
        3 => format!("-p tcp -m tcp {not}--dport {port}"),
        4 => format!("-p tcp -m tcp {not}--sport {port}:4 --dport :2"),
        5 => format!("-p tcp {not}--syn"),
        6 => format!("-p tcp {not}--tcp-flags SYN,FIN SYN"),
        7 => format!("-p udp -m multiport {not}--ports {port},3"),
        8 => format!("-p icmp -m icmp {not}--icmp-type 3/{}", rng.below(2)),
        9 => format!("-p icmp {not}--icmp-type 8"),
        10 => format!("{not}-f"),
        11 => format!("-m ttl {not}--ttl-eq {}", rng.below(2)),
        12 => "-p udp -m udp".to_owned(),
        _ => String::new(),
    }
}

/// Returns a file of base chain and three others, each of which jumps to later ones alone.
fn file(rng: &mut Rng) -> String {
    let policy = ["ACCEPT", "DROP"][rng.below(2)];
    let mut text = format!("*filter\n:INPUT {policy} [0:0]\n:a - [0:0]\n:b - [0:0]\n:c - [0:0]\n");
    for (at, chain) in ["INPUT", "a", "b", "c"].into_iter().enumerate() {
        for _ in 0..1 + rng.below(5) {
            let later = &["a", "b", "c"][at.min(3)..];
            let target = match rng.below(8) {
                0 | 1 => "-j ACCEPT".to_owned(),
                2 => "-j DROP".to_owned(),
                3 => "-j RETURN".to_owned(),
                4 => "-j LOG --log-level 4".to_owned(),
                5 if !later.is_empty() => format!("-g {}", later[rng.below(later.len())]),
                _ if !later.is_empty() => format!("-j {}", later[rng.below(later.len())]),
                _ => "-j REJECT".to_owned(),
            };
            text.push_str(&format!("-A {chain} {} {target}\n", condition(rng)));
        }
    }
    text + "COMMIT\n"
}

/// Returns packets of every kind that the conditions tell apart.
fn packets() -> Vec<Vec<Option<u128>>> {
    let mut all = Vec::new();
    for src in 0..5u128 {
        for ttl in [0, 1, 64] {
            let base = |proto: u128, fragment: u128| {
                let mut values = vec![None; crate::native::INET.len()];
                (values[0], values[1], values[4]) = (Some(0x0A00_0000 + src), Some(7), Some(proto));
                (values[11], values[12], values[13], values[14]) = (Some(fragment), Some(0), Some(ttl), Some(60));
                values
            };
            for proto in [1, 6, 17, 50] {
                all.push(base(proto, 2));
            }
            all.push(base(50, 0));
            for (of_type, code) in [(3, 0), (3, 1), (3, 2), (8, 0), (0, 0)] {
                let mut values = base(1, 0);
                (values[5], values[6]) = (Some(of_type), Some(code));
                all.push(values);
            }
            for (sport, dport) in [(1, 1), (2, 3), (3, 2), (4, 4), (9, 3)] {
                let mut values = base(17, 1);
                (values[2], values[3]) = (Some(sport), Some(dport));
                all.push(values.clone());
                for flags in [0, 2, 3, 0x12, 0x10] {
                    (values[4], values[7]) = (Some(6), Some(flags));
                    all.push(values.clone());
                }
            }
        }
    }
    all
}

#[test]
fn lists_are_the_chains() {
    let mut rng = Rng::new(1);
    let packets = packets();
    let (mut rules, mut read) = (0, 0);
    for round in 0..300 {
        let text = file(&mut rng);
        let options = Options { format: Some(Format::Iptables), max_warnings: 0, ..all_fields(view(Hook::Input)) };
        let list = parse(&text, &options).unwrap_or_else(|error| panic!("{text}\n{error}"));
        let mut report = Report::new(&text, &options);
        let hooks = iptables::read(&text, Family::Ipv4, &Import::default(), &mut report);
        (rules, read) = (rules + list.rules.len(), read + text.matches("-A ").count());
        for values in &packets {
            let expected = walk(&hooks, 0, values).unwrap_or(hooks.bases[0].policy);
            assert_eq!(verdict(&list, Family::Ipv4, values), expected.to_string(), "{round}: {values:?}\n{text}");
        }
    }
    assert!(rules > 500 && read > 2000, "{rules} rules of {read} lines");
}

/// Sets of chains that double at each level, and returns that cut into too many pieces, have a fault with their line.
#[test]
fn what_grows_too_much_has_a_fault() {
    let mut text = String::from("*filter\n:INPUT DROP [0:0]\n");
    (0..24).for_each(|level| text.push_str(&format!(":c{level} - [0:0]\n")));
    text.push_str("-A INPUT -j c0\n");
    for level in 0..23 {
        for twice in 0..2 {
            text.push_str(&format!(
                "-A c{level} -s 10.{twice}.{level}.0/24 -j RETURN\n-A c{level} -j c{}\n",
                level + 1
            ));
        }
    }
    text.push_str("-A c23 -p tcp -j ACCEPT\nCOMMIT\n");
    let error = parse(&text, &view(Hook::Input)).expect_err("too many rules");
    assert!(error.to_string().contains("as one list, the chains are more than"), "{error}");
    assert!(error.to_string().contains("fewer returns, most of all in the chain `c"), "{error}");
}
