//! Random rule sets of few distinct values, so that rules overlap, shadow and repeat.

use firstmatch_core::rule::{
    Action, Condition, Conditions, ExpansionLimits, Priority, Regions, RuleSet, RuleSpec, Test, lower_rule,
};
use firstmatch_core::schema::{Field, Kind, Schema};

use crate::rng::Rng;

/// Returns the schemas that random tests run over.
pub fn schemas() -> Vec<(&'static str, Schema)> {
    let field = |name: &str, width, kind| Field::new(name, width, kind, None);
    let toy = vec![field("a", 4, Kind::Prefix), field("b", 4, Kind::Range).optional(), field("c", 3, Kind::Exact)];
    let ternary = vec![field("a", 16, Kind::Mask), field("b", 40, Kind::Mask), field("c", 8, Kind::Mask).optional()];
    let odd = vec![
        field("bit", 1, Kind::Exact),
        field("w33", 33, Kind::Range),
        field("w127", 127, Kind::Prefix),
        field("o64", 64, Kind::Range).optional(),
        field("o128", 128, Kind::Range).optional(),
    ];
    vec![
        ("ipv4", Schema::ipv4()),
        ("ipv6", Schema::ipv6()),
        ("toy", Schema::new(None, toy.clone())),
        ("toy in words of 2 bits", Schema::with_word_bits(None, toy, 2)),
        ("ternary", Schema::new(None, ternary)),
        ("openflow", Schema::openflow()),
        ("odd widths", Schema::new(None, odd)),
    ]
}

/// Generator of rules over one schema.
pub struct Rules {
    schema: Schema,
    /// Values that tests are made of, a few for each field.
    anchors: Vec<Vec<u128>>,
    /// Percentage of fields with a condition.
    conditions: usize,
    scratch: Regions,
}

impl Rules {
    /// Draws the anchors; the more rules are to come, the more of them.
    pub fn new(schema: &Schema, rng: &mut Rng, rules: usize) -> Self {
        let count = 3 + rules.ilog2() as usize * 2;
        let anchors = schema.fields().iter().map(|f| anchors(f, rng, count)).collect();
        // Some three conditions a rule, whatever the number of fields.
        let conditions = (300 / schema.fields().len()).min(70);
        Self { schema: schema.clone(), anchors, conditions, scratch: Regions::new(schema.words().len()) }
    }

    /// Draws a rule; its priority is for the caller to set.
    ///
    /// It has at most 64 regions, but for one rule in twenty.
    pub fn rule(&mut self, rng: &mut Rng) -> RuleSpec {
        let most = if rng.percent(5) { 1024 } else { 64 };
        let expansion = ExpansionLimits { regions_per_rule: most, ..ExpansionLimits::default() };
        loop {
            let mut spec = empty_rule(Priority(0));
            for field in 0..self.schema.fields().len() {
                if rng.percent(self.conditions) {
                    spec.conditions.push(self.condition(field, rng));
                }
            }
            self.scratch.clear();
            // Now and then a rule of no region is welcome.
            match lower_rule(&self.schema, &spec, &expansion, &mut self.scratch) {
                Ok(0) if rng.percent(80) => {}
                Ok(_) => return spec,
                Err(_) => {}
            }
        }
    }

    fn condition(&self, field: usize, rng: &mut Rng) -> Condition {
        let negated = rng.percent(12);
        let tests = if rng.percent(20) { 2 + rng.below(3) } else { 1 };
        Condition { field, negated, tests: (0..tests).map(|_| (None, self.test(field, rng))).collect() }
    }

    fn test(&self, index: usize, rng: &mut Rng) -> Test {
        let field = &self.schema.fields()[index];
        // Mostly the kind's own form, sometimes another.
        let form = if rng.percent(75) { field.kind() } else { *rng.pick(&KINDS) };
        let (width, max) = (field.width(), field.max());
        let anchor = *rng.pick(&self.anchors[index]);
        match form {
            Kind::Exact => Test::Value(anchor),
            Kind::Prefix => {
                let len = *rng.pick(&[0, 1, width / 4, width / 2, width * 3 / 4, width - 1, width]);
                Test::Prefix { value: anchor & !max.checked_shr(len).unwrap_or(0), len }
            }
            Kind::Range => {
                let other = *rng.pick(&self.anchors[index]);
                let (lo, hi) = match rng.below(6) {
                    0 => (0, anchor),
                    1 => (anchor, max),
                    2 => (anchor, anchor),
                    3 => (0, max),
                    _ => (anchor.min(other), anchor.max(other)),
                };
                Test::Range { lo, hi }
            }
            Kind::Mask => {
                // A few bits compared, or all but a few.
                let bits = (0..1 + rng.below(3)).fold(0, |mask, _| mask | 1u128 << rng.below(width as usize));
                let mask = if rng.percent(50) { bits } else { max & !bits };
                Test::Mask { value: anchor & mask, mask }
            }
        }
    }
}

const KINDS: [Kind; 4] = [Kind::Exact, Kind::Prefix, Kind::Range, Kind::Mask];

/// Returns a rule without conditions.
pub fn empty_rule(priority: Priority) -> RuleSpec {
    RuleSpec { priority, action: Action::Match, conditions: Conditions::default(), family: None, line: None, value: 0 }
}

fn anchors(field: &Field, rng: &mut Rng, count: usize) -> Vec<u128> {
    let max = field.max();
    let mut out = vec![0, max, rng.bits(field.width())];
    while out.len() < count {
        let base = *rng.pick(&out);
        let bit = 1u128 << rng.below(field.width() as usize);
        out.push(match rng.below(4) {
            0 => rng.bits(field.width()),
            1 => base ^ bit,
            2 => base.saturating_add(1).min(max),
            _ => base.saturating_sub(1),
        });
    }
    out
}

/// Returns a set of `count` random rules, a few of them exact duplicates, in random order.
///
/// As in real sets, the more specific rules tend to come first. Otherwise a few broad ones would win everywhere and no
/// other could be tested.
pub fn rule_set(schema: &Schema, rng: &mut Rng, count: usize) -> RuleSet {
    let mut rules = Rules::new(schema, rng, count.max(1));
    let mut specs: Vec<(usize, RuleSpec)> = Vec::with_capacity(count);
    while specs.len() < count {
        let rule = match specs.last() {
            Some((_, same)) if rng.percent(5) => same.clone(),
            _ => rules.rule(rng),
        };
        specs.push((breadth(schema, &rule) + rng.below(24), rule));
    }
    specs.sort_by_key(|(rank, _)| *rank);
    for (line, (_, spec)) in (1..).zip(&mut specs) {
        spec.priority = Priority::of_line(line);
    }
    rng.shuffle(&mut specs);
    let mut set = RuleSet::new(schema.clone());
    for (_, spec) in specs {
        set.insert(spec).expect("the rule fits");
    }
    set
}

/// Returns how many bits a rule leaves open, roughly.
fn breadth(schema: &Schema, rule: &RuleSpec) -> usize {
    let open = |index: usize, width: u32| match rule.conditions.on(index) {
        None => width,
        Some(condition) if condition.negated => width,
        Some(condition) => condition.tests().map(|(_, test)| test_breadth(test, width)).max().unwrap_or(0),
    };
    // A field counts the same however wide it is.
    schema.fields().iter().enumerate().map(|(index, f)| open(index, f.width()) * 32 / f.width()).sum::<u32>() as usize
}

fn test_breadth(test: Test, width: u32) -> u32 {
    match test {
        Test::Value(_) | Test::Absent | Test::Set(_) => 0,
        Test::Prefix { len, .. } => width - len,
        Test::Range { lo, hi } => 128 - (hi - lo).leading_zeros(),
        Test::Mask { mask, .. } => width - mask.count_ones(),
    }
}
