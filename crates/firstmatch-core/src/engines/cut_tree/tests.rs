//! Worked values of the dissertation, corners, budgets, layouts and overlapping regions.

use super::boxes::{Ranges, Side};
use super::build::{Grown, grow};
use super::choose::{Cut, Node, reached};
use super::config::NODE_BYTES;
use super::structure::NO_LIST;
use super::*;
use crate::engine::budget::{Budget, Visits};
use crate::engine::tests::{agrees as check, keys_of, sets};
use crate::engine::{Overlaps, Probe};
use crate::engines::linear::{self, Linear};
use crate::key::KeyBuf;
use crate::raw::Level;
use crate::rule::Test;
use crate::schema::{Field, Kind};
use crate::test_rules::set;

fn build(set: &Lowered, config: &Config) -> CutTree {
    CutTree::build(set, config).expect("no budget")
}

/// Table 3.1 of the dissertation: source and destination ports of six rules, two words of four bits.
fn table_3_1() -> Lowered {
    let field = |name| Field::new(name, 4, Kind::Range, None);
    let rules = [
        [(1, 3), (12, 14)],
        [(10, 11), (6, 13)],
        [(8, 9), (0, 15)],
        [(0, 15), (2, 6)],
        [(1, 6), (1, 10)],
        [(10, 11), (1, 2)],
    ];
    let rule = |[sport, dport]: [(u128, u128); 2]| {
        [(0, sport), (1, dport)].map(|(field, (lo, hi))| (field, Test::Range { lo, hi })).to_vec()
    };
    set(&Schema::new(None, vec![field("sport"), field("dport")]), rules.map(rule))
}

/// All packets of Table 3.1.
fn all_packets() -> KeyBuf {
    let mut keys = KeyBuf::new(table_3_1().schema());
    (0..256).for_each(|at| keys.push()[..2].copy_from_slice(&[at / 16, at % 16]));
    keys
}

/// Section 3.3.2, Figures 3.7 and 3.8: the printed cuts give the printed tree of four levels, whose upper and lower
/// halves are a page each.
#[test]
fn the_tree_of_table_3_1() {
    let set = table_3_1();
    let cuts = vec![vec![(0, 2), (1, 1)], vec![(0, 1)], vec![(1, 1)]];
    let config =
        Config { binth: 2, cuts, layout: Layout::VanEmdeBoas, page_bytes: 9 * NODE_BYTES, ..Config::default() };
    let engine = build(&set, &config);
    let below = "[sport/2: {r3 r4} [dport/2: {r4 r6} {r2 r4}]]";
    let whole = format!("[sport/4 dport/2: {{r4 r5}} {{r1 r5}} {{r4 r5}} {{r5}} {below} {{r2 r3}} {{r4}} {{}}]\n");
    assert_eq!(Engine::structure(&engine), Some(whole));
    let stats = Engine::stats(&engine);
    assert_eq!(["height", "nodes"].map(|name| stats.counts.get(name)), [Some(4), Some(13)]);
    let pages = |key: [u32; 2]| {
        let mut keys = KeyBuf::new(set.schema());
        keys.push()[..2].copy_from_slice(&key);
        let mut best = [None];
        let counts = engine.count(&mut (), &keys.keys(), &mut best);
        (best[0].map(|found| found.rule.slot() + 1), counts.get("node pages"))
    };
    // Both packets match rule 4; the packet of the figure goes through the oversized cell.
    assert_eq!((pages([10, 5]), pages([0, 3])), ((Some(4), Some(2)), (Some(4), Some(1))));
    check(&engine, &set, &all_packets(), "all packets");
}

/// The number of a cell is the concatenation of its parts, with the first cut most significant.
#[test]
fn regions_reach_the_cells_that_they_touch() {
    let set = table_3_1();
    let ranges = Ranges::new(&set);
    let (sides, cuts) = (ranges.whole(), [Cut { word: 0, bits: 2 }, Cut { word: 1, bits: 1 }]);
    let mut cells = vec![Vec::new(); 8];
    for rank in 0..6 {
        reached(&ranges, rank, &sides, &cuts, |cell| cells[cell].push(rank + 1));
    }
    // Four parts of the source port times two of the destination port.
    let want: [&[u32]; 8] = [&[4, 5], &[1, 5], &[4, 5], &[5], &[2, 3, 4, 6], &[2, 3], &[4], &[]];
    assert_eq!(cells, want);
}

/// No cut separates regions that are equal in all words, and a node takes the words with the most intervals.
#[test]
fn cuts_take_the_words_that_differ_most() {
    let set = table_3_1();
    let ranges = Ranges::new(&set);
    let (list, visits) = ((0..6).collect::<Vec<u32>>(), Visits::default());
    let cuts = |config: &Config, list: &[u32]| {
        Node { ranges: &ranges, list, sides: &ranges.whole(), config, visits: &visits }.cuts()
    };
    // Five source and six destination intervals: the mean is 5.5.
    let hyper = Config { binth: 2, ..Config::paper(Method::HyperCuts) };
    let found = cuts(&hyper, &list);
    assert!(found.len() == 1 && found[0].word == 1, "{found:?}");
    let hi = Config { binth: 2, ..Config::paper(Method::HiCuts) };
    assert_eq!(cuts(&hi, &list).len(), 1);
    assert!(cuts(&hi, &list[..1]).is_empty());
}

/// Cells with equal lists share a subtree only if the regions lie in them in the same way.
#[test]
fn equal_lists_are_not_equal_subtrees() {
    let field = |name| Field::new(name, 4, Kind::Range, None);
    let rules = (1..4).map(|at| vec![(0, Test::Range { lo: at, hi: at + 7 })]);
    let set = set(&Schema::new(None, vec![field("a"), field("b")]), rules);
    let cuts = vec![vec![(0, 1)], vec![(0, 2)], vec![(0, 2)]];
    let config = Config { binth: 1, trees: 1, zoom: false, compact: false, cuts, ..Config::default() };
    let engine = build(&set, &config);
    let text = Engine::structure(&engine).expect("a text");
    assert!(text.starts_with("[a/2: [") && text.contains("] ["), "{text}");
    check(&engine, &set, &all_packets(), "equal lists");
}

/// Given cuts are taken if the box has the words and bits; other cuts are chosen.
#[test]
fn given_cuts_need_words_and_bits() {
    let set = table_3_1();
    for (given, expected) in
        [("0:9", "[sport/16: "), ("1:1+1:2", "[dport/2: "), ("7:1", "{r1 r2 r3 r4 r5 r6}"), ("0:0", "{r1 r2 ")]
    {
        let mut config = Config { binth: 2, ..Config::default() };
        options::configure(OPTIONS, &[("cuts".into(), given.into())], &mut config).expect("cuts");
        let engine = build(&set, &config);
        let text = Engine::structure(&engine).expect("a text");
        assert!(text.starts_with(expected), "{given}: {text}");
        check(&engine, &set, &all_packets(), given);
    }
    for bad in ["", "0", "0:1,", "a:1", "0:-1"] {
        let error = options::configure(OPTIONS, &[("cuts".into(), bad.into())], &mut Config::default());
        assert!(error.expect_err("no cuts").to_string().contains("is not cuts by node, such as"), "{bad}");
    }
}

#[test]
fn sides_are_aligned() {
    assert_eq!(Side::around(5, 6), Side { base: 4, bits: 2 });
    assert_eq!(Side::around(7, 7), Side { base: 7, bits: 0 });
    assert_eq!(Side::around(0, u32::MAX), Side { base: 0, bits: 32 });
    let side = Side { base: 16, bits: 3 };
    assert_eq!(
        (side.last(), side.part(1, 1), side.part(3, 7)),
        (23, Side { base: 20, bits: 2 }, Side { base: 23, bits: 0 })
    );
    assert_eq!(side.clip((3, 18)), (16, 18));
}

/// Section 3.3.4.
#[test]
fn the_access_model_is_that_of_the_dissertation() {
    let of = |tree_depth, page_depth, line_depth, page_time, line_time| AccessModel {
        tree_depth,
        page_depth,
        line_depth,
        page_time,
        line_time,
    };
    let times = |model: AccessModel, cached| (model.cold(), model.warm(cached));
    assert_eq!(times(of(4, 2, 1, 100.0, 10.0), 2), (240.0, 120.0));
    assert_eq!(times(of(12, 4, 2, 30.0, 80.0), 6), (570.0, 300.0));
    assert_eq!(times(of(1, 1, 1, 30.0, 80.0), 1), (110.0, 0.0));
    // 2 MiB have 131,072 nodes of 16 bytes.
    assert_eq!((2 << 20) / NODE_BYTES, 131_072);
}

/// Returns configurations that take every path of build and lookup.
fn configs() -> Vec<(&'static str, Config)> {
    let hyper = Config { binth: 2, extra_bytes: 8 << 20, ..Config::default() };
    let hicuts = Config { method: Method::HiCuts, ..hyper.clone() };
    vec![
        ("defaults", Config::default()),
        ("paper hicuts", Config::paper(Method::HiCuts)),
        ("paper hypercuts", Config::paper(Method::HyperCuts)),
        ("hicuts", hicuts.clone()),
        (
            "most unique, nothing of ours",
            Config { dimension: Dimension::MostUnique, compact: false, merge: false, zoom: false, trees: 1, ..hicuts },
        ),
        ("push", Config { push: true, min_push: 1, growth: 16.0, ..hyper.clone() }),
        (
            "push, interleaved",
            Config { push: true, min_push: 1, growth: 16.0, walk: Walk::Interleaved, ..hyper.clone() },
        ),
        ("covered", Config { remove_covered: true, ..hyper.clone() }),
        ("little memory", Config { extra_bytes: 0, region_bytes: 1, ..hyper.clone() }),
        ("little work", Config { visits: 2, ..hyper.clone() }),
        ("interleaved", Config { walk: Walk::Interleaved, ..hyper }),
    ]
}

#[test]
fn every_configuration_answers_as_linear_search() {
    for (number, set) in sets().iter().enumerate() {
        let keys = keys_of(set);
        for (name, config) in configs() {
            for level in Level::available() {
                let engine = build(set, &Config { simd: Some(level), ..config.clone() });
                check(&engine, set, &keys, &format!("set {number}, {name}, {level:?}"));
            }
        }
    }
}

/// Layouts move nodes and nothing else: the same nodes with the same lists, and the same answers.
#[test]
fn layouts_are_permutations_of_the_nodes() {
    let layouts = [
        Layout::AsBuilt,
        Layout::BreadthFirst,
        Layout::DepthFirst,
        Layout::VanEmdeBoas,
        Layout::Pages,
        Layout::PagesAndLines,
    ];
    for set in &sets()[..3] {
        let mut all: Vec<Vec<(u64, Vec<u32>)>> = Vec::new();
        for layout in layouts {
            let config = Config { binth: 2, layout, page_bytes: 256, extra_bytes: 8 << 20, ..Config::default() };
            let engine = build(set, &config);
            check(&engine, set, &keys_of(set), &format!("{layout:?}"));
            let count = engine.nodes.len() as u32 * 4;
            let nodes = (0..count).map(|index| {
                let node = engine.node(index);
                let list = if node[1] == NO_LIST { Vec::new() } else { engine.list(node[1]) };
                (u64::from(node[2]) | u64::from(node[3]) << 32, list)
            });
            // Places without a node look like leaves without a list.
            let mut nodes: Vec<_> = nodes.filter(|(cuts, list)| *cuts != 0 || !list.is_empty()).collect();
            nodes.sort_unstable();
            all.push(nodes);
        }
        assert!(all[0].len() > 20 && all.iter().all(|nodes| *nodes == all[0]));
    }
}

/// Page blocking keeps walks in fewer pages than breadth first, and line blocking in fewer lines where nodes are cut in
/// two.
#[test]
fn blocks_save_pages_and_lines() {
    let set = &sets()[1];
    let keys = keys_of(set);
    let counted = |layout, config: Config| {
        let engine = build(set, &Config { layout, page_bytes: 1024, extra_bytes: 8 << 20, ..config });
        let counts = engine.count(&mut (), &keys.keys(), &mut vec![None; keys.len()]);
        ["node lines", "node pages", "nodes"].map(|name| counts.get(name).expect("it is counted"))
    };
    let narrow =
        Config { method: Method::HiCuts, binth: 1, space_factor: 2.0, zoom: false, trees: 1, ..Config::default() };
    let [breadth, pages, lines] =
        [Layout::BreadthFirst, Layout::Pages, Layout::PagesAndLines].map(|layout| counted(layout, narrow.clone()));
    assert!(breadth[2] == pages[2] && pages[2] == lines[2], "the same walks: {breadth:?}, {pages:?}, {lines:?}");
    assert!(pages[1] * 10 <= breadth[1] * 9, "{breadth:?}, {pages:?}");
    assert!(lines[0] <= breadth[0], "{breadth:?}, {lines:?}");
    // Trees that fill their cap have left room for the gaps.
    let [breadth, pages] = [Layout::BreadthFirst, Layout::Pages].map(|layout| {
        let capped = Config { extra_bytes: 0, region_bytes: 400, layout, page_bytes: 1024, ..narrow.clone() };
        let engine = build(set, &capped);
        assert!(Engine::stats(&engine).counts.get("cuts without room") > Some(0));
        let counts = engine.count(&mut (), &keys.keys(), &mut vec![None; keys.len()]);
        ["node pages", "nodes"].map(|name| counts.get(name).expect("it is counted") as f64)
    });
    assert!(pages[0] / pages[1] < 0.9 * breadth[0] / breadth[1], "{breadth:?}, {pages:?}");
}

/// Any number of rules that no cut separates are one leaf. Ports of a small range are separated from a wildcard.
#[test]
fn corners() {
    let schema = Schema::ipv4();
    let same = vec![vec![(3, Test::Range { lo: 5, hi: 9 })]; 3000];
    let all = set(&schema, same);
    let engine = build(&all, &Config::default());
    let stats = Engine::stats(&engine);
    assert_eq!((stats.longest_bucket, stats.worst_tests, stats.tables), (3000, 3000, 1));
    check(&engine, &all, &keys_of(&all), "equal rules");
    let last = engine.count(&mut (), &keys_of(&all).keys().slice(0, 1), &mut [None]);
    assert_eq!(last.get("tests"), Some(3000), "a key that no rule holds passes 375 blocks");

    let ports = (1..=200).map(|port| vec![(3, Test::Value(port))]).chain([vec![]]);
    let all = set(&schema, ports);
    let longest =
        |zoom| Engine::stats(&build(&all, &Config { zoom, space_factor: 1.0, ..Config::default() })).longest_bucket;
    assert!(longest(true) <= 17, "{}", longest(true));

    for rules in [vec![], vec![vec![]], vec![vec![], vec![]]] {
        let all = set(&schema, rules);
        let engine = build(&all, &Config::default());
        check(&engine, &all, &keys_of(&all), "few rules");
    }
}

/// Packets without a port take the path of the largest port, and rules for all ports do not hold them.
#[test]
fn absent_fields_reach_their_rules() {
    let schema = Schema::ipv4();
    let mut rules: Vec<Vec<(usize, Test)>> =
        (0..60).map(|at| vec![(2, Test::Range { lo: 65_500, hi: 65_535 }), (0, Test::Value(at))]).collect();
    rules.push(vec![(2, Test::Range { lo: 0, hi: 65_535 })]);
    rules.push(vec![(4, Test::Value(1))]);
    rules.push(vec![]);
    let all = set(&schema, rules);
    let mut keys = KeyBuf::new(&schema);
    for (src, sport, proto) in
        [(1, 65_535, 6), (1, 65_536, 6), (1, 65_536, 1), (70, 65_536, 1), (70, 3, 1), (70, 65_535, 17)]
    {
        keys.push()[..5].copy_from_slice(&[src, 0, sport, 65_536, proto]);
    }
    for (name, config) in configs() {
        check(&build(&all, &config), &all, &keys, name);
    }
}

/// A budget is kept to the byte. A build fails only if a single list exceeds it, and the error has both numbers.
#[test]
fn no_budget_makes_a_build_fail_but_one_below_a_lone_list() {
    let all = &sets()[1];
    let with = |run_bytes, config: Config| CutTree::build(all, &Config { budget: Budget { run_bytes }, ..config });
    for (name, config) in configs() {
        let error = with(0, config.clone()).expect_err("no room");
        let (least, _) = error.bytes_needed().expect("both numbers");
        assert!(with(least - 1, config.clone()).is_err(), "{name}");
        for run_bytes in [least, least + 64, least * 3 / 2, least * 4] {
            let engine = with(run_bytes, config.clone()).expect("enough for a list");
            assert!(Engine::stats(&engine).total_bytes() <= run_bytes, "{name}");
            check(&engine, all, &keys_of(all), name);
        }
    }
}

/// Every region is in some leaf below its node, unless it is kept at an inner node or an alias serves its cell.
#[test]
fn growing_bounds_its_work() {
    let all = &sets()[1];
    let ranges = Ranges::new(all);
    let grown = |most| -> (Grown, usize) {
        let visits = Visits::new(most);
        let grown = grow(&ranges, &Config { binth: 1, ..Config::default() }, 64 << 20, 384, &visits);
        (grown, visits.made())
    };
    let (free, made) = grown(usize::MAX);
    assert!(!free.is_cut_short && made > 10 * all.regions().len(), "{made}");
    let (short, less) = grown(made / 16);
    assert!(short.is_cut_short && less < made / 2, "{less} of {made}");
}

/// The trees and `linear` visit the same overlapping regions as a scan, each once and only up to the bound.
#[test]
fn overlapping_regions_are_those_of_a_scan() {
    let mut found_many = 0;
    for (number, all) in sets().iter().enumerate() {
        let keys = keys_of(all);
        let linear = Linear::build(all, &linear::Config::default()).expect("no budget");
        for (name, config) in configs().into_iter().filter(|(_, config)| !config.remove_covered) {
            let engine = build(all, &config);
            for at in (0..keys.len() - 1).step_by(1 + keys.len() / 40) {
                let [one, other] = [at, at + 1].map(|at| &keys.keys().row(at)[..5]);
                let lo: Vec<u32> = one.iter().zip(other).map(|(a, b)| *a.min(b)).collect();
                let hi: Vec<u32> = one.iter().zip(other).map(|(a, b)| *a.max(b)).collect();
                let below = (at % 3 == 0).then(|| all.rules()[at % all.rules().len()].priority.0);
                let probe = Probe { below, ..Probe::new(&lo, &hi) };
                let in_order = |found: &mut Vec<(u64, Vec<u32>)>| found.sort_unstable();
                let mut want: Vec<(u64, Vec<u32>)> = (0..all.regions().len())
                    .filter(|&index| {
                        probe.takes(all.rules()[index].priority.0) && probe.overlaps(&all.regions().get(index))
                    })
                    .map(|index| (all.rules()[index].priority.0, all.regions().get(index).lo.to_vec()))
                    .collect();
                in_order(&mut want);
                for searched in [&engine as &dyn Overlaps, &linear] {
                    let (mut found, mut cursor, mut own) = (Vec::new(), Some(0), probe.clone());
                    while let Some(from) = cursor {
                        cursor = searched.visit(&mut own, from, 50, &mut |_, rule, region| {
                            found.push((rule.priority.0, region.lo.to_vec()));
                        });
                    }
                    in_order(&mut found);
                    assert_eq!(found, want, "set {number}, {name}");
                }
                found_many += usize::from(want.len() > 3);
            }
        }
    }
    assert!(found_many > 100, "{found_many}");
}

/// The region of a rule that holds a key is found, and none of another rule.
#[test]
fn a_rule_is_at_home_where_it_matches() {
    let all = &sets()[1];
    let engines: [Box<dyn Overlaps>; 2] = [
        Box::new(build(all, &Config { binth: 4, ..Config::default() })),
        Box::new(Linear::build(all, &linear::Config::default()).expect("no budget")),
    ];
    for engine in engines {
        for index in (0..all.regions().len()).step_by(17) {
            let region = all.regions().get(index);
            let mut probe = Probe::new(&[0; 5], &[0; 5]);
            assert!(engine.home(all.rules()[index], region.lo, &mut probe));
            assert_eq!((&probe.lo[..], &probe.hi[..]), (region.lo, region.hi));
            let outside: Vec<u32> = region.lo.iter().map(|value| value ^ 1 << 16).collect();
            assert_eq!(engine.home(all.rules()[index], &outside, &mut probe), region.contains(&outside));
        }
    }
}
