//! Linear search over products of sets, for rules with far more regions than products.

use crate::engine::budget::{Budget, Visits};
use crate::engine::observer::{Observer, Step, dispatch_for};
use crate::engine::steps::StepCounter;
use crate::engine::tombstones::All;
use crate::engine::{Engine, Match, NamedCounts, Stats};
use crate::engines::shared::{BLOCK, Columns};
use crate::error::BuildError;
use crate::key::Keys;
use crate::raw::{Isa, Kernel, Level};
use crate::rule::{FieldSets, Lowered, RuleProducts};
use crate::schema::Schema;

/// Linear search over all products in order; a product is tested field by field, a set eight boxes at a time.
#[derive(Debug)]
pub(super) struct ProductList {
    schema: Schema,
    level: Level,
    rules: usize,
    regions: usize,
    fields: Box<[Sets]>,
    /// Number of the set of each field, product by product.
    rows: Box<[u32]>,
    matches: Box<[Match]>,
}

/// Sets of a field, in blocks of eight boxes.
#[derive(Debug)]
struct Sets {
    /// Index of the first word of the field, and the number of its words.
    first: usize,
    key_words: usize,
    ternary: Box<[usize]>,
    blocks: Box<[u32]>,
    /// Number of blocks before those of each set, then of all blocks.
    firsts: Box<[u32]>,
}

impl ProductList {
    /// Builds the list within a budget, and visits each box once.
    pub(super) fn build(
        set: &Lowered,
        products: &RuleProducts,
        budget: Budget,
        level: Level,
        visits: &Visits,
    ) -> Result<Self, BuildError> {
        let (schema, fields) = (set.schema(), products.sets().len());
        visits.add(products.sets().iter().map(|sets| sets.boxes().len()).sum::<usize>() + products.len());
        visits.check()?;
        let sets: usize = products.sets().iter().map(Sets::bytes_of).sum();
        let needed =
            fields * size_of::<Sets>() + sets + products.len() * (fields * size_of::<u32>() + size_of::<Match>());
        if needed > budget.run_bytes {
            return Err(BuildError::bytes(needed, budget.run_bytes));
        }
        let of_field = |(field, sets)| Sets::new(schema.words_of(field).start, sets);
        Ok(Self {
            schema: schema.clone(),
            level,
            rules: set.by_rule().count(),
            regions: set.region_count(),
            fields: products.sets().iter().enumerate().map(of_field).collect(),
            rows: (0..products.len()).flat_map(|product| products.of(product).map(|(_, number)| number)).collect(),
            matches: products.rules().into(),
        })
    }

    fn look<A: Observer>(&self, observer: A, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        dispatch_for::<A>(self.level, Lookup { list: self, observer, keys, best });
    }
}

impl Sets {
    fn columns(&self) -> Columns<'_> {
        Columns { key_words: self.key_words, ternary: &self.ternary }
    }

    /// Number of blocks of all sets.
    fn count(sets: &FieldSets) -> usize {
        (0..sets.len() as u32).map(|number| sets.range(number).len().div_ceil(BLOCK)).sum()
    }

    /// Number of bytes on the heap that the sets of a field take.
    fn bytes_of(sets: &FieldSets) -> usize {
        let ternary = sets.boxes().ternary_words();
        let words = Columns { key_words: sets.boxes().key_words(), ternary: &ternary }.words();
        (Self::count(sets) * words + sets.len() + 1) * size_of::<u32>() + size_of_val(&ternary[..])
    }

    fn new(first: usize, sets: &FieldSets) -> Self {
        let (key_words, ternary) = (sets.boxes().key_words(), sets.boxes().ternary_words());
        let columns = Columns { key_words, ternary: &ternary };
        let mut blocks = vec![0; Self::count(sets) * columns.words()];
        let mut free = blocks.chunks_exact_mut(columns.words());
        let mut firsts = vec![0];
        for number in 0..sets.len() as u32 {
            let of = sets.range(number);
            for (index, block) in of.clone().step_by(BLOCK).zip(&mut free) {
                // A copy of the last box fills the block.
                (0..BLOCK).for_each(|at| columns.write(block, at, sets.boxes(), (index + at).min(of.end - 1)));
            }
            firsts.push(firsts[firsts.len() - 1] + of.len().div_ceil(BLOCK) as u32);
        }
        Self { first, key_words, ternary: ternary.into(), blocks: blocks.into(), firsts: firsts.into() }
    }

    /// Returns whether a set holds the field's words of a key.
    #[inline(always)]
    fn holds<I: Isa>(&self, isa: I, observer: impl Observer, number: u32, key: &[u32]) -> bool {
        let (words, key) = (self.columns().words(), &key[self.first..][..self.key_words]);
        let of = self.firsts[number as usize] as usize..self.firsts[number as usize + 1] as usize;
        self.blocks[of.start * words..of.end * words].chunks_exact(words).any(|block| {
            observer.saw(Step::Block);
            let (bounds, masks) = block.split_at(2 * BLOCK * self.key_words);
            let mut hits = isa.inside8(bounds, key, self.key_words);
            for (word, masks) in self.ternary.iter().zip(masks.as_chunks::<16>().0) {
                hits &= isa.masked8(masks, key[*word]);
            }
            hits != 0
        })
    }
}

impl Engine for ProductList {
    type Scratch = ();

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn new_scratch(&self) {}

    fn stats(&self) -> Stats {
        let of_field = |sets: &Sets| {
            size_of_val(&sets.blocks[..]) + size_of_val(&sets.firsts[..]) + size_of_val(&sets.ternary[..])
        };
        let sets = size_of_val(&self.fields[..]) + self.fields.iter().map(of_field).sum::<usize>();
        let blocks: usize = self.rows.chunks_exact(self.fields.len()).map(|row| self.blocks(row)).sum();
        let matches = size_of_val(&self.matches[..]);
        Stats {
            rules: self.rules,
            regions: self.regions,
            bytes: vec![("sets", sets), ("rows", size_of_val(&self.rows[..])), ("matches", matches)],
            tables: 1,
            worst_tests: BLOCK * blocks,
            worst_lines: blocks + (size_of_val(&self.rows[..]) + matches).div_ceil(64),
            longest_bucket: self.matches.len(),
            overflow: 0,
            keeps_shadowed: true,
            ..Stats::default()
        }
    }

    fn improve(&self, _scratch: &mut (), keys: &Keys<'_>, best: &mut [Option<Match>]) {
        self.look(All, keys, best);
    }

    /// Counts blocks, the boxes in them, and cache lines.
    fn count(&self, _scratch: &mut (), keys: &Keys<'_>, best: &mut [Option<Match>]) -> NamedCounts {
        let counter = StepCounter::default();
        self.look(&counter, keys, best);
        let blocks = counter.of(Step::Block);
        NamedCounts::from([("blocks", blocks), ("tests", blocks * BLOCK as u64), ("lines", blocks)])
    }
}

impl ProductList {
    /// Number of blocks of a product's sets.
    fn blocks(&self, row: &[u32]) -> usize {
        let of = |(sets, &number): (&Sets, &u32)| sets.firsts[number as usize + 1] - sets.firsts[number as usize];
        self.fields.iter().zip(row).map(|of_field| of(of_field) as usize).sum()
    }
}

struct Lookup<'a, A> {
    list: &'a ProductList,
    observer: A,
    keys: &'a Keys<'a>,
    best: &'a mut [Option<Match>],
}

impl<A: Observer> Kernel for Lookup<'_, A> {
    /// Goes through the products, each with all keys, because a set of a product may fill the first-level cache.
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Self { list, observer, keys, best } = self;
        for (row, &of) in list.rows.chunks_exact(list.fields.len()).zip(&list.matches) {
            let mut is_open = false;
            for (at, best) in best.iter_mut().enumerate() {
                if !Match::wins(of.priority, best) {
                    continue;
                }
                is_open = true;
                let mut fields = list.fields.iter().zip(row);
                if fields.all(|(sets, &number)| sets.holds(isa, observer, number, keys.row(at))) {
                    *best = Some(of);
                }
            }
            if !is_open {
                return;
            }
        }
    }
}
