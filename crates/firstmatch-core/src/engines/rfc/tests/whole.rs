//! Whole engines: all combinations of options, 65,536 classes and more, and limits.

use super::super::compact::SubTableShape;
use super::super::entries::Entries;
use super::super::table::Cells;
use super::*;
use crate::engine::tests::agrees;
use crate::error::Cap;

/// Rules over a word of 32 bits, an optional port and a byte under masks.
fn of_all_kinds() -> Lowered {
    let fields = [
        Field::new("host", 32, Kind::Prefix, None),
        Field::new("port", 16, Kind::Range, None).optional(),
        Field::new("flags", 8, Kind::Mask, None),
    ];
    let host = |value: u128, len| (0, Test::Prefix { value: value << 16, len });
    let port = |lo, hi| (1, Test::Range { lo, hi });
    let flags = |value, mask| (2, Test::Mask { value, mask });
    set(
        &Schema::new(None, fields.into()),
        [
            vec![host(0x0A01, 16), port(80, 80), flags(2, 2)],
            vec![host(0x0A00, 8), port(0, 1023)],
            vec![host(0x0A01, 16), port(70, 90), flags(0x12, 0x12)],
            vec![port(65_535, 65_535), flags(0, 1)],
            vec![(0, Test::Range { lo: 0x0A00_FFFE, hi: 0x0A03_0001 }), port(9, 7000)],
            vec![host(0x0A02, 15), flags(0x10, 0x30)],
            vec![(0, Test::Value(0xFFFF_FFFF))],
            vec![flags(4, 4)],
        ],
    )
}

/// Every form, index, walk, order, count, level and kind of leaves has the same answers, pruned and not pruned.
#[test]
fn every_combination_of_options_has_the_same_answers() {
    let set = of_all_kinds();
    let mut keys = KeyBuf::new(set.schema());
    for host in [0, 0x0A00_FFFD, 0x0A00_FFFE, 0x0A01_0000, 0x0A02_8000, 0x0A03_0001, 0x0A03_0002, u32::MAX] {
        for (at, port) in [0, 9, 79, 80, 90, 1024, 7001, 65_535, 65_536].into_iter().enumerate() {
            keys.push()[..3].copy_from_slice(&[host, port, [0, 2, 0x12, 4, 0x11, 0xFF][(at + host as usize) % 6]]);
        }
    }
    let keys = keys.keys();
    let first = |at: usize| (0..set.regions().len()).find(|&region| set.regions().get(region).contains(keys.row(at)));
    let want: Vec<Option<Match>> = (0..keys.len()).map(|at| first(at).map(|region| set.rules()[region])).collect();
    let mut configs = vec![Config::default()];
    fn times<T: Copy>(configs: &mut Vec<Config>, of: &[T], put: fn(&mut Config, T)) {
        let with = |config: &Config, value| {
            let mut config = config.clone();
            put(&mut config, value);
            config
        };
        *configs = configs.iter().flat_map(|config| of.iter().map(|&value| with(config, value))).collect();
    }
    let levels: Vec<Level> = Level::available().collect();
    times(&mut configs, &levels, |config, level| config.simd = Some(level));
    times(&mut configs, &[TableForm::Plain, TableForm::Ranked, TableForm::SubTables], |config, of| config.store = of);
    times(&mut configs, &[PlaceBy::Multiply, PlaceBy::Shift], |config, of| config.index = of);
    times(&mut configs, &[BatchWalk::Batch, BatchWalk::Keys, BatchWalk::Reads], |config, of| config.walk = of);
    times(&mut configs, &[LeafKind::Words, LeafKind::Chunks], |config, of| config.leaves = of);
    times(&mut configs, &[true, false], |config, of| config.prune = of);
    times(&mut configs, &[BitCount::Instruction, BitCount::FindFirst], |config, of| config.count = of);
    times(&mut configs, &[ClassOrder::FewestRuns, ClassOrder::AsFound], |config, of| config.order = of);
    for config in configs {
        let engine = Rfc::build(&set, &config).expect("no budget");
        let mut scratch = engine.scratch();
        for length in [1, 4, 67, keys.len()] {
            for from in (0..keys.len()).step_by(length) {
                let to = (from + length).min(keys.len());
                let mut found = vec![None; to - from];
                engine.classify_batch(&mut scratch, keys.slice(from, to), &mut found);
                assert_eq!(found, want[from..to], "{config:?}, keys from {from} to {to}");
            }
        }
    }
}

/// Builds an engine of three leaves: one table joins the first two, and another joins that table and the third leaf.
fn of_three(set: &Lowered, config: &Config, form: Form) -> Rfc {
    let visits = Visits::default();
    let room = Room { allowed: usize::MAX, visits: &visits };
    let Start { products, made, cover } = leaves_of(set, config, &room).expect("no limit");
    assert_eq!(made.len(), 3);
    let tables = [[0, 1], [3, 2]].map(|slots| Operands { slots, third: None }).to_vec();
    let planned = Planned { tables, bytes: 0, is_exact: false };
    let making = Making { products: &products, cover: cover.as_ref(), config, form, visits: &visits };
    let mut spending = Spending { used: 0, allowed: usize::MAX };
    let (leaves, tables) = making.tables(&planned, made, &mut spending, &mut Known::default()).expect("no limit");
    Rfc {
        schema: set.schema().clone(),
        level: Level::choose(None).expect("no level is forced"),
        walk: BatchWalk::Batch,
        count: BitCount::Instruction,
        leaves: leaves.into(),
        tables: tables.into(),
        matches: set.rules().into(),
        regions: set.regions().len(),
    }
}

/// A table of 65,536 classes has entries of 16 bits, and one of 65,537 of 32 bits.
#[test]
fn entries_of_65_536_classes_and_of_one_more() {
    for (extra, classes) in [(false, 65_536), (true, 65_537)] {
        let value = |field: usize, value: u32| (field, Test::Value(value.into()));
        let each = |field: usize| (1..256).map(move |at| vec![value(field, at)]);
        // This rule has its own value in the first word, but only one pair with this value is a new class.
        let more = extra.then(|| vec![value(0, 300), value(1, 7)]);
        let rules = more.into_iter().chain(each(0).zip(each(1)).flat_map(|(a, b)| [a, b])).chain([vec![value(2, 5)]]);
        let set = set(&schema(&[9, 9, 9]), rules);
        let mut keys = KeyBuf::new(set.schema());
        for at in 0..600u32 {
            keys.push()[..3].copy_from_slice(&[at * 7 % 257, at * 5 % 256, at % 6]);
            keys.push()[..3].copy_from_slice(&[[300, 255, 0, 301][at as usize % 4], at % 256, at % 2 * 5]);
        }
        let config = Config { prune: false, order: ClassOrder::AsFound, ..Config::default() };
        for form in [Form::Plain, Form::Ranked, Form::SubTables(SubTableShape { entries: 32, elements: 8 })] {
            let engine = of_three(&set, &config, form);
            assert_eq!(engine.tables[0].classes, classes);
            let is_long = match &engine.tables[0].cells {
                Cells::Plain(entries) => matches!(entries, Entries::Long(_)),
                Cells::Ranked(ranked) => matches!(ranked.values, Entries::Long(_)),
                Cells::SubTables(tables) => tables.is_long,
            };
            assert_eq!(is_long, extra, "{form:?}");
            agrees(&engine, &set, &keys, &format!("{classes} classes, {form:?}"));
        }
    }
}

/// A match of another engine is kept if it is better, and replaced if it is not.
#[test]
fn better_matches_are_kept() {
    let two = set(&schema(&[8, 8]), [vec![(0, Test::Value(3))], Vec::new()]);
    for (own, other) in [(0, 1), (1, 0)] {
        let mut one = Lowered::empty(two.schema());
        one.push(two.rules()[own], two.regions().get(own));
        let mut keys = KeyBuf::new(two.schema());
        (0..5).for_each(|_| keys.push()[0] = 3);
        for config in configurations() {
            let (engine, mut best) = (Rfc::build(&one, &config).expect("no budget"), [Some(two.rules()[other]); 5]);
            engine.improve(&mut engine.new_scratch(), &keys.keys(), &mut best);
            assert_eq!(best, [Some(two.rules()[0]); 5], "{config:?}");
        }
    }
}

/// The rules themselves count as bytes of a build: with fewer bytes, it is refused before any list is made.
#[test]
fn rules_count_as_bytes_of_a_build() {
    let set = of_ports(60);
    for (prune, leaves) in [(false, LeafKind::Words), (true, LeafKind::Words), (false, LeafKind::Chunks)] {
        let config = Config { prune, leaves, ..Config::default() };
        // Rule and masks of each region, and the interval of each word.
        let least = set.regions().len() * (16 + 24 + 5 * 16);
        let error = Rfc::build(&set, &Config { build_bytes: least, ..config.clone() }).expect_err("no room for rules");
        assert_eq!(error.cap(), Some(Cap::BuildBytes), "{error}");
        assert!(Rfc::build(&set, &Config { build_bytes: 1 << 20, ..config }).is_ok());
    }
}

/// If a plan's last table exceeds the budget, the next plan keeps to the budget, with the same answers.
#[test]
fn another_plan_keeps_to_the_budget() {
    let mut found = 0;
    for rules in 22..30 {
        let set = of_ports(rules);
        let with = |run_bytes| Rfc::build(&set, &Config { budget: Budget { run_bytes }, ..Config::bitmap() });
        let slots = |engine: &Rfc| engine.tables.iter().map(|table| table.slots).collect::<Vec<_>>();
        let first = with(usize::MAX).expect("no budget");
        let needed = Engine::stats(&first).total_bytes();
        // Plans count entries of plain tables, so that the first one need not be the smallest.
        let Ok(second) = with(needed - 1) else { continue };
        assert!(slots(&first) != slots(&second) && Engine::stats(&second).total_bytes() < needed);
        let mut keys = KeyBuf::new(set.schema());
        let bounds = set.regions().iter().flat_map(|region| [region.lo, region.hi]);
        bounds.for_each(|bound| keys.push()[..5].copy_from_slice(bound));
        agrees(&second, &set, &keys, &format!("{rules} rules"));
        found += 1;
    }
    assert!(found > 3, "{found} sets have a second plan");
}
