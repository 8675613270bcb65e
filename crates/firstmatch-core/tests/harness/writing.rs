//! Rules written and read back: the same conditions in the same order, and the same answers.

use firstmatch_core::policy::{Fragments, Policy, Verdict};
use firstmatch_core::rule::{
    Action, Condition, ExpansionLimits, FieldValues, Priority, RuleSet, RuleSpec, Test, first_match,
};
use firstmatch_core::schema::{Family, Field, Kind, Schema, Source};
use firstmatch_formats::{Format, Options, RuleFile, write};

use crate::rng::Rng;
use crate::{corners, corpus, generate};

fn options(format: Format) -> Options {
    let expansion = ExpansionLimits { regions_per_rule: 1 << 20, ..ExpansionLimits::default() };
    Options { format: Some(format), expansion, flags: true, ..Options::default() }
}

fn written(set: &RuleSet, policy: Policy, format: Format) -> Result<String, write::WriteError> {
    let file = RuleFile::new(set.clone(), policy);
    let mut text = String::new();
    write::write(&file, format, &mut text).map(|()| text)
}

fn read(text: &str, format: Format) -> RuleFile {
    firstmatch_formats::parse(text, &options(format)).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

/// Returns the rules of a set in order, without what a format cannot hold by design.
///
/// That is the numbers of priorities, and lines.
fn specs(set: &RuleSet) -> Vec<RuleSpec> {
    set.iter().map(|rule| RuleSpec { priority: Priority(0), line: None, ..rule.spec.clone() }).collect()
}

/// Returns the index in the order of the rule that decides.
fn decides(set: &RuleSet, packet: &FieldValues) -> Option<usize> {
    let found = first_match(set, packet)?.id;
    set.iter().position(|rule| rule.id == found)
}

fn assert_same_answers(name: &str, before: &RuleSet, after: &RuleSet, rng: &mut Rng) {
    assert_eq!(before.len(), after.len(), "{name}");
    for schema in before.schemas() {
        let mut packets = corners::of_set(before, schema, rng, 300);
        packets.extend(corners::of_set(after, schema, rng, 100));
        for packet in packets {
            assert_eq!(decides(before, &packet), decides(after, &packet), "{name}: {packet:x?}");
        }
    }
}

/// Writes, reads, and asserts that a second round changes nothing more, to the letter.
fn assert_native_holds(name: &str, set: &RuleSet, policy: Policy, rng: &mut Rng) -> RuleSet {
    let text = written(set, policy, Format::Native).unwrap_or_else(|error| panic!("{name}: {error}"));
    let file = read(&text, Format::Native);
    assert_eq!((file.policy, file.rules.schemas()), (policy, set.schemas()), "{name}");
    assert_same_answers(name, set, &file.rules, rng);
    let again = written(&file.rules, policy, Format::Native).expect("it was read from a native file");
    assert_eq!(text, again, "{name}");
    assert_eq!(specs(&read(&again, Format::Native).rules), specs(&file.rules), "{name}");
    file.rules
}

/// Whether the native format cannot hold a set.
///
/// It has no words that only tests have, and no masks where `/` means a length.
fn cannot_be_native(set: &RuleSet) -> bool {
    let narrow = |s: &Schema| *s != Schema::new(s.family(), s.fields().to_vec());
    let fields = set.schemas()[0].fields();
    let is_address = |field: &Field| match field.source() {
        None => [32, 48, 128].contains(&field.width()),
        Some(Source::Src | Source::Dst | Source::Ipv4Src | Source::Ipv4Dst | Source::EthSrc | Source::EthDst) => true,
        Some(_) => false,
    };
    let masked = |c: &Condition| {
        let takes_length = fields[c.field].kind() == Kind::Prefix && !is_address(&fields[c.field]);
        takes_length && c.tests.iter().any(|(_, test)| matches!(test, Test::Mask { .. }))
    };
    set.schemas().iter().any(narrow) || set.iter().any(|rule| rule.conditions.to_vec().iter().any(masked))
}

#[test]
fn the_corpus_in_the_native_format() {
    let mut rng = Rng::new(31);
    let (mut held, mut refused) = (0, 0);
    for (name, set) in corpus::sets() {
        match written(&set, Policy::default(), Format::Native) {
            Ok(_) => {
                assert_native_holds(&name, &set, Policy::default(), &mut rng);
                held += 1;
            }
            Err(error) => {
                assert!(cannot_be_native(&set), "{name}: {error}");
                assert!(
                    error.faults().iter().all(|fault| fault.rule().is_some() == fault.field().is_some()),
                    "{error}"
                );
                refused += 1;
            }
        }
    }
    assert!(held >= 25 && refused <= 4, "{held} {refused}");
}

#[test]
fn random_rules_over_every_schema_in_the_native_format() {
    let mut rng = Rng::new(32);
    let (mut held, mut refused) = (0, 0);
    for (name, schema) in generate::schemas() {
        for count in [1, 2, 5, 30] {
            let set = generate::rule_set(&schema, &mut rng, count);
            if written(&set, Policy::default(), Format::Native).is_err() {
                assert!(cannot_be_native(&set), "{name}");
                refused += 1;
            } else {
                assert_native_holds(&format!("{count} rules over {name}"), &set, Policy::default(), &mut rng);
                held += 1;
            }
        }
    }
    assert!(held >= 15 && refused >= 4, "{held} {refused}");
}

/// Fields that a native file may have beyond the 5-tuple.
const EXTRA: [Source; 4] = [Source::IcmpType, Source::IcmpCode, Source::TcpFlags, Source::VlanVid];

/// Generator of everything that a rule over the fields of the native format may say.
///
/// With `exact` it is only what a native file can say, which must come back to the letter.
struct Draw<'r> {
    rng: &'r mut Rng,
    schemas: Vec<Schema>,
    exact: bool,
}

impl Draw<'_> {
    fn set(&mut self) -> RuleSet {
        let mut set = match &self.schemas[..] {
            [one] => RuleSet::new(one.clone()),
            [four, six] => RuleSet::dual(four.clone(), six.clone()),
            _ => unreachable!("a set has one schema or two"),
        };
        // The first rule names every field, which keeps them all in the schema.
        let fields = self.schemas[0].fields().len();
        let any = |field| Condition { field, negated: false, tests: vec![(None, Test::Prefix { value: 0, len: 0 })] };
        let mut spec = generate::empty_rule(Priority(1 << 60));
        spec.conditions = (0..fields).map(any).collect();
        set.insert(spec).expect("the rule fits");
        for _ in 0..self.rng.below(40) {
            let mut spec = self.rule();
            spec.priority = Priority(self.rng.bits(60) as u64);
            set.insert(spec).expect("the rule fits");
        }
        set
    }

    fn family(&mut self) -> Family {
        let of = self.rng.below(self.schemas.len());
        self.schemas[of].family().expect("both have one")
    }

    fn rule(&mut self) -> RuleSpec {
        let actions = [Action::Permit, Action::Deny, Action::Match, Action::Mark(0), Action::Mark(u32::MAX)];
        let mut spec = generate::empty_rule(Priority(0));
        spec.action = *self.rng.pick(&actions);
        spec.family = self.rng.percent(20).then(|| self.family());
        let mut fields: Vec<usize> = (0..self.schemas[0].fields().len()).collect();
        self.rng.shuffle(&mut fields);
        fields.truncate(self.rng.below(4));
        for field in fields {
            let negated = self.rng.percent(25);
            let mut tests = Vec::new();
            for _ in 0..1 + self.rng.below(3) {
                self.tests(field, &mut tests);
            }
            if self.rng.percent(10) {
                tests = vec![(None, Test::Prefix { value: 0, len: 0 })];
            }
            spec.conditions.push(Condition { field, negated, tests });
        }
        spec
    }

    fn tests(&mut self, field: usize, tests: &mut Vec<(Option<Family>, Test)>) {
        let here = self.schemas[0].fields()[field].clone();
        let is_address = matches!(here.source(), Some(Source::Src | Source::Dst));
        let dual = self.schemas.len() == 2;
        if here.source() == Some(Source::IcmpType) && self.rng.percent(50) {
            // These are the meanings of the names, whole or in part.
            let pairs = [(Family::Ipv4, 8), (Family::Ipv6, 128), (Family::Ipv6, 2), (Family::Ipv4, 13)];
            let from = self.rng.below(4);
            let to = (from + 1 + self.rng.below(2)).min(4);
            let mut of = pairs[from..to].to_vec();
            of.retain(|(family, _)| self.schemas.iter().any(|s| s.family() == Some(*family)));
            if !of.is_empty() {
                return tests.extend(of.into_iter().map(|(family, v)| (Some(family), Test::Value(v))));
            }
        }
        let family = match is_address {
            // In a file of one family, addresses are for its packets without being told.
            true if self.exact => dual.then(|| self.family()),
            true => self.rng.percent(60).then(|| self.family()),
            false => self.rng.percent(20).then(|| self.family()),
        };
        let width = match family {
            Some(family) if is_address => family.address_bits(),
            // A test for both families must fit both.
            None if is_address && dual => 32,
            _ => here.width(),
        };
        let max = u128::MAX >> (128 - width);
        let value = self.rng.bits(width);
        let test = match self.rng.below(4) {
            0 => Test::Value(value),
            1 => {
                let other = self.rng.bits(width);
                Test::Range { lo: value.min(other), hi: value.max(other) }
            }
            2 if is_address || !self.exact => {
                let len = self.rng.below(width as usize + 1) as u32;
                // Only the prefix of length 0 is the same in both families.
                let both = family.is_none() && is_address && dual;
                let value = if both { 0 } else { value & !max.checked_shr(len).unwrap_or(0) };
                Test::Prefix { value, len }
            }
            _ => {
                let mask = (0..3).fold(0, |mask, _| mask | 1 << self.rng.below(width as usize));
                Test::Mask { value: value & mask, mask }
            }
        };
        tests.push((family, test));
    }
}

#[test]
fn random_rules_over_every_field_in_the_native_format() {
    let mut rng = Rng::new(33);
    for round in 0..240 {
        let extra: Vec<Source> = EXTRA.into_iter().filter(|_| rng.percent(50)).collect();
        let families: &[Family] = [&[Family::Ipv4, Family::Ipv6][..], &[Family::Ipv4], &[Family::Ipv6]][round % 3];
        let schemas = families.iter().map(|&family| Schema::five_tuple(family, &extra)).collect();
        let exact = rng.percent(50);
        let set = Draw { rng: &mut rng, schemas, exact }.set();
        let verdicts = [Verdict::Permit, Verdict::Deny];
        let policy = Policy {
            default: *rng.pick(&verdicts),
            unknown: *rng.pick(&verdicts),
            fragments: *rng.pick(&[Fragments::Unknown, Fragments::Layer3]),
        };
        let back = assert_native_holds(&format!("round {round}"), &set, policy, &mut rng);
        if exact {
            assert_eq!(specs(&back), specs(&set), "round {round}");
        }
    }
}

/// Returns a ClassBench rule set with every form a column may have.
fn classbench_set(rng: &mut Rng, family: Family, flags: bool, count: usize) -> RuleSet {
    let mut text = String::new();
    for _ in 0..count {
        let mut address = || {
            let len = *rng.pick(&[0, 1, 8, 24, 31, 32]) * if family == Family::Ipv6 { 4 } else { 1 };
            let width = family.address_bits();
            let bits = rng.bits(width) & !(u128::MAX >> (128 - width)).checked_shr(len).unwrap_or(0);
            match family {
                Family::Ipv4 => format!("{}/{len}", std::net::Ipv4Addr::from(bits as u32)),
                Family::Ipv6 => format!("{}/{len}", std::net::Ipv6Addr::from(bits)),
            }
        };
        text.push_str(&format!("@{}\t{}\t", address(), address()));
        for _ in 0..2 {
            let (a, b) = (rng.bits(16), rng.bits(16));
            let (lo, hi) = *rng.pick(&[(0, 65535), (a, a), (a.min(b), a.max(b)), (1024, 65535), (0, 0)]);
            text.push_str(&format!("{lo} : {hi}\t"));
        }
        let (value, mask) = *rng.pick(&[(6, 0xFF), (17, 0xFF), (0, 0), (2, 0x0F)]);
        text.push_str(&format!("0x{value:02X}/0x{mask:02X}"));
        if flags {
            let mask = *rng.pick(&[0, 0xFFFF, 0x1200]);
            text.push_str(&format!("\t0x{:04X}/0x{mask:04X}", rng.bits(16) & mask));
        }
        text.push('\n');
    }
    let options = Options { flags, ..options(Format::ClassBench) };
    let set = firstmatch_formats::parse(&text, &options).unwrap_or_else(|error| panic!("{text}\n{error}")).rules;
    assert_eq!(written(&set, Policy::default(), Format::ClassBench).as_deref(), Ok(&*text));
    set
}

#[test]
fn classbench_survives_itself_and_the_native_format() {
    let mut rng = Rng::new(34);
    for round in 0..60 {
        let family = [Family::Ipv4, Family::Ipv6][round % 2];
        let count = 1 + rng.below(40);
        classbench_set(&mut rng, family, true, count);
        let set = classbench_set(&mut rng, family, false, count);
        let text = written(&set, Policy::default(), Format::ClassBench).expect("it was read from one");
        let native = assert_native_holds("ClassBench", &set, Policy::default(), &mut rng);
        assert_eq!(written(&native, Policy::default(), Format::ClassBench).as_deref(), Ok(&*text));
    }
}

/// A rule that ClassBench takes means the same there; one that it refuses is named.
#[test]
fn random_rules_in_classbench_mean_the_same_or_are_refused_by_name() {
    let mut rng = Rng::new(35);
    let (mut held, mut refused) = (0, 0);
    for round in 0..6000 {
        let family = [Family::Ipv4, Family::Ipv6][round % 2];
        let mut draw = Draw { rng: &mut rng, schemas: vec![Schema::five_tuple(family, &[])], exact: false };
        let mut spec = draw.rule();
        if rng.percent(90) {
            spec.action = Action::Match;
        }
        let mut set = RuleSet::new(Schema::five_tuple(family, &[]));
        let id = set.insert(spec.clone()).expect("the rule fits");
        match written(&set, Policy::default(), Format::ClassBench) {
            Ok(text) => {
                held += 1;
                let back = firstmatch_formats::parse(&text, &Options { flags: false, ..options(Format::ClassBench) });
                let back = back.unwrap_or_else(|error| panic!("{text}\n{error}"));
                assert!(back.warnings.is_empty(), "{text}");
                assert_eq!(back.rules.schemas(), set.schemas());
                assert_same_answers(&text, &set, &back.rules, &mut rng);
            }
            Err(error) => {
                refused += 1;
                let [fault] = error.faults() else { panic!("{error}") };
                assert_eq!(fault.rule(), Some(id));
                assert!(fault.field().is_some() || spec.action != Action::Match, "{error}");
            }
        }
    }
    assert!(held > 1500 && refused > 1500, "{held} {refused}");
}

/// Returns a schema of a file's own, with every form that values may have.
fn own_schema(rng: &mut Rng) -> Schema {
    let mut fields = Vec::new();
    for (index, source) in Source::ALL.into_iter().enumerate() {
        if rng.percent(25) {
            let kind = *rng.pick(&[Kind::Exact, Kind::Prefix, Kind::Range, Kind::Mask]);
            let field = Field::new(&format!("f{index}"), source.width(Family::Ipv6), kind, Some(source));
            fields.push(if rng.percent(50) { field.optional() } else { field });
        }
    }
    for width in [1, 31, 32, 33, 48, 64, 127, 128] {
        if rng.percent(25) || fields.is_empty() {
            let kind = *rng.pick(&[Kind::Exact, Kind::Prefix, Kind::Range, Kind::Mask]);
            fields.push(Field::new(&format!("w-{width}_{}", fields.len()), width, kind, None));
        }
    }
    rng.shuffle(&mut fields);
    Schema::new(None, fields)
}

#[test]
fn random_rules_over_schemas_of_their_own_in_the_native_format() {
    let mut rng = Rng::new(36);
    let (mut held, mut refused) = (0, 0);
    for round in 0..200 {
        let schema = if rng.percent(20) { Schema::openflow() } else { own_schema(&mut rng) };
        let mut set = RuleSet::new(schema.clone());
        for line in 0..rng.below(20) {
            let mut spec = generate::empty_rule(Priority::of_line(line as u32 + 1));
            for field in 0..schema.fields().len() {
                if rng.percent(20) {
                    let tests = (0..1 + rng.below(2)).map(|_| (None, own_test(&mut rng, &schema.fields()[field])));
                    spec.conditions.push(Condition { field, negated: false, tests: tests.collect() });
                }
            }
            set.insert(spec).expect("the rule fits");
        }
        match written(&set, Policy::default(), Format::Native) {
            Ok(_) => {
                let back = assert_native_holds(&format!("round {round}"), &set, Policy::default(), &mut rng);
                held += usize::from(!back.is_empty());
            }
            Err(error) => {
                let masks = error.faults().iter().all(|f| f.field().is_some() && f.what().contains("under a mask"));
                assert!(masks && cannot_be_native(&set), "{error}");
                refused += 1;
            }
        }
    }
    assert!(held > 100 && refused > 20, "{held} {refused}");
}

fn own_test(rng: &mut Rng, field: &Field) -> Test {
    let (width, max) = (field.width(), field.max());
    let value = *rng.pick(&[6, 0x0800, 0x86dd, 41, 0, max, rng.clone().bits(width)]) & max;
    match rng.below(4) {
        0 => Test::Value(value),
        1 => Test::Range { lo: value, hi: value | rng.bits(width) },
        2 => {
            let len = rng.below(width as usize + 1) as u32;
            Test::Prefix { value: value & !max.checked_shr(len).unwrap_or(0), len }
        }
        _ => {
            let mask = (0..3).fold(0, |mask, _| mask | 1 << rng.below(width as usize));
            Test::Mask { value: value & mask, mask }
        }
    }
}
