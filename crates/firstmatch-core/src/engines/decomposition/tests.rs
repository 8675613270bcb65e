//! Answers of every form beside `linear`, and what more than one of these files needs.
//!
//! `worked` has Table I of the paper, `parts` trees, hash tables and rows, `corners` unusual rules and numbers of them,
//! and `limits` counts and budgets.

mod corners;
mod limits;
mod parts;
mod worked;

use super::build::{Sets, bits_of, common, row_of};
use super::columns::{Cells, Column, columns, width};
use super::cuckoo::Cuckoo;
use super::rows::{Form, Shape};
use super::structure::Search;
use super::tree::Tree;
use super::*;
use crate::engine::Classifier;
use crate::engine::budget::Budget;
use crate::engine::tests::{agrees, keys_of, sets};
use crate::engines::shared::Products;
use crate::key::KeyBuf;
use crate::raw::{Isa, Kernel, LINE_WORDS, Line, dispatch};
use crate::rule::Test;
use crate::schema::{Field, Kind, Schema};
use crate::test_rules::set;

fn build(set: &Lowered, config: &Config) -> Decomposition {
    Decomposition::build(set, config).expect("no budget")
}

/// Compares answers, also those of counted lookups, with those of `linear`, and counts with the stated worst case.
fn check(engine: &Decomposition, set: &Lowered, keys: &KeyBuf, said: &str) {
    agrees(engine, set, keys, said);
    let (mut want, mut counted) = (vec![None; keys.len()], vec![None; keys.len()]);
    engine.classify_batch(&mut engine.scratch(), keys.keys(), &mut want);
    let counts = engine.count(&mut engine.new_scratch(), &keys.keys(), &mut counted);
    let most = keys.len() as u64 * Engine::stats(engine).worst_lines as u64;
    assert!(counted == want && counts.get("lines").is_none_or(|lines| lines <= most), "{said}: {counts:?}");
}

/// Returns keys at the bounds of every `step`-th region, and beside them in one word at a time.
fn bounds_of(set: &Lowered, step: usize) -> KeyBuf {
    let words = set.schema().words();
    let mut keys = KeyBuf::new(set.schema());
    let mut push = |key: &[u32]| keys.push()[..words.len()].copy_from_slice(key);
    push(&vec![0; words.len()]);
    push(&words.iter().map(|word| word.max).collect::<Vec<_>>());
    for region in set.regions().iter().step_by(step) {
        for bound in [region.lo, region.hi] {
            push(bound);
            for (word, of) in words.iter().enumerate() {
                for value in [bound[word].saturating_sub(1), bound[word].saturating_add(1).min(of.max), of.max] {
                    let mut key = bound.to_vec();
                    key[word] = value;
                    push(&key);
                }
            }
        }
    }
    keys
}

/// Returns the columns of a rule set.
fn columns_of(set: &Lowered, config: &Config) -> Vec<Column> {
    let products = Products::of(set, &Visits::default()).expect("no limit");
    columns(set.schema(), &Cells::new(set.schema(), &products), config)
}

/// Returns configurations of every form, end of a merge, grouping and level.
fn configs() -> Vec<Config> {
    let mut all = vec![Config::default(), Config::paper(), Config::plain()];
    for rows in [RowForm::Flat, RowForm::Summed, RowForm::Sparse] {
        for stop in [Stop::Never, Stop::Hit, Stop::Zero] {
            let turn = all.len();
            all.push(Config {
                rows,
                stop,
                superfields: [Superfields::Chosen, Superfields::Fields, Superfields::Paper][turn % 3],
                functions: 2 + turn % 3,
                slots: 4.0,
                hash_groups: turn % 2 == 0,
                sub_vector: [512, 1024, 8192][turn / 2 % 3],
                interleave: [1, 7, 128][turn / 3 % 3],
                sparsest_first: turn % 4 < 2,
                ..Config::default()
            });
        }
    }
    let of_level = |config: Config| Level::available().map(move |simd| Config { simd: Some(simd), ..config.clone() });
    all.into_iter().flat_map(of_level).map(|config| Config { seed: Some(5), ..config }).collect()
}

#[test]
fn every_form_answers_as_linear_search() {
    for (number, set) in sets().iter().enumerate() {
        let keys = keys_of(set);
        for config in configs() {
            check(&build(set, &config), set, &keys, &format!("set {number}, {config:?}"));
        }
    }
}

/// Numbers beyond their bounds are refused, and the error says what is expected.
#[test]
fn bad_numbers_are_refused() {
    let none = Lowered::empty(&Schema::ipv4());
    for (config, expected) in [
        (Config { functions: 9, ..Config::default() }, "9 hash functions; expected 1 to 8"),
        (Config { slots: f64::NAN, ..Config::default() }, "NaN slots a value; expected 1 to 64"),
        (Config { sub_vector: 700, ..Config::default() }, "sub-vectors of 700 bits; expected a multiple of 512"),
        (Config { interleave: 0, ..Config::default() }, "0 keys in flight; expected 1 to 128"),
    ] {
        let error = Decomposition::build(&none, &config).expect_err("a bad number").to_string();
        assert!(error.contains(expected), "{error}");
    }
}
