//! The public steps of a lookup.

use super::*;

/// Trees of one word each, and their intersection, give the answers of a whole walk.
#[test]
fn trees_of_one_word_answer_as_a_whole_walk() {
    for (number, set) in sets().iter().enumerate() {
        let keys = keys_of(set);
        for config in configs() {
            let engine = build(set, &config);
            let (mut scratch, mut decider) = (engine.new_scratch(), engine.decider());
            let mut trees: Vec<WordTree> = (0..5).map(|word| engine.word_tree(word)).collect();
            for at in (0..keys.len()).step_by(3) {
                let key = &keys.keys().row(at)[..5];
                let find = |(tree, &value): (&mut WordTree, &u32)| engine.find(tree, value);
                let handles: Vec<u32> = trees.iter_mut().zip(key).map(find).collect();
                let want = engine.walk(&mut scratch, key).found;
                assert_eq!(engine.decide(&mut decider, &handles, key), want, "set {number}, {config:?}, {key:?}");
            }
            for tree in &trees {
                assert_eq!(tree.shape().is_some(), config.adapts);
                tree.shape().into_iter().for_each(in_order);
            }
        }
    }
}

/// A tree of one word has the same rotations, edges and reconstructions as in whole lookups that never stop early.
#[test]
fn a_tree_of_one_word_turns_as_that_of_a_scratch() {
    let set = &sets()[1];
    let keys = keys_of(set);
    for base in [Config::paper(), Config::defended(), Config::default()] {
        let engine = build(set, &Config { bypass: false, ..base });
        let mut scratch = engine.new_scratch();
        let mut trees: Vec<WordTree> = (0..5).map(|word| engine.word_tree(word)).collect();
        for at in (0..keys.len()).chain(0..keys.len()) {
            let key = &keys.keys().row(at)[..5];
            engine.walk(&mut scratch, key);
            for (tree, &value) in trees.iter_mut().zip(key) {
                engine.find(tree, value);
            }
        }
        for (word, tree) in trees.iter().enumerate() {
            let (own, whole) = (tree.shape().expect("it turns"), scratch.shape(word).expect("it turns"));
            assert_eq!(own.counters(), whole.counters(), "word {word}");
            assert_eq!(own.depths(), whole.depths(), "word {word}");
        }
        assert!(trees[0].shape().is_some_and(|tree| tree.counters().rotations > 0));
    }
}

#[test]
#[should_panic(expected = "the tree is of another engine")]
fn a_tree_of_another_engine_is_not_accepted() {
    let set = &sets()[0];
    let [engine, other] = [(); 2].map(|()| build(set, &Config::paper()));
    engine.find(&mut other.word_tree(0), 7);
}

#[test]
#[should_panic(expected = "the room is of another engine")]
fn room_of_another_engine_is_not_accepted() {
    let set = &sets()[0];
    let [engine, other] = [(); 2].map(|()| build(set, &Config::paper()));
    engine.decide(&mut other.decider(), &[0; 5], &[0; 5]);
}
