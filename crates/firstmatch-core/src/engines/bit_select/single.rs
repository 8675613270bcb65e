//! Lookups of single keys.

use super::block::{self, NONE};
use super::columns::{Columns, Kind, TOGETHER, rank_of, step};
use super::layout::{EMPTY, Entry, LEAF, Tree};
use super::structure::BitSelect;
use crate::engine::Match;
use crate::engine::observer::Step;
use crate::engine::tombstones::LiveRules;
use crate::raw::{Isa, Kernel, dispatch, dispatch_vectors, words};

/// Improves the match of one key if there is a better one.
///
/// It is compiled for each form of columns, so that little is prepared.
#[inline(always)]
pub(super) fn one(engine: &BitSelect, live_rules: impl LiveRules, key: &[u32], best: &mut Option<Match>) {
    match engine.columns {
        Kind::Plain4(columns) => dispatch_vectors(One(&mut Single { engine, columns, live_rules, key, best })),
        Kind::Wide4(columns) => dispatch_vectors(One(&mut Single { engine, columns, live_rules, key, best })),
        Kind::Plain6(columns) => dispatch_vectors(One(&mut Single { engine, columns, live_rules, key, best })),
        Kind::Any => {
            let columns = &engine.shape;
            dispatch(engine.level, One(&mut Single { engine, columns, live_rules, key, best }));
        }
    }
}

/// One key with its answer. Kernels borrow it, as those of [`lookup`](super::lookup) do.
pub(super) struct Single<'a, C, A> {
    pub(super) engine: &'a BitSelect,
    pub(super) columns: C,
    pub(super) live_rules: A,
    pub(super) key: &'a [u32],
    pub(super) best: &'a mut Option<Match>,
}

/// Kernel for one key and at most four trees.
pub(super) struct One<'l, 'a, C, A>(pub(super) &'l mut Single<'a, C, A>);

/// Kernel for one key and more trees, which are taken one after the other.
struct Grouped<'l, 'a, C, A>(&'l mut Single<'a, C, A>);

impl<C: Columns, A: LiveRules> Kernel for One<'_, '_, C, A> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Single { engine, columns, live_rules, key, .. } = *self.0;
        // The length of the key is checked once, here.
        let key = columns.key(columns.chunk(key, key.len()), 0);
        let walk = Walk { engine, columns, live_rules, key, blocks: words(&engine.blocks) };
        let trees = &engine.trees;
        let rank = match trees.len() {
            1 if C::EACH_COUNT => walk.best::<I, 1>(isa, &trees[..1]),
            2 if C::EACH_COUNT => walk.best::<I, 2>(isa, &trees[..2]),
            3 if C::EACH_COUNT => walk.best::<I, 3>(isa, &trees[..3]),
            4 if C::EACH_COUNT => walk.best::<I, 4>(isa, &trees[..4]),
            1..=TOGETHER if !C::EACH_COUNT => walk.best::<I, TOGETHER>(isa, trees),
            _ => return isa.vectorize(Grouped(self.0)),
        };
        improve(self.0.best, engine, rank);
    }
}

impl<C: Columns, A: LiveRules> Kernel for Grouped<'_, '_, C, A> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Single { engine, columns, live_rules, key, ref mut best } = *self.0;
        let walk = Walk { engine, columns, live_rules, key, blocks: words(&engine.blocks) };
        let mut rank = NONE;
        for tree in &engine.trees {
            let at = engine.table[tree.root.base as usize + tree.root.index(isa, columns, key)];
            if at < engine.limits().of(rank) {
                let found = walk.test(isa, walk.leaf(isa, at));
                rank = walk.rest_of_list(isa, found, found.min(rank));
            }
        }
        improve(best, engine, rank);
    }
}

/// Key on its way through the trees.
#[derive(Clone, Copy)]
struct Walk<'a, C, A> {
    engine: &'a BitSelect,
    columns: C,
    live_rules: A,
    key: &'a [u32],
    blocks: &'a [u32],
}

impl<C: Columns, A: LiveRules> Walk<'_, C, A> {
    /// Returns the best rank that at most `MOST` trees have for the key.
    ///
    /// Lookups of single keys overlap as long as branches are predicted. A branch misprediction takes longer than the
    /// test of a block, and a useless walk through a node takes longer than a misprediction.
    #[inline(always)]
    fn best<I: Isa, const MOST: usize>(self, isa: I, trees: &[Tree]) -> u32 {
        let Self { engine, columns, live_rules, key, blocks } = self;
        let limits = engine.limits();
        let mut entries = [EMPTY; MOST];
        for (tree, entry) in trees.iter().zip(&mut entries) {
            *entry = engine.table[tree.root.base as usize + tree.root.index(isa, columns, key)];
        }
        for end in 1..trees.len().min(MOST) {
            for i in (0..end).rev() {
                let [a, b] = [entries[i], entries[i + 1]];
                (entries[i], entries[i + 1]) = (a.min(b), a.max(b));
            }
        }
        let first = self.leaf(isa, entries[0]);
        if trees.len() == 1 {
            let found = self.test(isa, first);
            return self.rest_of_list(isa, found, found);
        }
        // The leaf of the second entry is tested even if it cannot be better, because the branch would be
        // unpredictable. If the second entry is a node, it waits for the rank, and the first leaf is tested twice.
        let is_leaf = (entries[1] & LEAF).wrapping_neg();
        let second = entries[1] | !is_leaf;
        entries[1] |= is_leaf;
        let (first, second) = (first.min(second), first.max(second));
        let second = if second == EMPTY { first } else { second };
        let mut rank = NONE;
        if let Some(a) = columns.block(blocks, limits.index(first))
            && let Some(b) = columns.block(blocks, limits.index(second))
        {
            live_rules.saw(Step::Block);
            // A leaf that is tested twice is read once.
            if second != first {
                live_rules.saw(Step::Block);
            }
            let a = rank_of(columns, a, columns.hits(isa, a, key), live_rules);
            let b = rank_of(columns, b, columns.hits(isa, b, key), live_rules);
            rank = a.min(b);
            if block::goes_on(a | b).is_some() {
                rank = self.rest_of_list(isa, a, rank);
                // If the same leaf was tested twice, both values are equal and stand for one list.
                if b != a {
                    rank = self.rest_of_list(isa, b, rank);
                }
            }
        }
        let least = if MOST > 2 { entries[1].min(entries[2]) } else { entries[1] };
        if least >= limits.of(rank) {
            return rank;
        }
        for &at in &entries[1..] {
            if at < limits.of(rank) {
                let found = self.test(isa, self.leaf(isa, at));
                rank = self.rest_of_list(isa, found, found.min(rank));
            }
        }
        rank
    }

    /// Returns the leaf that an entry leads to.
    #[inline(always)]
    fn leaf<I: Isa>(self, isa: I, mut at: Entry) -> Entry {
        while at & LEAF == 0 {
            at = self.step(isa, at);
        }
        at
    }

    #[inline(always)]
    fn step<I: Isa>(self, isa: I, at: Entry) -> Entry {
        let Self { engine, columns, key, .. } = self;
        let Some(node) = engine.nodes.get(engine.limits().index(at)) else { return EMPTY };
        self.live_rules.saw(Step::Node);
        step(isa, columns, node, &engine.table, key)
    }

    /// Returns the rank of the key's rule in a block, or else the value behind the ranks.
    #[inline(always)]
    fn test<I: Isa>(self, isa: I, leaf: Entry) -> u32 {
        let Self { engine, columns, live_rules, key, blocks } = self;
        let Some(block) = columns.block(blocks, engine.limits().index(leaf)) else { return NONE };
        live_rules.saw(Step::Block);
        rank_of(columns, block, columns.hits(isa, block, key), live_rules)
    }

    /// Returns the better of `rank` and the rank in the blocks that continue a list.
    #[inline(always)]
    fn rest_of_list<I: Isa>(self, isa: I, found: u32, mut rank: u32) -> u32 {
        let mut next = block::goes_on(found);
        while let Some(at) = next {
            let found = self.test(isa, self.engine.limits().leaf(at));
            rank = rank.min(found);
            next = block::goes_on(found);
        }
        rank
    }
}

#[inline(always)]
fn improve(best: &mut Option<Match>, engine: &BitSelect, rank: u32) {
    if let Some(found) = engine.rule_of(rank) {
        found.improve(best);
    }
}
