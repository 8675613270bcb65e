//! Leaves: searches that map the values of columns to classes.

use std::collections::HashMap;

use super::columns::Column;
use super::config::LeafKind;
use super::entries::Entries;
use super::lists::{Bits, Part, intern};
use super::prune::Cover;
use crate::engines::shared::{Classes, Interval, Products, Room, combinations, eights, mask_for, sweep};
use crate::error::{BuildError, Cap};
use crate::raw::{Pages, Table, Tree, gather};

/// Number of values below which a column has a table by its bits.
const DIRECT: u32 = 1 << 10;
/// Number of values below which a column has pages, or a table by value.
pub(super) const PAGED: u32 = 1 << 17;

/// Search for the class of a key in one column.
#[derive(Debug)]
pub(super) struct Leaf {
    pub(super) column: Column,
    pub(super) search: Search,
    /// Number of classes.
    pub(super) classes: u32,
}

/// Ways to find the class of a value.
#[derive(Debug)]
pub(super) enum Search {
    Tree(Tree),
    Pages(Pages),
    /// Table over some bits of the word.
    Bits(Table),
    /// Table over all values.
    Values(Entries),
}

impl Leaf {
    pub(super) fn bytes(&self) -> usize {
        match &self.search {
            Search::Tree(tree) => tree.bytes(),
            Search::Pages(pages) => pages.bytes(),
            Search::Bits(table) => table.bytes(),
            Search::Values(entries) => entries.bytes(),
        }
    }

    /// Number of cache lines that a lookup reads.
    pub(super) fn lines(&self) -> usize {
        match &self.search {
            Search::Tree(tree) => tree.depth() + 1,
            Search::Pages(_) => 2,
            Search::Bits(_) | Search::Values(_) => 1,
        }
    }
}

/// Leaf in the making.
pub(super) struct Made {
    pub(super) leaf: Leaf,
    pub(super) part: Part,
    pub(super) source: Source,
}

/// Classes of the values of a column, from which its search is built.
pub(super) struct Source {
    way: Way,
    /// Start of each interval but the first; none for combinations of bits under a mask.
    starts: Vec<u32>,
    /// Class of each interval or combination.
    numbers: Vec<u32>,
}

/// Kind of the search of a source.
enum Way {
    Tree,
    Pages,
    /// Table over the values of a whole word.
    Narrow,
    /// Table over some bits of the word, which masks test.
    Masked(u32),
    Values,
}

impl Source {
    /// Builds the search; returns `None` if a tree cannot hold the intervals.
    fn search(&self, max: u32) -> Option<Search> {
        let short = shorts(&self.numbers);
        match self.way {
            Way::Tree => Tree::new(&self.starts, &short?, max).map(Search::Tree),
            Way::Pages => {
                let values = of_values(&self.starts, &self.numbers, max);
                let pages = shorts(&values).as_deref().and_then(Pages::new);
                Some(pages.map_or_else(|| Search::Values(entries(values)), Search::Pages))
            }
            Way::Narrow => {
                let values = of_values(&self.starts, &self.numbers, max);
                Some(Search::Bits(Table::new(mask_for(max), shorts(&values)?)))
            }
            Way::Masked(mask) => Some(Search::Bits(Table::new(mask, short?))),
            Way::Values => Some(Search::Values(entries(of_values(&self.starts, &self.numbers, max)))),
        }
    }

    /// Gives each class of a leaf the number in `to`; returns whether the leaf takes as many bytes as before.
    ///
    /// If it would not, which is rare, the leaf stays as it is.
    pub(super) fn relabel(mut self, leaf: &mut Leaf, to: &[u32]) -> bool {
        self.numbers.iter_mut().for_each(|number| *number = to[*number as usize]);
        let bytes = leaf.bytes();
        let Some(search) = self.search(leaf.column.max) else { return false };
        let before = std::mem::replace(&mut leaf.search, search);
        if leaf.bytes() != bytes {
            leaf.search = before;
            return false;
        }
        true
    }

    /// Number of bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.starts[..]) + size_of_val(&self.numbers[..])
    }
}

/// Returns the leaves of all columns, or the word of a column that has too many classes for a tree.
///
/// # Errors
/// If the lists have no room, the searches exceed `run_bytes`, or there were too many visits.
pub(super) fn leaves(
    columns: &[Column],
    products: &Products,
    kind: LeafKind,
    cover: &mut Option<Cover>,
    run_bytes: usize,
    room: &Room<'_>,
) -> Result<Result<Vec<Made>, usize>, BuildError> {
    let is_direct = |column: &Column| column.max < DIRECT || kind == LeafKind::Chunks && column.max < PAGED;
    if let Some(cover) = cover {
        let count = |(at, column)| if is_direct(column) { 1 } else { 1 + eights(products.tested(at)).count() };
        cover.set_leaves(columns.iter().enumerate().map(count).collect());
    }
    let mut all = Gathered { made: Vec::new(), products: products.len(), kept: 0, run: 0, run_bytes, room };
    for (at, &column) in columns.iter().enumerate() {
        let tested = products.tested(at);
        let room = &all.left();
        let (mut starts, numbers, part) = by_intervals(products, at, column.max, room)?;
        let mut found = (numbers, part);
        if is_direct(&column) {
            if tested != 0 {
                found.0 = of_values(&starts, &found.0, column.max);
                for bits in eights(tested) {
                    found = with_mask(found, products, at, bits, room)?;
                }
                (starts, found.0) = intervals_of(&found.0);
            }
            let (numbers, part) = pruned(found, cover, room)?;
            // A table by bits reads the whole word of a key, without a shift.
            let is_narrow = kind == LeafKind::Words && column.shift == 0 && part.len() <= 1 << 16;
            let way = if is_narrow { Way::Narrow } else { Way::Values };
            all.add(made(column, Source { way, starts, numbers }, part))?;
            continue;
        }
        let way = if column.max < PAGED { Way::Pages } else { Way::Tree };
        let (numbers, part) = pruned(found, cover, room)?;
        if !all.add(made(column, Source { way, starts, numbers }, part))? {
            return Ok(Err(column.word));
        }
        for bits in eights(tested) {
            let room = &all.left();
            let (numbers, part) = pruned(by_mask(products, at, bits, room)?, cover, room)?;
            let source = Source { way: Way::Masked(bits << column.shift), starts: Vec::new(), numbers };
            // The bits are counted from the right of the word.
            all.add(made(Column { shift: 0, bits: u32::MAX, ..column }, source, part))?;
        }
    }
    Ok(Ok(all.made))
}

/// Leaves so far, and their limits.
struct Gathered<'a> {
    made: Vec<Made>,
    /// Number of products.
    products: usize,
    /// Bytes of lists and sources.
    kept: usize,
    /// Bytes of the searches that cannot be left out, and the limit on these bytes.
    run: usize,
    run_bytes: usize,
    room: &'a Room<'a>,
}

impl<'a> Gathered<'a> {
    /// Adds a leaf; returns whether there is one.
    fn add(&mut self, made: Option<Made>) -> Result<bool, BuildError> {
        let Some(made) = made else { return Ok(false) };
        self.kept += made.part.bytes() + made.source.bytes();
        // Other leaves may be left out.
        self.run += if says(&made.part, self.products) { made.leaf.bytes() } else { 0 };
        if self.run > self.run_bytes {
            return Err(BuildError::bytes(self.run, self.run_bytes).in_part("leaves, at least".to_owned()));
        }
        if self.kept > self.room.allowed {
            return Err(BuildError::limit(Cap::BuildBytes, self.kept, self.room.allowed));
        }
        self.made.push(made);
        Ok(true)
    }

    /// Returns the limits that remain for the next leaf.
    fn left(&self) -> Room<'a> {
        Room { allowed: self.room.allowed.saturating_sub(self.kept), visits: self.room.visits }
    }
}

/// Returns the intervals of values with equal numbers: all starts but the first, and the number of each interval.
fn intervals_of(values: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let (mut starts, mut numbers) = (Vec::new(), Vec::new());
    for run in values.chunk_by(|a, b| a == b) {
        starts.push(starts.last().copied().unwrap_or(0) + run.len() as u32);
        numbers.push(run[0]);
    }
    starts.pop();
    (starts, numbers)
}

/// Returns a leaf with one class for every value.
pub(super) fn constant(products: usize, room: &Room<'_>) -> Result<Made, BuildError> {
    let column = Column { word: 0, shift: 0, bits: 0, max: 0 };
    let mut classes = Classes::default();
    intern(&mut classes, &[], room)?;
    let source = Source { way: Way::Masked(0), starts: Vec::new(), numbers: vec![0] };
    let leaf = Leaf { column, search: Search::Bits(Table::new(0, [0])), classes: 1 };
    Ok(Made { leaf, part: Part { classes, open: Bits::of(products, |_| true), over: Vec::new() }, source })
}

/// Whether a leaf separates values, or excludes a product.
pub(super) fn says(part: &Part, products: usize) -> bool {
    part.len() > 1 || part.list(0).len() + part.open.len() < products
}

/// Returns the leaf of a source; `None` if its tree cannot hold the intervals.
fn made(column: Column, source: Source, part: Part) -> Option<Made> {
    let search = source.search(column.max)?;
    Some(Made { leaf: Leaf { column, search, classes: part.len() as u32 }, part, source })
}

/// Returns numbers in 16 bits, if they all fit.
fn shorts(numbers: &[u32]) -> Option<Vec<u16>> {
    numbers.iter().map(|&number| u16::try_from(number).ok()).collect()
}

fn entries(numbers: Vec<u32>) -> Entries {
    shorts(&numbers).map_or_else(|| Entries::Long(numbers.into()), |short| Entries::Short(short.into()))
}

/// Returns the class of each value up to `max`, from the classes of intervals.
fn of_values(starts: &[u32], numbers: &[u32], max: u32) -> Vec<u32> {
    let mut each = Vec::with_capacity(max as usize + 1);
    let ends = starts.iter().copied().chain([max + 1]);
    ends.zip(numbers).for_each(|(end, &number)| each.resize(end as usize, number));
    each
}

/// Cuts a column into intervals; returns all starts but the first, the class of each interval, and the classes.
fn by_intervals(
    products: &Products,
    column: usize,
    max: u32,
    room: &Room<'_>,
) -> Result<(Vec<u32>, Vec<u32>, Part), BuildError> {
    let all = &products.intervals[column];
    let is_whole = |&(_, interval): &(usize, Interval)| interval == (0, max);
    let mut wholes = all.iter().filter(|one| is_whole(one)).map(|&(product, _)| product).peekable();
    let open = Bits::of(products.len(), |product| {
        while wholes.next_if(|&whole| whole < product).is_some() {}
        wholes.peek() == Some(&product)
    });
    let closed: Vec<(usize, Interval)> = all.iter().filter(|one| !is_whole(one)).copied().collect();
    let (mut here, mut classes) = (Vec::new(), Classes::default());
    let (starts, numbers) = sweep(&closed, max, room.visits, |changes| {
        for &(_, product) in changes {
            let product = product as u32;
            match here.binary_search(&product) {
                Ok(at) => drop(here.remove(at)),
                Err(at) => here.insert(at, product),
            }
        }
        intern(&mut classes, &here, room)
    })?;
    Ok((starts, numbers, Part { classes, open, over: vec![column] }))
}

/// Returns the class of each combination of the bits `bits` of a column, and the classes.
fn by_mask(products: &Products, column: usize, bits: u32, room: &Room<'_>) -> Result<(Vec<u32>, Part), BuildError> {
    let tests = |product: usize| products.masks[product].get(column).is_some_and(|(_, mask)| mask & bits != 0);
    let open = Bits::of(products.len(), |product| !tests(product));
    let (mut here, mut classes) = (Vec::new(), Classes::default());
    let numbers = combinations(&products.masks, column, bits, room.visits, |all| {
        here.clear();
        here.extend(all.map(|product| product as u32).filter(|&product| !open.has(product)));
        intern(&mut classes, &here, room)
    })?;
    Ok((numbers, Part { classes, open, over: vec![column] }))
}

/// Drops products that open products cover from the lists of a leaf, so that classes may become equal.
///
/// Comparing the products of a list with each other hardly helps here, and takes long.
fn pruned(
    (mut numbers, part): (Vec<u32>, Part),
    cover: &Option<Cover>,
    room: &Room<'_>,
) -> Result<(Vec<u32>, Part), BuildError> {
    let Some(cover) = cover else { return Ok((numbers, part)) };
    let pruner = cover.pruner(&part.over, &part.open);
    let (mut classes, mut list, mut of_whole) = (Classes::default(), Vec::new(), Vec::with_capacity(part.len()));
    for class in 0..part.len() {
        list.clear();
        list.extend_from_slice(part.list(class));
        pruner.prune(&mut list, false, room.visits);
        of_whole.push(intern(&mut classes, &list, room)?);
    }
    numbers.iter_mut().for_each(|number| *number = of_whole[*number as usize]);
    Ok((numbers, Part { classes, ..part }))
}

/// Splits the classes of the values of a column by some bits under masks.
fn with_mask(
    (numbers, part): (Vec<u32>, Part),
    products: &Products,
    column: usize,
    bits: u32,
    room: &Room<'_>,
) -> Result<(Vec<u32>, Part), BuildError> {
    let (of_bits, masked) = by_mask(products, column, bits, room)?;
    let (mut known, mut classes, mut list) = (HashMap::new(), Classes::default(), Vec::new());
    let mut both = Vec::with_capacity(numbers.len());
    for (value, &number) in numbers.iter().enumerate() {
        let other = of_bits[gather(value as u64, u64::from(bits)) as usize];
        let class = match known.get(&(number, other)) {
            Some(&class) => class,
            None => {
                part.common(number as usize, &masked, other as usize, &mut list);
                let class = intern(&mut classes, &list, room)?;
                known.insert((number, other), class);
                class
            }
        };
        both.push(class);
    }
    Ok((both, Part { classes, open: part.open.both(&masked.open), over: part.over }))
}
