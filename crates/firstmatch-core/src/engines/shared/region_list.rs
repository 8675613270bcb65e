//! All regions of a set of rules that changes, for searches of overlapping regions.

use super::blocks::BLOCK;
use super::overflow::OverflowList;
use super::places::Places;
use crate::engine::{Match, Overlaps, Probe};
use crate::raw::{Isa, Kernel, Level, dispatch};
use crate::rule::{Lowered, Region, RuleId};

/// Regions in blocks of eight, in no order, with the places of each rule.
///
/// A cursor is the index of a block, so a search must not be continued after a change.
#[derive(Clone, Debug)]
pub(crate) struct RegionList {
    level: Level,
    regions: OverflowList,
    places: Places,
}

impl RegionList {
    /// Builds a list of the regions of `rules`, in order of rank, unless it would take more than `most` bytes.
    ///
    /// # Errors
    /// Returns the bytes that it would take.
    pub(crate) fn build(rules: &Lowered, level: Level, most: usize) -> Result<Self, usize> {
        let (mut places, mut at) = (Places::new(), 0);
        for (rule, range) in rules.by_rule() {
            for _ in range {
                places.add(rule.rule.slot(), at, 0);
                at += 1;
            }
        }
        let mut regions = OverflowList::new(rules.schema().words().len());
        let needed = places.bytes() + regions.bytes_of(at as usize);
        if needed > most {
            return Err(needed);
        }
        regions.reserve(at as usize);
        for (rule, range) in rules.by_rule() {
            for at in range {
                regions.add(rule, &rules.regions().get(at));
            }
        }
        Ok(Self { level, regions, places })
    }

    #[cfg(test)]
    pub(crate) fn new(key_words: usize, level: Level) -> Self {
        Self { level, regions: OverflowList::new(key_words), places: Places::new() }
    }

    /// Number of bytes on the heap.
    pub(crate) fn bytes(&self) -> usize {
        self.regions.bytes() + self.places.bytes()
    }

    /// Returns an upper bound of the bytes of the list with `regions` more, all of one rule.
    pub(crate) fn bytes_with(&self, slot: usize, regions: usize) -> usize {
        self.bytes() + self.regions.growth_by(regions) + self.places.growth_by(slot, regions)
    }

    /// Adds a region of a rule.
    pub(crate) fn add(&mut self, rule: Match, region: &Region<'_>) {
        let at = self.regions.add(rule, region);
        self.places.add(rule.rule.slot(), at, 0);
    }

    /// Removes all regions of a rule.
    pub(crate) fn remove(&mut self, rule: RuleId) {
        while let Some(place) = self.places.take(rule.slot()) {
            if let Some((moved, from)) = self.regions.take(place.at) {
                self.places.moved(moved.rule.slot(), (from, 0), (place.at, 0));
            }
        }
    }
}

impl Overlaps for RegionList {
    fn visit(
        &self,
        probe: &mut Probe,
        cursor: u64,
        most: usize,
        visit: &mut dyn FnMut(&mut Probe, Match, Region<'_>),
    ) -> Option<u64> {
        let blocks = self.regions.block_count();
        let from = usize::try_from(cursor).unwrap_or(usize::MAX).min(blocks);
        let to = from.saturating_add(most.div_ceil(BLOCK).max(1)).min(blocks);
        dispatch(self.level, Visit { list: self, probe, from, to, visit });
        (to < blocks).then_some(to as u64)
    }

    fn home(&self, rule: Match, key: &[u32], probe: &mut Probe) -> bool {
        let mut row = std::mem::take(&mut probe.row);
        let is_there = self.places.of(rule.rule.slot()).any(|place| {
            self.regions.rule(place.at) == Some(rule)
                && self.regions.read(place.at, &mut row, |region| {
                    let holds = region.contains(key);
                    if holds {
                        probe.become_home(&region, key);
                    }
                    holds
                })
        });
        probe.row = row;
        is_there
    }
}

struct Visit<'a> {
    list: &'a RegionList,
    probe: &'a mut Probe,
    from: usize,
    to: usize,
    visit: &'a mut dyn FnMut(&mut Probe, Match, Region<'_>),
}

impl Kernel for Visit<'_> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        self.list.regions.visit(isa, self.probe, self.from, self.to, self.visit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::shared::wide::Random;
    use crate::rule::{Priority, Regions};

    /// Rules of up to four regions come and go; searches find exactly the present regions, in slices of any size.
    #[test]
    fn searches_find_the_regions_of_live_rules() {
        let levels: Vec<Level> = Level::available().collect();
        let (mut list, mut random) = (RegionList::new(2, levels[0]), Random(3));
        let mut live: Vec<Option<(Match, Vec<[u32; 4]>)>> = vec![None; 40];
        for step in 0..1500u32 {
            list.level = levels[step as usize % levels.len()];
            let slot = random.below(live.len());
            if live[slot].take().is_some() {
                list.remove(RuleId::new(slot as u32, 0));
            } else {
                let rule = Match { rule: RuleId::new(slot as u32, 0), priority: Priority(u64::from(step)) };
                let bounds = (0..random.below(5)).map(|_| {
                    let lo = [random.below(50) as u32, random.below(50) as u32];
                    [lo[0], lo[1], lo[0] + random.below(9) as u32, lo[1] + random.below(9) as u32]
                });
                let bounds: Vec<[u32; 4]> = bounds.collect();
                let mut regions = Regions::new(2);
                bounds.iter().for_each(|b| regions.push(Region { lo: &b[..2], hi: &b[2..], ternary: None }));
                let most = list.bytes_with(slot, regions.len());
                (0..regions.len()).for_each(|at| list.add(rule, &regions.get(at)));
                assert!(list.bytes() <= most, "{} bytes of {most}", list.bytes());
                live[slot] = Some((rule, bounds));
            }
            let lo = [random.below(50) as u32, random.below(50) as u32];
            let mut probe = Probe::new(&lo, &[lo[0] + 5, lo[1] + 5]);
            probe.below = Some(u64::from(step / 2 + 400));
            let (mut found, mut cursor) = (Vec::new(), Some(0));
            while let Some(from) = cursor {
                cursor = list.visit(&mut probe, from, 1 + random.below(20), &mut |_, rule, region| {
                    found.push((rule.priority.0, [region.lo[0], region.lo[1], region.hi[0], region.hi[1]]));
                });
            }
            let meets = |b: &[u32; 4]| (0..2).all(|w| b[w] <= lo[w] + 5 && lo[w] <= b[w + 2]);
            let rules = live.iter().flatten().filter(|(rule, _)| probe.takes(rule.priority.0));
            let mut expected: Vec<_> = rules
                .flat_map(|(rule, all)| all.iter().map(|b| (rule.priority.0, *b)))
                .filter(|(_, b)| meets(b))
                .collect();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected, "step {step}");
            for (rule, bounds) in live.iter().flatten() {
                let is_there = list.home(*rule, &lo, &mut probe);
                assert_eq!(is_there, bounds.iter().any(|b| (0..2).all(|w| b[w] <= lo[w] && lo[w] <= b[w + 2])));
            }
        }
    }
}
