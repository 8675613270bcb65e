//! Overflow list: the regions that no table or partition takes.
//!
//! They stand in no order, in blocks of eight, which are tested at once. For example, removing region 3 of 20 moves
//! region 19 to its place.

use super::chunked::{vec_growth, with_room};
use crate::engine::observer::Step;
use crate::engine::tombstones::LiveRules;
use crate::engine::{Match, Probe};
use crate::key::Keys;
use crate::raw::{Isa, LINE_WORDS};
use crate::rule::Region;

const BLOCK: usize = 8;

#[derive(Debug)]
pub(crate) struct OverflowList {
    key_words: usize,
    /// Blocks, of which all but the last are full.
    blocks: Vec<Block>,
    len: usize,
}

#[derive(Clone, Debug)]
struct Block {
    /// For each key word eight `lo`, then eight `hi`.
    bounds: Box<[u32]>,
    /// For each key word eight `value`, then eight `mask`; zero where a region is not ternary.
    masks: Box<[u32]>,
    rules: [Option<Match>; BLOCK],
    /// Best priority of the rules of the block.
    best: u64,
}

impl Block {
    /// Returns which regions have a key in common with the box of `probe`, as far as intervals tell.
    ///
    /// Places without a region may be among them.
    #[inline(always)]
    fn overlaps<I: Isa>(&self, isa: I, probe: &Probe) -> u32 {
        let columns = self.bounds.as_chunks::<{ 2 * BLOCK }>().0.iter().zip(&probe.lo).zip(&probe.hi);
        columns.fold(u32::MAX, |hits, ((column, lo), hi)| hits & isa.overlaps8(column, *lo, *hi)) & 0xFF
    }

    fn settle(&mut self) {
        self.best = self.rules.iter().flatten().map(|rule| rule.priority.0).min().unwrap_or(u64::MAX);
    }
}

impl Clone for OverflowList {
    fn clone(&self) -> Self {
        Self { key_words: self.key_words, blocks: with_room(&self.blocks), len: self.len }
    }
}

impl OverflowList {
    pub(crate) fn new(key_words: usize) -> Self {
        Self { key_words, blocks: Vec::new(), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn block_count(&self) -> usize {
        self.blocks.len()
    }

    fn block_bytes(&self) -> usize {
        4 * BLOCK * self.key_words * size_of::<u32>()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Block>() + self.blocks.len() * self.block_bytes()
    }

    /// Returns an upper bound of the bytes that one more region takes.
    pub(crate) fn growth(&self) -> usize {
        self.growth_by(1)
    }

    /// Returns an upper bound of the bytes that `regions` more take.
    pub(crate) fn growth_by(&self, regions: usize) -> usize {
        let more = (self.len + regions).div_ceil(BLOCK) - self.blocks.len();
        let list = vec_growth(self.blocks.len(), self.blocks.capacity(), more);
        more * self.block_bytes() + list * size_of::<Block>()
    }

    /// Number of bytes of a list of this many regions whose memory was [reserved](Self::reserve).
    pub(crate) fn bytes_of(&self, regions: usize) -> usize {
        regions.div_ceil(BLOCK) * (self.block_bytes() + size_of::<Block>())
    }

    /// Reserves memory for the blocks of `regions` more; each block takes its words when it comes.
    pub(crate) fn reserve(&mut self, regions: usize) {
        self.blocks.reserve_exact((self.len + regions).div_ceil(BLOCK) - self.blocks.len());
    }

    /// Number of cache lines of a block.
    pub(crate) fn lines_per_block(&self) -> usize {
        (size_of::<Block>() + self.block_bytes()).div_ceil(64)
    }

    /// Number of cache lines of all blocks.
    pub(crate) fn lines(&self) -> usize {
        self.blocks.len() * self.lines_per_block()
    }

    /// Adds a region and returns its index.
    pub(crate) fn add(&mut self, rule: Match, region: &Region<'_>) -> u32 {
        let (at, words) = (self.len, 2 * BLOCK * self.key_words);
        if at == self.blocks.len() * BLOCK {
            let (bounds, masks) = (vec![0; words].into(), vec![0; words].into());
            self.blocks.push(Block { bounds, masks, rules: [None; BLOCK], best: u64::MAX });
        }
        let (block, i) = (&mut self.blocks[at / BLOCK], at % BLOCK);
        for word in 0..self.key_words {
            let place = word * 2 * BLOCK + i;
            (block.bounds[place], block.bounds[place + BLOCK]) = (region.lo[word], region.hi[word]);
            let (value, mask) = region.ternary.map_or((0, 0), |(value, mask)| (value[word], mask[word]));
            (block.masks[place], block.masks[place + BLOCK]) = (value, mask);
        }
        block.rules[i] = Some(rule);
        block.settle();
        self.len += 1;
        at as u32
    }

    pub(crate) fn rule(&self, at: u32) -> Option<Match> {
        let at = at as usize;
        self.blocks.get(at / BLOCK).and_then(|block| block.rules[at % BLOCK])
    }

    /// Removes the region of index `at`; the last region takes its index.
    ///
    /// Returns the rule and the former index of the region that moved, if one did.
    pub(crate) fn take(&mut self, at: u32) -> Option<(Match, u32)> {
        self.len -= 1;
        let (at, last) = (at as usize, self.len);
        let moved = self.rule(last as u32);
        for row in 0..2 * self.key_words {
            let (from, to) = (row * BLOCK + last % BLOCK, row * BLOCK + at % BLOCK);
            let last = &self.blocks[last / BLOCK];
            let (bound, mask) = (last.bounds[from], last.masks[from]);
            let block = &mut self.blocks[at / BLOCK];
            (block.bounds[to], block.masks[to]) = (bound, mask);
        }
        self.blocks[last / BLOCK].rules[last % BLOCK] = None;
        self.blocks[last / BLOCK].settle();
        if at != last {
            self.blocks[at / BLOCK].rules[at % BLOCK] = moved;
            self.blocks[at / BLOCK].settle();
        }
        if last.is_multiple_of(BLOCK) {
            self.blocks.pop();
        }
        moved.filter(|_| at != last).map(|rule| (rule, last as u32))
    }

    /// Reads the region of index `at`, whose bounds are gathered in `row`.
    pub(crate) fn read<R>(&self, at: u32, row: &mut Vec<u32>, take: impl FnOnce(Region<'_>) -> R) -> R {
        let (block, at, words) = (&self.blocks[at as usize / BLOCK], at as usize % BLOCK, self.key_words);
        row.resize(4 * words, 0);
        let (bounds, masks) = row.split_at_mut(2 * words);
        let ((lo, hi), (value, mask)) = (bounds.split_at_mut(words), masks.split_at_mut(words));
        for ((lo, hi), of) in lo.iter_mut().zip(&mut *hi).zip(block.bounds.as_chunks::<{ 2 * BLOCK }>().0) {
            (*lo, *hi) = (of[at], of[BLOCK + at]);
        }
        let mut any = 0;
        for ((value, mask), of) in value.iter_mut().zip(&mut *mask).zip(block.masks.as_chunks::<{ 2 * BLOCK }>().0) {
            (*value, *mask) = (of[at], of[BLOCK + at]);
            any |= *mask;
        }
        take(Region { lo, hi, ternary: (any != 0).then_some((value, mask)) })
    }

    /// Calls `visit` for the regions from block `from` to below block `to` that overlap `probe` and beat its bound.
    #[inline(always)]
    pub(crate) fn visit<I: Isa>(
        &self,
        isa: I,
        probe: &mut Probe,
        from: usize,
        to: usize,
        visit: &mut dyn FnMut(&mut Probe, Match, Region<'_>),
    ) {
        let mut row = std::mem::take(&mut probe.row);
        for at in from..to {
            // Blocks are scattered in memory, so that no hardware prefetcher predicts them.
            if let Some(later) = self.blocks.get(at + 4) {
                later.bounds.iter().step_by(LINE_WORDS).for_each(|word| isa.prefetch(word));
            }
            let block = &self.blocks[at];
            if !probe.takes(block.best) {
                continue;
            }
            probe.tested += BLOCK as u64;
            let mut hits = block.overlaps(isa, probe);
            while hits != 0 {
                let place = hits.trailing_zeros() as usize % BLOCK;
                hits &= hits - 1;
                let rule = block.rules[place].filter(|rule| probe.takes(rule.priority.0));
                // `visit` may have shrunk the box.
                let Some(rule) = rule.filter(|_| block.overlaps(isa, probe) >> place & 1 != 0) else { continue };
                self.read((at * BLOCK + place) as u32, &mut row, |region| visit(probe, rule, region));
            }
        }
        probe.row = row;
    }

    /// Improves the answers of a batch.
    ///
    /// A rule is an answer for key `i` if its priority is at most `bound[i]`.
    #[inline(always)]
    pub(crate) fn improve<I: Isa>(
        &self,
        isa: I,
        live_rules: impl LiveRules,
        keys: Keys<'_>,
        bound: &mut [u64],
        best: &mut [Option<Match>],
    ) {
        for block in &self.blocks {
            for (i, (bound, best)) in bound.iter_mut().zip(&mut *best).enumerate() {
                if block.best > *bound {
                    continue;
                }
                live_rules.saw(Step::Block);
                let row = keys.row(i);
                let mut hits = isa.inside8(&block.bounds, row, self.key_words);
                for (masks, &word) in block.masks.as_chunks::<16>().0.iter().zip(row) {
                    if hits == 0 {
                        break;
                    }
                    hits &= isa.masked8(masks, word);
                }
                while hits != 0 {
                    let found = block.rules[hits.trailing_zeros() as usize % BLOCK];
                    if let Some(found) = found.filter(|found| found.priority.0 <= *bound)
                        && live_rules.is_live(found.rule.slot())
                    {
                        (*bound, *best) = (found.priority.0, Some(found));
                    }
                    hits &= hits - 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::shared::wide::Random;
    use crate::rule::{Priority, RuleId};

    /// Regions come and go: there are as many blocks as they need, each with the best priority of its rules.
    #[test]
    fn blocks_are_those_that_regions_need() {
        let (mut rest, mut random) = (OverflowList::new(1), Random(6));
        for step in 0..2000u32 {
            if random.below(100) < if step / 200 % 2 == 0 { 70 } else { 30 } || rest.len() == 0 {
                let rule = Match { rule: RuleId::new(step, 0), priority: Priority(random.next() >> 8) };
                rest.add(rule, &Region { lo: &[step], hi: &[step + 1], ternary: None });
            } else {
                let at = random.below(rest.len()) as u32;
                let last = rest.rule(rest.len() as u32 - 1);
                let moved = rest.take(at).map(|(rule, _)| rule);
                assert_eq!(moved, last.filter(|_| (at as usize) < rest.len()), "step {step}");
            }
            assert_eq!(rest.blocks.len(), rest.len().div_ceil(BLOCK), "step {step}");
            for (number, block) in rest.blocks.iter().enumerate() {
                let here = (number * BLOCK..rest.len().min((number + 1) * BLOCK)).map(|at| rest.rule(at as u32));
                let best = here.map(|rule| rule.expect("no place is vacant").priority.0).min();
                assert_eq!(Some(block.best), best, "step {step}, block {number}");
            }
        }
    }
}
