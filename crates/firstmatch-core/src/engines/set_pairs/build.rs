//! Building: classes of both axes, lists of open rules, then pairs.

use super::cut::{Cut, Room};
use super::fields::{Roles, Sets, Tests, Values, sets};
use super::lists::Lists;
use super::pairs::{Parts, choose, hash_of};
use super::{Axis, Bounds, Class, Config, NONE, SetPairs};
use crate::engine::budget::Visits;
use crate::engines::shared::{Classes, FieldSet, FieldWords, Leaves};
use crate::error::BuildError;
use crate::raw::Level;
use crate::rule::{Lowered, Match, RuleProducts};

/// Returns a bound on the heap bytes of a build beside its tables: sets as whole values, and their ends.
pub(super) fn fixed_bytes(set: &Lowered) -> usize {
    let (boxes, products) = match set.products() {
        Some(products) => (products.sets().iter().map(|sets| sets.boxes().len()).sum(), products.len()),
        None => (set.schema().fields().len() * set.region_count(), set.region_count()),
    };
    // As regions the rules become products first.
    let copied = if set.products().is_some() { 0 } else { 96 * boxes };
    // Intervals of 32 bytes, two ends of 32 bytes while they are sorted, up to three times while they grow; of a product
    // its match, its number of each field, its candidate and its places in lists.
    192 * boxes + copied + products * (96 + 16 * set.schema().fields().len()) + (1 << 20)
}

/// Returns a bound on the bytes of the tables of a build that stops at `most` bytes of them.
///
/// Rows of a table take up to three times their bytes while it grows.
pub(super) fn table_bytes(set: &Lowered, most: usize) -> usize {
    let products = set.products().map_or(set.region_count(), RuleProducts::len);
    let boxes = set.products().map_or(set.region_count(), |products| {
        products.sets().iter().map(|sets| sets.boxes().len()).max().unwrap_or(0)
    });
    // Few rules have few classes, each with a row of all sets at most.
    let rows = (2 * boxes + 2).saturating_mul(products + 16).saturating_mul(64);
    let pairs = (2 * boxes + 2).saturating_mul(2 * boxes + 2).saturating_mul(products + 16).saturating_mul(64);
    3 * most.min(rows.saturating_add(pairs))
}

/// Builds the engine.
pub(super) fn build(set: &Lowered, config: &Config, level: Level, visits: &Visits) -> Result<SetPairs, BuildError> {
    let room = Room::new(config.build_bytes, visits);
    let products = set.as_products();
    let (schema, products) = (set.schema(), &*products);
    room.visits.add(products.len());
    room.visits.check()?;
    let all = sets(schema, products, &room)?;
    let roles = Roles::of(schema, &all);
    let (matches, ranks) = ranks(products);
    let places = Placed::of(products, &all, &roles);
    let mut tests = Tests::new(products, &all, &roles);
    let (third, anywhere) = tests.third(schema, &places.anywhere, &room)?;
    let fourth = tests.fourth(&room)?;
    let candidate = |(product, &closed): (u32, &[Option<u32>; 2])| {
        tests.candidate(product, ranks[product as usize], closed.map(|set| set.is_some()), &room)
    };
    let candidates = (0..).zip(&places.closed).map(candidate).collect::<Result<Vec<_>, _>>()?;
    let (residue, residue_lines) = tests.residue();
    let mut lists = Lists::new(&candidates, &room);
    let anywhere = anywhere.iter().map(|list| lists.open(list)).collect::<Result<Vec<_>, _>>()?;
    let mut open_lines = most_lines(&anywhere);
    let mut longest_open = longest(&lists, &anywhere);
    let cuts = roles.axes.iter().map(|&field| cut_axis(&all[field], &room)).collect::<Result<Vec<_>, _>>()?;
    let parts = choose(&cuts, &places.closed, &room)?;
    let pairs = lists.pairs(&places.closed, &parts)?;
    let mut axes = Vec::new();
    for (axis, (cut, parts)) in cuts.iter().zip(&parts).enumerate() {
        let (classes, leaf_numbers) = classes(axis, cut, parts, &places, &pairs.partners[axis], &mut lists, &room)?;
        let of_axis: Vec<_> = classes.iter().map(|class| class.open).collect();
        open_lines += most_lines(&of_axis);
        longest_open += longest(&lists, &of_axis);
        let numbers: Vec<u32> = cut.numbers.iter().map(|&class| leaf_numbers[class as usize]).collect();
        let (starts, numbers) = united(&cut.starts, numbers);
        let absent = leaf_numbers.get(cut.absent as usize).copied().unwrap_or(0);
        axes.push(Axis { leaves: Leaves::new(schema, roles.axes[axis], &starts, &numbers, absent), classes });
    }
    let tests = (longest_open + 9 * pairs.longest).min(products.len());
    let parts = [0, 1].map(|axis| parts.get(axis).map_or(0, Parts::len));
    let bounds = Bounds { open_lines, chain: pairs.chain, tests, residue_lines, parts, pairs: pairs.count };
    let (open, candidates) = lists.end();
    let built = SetPairs {
        schema: schema.clone(),
        level,
        axes: axes.into(),
        third,
        fourth,
        anywhere: anywhere.into(),
        open,
        buckets: pairs.buckets,
        candidates,
        residue,
        matches,
        regions: set.region_count(),
        bounds,
    };
    let needed = built.bytes().iter().map(|(_, bytes)| bytes).sum();
    if needed > config.budget.run_bytes {
        return Err(BuildError::bytes(needed, config.budget.run_bytes));
    }
    Ok(built)
}

/// Returns the rules in order, and the rank of the rule of each product.
fn ranks(products: &RuleProducts) -> (Box<[Match]>, Vec<u32>) {
    let mut matches = Vec::new();
    let mut ranks = Vec::with_capacity(products.len());
    for &rule in products.rules() {
        if matches.last() != Some(&rule) {
            matches.push(rule);
        }
        ranks.push(matches.len() as u32 - 1);
    }
    debug_assert!(matches.len() < NONE as usize);
    (matches.into(), ranks)
}

/// Places of products: the closed set of each axis, or none.
pub(super) struct Placed {
    /// Number of the set of each axis, if it is closed.
    pub(super) closed: Vec<[Option<u32>; 2]>,
    /// Products with no closed axis.
    pub(super) anywhere: Vec<u32>,
    /// Products with this closed axis alone, by the number of the set.
    pub(super) alone: [Vec<Vec<u32>>; 2],
}

impl Placed {
    fn of(products: &RuleProducts, sets: &[Sets], roles: &Roles) -> Self {
        let is_closed: Vec<Vec<bool>> = roles
            .axes
            .iter()
            .map(|&field| sets[field].values.iter().map(|values| is_closed(&sets[field].words, values)).collect())
            .collect();
        let count = |axis: usize| is_closed.get(axis).map_or(0, Vec::len);
        let (mut closed, mut anywhere) = (Vec::with_capacity(products.len()), Vec::new());
        let mut alone = [0, 1].map(|axis| vec![Vec::new(); count(axis)]);
        for product in 0..products.len() {
            let mut own = [None; 2];
            for (axis, &field) in roles.axes.iter().enumerate() {
                let number = products.number(product, field);
                own[axis] = is_closed[axis][number as usize].then_some(number);
            }
            match own {
                [None, None] => anywhere.push(product as u32),
                [Some(number), None] => alone[0][number as usize].push(product as u32),
                [None, Some(number)] => alone[1][number as usize].push(product as u32),
                [Some(_), Some(_)] => {}
            }
            closed.push(own);
        }
        Self { closed, anywhere, alone }
    }
}

/// Whether a set of an axis has classes: it is made of intervals, and holds at most half of all values.
fn is_closed(words: &FieldWords, values: &Values) -> bool {
    match values {
        Values::Set(set) => set.count() <= words.most() / 2 + 1,
        Values::Open | Values::Boxes => false,
    }
}

/// Cuts an axis at the ends of its closed sets. Wide, middle and narrow intervals have levels of their own.
fn cut_axis(sets: &Sets, room: &Room<'_>) -> Result<Cut, BuildError> {
    let closed = (0..).zip(&sets.values).filter_map(|(number, values)| match values {
        Values::Set(set) if is_closed(&sets.words, values) => Some((number, set)),
        _ => None,
    });
    let closed: Vec<(u32, &FieldSet)> = closed.collect();
    // Host bits of the levels: 16, 12 and 8 of IPv4 addresses, and 80, 72 and 64 of IPv6 ones.
    let width = u128::BITS - sets.words.most().leading_zeros();
    let levels = if width > 64 { [96, 80, 64] } else { [width / 2, 3 * width / 8, width / 4] };
    room.cut(&sets.words, &closed, |span| levels.iter().filter(|&&bits| span < (1u128 << bits) - 1).count() as u32)
}

/// Returns the classes of an axis by their parts, and the class of each row of its cut.
fn classes(
    axis: usize,
    cut: &Cut,
    parts: &Parts,
    placed: &Placed,
    partners: &[u64],
    lists: &mut Lists<'_>,
    room: &Room<'_>,
) -> Result<(Box<[Class]>, Vec<u32>), BuildError> {
    let (mut known, mut numbers, mut classes) = (Classes::default(), Vec::new(), Vec::new());
    for row in 0..cut.rows.len() {
        let own = parts.of_class[row];
        let number = room.intern(&mut known, &own)?;
        numbers.push(number);
        if number as usize == classes.len() {
            let mut open = Vec::new();
            for label in cut.rows.row(row) {
                open.extend_from_slice(&placed.alone[axis][(label >> 2) as usize]);
            }
            room.visits.add(open.len());
            room.visits.check()?;
            open.sort_unstable();
            room.take(size_of::<Class>())?;
            let partners = own.map(|part| partners.get(part as usize).copied().unwrap_or(0));
            classes.push(Class { partners, parts: own, open: lists.open(&open)?, own: own.map(hash_of) });
        }
    }
    Ok((classes.into(), numbers))
}

/// Unites neighbours of one class.
fn united(starts: &[u128], numbers: Vec<u32>) -> (Vec<u128>, Vec<u32>) {
    let mut united: (Vec<u128>, Vec<u32>) = Default::default();
    for (&start, number) in starts.iter().zip(numbers) {
        if united.1.last() != Some(&number) {
            united.0.push(start);
            united.1.push(number);
        }
    }
    united
}

fn most_lines(lists: &[super::OpenList]) -> usize {
    lists.iter().map(|list| list.lines as usize).max().unwrap_or(0)
}

/// Returns the largest number of candidates of some lists.
fn longest(lists: &Lists<'_>, of: &[super::OpenList]) -> usize {
    of.iter().map(|&list| lists.length(list)).max().unwrap_or(0)
}

impl SetPairs {
    /// Describes the classes and pairs, for a few rules.
    pub(super) fn describe(&self) -> String {
        let mut text = String::new();
        let field =
            |axis: &Axis| self.schema.fields()[self.schema.words()[axis.leaves.first_word()].field].name().to_owned();
        for axis in &self.axes {
            let classes: Vec<String> = axis
                .classes
                .iter()
                .map(|class| {
                    let parts: Vec<String> =
                        class.parts.iter().filter(|&&part| part != 0).map(u32::to_string).collect();
                    format!("{{{}}}", parts.join(" "))
                })
                .collect();
            text += &format!("{}: classes of parts {}\n", field(axis), classes.join(" "));
        }
        for bucket in &self.buckets {
            for (&pair, &list) in bucket.pairs.iter().zip(&bucket.lists).filter(|(pair, _)| **pair != 0) {
                let (first, length) = (list >> super::LENGTH, list & super::LONG);
                let ranks: Vec<String> =
                    (first..first + length).map(|at| format!("r{}", self.candidates[at as usize].rank + 1)).collect();
                text += &format!("pair {} {}: {{{}}}\n", pair >> 16, pair & 0xFFFF, ranks.join(" "));
            }
        }
        text
    }
}
