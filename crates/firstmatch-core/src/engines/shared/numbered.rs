//! Numbered fields: engines that search word by word, over fields of several words.
//!
//! A list of IPv6 hosts is one set of whole addresses, but as many products over four words as it has hosts. So a field
//! of several words becomes one word, the number of the value's leaf. For example, the set { 2001:db8::1, 2001:db8::9 }
//! cuts all addresses into five leaves, and becomes the set { 1, 3 }. A lookup finds the number of each such field, then
//! the engine looks up the shorter key.

use super::leaves::{FieldSet, FieldWords, Leaves, MOST_KEYS};
use super::products::unite;
use crate::engine::entry::Settings;
use crate::engine::{Classifier, Engine, Match, NamedCounts, Stats};
use crate::error::BuildError;
use crate::key::{KeyBuf, Keys};
use crate::raw::{Isa, Kernel, Level, dispatch};
use crate::rule::{FieldSets, Lowered, Region, Regions, RuleProducts};
use crate::schema::{Field, Kind, Schema};

/// Numbers of products over words, of all rules and for each product of sets, above which fields are numbered.
const MANY: usize = 1 << 12;
const MANY_EACH: usize = 4;

/// Engine over rules whose fields of several words are numbers.
#[derive(Debug)]
struct Numbered<E> {
    schema: Schema,
    level: Level,
    numbers: Numbers,
    regions: usize,
    engine: E,
}

/// Word of the engine's keys.
#[derive(Debug)]
enum Column {
    /// Word of the key.
    Word(usize),
    /// Number of a field of several words.
    Field(Leaves),
}

#[derive(Debug)]
struct Numbers(Box<[Column]>);

/// Builds an engine; if word by word its rules would multiply, over numbered fields.
///
/// # Errors
/// As `build`, or if the searches of fields take more than the settings allow.
pub(crate) fn build_by_fields<E: Engine>(
    rules: &Lowered,
    settings: &Settings,
    build: impl Fn(&Lowered, &Settings) -> Result<E, BuildError>,
) -> Result<Box<dyn Classifier>, BuildError> {
    let Some(products) = rules.products().filter(|products| multiply(rules, products)) else {
        return Ok(Box::new(build(rules, settings)?));
    };
    match Numbered::new(rules, products, settings, &build)? {
        Some(numbered) => Ok(Box::new(numbered)),
        None => Ok(Box::new(build(rules, settings)?)),
    }
}

/// Whether products over words are far more than products over fields.
fn multiply(rules: &Lowered, products: &RuleProducts) -> bool {
    let (over_words, _) = rules.word_products();
    over_words > MANY && over_words / MANY_EACH > products.len()
}

/// Returns a bound on the bytes of numbering: whole values, their ends while they are sorted, and the new rules.
fn build_bytes(products: &RuleProducts) -> usize {
    let boxes: usize = products.sets().iter().map(|sets| sets.boxes().len()).sum();
    256 * boxes + products.len() * (size_of::<Match>() + 8 * products.sets().len())
}

impl<E: Engine> Numbered<E> {
    /// Builds the engine; `None` if a field of several words is tested under masks.
    fn new(
        rules: &Lowered,
        products: &RuleProducts,
        settings: &Settings,
        build: &impl Fn(&Lowered, &Settings) -> Result<E, BuildError>,
    ) -> Result<Option<Self>, BuildError> {
        let level = Level::choose(settings.simd)?;
        let taken = build_bytes(products);
        if taken > settings.build_bytes {
            return Err(BuildError::bytes(taken, settings.build_bytes));
        }
        let Some((numbers, numbered)) = Numbers::of(rules, products) else { return Ok(None) };
        let (own, allowed) = (numbers.bytes() + numbered.schema().bytes(), settings.budget().run_bytes);
        let mut left = settings.clone();
        left.build_bytes = settings.build_bytes.saturating_sub(own);
        left.budget.run_bytes = allowed.checked_sub(own).ok_or_else(|| BuildError::bytes(own, allowed))?;
        let engine = build(&numbered, &left)?;
        Ok(Some(Self { schema: rules.schema().clone(), level, numbers, regions: rules.region_count(), engine }))
    }
}

impl Numbers {
    /// Numbers the leaves of each field of several words; returns the rules over them, too.
    fn of(rules: &Lowered, products: &RuleProducts) -> Option<(Self, Lowered)> {
        let schema = rules.schema();
        let (mut columns, mut fields, mut boxes) = (Vec::new(), Vec::new(), Vec::new());
        for (field, sets) in products.sets().iter().enumerate() {
            let of = schema.words_of(field);
            if of.len() == 1 {
                columns.push(Column::Word(of.start));
                fields.push(schema.fields()[field].clone());
                boxes.push((0..sets.len() as u32).map(|number| copied(sets, number)).collect());
                continue;
            }
            let words = FieldWords::new(schema, field);
            let of_sets = (0..sets.len() as u32).map(|number| words.set(sets.of(number)));
            let (starts, of_field) = numbered(&words, &of_sets.collect::<Option<Vec<_>>>()?);
            let numbers: Vec<u32> = (0..starts.len() as u32).collect();
            let absent = numbers.len() as u32;
            columns.push(Column::Field(Leaves::new(schema, field, &starts, &numbers, absent)));
            let width = (u32::BITS - absent.leading_zeros()).max(1);
            fields.push(Field::new(schema.fields()[field].name(), width, Kind::Range, None));
            boxes.push(of_field);
        }
        let numbered = rules.over(&Schema::new(None, fields), &boxes);
        Some((Self(columns.into()), numbered))
    }

    fn bytes(&self) -> usize {
        let leaves = |column: &Column| match column {
            Column::Word(_) => 0,
            Column::Field(leaves) => leaves.bytes(),
        };
        size_of_val(&self.0[..]) + self.0.iter().map(leaves).sum::<usize>()
    }

    /// Number of cache lines that the searches of a key read at most.
    fn lines(&self) -> usize {
        let lines = |column: &Column| match column {
            Column::Word(_) => 0,
            Column::Field(leaves) => leaves.lines(),
        };
        self.0.iter().map(lines).sum()
    }
}

/// Returns the boxes of a set of a field of one word.
fn copied(sets: &FieldSets, number: u32) -> Regions {
    let mut boxes = Regions::new(1);
    sets.of(number).for_each(|of| boxes.push(of));
    boxes
}

/// Returns the starts of all leaves of a field, and the numbers of each set.
fn numbered(words: &FieldWords, sets: &[FieldSet]) -> (Vec<u128>, Vec<Regions>) {
    let intervals = sets.iter().flat_map(|set| &set.intervals[..]);
    let behind = |hi: u128| hi.checked_add(1).filter(|&start| start <= words.most());
    let mut starts: Vec<u128> =
        std::iter::once(0).chain(intervals.flat_map(|&(lo, hi)| [Some(lo), behind(hi)]).flatten()).collect();
    starts.sort_unstable();
    starts.dedup();
    // Fewer than 2^24 boxes are ever lowered.
    let last_of = |value: u128| (starts.partition_point(|&start| start <= value) - 1) as u32;
    let absent = starts.len() as u32;
    let of_set = |set: &FieldSet| {
        let own = set.intervals.iter().map(|&(lo, hi)| (last_of(lo), last_of(hi)));
        let all = unite(own.chain(set.absent.then_some((absent, absent))).collect());
        let mut boxes = Regions::new(1);
        all.iter().for_each(|&(lo, hi)| boxes.push(Region { lo: &[lo], hi: &[hi], ternary: None }));
        boxes
    };
    let boxes = sets.iter().map(of_set).collect();
    (starts, boxes)
}

/// Keys of the engine, and its scratch.
pub(crate) struct NumberedScratch<S> {
    keys: KeyBuf,
    engine: S,
}

impl<E: Engine> Engine for Numbered<E> {
    type Scratch = NumberedScratch<E::Scratch>;

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn new_scratch(&self) -> Self::Scratch {
        let mut keys = KeyBuf::new(self.engine.schema());
        keys.reserve(MOST_KEYS);
        NumberedScratch { keys, engine: self.engine.new_scratch() }
    }

    fn fits(&self, scratch: &Self::Scratch) -> bool {
        scratch.keys.schema() == self.engine.schema() && self.engine.fits(&scratch.engine)
    }

    fn stats(&self) -> Stats {
        let mut stats = Engine::stats(&self.engine);
        stats.regions = self.regions;
        stats.worst_lines = stats.worst_lines.saturating_add(self.numbers.lines());
        let own = self.numbers.bytes() + Engine::schema(&self.engine).bytes();
        stats.bytes.push(("numbers of fields", own));
        stats
    }

    fn version(&self) -> u64 {
        Engine::version(&self.engine)
    }

    fn improve(&self, scratch: &mut Self::Scratch, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        for (at, best) in best.chunks_mut(MOST_KEYS).enumerate() {
            let keys = keys.slice(at * MOST_KEYS, at * MOST_KEYS + best.len());
            dispatch(self.level, Number { numbers: &self.numbers, keys, to: &mut scratch.keys });
            self.engine.improve(&mut scratch.engine, &scratch.keys.keys(), best);
        }
    }

    /// Counts what the engine counts, and the cache lines of the searches of fields.
    fn count(&self, scratch: &mut Self::Scratch, keys: &Keys<'_>, best: &mut [Option<Match>]) -> NamedCounts {
        let mut counts = NamedCounts::default();
        for (at, best) in best.chunks_mut(MOST_KEYS).enumerate() {
            let keys = keys.slice(at * MOST_KEYS, at * MOST_KEYS + best.len());
            dispatch(self.level, Number { numbers: &self.numbers, keys, to: &mut scratch.keys });
            counts.add(&self.engine.count(&mut scratch.engine, &scratch.keys.keys(), best));
            counts.add(&NamedCounts::from([("lines", (best.len() * self.numbers.lines()) as u64)]));
        }
        counts
    }

    fn structure(&self) -> Option<String> {
        Engine::structure(&self.engine)
    }
}

/// Kernel that writes the engine's keys.
struct Number<'a> {
    numbers: &'a Numbers,
    keys: Keys<'a>,
    to: &'a mut KeyBuf,
}

impl Kernel for Number<'_> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Self { numbers, keys, to } = self;
        let (count, stride) = (keys.len(), to.stride());
        to.clear();
        let rows = to.push_rows(count);
        for (at, column) in numbers.0.iter().enumerate() {
            let own = rows.iter_mut().skip(at).step_by(stride);
            match column {
                Column::Word(word) => own.enumerate().for_each(|(key, own)| *own = keys.row(key)[*word]),
                Column::Field(leaves) => {
                    let mut found = [0; MOST_KEYS];
                    leaves.find(isa, &keys, &mut found[..count]);
                    own.zip(found).for_each(|(own, found)| *own = found);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{
        Action, Condition, ExpansionLimits, FieldValues, Priority, RuleSet, RuleSpec, Test, first_match, lower_products,
    };

    /// Engine that walks all regions.
    #[derive(Debug)]
    struct Walk(Lowered);

    impl Engine for Walk {
        type Scratch = ();

        fn schema(&self) -> &Schema {
            self.0.schema()
        }

        fn new_scratch(&self) {}

        fn stats(&self) -> Stats {
            Stats::default()
        }

        fn improve(&self, (): &mut (), keys: &Keys<'_>, best: &mut [Option<Match>]) {
            for (at, best) in best.iter_mut().enumerate() {
                let key = &keys.row(at)[..keys.key_words()];
                let holds = self.0.regions().iter().position(|region| region.contains(key));
                if let Some(found) = holds.map(|region| self.0.rules()[region])
                    && Match::wins(found.priority, best)
                {
                    *best = Some(found);
                }
            }
        }
    }

    /// All keys of small domains are answered, absent values and words of two bits included.
    #[test]
    fn every_key_of_small_domains_is_answered() {
        let mut state = 9u64;
        let mut random = |below: u128| {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            u128::from(state >> 33) % below
        };
        let (mut several, mut unmasked) = (0, 0);
        for (widths, word_bits) in [([5, 2, 4], 2), ([3, 5, 2], 2), ([4, 6, 1], 3), ([7, 3, 1], 32)] {
            for round in 0..40 {
                let field = |(at, &width): (usize, &u32)| {
                    let field = Field::new(&format!("f{at}"), width, Kind::Mask, None);
                    if (at + round) % 3 == 0 { field.optional() } else { field }
                };
                let fields: Vec<Field> = widths.iter().enumerate().map(field).collect();
                let schema = Schema::with_word_bits(None, fields.clone(), word_bits);
                let mut set = RuleSet::new(schema.clone());
                for line in 1..6 {
                    let mut conditions = Vec::new();
                    for (at, field) in fields.iter().enumerate() {
                        if random(4) == 0 {
                            continue;
                        }
                        let mut test = || match random(if round % 8 == 7 { 4 } else { 3 }) {
                            0 => Test::Value(random(field.max() + 1)),
                            1 if field.is_optional() => Test::Absent,
                            3 => Test::Mask { value: random(field.max() + 1) & 5, mask: 5 & field.max() },
                            _ => {
                                let lo = random(field.max() + 1);
                                Test::Range { lo, hi: lo + random(field.max() + 1 - lo) }
                            }
                        };
                        let tests = (0..3).map(|_| (None, test())).collect();
                        conditions.push(Condition { field: at, negated: line % 3 == 0, tests });
                    }
                    let (priority, action) = (Priority(line), Action::Permit);
                    let conditions = conditions.into();
                    let rule = RuleSpec { priority, action, conditions, family: None, line: None, value: 0 };
                    let _ = set.insert(rule);
                }
                let lowered = lower_products(&set, &schema, &ExpansionLimits::default()).expect("few regions");
                let Some(products) = lowered.products() else { continue };
                for level in Level::available() {
                    let settings = Settings { simd: Some(level), ..Settings::default() };
                    let walk = |rules: &Lowered, _: &Settings| Ok(Walk(rules.clone()));
                    let built = Numbered::new(&lowered, products, &settings, &walk).expect("no limit");
                    let Some(engine) = built else { continue };
                    (several, unmasked) = (several + usize::from(word_bits < 32), unmasked + 1);
                    assert_eq!(Engine::schema(&engine.engine).words().len(), fields.len());
                    let values = |field: &Field| {
                        (0..=field.max()).map(Some).chain(field.is_optional().then_some(None)).collect::<Vec<_>>()
                    };
                    let [a, b, c] = [0, 1, 2].map(|at| values(&fields[at]));
                    let mut keys = KeyBuf::new(&schema);
                    let mut want = Vec::new();
                    for values in a.iter().flat_map(|&a| b.iter().flat_map(|&b| [(a, b)]).collect::<Vec<_>>()) {
                        for &c in &c {
                            let packet = FieldValues { family: None, values: vec![values.0, values.1, c] };
                            keys.push_values(&packet);
                            want.push(first_match(&set, &packet).map(|rule| rule.id));
                        }
                    }
                    let (mut found, mut scratch) = (vec![None; want.len()], engine.scratch());
                    engine.classify_batch(&mut scratch, keys.keys(), &mut found);
                    let found: Vec<_> = found.into_iter().map(|found| found.map(|found| found.rule)).collect();
                    assert_eq!(found, want, "{set:?}");
                }
            }
        }
        assert!(several > 100 && unmasked > several, "{several} of {unmasked}");
    }
}
