//! A kind of base that was asked for, and rules that outgrow it.

use firstmatch::Schema;
use firstmatch::meta::{self, Cap, Config, Engine, Kind, Limits, Outcome, Writer};
use firstmatch::rule::{Priority, RuleSpec};

use crate::case::Case;
use crate::corners;
use crate::generate::rule_set;
use crate::meta::refused_by;
use crate::rng::Rng;

/// Rules that outgrow a kind that was asked for: the first ones are refused, later ones have another base for as long as they
/// are too many.
#[test]
fn a_kind_that_no_longer_fits_is_replaced() {
    let schema = Schema::ipv4();
    let rules = rule_set(&schema, &mut Rng::new(8), 100);
    let base = |engine: &Engine| engine.explain().base;
    let kind = Some(Kind::BitVector);
    let (engines, _writer) = meta::open(rules.clone(), &Config { kind, ..Config::default() }).expect("no budget");
    let most = base(&engines[0]).worst_tests;
    let with = |worst_tests| Config { kind, limits: Limits { worst_tests, ..Limits::default() }, ..Config::default() };
    let error = meta::open(rules.clone(), &with(most - 1)).expect_err("it was asked for and does not fit");
    assert!(error.budget_exceeded() && error.to_string().contains("the limit is"), "{error}");

    let (engines, mut writer) = meta::open(rules, &with(most)).expect("it fits");
    let rebuild = |writer: &mut Writer| {
        let rebuilt = writer.begin_rebuild().run().expect("something fits");
        writer.install(rebuilt).expect("the last");
        let explained = engines[0].explain();
        let case = corners::of_set(writer.rules(), &schema, &mut Rng::new(4), 200);
        Case::new(writer.rules(), &schema, case).check(&engines[0]).expect("right");
        assert_eq!(explained.asked, kind);
        explained
    };
    let id = writer.rules().iter().next().expect("some are live").id;
    for round in 0..2 {
        let spec = writer.rules().get(id).expect("it is live").spec.clone();
        let mut transaction = writer.begin();
        let more = transaction.insert(RuleSpec { priority: Priority(7), ..spec }).expect("it fits");
        transaction.commit().expect("the overlay has room");
        let other = if round == 0 {
            rebuild(&mut writer)
        } else {
            writer.renumber().expect("something fits");
            engines[0].explain()
        };
        assert_eq!(other.kind, Kind::BitSelect, "{other}");
        assert_eq!(refused_by(&other.candidates[1]), Some(Cap::WorstTests), "{other}");
        assert!(other.to_string().contains("bit_vector  asked for; refused: "), "{other}");
        let mut transaction = writer.begin();
        transaction.remove(more).expect("it is live");
        transaction.commit().expect("a removal has room");
        let again = rebuild(&mut writer);
        assert_eq!((again.kind, again.candidates[0].outcome), (Kind::BitVector, Outcome::NotAsked), "{again}");
    }
}
