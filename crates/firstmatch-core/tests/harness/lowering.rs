//! Lowering over whole tiny domains, against the oracle.
//!
//! Fields of 1 to 8 bits in words of 2 bits do everything that wide fields do. For every test, and every condition of
//! two tests, each value lies in exactly one region if the condition holds, otherwise in none. The regions are as few
//! as documented.

use std::collections::HashSet;
use std::num::NonZeroU32;

use firstmatch_core::live;
use firstmatch_core::rule::{
    Condition, ExpansionLimits, FieldValues, Priority, Region, Regions, RuleSet, RuleSpec, Test, lower, lower_rule,
};
use firstmatch_core::schema::{Field, Kind, Schema};
use firstmatch_core::{KeyBuf, Keys};

use crate::counter::counted;
use crate::generate::empty_rule;
use crate::rng::Rng;

/// Domain of one field: all its values (absent included) as packets and keys.
struct Domain {
    schema: Schema,
    packets: Vec<FieldValues>,
    keys: KeyBuf,
    width: u32,
    word_bits: u32,
}

impl Domain {
    fn new(width: u32, word_bits: u32, optional: bool) -> Self {
        let field = Field::new("f", width, Kind::Range, None);
        let field = if optional { field.optional() } else { field };
        let schema = Schema::with_word_bits(None, vec![field], word_bits);
        let mut keys = KeyBuf::new(&schema);
        let absent = optional.then_some(None);
        let values = (0..1u128 << width).map(Some).chain(absent);
        let packets: Vec<_> = values.map(|v| FieldValues { family: None, values: vec![v] }).collect();
        packets.iter().for_each(|packet| keys.push_values(packet));
        Self { schema, packets, keys, width, word_bits }
    }

    /// Number of words that a value takes.
    fn key_words(&self) -> usize {
        self.width.div_ceil(self.word_bits) as usize
    }

    /// Lowers one condition into `regions` and compares every value with the oracle.
    fn check(&self, condition: &Condition, regions: &mut Regions) {
        let rule = RuleSpec { conditions: [condition.clone()].into(), ..empty_rule(Priority(1)) };
        regions.clear();
        let count = lower_rule(&self.schema, &rule, &ExpansionLimits::default(), regions).expect("within the caps");
        assert_eq!(count, regions.len());
        let keys: Keys<'_> = self.keys.keys();
        for (index, packet) in self.packets.iter().enumerate() {
            let inside = regions.iter().filter(|region| region.contains(keys.row(index))).count();
            let want = usize::from(rule.conditions.iter().all(|c| c.holds(&self.schema, packet)));
            assert!(inside == want, "{condition:?}: {:?} lies in {inside} regions: {regions:?}", packet.values);
        }
        for region in regions.iter() {
            self.check_shape(&region, condition);
        }
        assert!(count <= self.most_regions(condition), "{condition:?}: {count} regions");
    }

    /// Panics unless intervals are within their words, not empty, and the hull of the masks.
    fn check_shape(&self, region: &Region<'_>, condition: &Condition) {
        for (word, about) in self.schema.words().iter().enumerate() {
            let (lo, hi) = (region.lo[word], region.hi[word]);
            assert!(lo <= hi && hi <= about.max, "{condition:?}: {region:?}");
            if let Some((value, mask)) = region.ternary {
                assert!(mask[word] <= about.bits && value[word] & !mask[word] == 0, "{condition:?}: {region:?}");
                assert!(lo & mask[word] == value[word] && hi & mask[word] == value[word], "{condition:?}: {region:?}");
            }
        }
    }

    /// Returns the most regions that the documentation promises, as far as it says.
    fn most_regions(&self, condition: &Condition) -> usize {
        let a_range = 2 * self.key_words() - 1;
        let tests = condition.tests.len();
        let all = |form: fn(&Test) -> bool| condition.tests.iter().all(|(_, test)| form(test));
        let prefixes = all(|test| matches!(test, Test::Value(_) | Test::Prefix { .. } | Test::Absent));
        let intervals = prefixes || all(|test| !matches!(test, Test::Mask { .. }));
        match (condition.negated, tests) {
            (false, _) if prefixes => tests,
            (false, _) if intervals => tests * a_range,
            (true, _) if intervals => (tests + 1) * a_range,
            (false, 1) => 1,
            (true, 1) => {
                let Test::Mask { mask, .. } = condition.tests[0].1 else { unreachable!("a mask") };
                // At most one value under a mask for each bit; where the mask is a prefix, two ranges.
                (mask.count_ones() as usize).max(2 * a_range)
            }
            _ => usize::MAX,
        }
    }

    /// Returns every test that fits the field.
    fn tests(&self) -> Vec<Test> {
        let max = self.schema.fields()[0].max();
        let mut out: Vec<Test> = (0..=max).map(Test::Value).collect();
        out.extend((0..=max).flat_map(|lo| (lo..=max).map(move |hi| Test::Range { lo, hi })));
        for len in 0..=self.width {
            out.extend((0..1 << len).map(|top: u128| Test::Prefix { value: top << (self.width - len), len }));
        }
        for mask in 0..=max {
            out.extend((0..=mask).filter(|value| value & !mask == 0).map(|value| Test::Mask { value, mask }));
        }
        out.extend(self.schema.fields()[0].is_optional().then_some(Test::Absent));
        out
    }

    /// Returns one test for each set of values.
    ///
    /// How a set is written does not matter to pairs, and [`Domain::tests`] alone has tried every way.
    fn distinct_tests(&self) -> Vec<Test> {
        let mut seen = HashSet::new();
        let passes = |test: &Test, p: &FieldValues| p.values[0].is_some_and(|v| test.passes(v, self.width));
        let values = |test: &Test| -> Vec<bool> { self.packets.iter().map(|p| passes(test, p)).collect() };
        // Masks, which lower to cubes, are preferred over ranges: they come last.
        let mut out: Vec<Test> = self.tests().into_iter().rev().filter(|test| seen.insert(values(test))).collect();
        out.extend(self.tests().into_iter().filter(|test| matches!(test, Test::Range { lo, hi } if lo == hi)));
        out
    }
}

fn condition(negated: bool, tests: &[Test]) -> Condition {
    Condition { field: 0, negated, tests: tests.iter().map(|&test| (None, test)).collect() }
}

fn domains(widths: std::ops::RangeInclusive<u32>, word_bits: &[u32]) -> impl Iterator<Item = Domain> {
    widths.flat_map(move |width| {
        word_bits.iter().flat_map(move |&bits| [false, true].map(|optional| Domain::new(width, bits, optional)))
    })
}

#[test]
fn one_test() {
    for domain in domains(1..=8, &[2, 32]).chain(domains(1..=6, &[1, 3, 4, 5])) {
        let mut regions = Regions::new(domain.schema.words().len());
        for test in domain.tests() {
            for negated in [false, true] {
                domain.check(&condition(negated, &[test]), &mut regions);
            }
        }
    }
}

#[test]
fn two_tests() {
    let five_bits = [Domain::new(5, 2, true)];
    for domain in domains(1..=4, &[2]).chain(domains(3..=4, &[1, 3, 32])).chain(five_bits) {
        let mut regions = Regions::new(domain.schema.words().len());
        let tests = domain.distinct_tests();
        for &first in &tests {
            for &second in &tests {
                for negated in [false, true] {
                    domain.check(&condition(negated, &[first, second]), &mut regions);
                }
            }
        }
    }
}

/// Conditions of several tests are too many to walk, so that they are sampled.
#[test]
fn several_tests() {
    let mut rng = Rng::new(3);
    for domain in domains(5..=8, &[2, 3, 32]) {
        let mut regions = Regions::new(domain.schema.words().len());
        let tests = domain.tests();
        for _ in 0..6_000 {
            let some: Vec<Test> = (0..2 + rng.below(4)).map(|_| *rng.pick(&tests)).collect();
            domain.check(&condition(rng.percent(50), &some), &mut regions);
        }
    }
}

/// The bounds are reached, so that they could not be lower.
#[test]
fn the_bounds_are_tight() {
    let domain = Domain::new(8, 2, true);
    let mut regions = Regions::new(domain.schema.words().len());
    domain.check(&condition(false, &[Test::Range { lo: 0b0001_0101, hi: 0b1110_1010 }]), &mut regions);
    assert_eq!(regions.len(), 2 * 4 - 1);
    for width in [33, 64, 96, 127, 128] {
        let field = Field::new("f", width, Kind::Range, None).optional();
        let schema = Schema::new(None, vec![field]);
        let key_words = width.div_ceil(32) as usize;
        let max = schema.fields()[0].max();
        let mut regions = Regions::new(schema.words().len());
        let range = Condition { field: 0, negated: false, tests: vec![(None, Test::Range { lo: 1, hi: max - 1 })] };
        let rule = RuleSpec { conditions: [range].into(), ..empty_rule(Priority(1)) };
        lower_rule(&schema, &rule, &ExpansionLimits::default(), &mut regions).expect("within the caps");
        // The top word of 33 bits has the values 0 and 1 alone: nothing is left between the ends.
        assert_eq!(regions.len(), 2 * key_words - 1 - usize::from(width == 33), "{width} bits");
    }
}

/// A list of a hundred values of which few touch stays a list of prefixes.
///
/// Ten consecutive values become one range.
#[test]
fn a_list_of_prefixes_stays_one() {
    let schema = Schema::with_word_bits(None, vec![Field::new("f", 16, Kind::Range, None)], 16);
    let value = |value: u128| Test::Value(value);
    let scattered: Vec<Test> = (0..100).map(|at| value(at * 7)).chain([value(1), value(8)]).collect();
    let consecutive: Vec<Test> = (3..13).map(value).collect();
    for (tests, wanted, all_prefixes) in [(&scattered, 101, true), (&consecutive, 1, false)] {
        let rule = RuleSpec { conditions: [condition(false, tests)].into(), ..empty_rule(Priority(1)) };
        let mut regions = Regions::new(1);
        lower_rule(&schema, &rule, &ExpansionLimits::default(), &mut regions).expect("within the caps");
        let is_prefix = |region: Region<'_>| {
            let size = region.hi[0] - region.lo[0] + 1;
            size.is_power_of_two() && region.lo[0].is_multiple_of(size)
        };
        assert_eq!((regions.len(), regions.iter().all(is_prefix)), (wanted, all_prefixes), "{regions:?}");
    }
}

/// The regions of two fields are a product: their conditions do not disturb each other.
#[test]
fn two_fields() {
    let fields = vec![Field::new("a", 3, Kind::Range, None).optional(), Field::new("b", 3, Kind::Mask, None)];
    let schema = Schema::with_word_bits(None, fields, 2);
    let packets = crate::corners::every_packet(&schema, 1000).expect("a small domain");
    let mut keys = KeyBuf::new(&schema);
    packets.iter().for_each(|packet| keys.push_values(packet));
    let tests = [Domain::new(3, 2, true).tests(), Domain::new(3, 2, false).tests()];
    let mut regions = Regions::new(schema.words().len());
    for &a in &tests[0] {
        for &b in &tests[1] {
            for negated in [[false, false], [true, false], [false, true], [true, true]] {
                let condition =
                    |field: usize, test| Condition { field, negated: negated[field], tests: vec![(None, test)] };
                let rule =
                    RuleSpec { conditions: [condition(1, b), condition(0, a)].into(), ..empty_rule(Priority(1)) };
                regions.clear();
                lower_rule(&schema, &rule, &ExpansionLimits::default(), &mut regions).expect("within the caps");
                for (index, packet) in packets.iter().enumerate() {
                    let inside = regions.iter().filter(|region| region.contains(keys.keys().row(index))).count();
                    let want = rule.conditions.iter().all(|c| c.holds(&schema, packet));
                    assert!(inside == usize::from(want), "{rule:?}: {:?} lies in {inside} regions", packet.values);
                }
            }
        }
    }
}

/// A rule over its limit writes nothing; at the limit it is written.
#[test]
fn caps_are_kept() {
    let schema = Schema::ipv6();
    let range = Test::Range { lo: 1, hi: u128::MAX - 1 };
    let not_port =
        Condition { field: 2, negated: true, tests: vec![(None, Test::Value(80)), (None, Test::Value(443))] };
    let wide = |field| Condition { field, negated: false, tests: vec![(None, range)] };
    let rule = RuleSpec { conditions: [wide(0), wide(1), not_port].into(), ..empty_rule(Priority(1)) };
    let mut regions = Regions::new(schema.words().len());
    let expansion = |n| ExpansionLimits { regions_per_rule: n, ..ExpansionLimits::default() };
    assert_eq!(lower_rule(&schema, &rule, &expansion(7 * 7 * 3), &mut regions), Ok(147));
    let before = regions.clone();
    for cap in [0, 1, 2, 6, 7, 8, 48, 49, 146] {
        let error = lower_rule(&schema, &rule, &expansion(cap), &mut regions).expect_err("over the cap");
        assert!(!error.budget_exceeded() && !error.to_string().is_empty());
        assert_eq!(regions, before, "cap {cap}");
    }
}

/// Complements of masks whose pieces explode are refused, quickly and without a trace.
#[test]
fn masks_that_explode_are_refused() {
    let schema = Schema::ipv6();
    // No pair may have both bits set: the complement of 40 such masks has 3^40 pieces.
    let tests = (0..40).map(|i| (None, Test::Mask { value: 3 << (3 * i), mask: 3 << (3 * i) })).collect();
    let rule =
        RuleSpec { conditions: [Condition { field: 0, negated: true, tests }].into(), ..empty_rule(Priority(1)) };
    let mut regions = Regions::new(schema.words().len());
    assert!(lower_rule(&schema, &rule, &ExpansionLimits::default(), &mut regions).is_err());
    assert!(regions.is_empty());
}

/// A set is refused before the memory of its next rule is taken, by regions and by bytes.
#[test]
fn a_set_beyond_its_limits_takes_no_memory() {
    let schema = Schema::ipv4();
    let ports =
        |field| Condition { field, negated: false, tests: (0..400u128).map(|i| (None, Test::Value(2 * i))).collect() };
    let mut set = RuleSet::new(schema.clone());
    set.insert(empty_rule(Priority(1))).expect("it fits");
    let large = RuleSpec { conditions: [ports(2), ports(3)].into(), ..empty_rule(Priority(2)) };
    let line = NonZeroU32::new(7);
    set.insert(RuleSpec { line, ..large }).expect("it fits");
    // Five words of two bounds, and the match.
    let (regions, each) = (160_001, 56);
    let expansion =
        |regions_per_set, region_bytes| ExpansionLimits { regions_per_set, region_bytes, ..ExpansionLimits::default() };
    let lowered = lower(&set, &schema, &expansion(regions, regions * each)).expect("just within both");
    assert_eq!(lowered.regions().len(), regions);
    let refused = [
        (expansion(regions - 1, usize::MAX), "line 7: with this rule the set needs more than 160000 regions"),
        (
            expansion(usize::MAX, regions * each - 1),
            "line 7: with this rule the regions of the set take more than 8960055",
        ),
    ];
    for (expansion, says) in refused {
        let (error, count) = counted(|| lower(&set, &schema, &expansion).expect_err("beyond").to_string());
        assert!(error.starts_with(says), "{error}");
        assert!(count.peak < 400_000, "{count:?}");
    }
    let per_rule = ExpansionLimits { regions_per_rule: 159_999, ..ExpansionLimits::default() };
    let (error, count) = counted(|| lower(&set, &schema, &per_rule).expect_err("beyond").to_string());
    assert!(error.starts_with("line 7: the rule needs 160000 regions (sport 400 × dport 400)"), "{error}");
    assert!(count.peak < 400_000, "{count:?}");
}

/// A transaction has the limits of the writer's configuration.
///
/// It goes on after a rule that exceeds one.
#[test]
fn a_transaction_refuses_what_exceeds_its_limits() {
    let schema = Schema::ipv4();
    let expansion = ExpansionLimits { regions_per_rule: 100, mask_comparisons: 20, ..ExpansionLimits::default() };
    let config = live::Config { expansion, ..live::Config::default() };
    let (_, mut writer) = live::open(RuleSet::new(schema), &config).expect("no rules");
    let rule = |priority, count, test: fn(u128) -> Test| {
        let tests = (0..count).map(|i| (None, test(i))).collect();
        let conditions = [Condition { field: 2, negated: false, tests }].into();
        RuleSpec { conditions, ..empty_rule(Priority(priority)) }
    };
    let value = |i: u128| Test::Value(2 * i);
    // Each mask leaves another two bits open.
    let mask = |i: u128| Test::Mask { value: 0, mask: 0xFFFF & !(5 << i) };
    let mut transaction = writer.begin();
    transaction.insert(rule(1, 100, value)).expect("as many as may be");
    let error = transaction.insert(rule(2, 101, value)).expect_err("one more").to_string();
    assert!(error.contains("sport needs more than 100 regions, and max-regions-per-rule is 100"), "{error}");
    let error = transaction.insert(rule(2, 14, mask)).expect_err("overlapping masks").to_string();
    assert!(error.contains("sport take more than 20 comparisons, which is max-mask-comparisons"), "{error}");
    transaction.insert(rule(2, 5, value)).expect("the transaction is as it was");
    assert_eq!(transaction.commit(), Ok(1));
    assert_eq!(writer.rules().len(), 2);
}
