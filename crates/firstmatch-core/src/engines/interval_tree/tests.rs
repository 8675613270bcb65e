//! Answers of every form beside `linear`, and what more than one of these files needs.
//!
//! `worked` has the thesis's tables and trees worked out by hand, `attack` traffic that is meant to be slow, `sets` and
//! `limits` unusual rules, bounds and budgets, `stages` the steps for threads.

mod attack;
mod limits;
mod sets;
mod stages;
mod worked;

use super::shape::{NONE, Sampler, halvings};
use super::*;
use crate::engine::Classifier;
use crate::engine::budget::Budget;
use crate::engine::tests::{agrees, keys_of, sets};
use crate::key::KeyBuf;
use crate::raw::halve;
use crate::rule::Test;
use crate::schema::{Field, Kind, Schema};
use crate::test_rules::set;

fn build(set: &Lowered, config: &Config) -> Npf {
    Npf::build(set, config).expect("no budget")
}

/// Returns configurations of every form of sets, batches and turns.
fn configs() -> Vec<Config> {
    let mut all = vec![Config::default(), Config::paper(), Config::defended()];
    for sets in [SetForm::Vectors, SetForm::Lists] {
        for batches in [Batches::Halve, Batches::Turn] {
            for turns in [Turns::Popularity, Turns::Subtrees] {
                let turn = all.len() as u32;
                all.push(Config {
                    sets,
                    batches,
                    turns,
                    sample: [1, 64][turn as usize % 2],
                    threshold: [1, 0, u32::MAX][turn as usize % 3],
                    depth_cap: Some(turn % 3),
                    reconstruct: Some(turn % 2),
                    mean_path: 0,
                    halve_after: Some(1),
                    bypass: turn % 4 < 2,
                    dynamic: turn.is_multiple_of(2),
                    adapts: !turn.is_multiple_of(5),
                    ..Config::default()
                });
            }
        }
    }
    let of_level = |config: Config| Level::available().map(move |simd| Config { simd: Some(simd), ..config.clone() });
    all.into_iter().flat_map(of_level).collect()
}

/// Asserts that a shape is a search tree of all intervals, whose counters hold.
fn in_order(shape: &Shape) {
    let (mut order, mut path, mut at) = (Vec::new(), Vec::new(), shape.root);
    while at != NONE || !path.is_empty() {
        if at == NONE {
            at = path.pop().expect("some node is left");
            order.push(at);
            at = shape.nodes[at as usize].children[1];
        } else {
            path.push(at);
            at = shape.nodes[at as usize].children[0];
        }
        assert!(path.len() <= shape.nodes.len(), "the links have a circle");
    }
    assert!(order.iter().copied().eq(0..shape.nodes.len() as u32), "{order:?}");
}

/// Asserts that no counter is less than the sum of its children's counters.
fn sums_hold(shape: &Shape) {
    let count = |at: u32| if at == NONE { 0 } else { u64::from(shape.nodes[at as usize].popularity) };
    for node in &shape.nodes {
        assert!(u64::from(node.popularity) >= node.children.iter().map(|&child| count(child)).sum());
    }
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (self.0 >> 33) % below
    }

    /// Returns a number from 0 to 1, without 1.
    fn unit(&mut self) -> f64 {
        self.below(1 << 31) as f64 / f64::from(1u32 << 31)
    }
}

/// All ways of lookup give the answers of `linear`, with one scratch for all keys, batch by batch and key by key.
#[test]
fn every_form_answers_as_linear_search_with_one_scratch() {
    for (number, set) in sets().iter().enumerate() {
        let keys = keys_of(set);
        let mut want = vec![None; keys.len()];
        let linear = crate::engines::linear::Linear::build(set, &Default::default()).expect("no budget");
        linear.classify_batch(&mut linear.scratch(), keys.keys(), &mut want);
        for config in configs() {
            let engine = build(set, &config);
            let (mut scratch, said) = (engine.new_scratch(), format!("set {number}, {config:?}"));
            for length in [1, 3, 5, 32, 77] {
                for from in (0..keys.len()).step_by(7 * length) {
                    let to = (from + length).min(keys.len());
                    let mut got = vec![None; to - from];
                    engine.improve(&mut scratch, &keys.keys().slice(from, to), &mut got);
                    assert!(got == want[from..to], "{said}, from {from} to {to}");
                }
            }
            for shape in &scratch.shapes {
                in_order(shape);
                if config.turns == Turns::Subtrees {
                    sums_hold(shape);
                }
            }
            let mut counted = vec![None; keys.len()];
            let counts = engine.count(&mut scratch, &keys.keys(), &mut counted);
            let most = (keys.len() * Engine::stats(&engine).worst_lines) as u64;
            assert!(counted == want && counts.get("lines").is_some_and(|lines| lines <= most), "{said}: {counts:?}");
        }
        agrees(&build(set, &Config::default()), set, &keys, "default");
    }
}
