//! Tables and trees of the thesis, worked out by hand.

use super::*;
use crate::engines::interval_tree::shape::Node;

/// Table 4.1: two rules over the 5-tuple.
fn table_4_1() -> Lowered {
    let range = |field, lo, hi| (field, Test::Range { lo, hi });
    let value = |field, value| (field, Test::Value(value));
    let rules = [
        vec![range(2, 600, 610), value(3, 80), value(4, 6)],
        vec![range(2, 1000, 1024), range(3, 1024, 65_535), value(4, 6)],
    ];
    set(&Schema::ipv4(), rules)
}

/// Returns the intervals of a word, each with its rules.
fn intervals(engine: &Npf, word: usize) -> Vec<(u32, Vec<u32>)> {
    let read = engine.read.iter().position(|&read| read == word);
    let all = || (0..engine.matches.len() as u32).collect();
    let word = &engine.words[word];
    let of = |set: u32| read.map_or_else(all, |read| engine.sets.products(read, set));
    word.starts.iter().zip(&word.sets).map(|(&start, &set)| (start, of(set))).collect()
}

/// Intervals and sets are those of Tables 4.1 and 4.2, and absent ports have an interval of their own.
#[test]
fn table_4_1_has_its_intervals_and_balanced_trees() {
    for config in [Config::default(), Config::paper()] {
        let engine = build(&table_4_1(), &config);
        let sport = [(0, vec![]), (600, vec![0]), (611, vec![]), (1000, vec![1]), (1025, vec![])];
        let dport = [(0, vec![]), (80, vec![0]), (81, vec![]), (1024, vec![1]), (65_536, vec![])];
        assert_eq!(intervals(&engine, 2), sport);
        assert_eq!(intervals(&engine, 3), dport);
        assert_eq!(intervals(&engine, 4), [(0, vec![]), (6, vec![0, 1]), (7, vec![])]);
        assert_eq!([intervals(&engine, 0), intervals(&engine, 1)], [[(0, vec![0, 1])], [(0, vec![0, 1])]]);
        let scratch = engine.new_scratch();
        let trees: Vec<_> = scratch.shapes.iter().map(|tree| (tree.root, tree.height())).collect();
        assert_eq!(trees, [(0, 0), (0, 0), (2, 2), (2, 2), (1, 1)]);
        let text = Engine::structure(&engine).expect("it describes itself");
        assert!(text.contains("word 4: 0-5 {} 6 {1 2} 7-255 {}\n"), "{text}");
    }
}

/// Packets find their rules after five trees, or none after four.
#[test]
fn packets_of_table_4_1_search_as_many_trees_as_they_must() {
    for config in [Config::default(), Config::paper()] {
        let engine = build(&table_4_1(), &config);
        let mut scratch = engine.new_scratch();
        for (ports, rule, trees) in [
            ([600, 80], Some(1), 5),
            ([1024, 80], None, 4),
            ([1024, 2000], Some(2), 5),
            ([600, 2000], None, 4),
            ([1000, 80], None, 4),
        ] {
            let walk = engine.walk(&mut scratch, &[7, 9, ports[0], ports[1], 6]);
            let found =
                walk.found.map(|found| engine.matches.iter().position(|one| *one == found).expect("a rule") + 1);
            assert_eq!((found, walk.edges.len()), (rule, trees), "{ports:?}");
            let all = build(&table_4_1(), &Config { bypass: false, ..config.clone() });
            let walk = all.walk(&mut all.new_scratch(), &[7, 9, ports[0], ports[1], 6]);
            assert_eq!((walk.found.is_some(), walk.edges.len()), (rule.is_some(), 5));
        }
    }
}

/// A rule that covers another in one field is not overwritten there, because the other may fail elsewhere.
#[test]
fn a_rule_behind_another_keeps_its_intervals() {
    let rules =
        [vec![(2, Test::Range { lo: 80, hi: 90 }), (3, Test::Value(1))], vec![(2, Test::Range { lo: 85, hi: 100 })]];
    let set = set(&Schema::ipv4(), rules);
    for config in configs() {
        let engine = build(&set, &config);
        assert_eq!(engine.walk(&mut engine.new_scratch(), &[0, 0, 87, 2, 0]).found, Some(engine.matches[1]));
    }
}

const STARTS: [u32; 5] = [0, 10, 20, 30, 40];

pub(super) fn shape(starts: &[u32], config: &Config) -> Shape {
    Shape::new(starts, config)
}

fn popularities(shape: &Shape) -> Vec<u32> {
    shape.nodes.iter().map(|node| node.popularity).collect()
}

fn children(shape: &Shape, at: usize) -> [u32; 2] {
    shape.nodes[at].children
}

/// Looks a key up, counts it, and returns the edges.
fn hit(shape: &mut Shape, starts: &[u32], key: u32) -> u32 {
    let mut sums = vec![0; starts.len() + 1];
    let walked = shape.find(starts, key, true, &mut sums);
    assert_eq!([walked.interval], halve(starts, &[key]));
    walked.edges
}

/// A node is turned at the hit with which it takes the lead over its parent, and at most once per hit.
#[test]
fn a_popular_node_rises() {
    let mut tree = shape(&STARTS, &Config::paper());
    assert_eq!((tree.root, popularities(&tree)), (2, vec![0, 1, 4, 0, 1]));
    assert_eq!([1, 2, 4].map(|at| children(&tree, at)), [[0, NONE], [1, 4], [3, NONE]]);
    for popularity in [2, 3, 4] {
        assert_eq!(hit(&mut tree, &STARTS, 45), 1);
        assert_eq!((popularities(&tree), tree.counters().rotations), (vec![0, 1, 4, 0, popularity], 0));
    }
    hit(&mut tree, &STARTS, 45);
    assert_eq!((tree.root, children(&tree, 4), children(&tree, 2)), (4, [2, NONE], [1, 3]));
    assert_eq!((tree.counters().rotations, tree.counters().edges), (1, 4));
    (0..4).for_each(|_| assert_eq!(hit(&mut tree, &STARTS, 45), 0));
    in_order(&tree);
}

/// The threshold is the lead that a node needs.
#[test]
fn a_threshold_of_ten_waits_for_a_lead_of_ten() {
    let mut tree = shape(&STARTS, &Config { threshold: 10, ..Config::paper() });
    (0..12).for_each(|_| assert_eq!(hit(&mut tree, &STARTS, 45), 1));
    assert_eq!(tree.counters().rotations, 0);
    hit(&mut tree, &STARTS, 45);
    assert_eq!((tree.counters().rotations, tree.root), (1, 4));
}

/// A node whose hits are far above its parent's is turned, too; a test for equality would never turn it.
#[test]
fn a_node_beyond_the_threshold_rises() {
    let mut tree = shape(&STARTS, &Config::paper());
    (tree.nodes[4].popularity, tree.nodes[2].popularity) = (5, 2);
    hit(&mut tree, &STARTS, 45);
    assert_eq!((popularities(&tree)[4], tree.root), (6, 4));
}

/// A node under a grandparent is linked to it on the side of its parent.
#[test]
fn a_rotation_below_the_root_keeps_all_links() {
    for (at, parent, key) in [(0u32, 1u32, 5), (3, 4, 35)] {
        let mut tree = shape(&STARTS, &Config::paper());
        (0..2).for_each(|_| _ = hit(&mut tree, &STARTS, key));
        assert_eq!((tree.root, tree.counters().rotations), (2, 1));
        assert_eq!(tree.nodes[2].children[usize::from(at > 2)], at);
        assert!(children(&tree, at as usize).contains(&parent));
        in_order(&tree);
    }
}

/// With counters of subtrees, a node is turned if the rising part was hit more than the sinking part.
#[test]
fn subtrees_turn_where_more_rises_than_sinks() {
    let config = Config { turns: Turns::Subtrees, ..Config::paper() };
    let mut tree = shape(&STARTS, &config);
    // The root counts 4, node 4 counts 1, of which its inner child has 0: rising 2 against sinking 3.
    assert_eq!(hit(&mut tree, &STARTS, 45), 1);
    assert_eq!((tree.counters().rotations, popularities(&tree)), (0, vec![0, 1, 5, 0, 2]));
    // 3 against 3 is no lead; 4 against 3 is.
    hit(&mut tree, &STARTS, 45);
    assert_eq!(tree.counters().rotations, 0);
    hit(&mut tree, &STARTS, 45);
    assert_eq!((tree.counters().rotations, tree.root), (1, 4));
    assert_eq!(popularities(&tree), [0, 1, 3, 0, 7]);
    in_order(&tree);
    sums_hold(&tree);
}

/// A node between its parent and its grandparent is turned above both, though its parent alone was hit more.
#[test]
fn inner_nodes_turn_twice() {
    let config = Config { turns: Turns::Subtrees, ..Config::paper() };
    let mut tree = shape(&STARTS, &config);
    (tree.nodes[2].popularity, tree.nodes[3].popularity, tree.nodes[4].popularity) = (12, 4, 10);
    // Above node 4, 5 hits would rise and 6 sink; above the root, too, 10 levels of hits rise and 2 sink.
    assert_eq!(hit(&mut tree, &STARTS, 35), 2);
    assert_eq!((tree.counters().rotations, tree.root, children(&tree, 3)), (2, 3, [2, 4]));
    assert_eq!(popularities(&tree), [0, 1, 2, 13, 6]);
    in_order(&tree);
    sums_hold(&tree);
}

/// A reconstruction sets root, children and counters by the weights.
#[test]
fn a_reconstruction_is_that_worked_out_by_hand() {
    for turns in [Turns::Popularity, Turns::Subtrees] {
        let mut tree = shape(&STARTS, &Config { turns, ..Config::defended() });
        tree.nodes.iter_mut().for_each(|node| node.popularity = 0);
        tree.nodes[2].popularity = 8;
        tree.reconstruct(&mut [0; 6]);
        assert_eq!((tree.root, popularities(&tree)), (2, vec![0, 1, 6, 0, 1]));
        assert_eq!([1, 2, 4].map(|at| children(&tree, at)), [[0, NONE], [1, 4], [3, NONE]]);
        assert_eq!(tree.counters().reconstructions, 1);
    }
}

/// A tree is rebuilt by given weights, and a frozen scratch turns no tree.
#[test]
fn weights_make_trees_that_stay() {
    for config in [Config::paper(), Config::default()] {
        let engine = build(&table_4_1(), &config);
        let (mut scratch, key) = (engine.new_scratch(), [7, 9, 610, 80, 6]);
        assert_eq!(engine.walk(&mut scratch, &key).edges, [0, 0, 1, 1, 0]);
        scratch.freeze(true);
        scratch.rebuild(2, &[0, 9, 1, 1, 1]);
        for _ in 0..100 {
            assert_eq!(engine.walk(&mut scratch, &key).edges, [0, 0, 0, 1, 0]);
        }
        assert_eq!((scratch.shapes[2].root, scratch.shapes[3].root), (1, 2));
        scratch.freeze(false);
        (0..100).for_each(|_| _ = engine.walk(&mut scratch, &key));
        assert_eq!(scratch.shapes[3].root, 1);
    }
}

/// A walk that meets the cap halves instead, counts nothing, and makes a reconstruction due.
#[test]
fn a_capped_walk_of_a_list_takes_the_stated_steps() {
    let mut tree = shape(&STARTS, &Config::defended());
    for (at, node) in tree.nodes.iter_mut().enumerate() {
        *node = Node { children: [NONE, if at < 4 { at as u32 + 1 } else { NONE }], ..*node };
    }
    (tree.root, tree.cap) = (0, 2);
    let before = popularities(&tree);
    for (key, depth) in [(45, 4), (35, 3), (25, 2), (0, 0)] {
        let walked = tree.find(&STARTS, key, depth > 2, &mut [0; 6]);
        let steps = walked.edges + 1 + if walked.is_capped { halvings(5) } else { 0 };
        assert_eq!((walked.interval, walked.is_capped), (key / 10, depth > 2));
        assert_eq!(steps, if depth > 2 { 2 + 1 + 3 } else { depth + 1 });
    }
    assert_eq!((popularities(&tree), tree.counters().capped, tree.is_due), (before, 2, true));
}

/// Counters neither overflow nor lose their order when they are full, and are halved then.
#[test]
fn full_counters_are_halved() {
    let mut tree = shape(&STARTS, &Config::paper());
    tree.nodes[2].popularity = u32::MAX;
    (0..3).for_each(|_| assert_eq!(hit(&mut tree, &STARTS, 25), 0));
    assert_eq!(popularities(&tree), [0, 0, (u32::MAX / 2) + 2, 0, 0]);
    let mut sums = shape(&STARTS, &Config { turns: Turns::Subtrees, ..Config::paper() });
    (sums.nodes[2].popularity, sums.nodes[1].popularity) = (u32::MAX - 1, 7);
    (0..3).for_each(|_| assert_eq!(hit(&mut sums, &STARTS, 25), 0));
    assert_eq!(popularities(&sums), [0, 3, u32::MAX / 2 + 2, 0, 0]);
    assert_eq!(sums.counters().halvings, 1);
}

/// If all packets have one header, a lookup visits one node per word.
#[test]
fn one_header_for_ever_is_at_the_roots() {
    for config in [Config::paper(), Config::default()] {
        let engine = build(&table_4_1(), &config);
        let mut scratch = engine.new_scratch();
        (0..400).for_each(|_| _ = engine.walk(&mut scratch, &[7, 9, 600, 80, 6]));
        assert_eq!(engine.walk(&mut scratch, &[7, 9, 600, 80, 6]).edges, [0; 5], "{config:?}");
    }
}
