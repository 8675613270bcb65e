//! Ordered changes with the regions of inserted rules, for a transaction and for the log.
//!
//! The log has all changes since the bases were built.

use std::mem;
use std::ops::Range;
use std::sync::Arc;

use super::attached::Attached;
use super::left_right::ARC;
use crate::engine::Match;
use crate::rule::{Lowered, Regions, RuleId};

/// Insertions and removals, in order.
#[derive(Debug)]
pub(super) struct Changes {
    /// Each changed rule, with the index of its insertion; `None` if it is removed.
    changes: Vec<(Match, Option<u32>)>,
    /// Range of regions of each insertion in each part.
    places: Vec<[u32; 2]>,
    /// Regions by part. The regions of a failed insertion remain, but no range covers them.
    regions: Box<[Regions]>,
    /// Attached data of inserted rules, and of rules whose line changed, by slot.
    attached: Vec<(u32, Attached)>,
}

/// Point in a list of changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark([usize; 3]);

impl Changes {
    /// Builds an empty list; `key_words` has the number of key words of each part.
    pub(super) fn new(key_words: impl Iterator<Item = usize>) -> Self {
        let regions = key_words.map(Regions::new).collect();
        Self { changes: Vec::new(), places: Vec::new(), regions, attached: Vec::new() }
    }

    fn alike(&self) -> Self {
        Self::new(self.regions.iter().map(Regions::key_words))
    }

    pub(super) fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether there is nothing to commit: neither a changed rule nor attached data.
    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.attached.is_empty()
    }

    /// Removes all changes and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.changes.clear();
        self.places.clear();
        self.regions.iter_mut().for_each(Regions::clear);
        self.attached.clear();
    }

    /// Notes the data that a rule attaches to decisions.
    pub(super) fn attach(&mut self, rule: RuleId, attached: Attached) {
        // A slot has at most 32 bits.
        self.attached.push((rule.slot() as u32, attached));
    }

    /// Returns slots of rules with their attached data, in order.
    pub(super) fn attached(&self) -> impl Iterator<Item = (usize, Attached)> {
        self.attached.iter().map(|&(slot, attached)| (slot as usize, attached))
    }

    /// Appends an insertion; `lower` appends the regions of each part.
    pub(super) fn insert<E>(
        &mut self,
        rule: Match,
        mut lower: impl FnMut(usize, &mut Regions) -> Result<(), E>,
    ) -> Result<(), E> {
        let number = self.places.len();
        for (part, regions) in self.regions.iter_mut().enumerate() {
            let start = regions.len();
            if let Err(error) = lower(part, regions) {
                self.places.truncate(number);
                return Err(error);
            }
            // Fewer than 2^24 regions are ever lowered at a time, so the indices fit.
            self.places.push([start as u32, regions.len() as u32]);
        }
        self.changes.push((rule, Some((number / self.regions.len()) as u32)));
        Ok(())
    }

    pub(super) fn remove(&mut self, rule: Match) {
        self.changes.push((rule, None));
    }

    /// Returns a mark of what is there now, for [`Self::truncate`].
    pub(super) fn mark(&self) -> Mark {
        Mark([self.changes.len(), self.places.len(), self.attached.len()])
    }

    /// Removes all that came after `mark`.
    pub(super) fn truncate(&mut self, Mark([changes, places, attached]): Mark) {
        self.changes.truncate(changes);
        self.places.truncate(places);
        self.attached.truncate(attached);
    }

    /// Returns each changed rule, and whether it is inserted.
    pub(super) fn rules(&self) -> impl Iterator<Item = (Match, bool)> {
        self.changes.iter().map(|&(rule, insertion)| (rule, insertion.is_some()))
    }

    /// Whether the change `at` inserts a rule that has regions in `part`.
    pub(super) fn is_put(&self, at: usize, part: usize) -> bool {
        self.place(at, part).is_some_and(|place| !place.is_empty())
    }

    /// Number of rules with regions in `part` that are inserted and not removed again.
    pub(super) fn puts_left(&self, part: usize) -> usize {
        net(&[self]).iter().filter_map(|net| net.inserted).filter(|&(_, at)| self.is_put(at, part)).count()
    }

    fn place(&self, at: usize, part: usize) -> Option<Range<usize>> {
        let number = self.changes[at].1? as usize;
        let [start, end] = self.places[number * self.regions.len() + part];
        Some(start as usize..end as usize)
    }

    /// Returns the rule of change `at`; for an insertion also its regions in `part`.
    ///
    /// The regions are copied to `to`.
    pub(super) fn get<'r>(&self, at: usize, part: usize, to: &'r mut Regions) -> (Match, Option<&'r Regions>) {
        let regions = self.place(at, part).map(|place| {
            to.clear();
            place.for_each(|index| to.push(self.regions[part].get(index)));
            &*to
        });
        (self.changes[at].0, regions)
    }

    /// Replaces the changes by their net effect if there are many, and most undo others.
    ///
    /// Otherwise an overlay would grow for rules that are gone again before anybody looks them up.
    pub(super) fn shorten(&mut self) {
        if self.len() <= LEAST {
            return;
        }
        let (mut short, all) = (self.alike(), net(&[self]));
        // Removals come first, because an inserted rule may have the slot of a removed one.
        let removed = all.iter().filter_map(|net| net.removed);
        removed.chain(all.iter().filter_map(|net| net.inserted)).for_each(|(_, at)| short.append(self, at));
        if 2 * short.len() < self.len() {
            short.attached = mem::take(&mut self.attached);
            *self = short;
        }
    }

    fn append(&mut self, other: &Self, at: usize) {
        let rule = other.changes[at].0;
        if other.changes[at].1.is_none() {
            return self.remove(rule);
        }
        let copied: Result<(), std::convert::Infallible> = self.insert(rule, |part, regions| {
            let place = other.place(at, part).unwrap_or(0..0);
            place.for_each(|index| regions.push(other.regions[part].get(index)));
            Ok(())
        });
        copied.unwrap_or_else(|never| match never {});
    }

    /// Returns the heap bytes.
    pub(super) fn bytes(&self) -> usize {
        self.changes.capacity() * size_of::<(Match, Option<u32>)>()
            + self.places.capacity() * size_of::<[u32; 2]>()
            + self.attached.capacity() * size_of::<(u32, Attached)>()
            + size_of_val(&self.regions[..])
            + self.regions.iter().map(Regions::bytes).sum::<usize>()
    }
}

/// Number of changes in a piece of the log; rebuilds get whole pieces.
const PIECE: usize = 256;
/// Number of changes up to which shortening the log is not worth it.
const LEAST: usize = 512;

/// Log of all changes since the bases were built, in pieces.
///
/// All pieces but the last are whole and shared with a rebuild.
#[derive(Debug)]
pub(super) struct Log {
    whole: Vec<Arc<Changes>>,
    last: Changes,
    /// Number of changes in all pieces.
    len: usize,
}

impl Log {
    pub(super) fn new(key_words: impl Iterator<Item = usize>) -> Self {
        Self { whole: Vec::new(), last: Changes::new(key_words), len: 0 }
    }

    /// Appends changes; returns the number of pieces that became whole.
    pub(super) fn append(&mut self, changes: &Changes) -> usize {
        let before = self.whole.len();
        for at in 0..changes.len() {
            self.last.append(changes, at);
            if self.last.len() == PIECE {
                self.close();
            }
        }
        self.len += changes.len();
        self.whole.len() - before
    }

    fn close(&mut self) {
        let next = self.last.alike();
        self.whole.push(Arc::new(mem::replace(&mut self.last, next)));
    }

    /// Returns all changes in whole pieces, after closing the last one.
    pub(super) fn pieces(&mut self) -> Vec<Arc<Changes>> {
        if !self.last.changes.is_empty() {
            self.close();
        }
        self.whole.clone()
    }

    /// Returns the pieces from index `piece` on, the unfinished one last.
    pub(super) fn since(&self, piece: usize) -> impl Iterator<Item = &Changes> {
        self.whole.iter().skip(piece).map(|piece| &**piece).chain([&self.last])
    }

    /// Returns the last `pieces` whole pieces.
    pub(super) fn last_whole(&self, pieces: usize) -> &[Arc<Changes>] {
        &self.whole[self.whole.len() - pieces..]
    }

    /// Removes the first `pieces` pieces.
    pub(super) fn forget(&mut self, pieces: usize) {
        self.len -= self.whole.drain(..pieces).map(|piece| piece.len()).sum::<usize>();
    }

    /// Whether most changes undo others; `changed` is the number of rules that differ from the bases.
    pub(super) fn is_long(&self, changed: usize) -> bool {
        self.len > LEAST.max(2 * changed)
    }

    /// Replaces the changes by their net effect.
    pub(super) fn shorten(&mut self) {
        let pieces = self.pieces();
        let pieces: Vec<&Changes> = pieces.iter().map(|piece| &**piece).collect();
        let mut short = Self::new(self.last.regions.iter().map(Regions::key_words));
        let mut put = |(piece, at): (usize, usize)| {
            short.last.append(pieces[piece], at);
            short.len += 1;
            if short.last.len() == PIECE {
                short.close();
            }
        };
        for net in net(&pieces) {
            net.removed.into_iter().chain(net.inserted).for_each(&mut put);
        }
        *self = short;
    }

    /// Returns the heap bytes.
    pub(super) fn bytes(&self) -> usize {
        let piece = |piece: &Arc<Changes>| ARC + size_of::<Changes>() + piece.bytes();
        self.whole.capacity() * size_of::<Arc<Changes>>()
            + self.whole.iter().map(piece).sum::<usize>()
            + self.last.bytes()
    }
}

/// Net effect of the changes at one priority; each change is named by its piece and its index there.
///
/// For example, if rule A is removed, B inserted at its priority and B removed again, only the removal of A is left.
struct Net {
    /// Rule that was there before the changes.
    removed: Option<(usize, usize)>,
    inserted: Option<(usize, usize)>,
}

/// Returns the net effect of the changes, in order of priority.
fn net(pieces: &[&Changes]) -> Vec<Net> {
    let places = pieces.iter().enumerate().flat_map(|(piece, changes)| (0..changes.len()).map(move |at| (piece, at)));
    let change = |&(piece, at): &(usize, usize)| pieces[piece].changes[at];
    let mut all: Vec<(usize, usize)> = places.collect();
    all.sort_unstable_by_key(|place| (change(place).0.priority, *place));
    // At any time only one rule has a priority, so insertions and removals at it alternate.
    let of_one = |of: &[(usize, usize)]| {
        let mut net = Net { removed: None, inserted: None };
        for place in of {
            match (change(place).1, net.inserted) {
                (Some(_), _) => net.inserted = Some(*place),
                (None, Some(_)) => net.inserted = None,
                (None, None) => net.removed = Some(*place),
            }
        }
        net
    };
    all.chunk_by(|a, b| change(a).0.priority == change(b).0.priority).map(of_one).collect()
}

/// Returns the rules of `part`: the rules in `store`, with the changes in `pieces` applied.
pub(super) fn changed(store: &Lowered, pieces: &[&Changes], part: usize) -> Lowered {
    let mut out = store.empty_like();
    let mut old = store.kept_by_rule().peekable();
    let keep = |out: &mut Lowered, (rule, range): (Match, Range<usize>)| out.push_of(store, rule, range);
    for net in net(pieces) {
        let rule_of = |(piece, at): (usize, usize)| pieces[piece].changes[at].0;
        let Some(priority) = net.removed.or(net.inserted).map(|place| rule_of(place).priority) else { continue };
        while let Some(of) = old.next_if(|(rule, _)| rule.priority < priority) {
            keep(&mut out, of);
        }
        if let Some(place) = net.removed {
            old.next_if(|(rule, _)| *rule == rule_of(place));
        }
        if let Some((piece, at)) = net.inserted
            && let Some(place) = pieces[piece].place(at, part)
        {
            place.for_each(|index| out.push(rule_of((piece, at)), pieces[piece].regions[part].get(index)));
        }
    }
    old.for_each(|of| keep(&mut out, of));
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::rule::{Priority, Region, RuleId};
    use crate::schema::Schema;

    /// The net effect of changes equals a map's, from whole pieces and after shortening.
    ///
    /// Rules are inserted and removed at a few priorities, in two parts, in some of which they have no region.
    #[test]
    fn changes_come_to_what_is_left() {
        let schema = Schema::ipv4();
        let key_words = schema.words().len();
        let mut state = 7u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            (state >> 33) % below
        };
        let mut stores = [Lowered::empty(&schema), Lowered::empty(&schema)];
        let mut live = BTreeMap::new();
        let (lo, hi) = (vec![0; key_words], |value: u32| vec![value; key_words]);
        for slot in 0..40u32 {
            let rule = Match { rule: RuleId::new(slot, 0), priority: Priority(u64::from(slot) * 2) };
            stores.iter_mut().for_each(|of| of.push(rule, Region { lo: &lo, hi: &hi(slot), ternary: None }));
            live.insert(rule.priority, (rule, slot, [1, 1]));
        }
        let mut log = Log::new([key_words, key_words].into_iter());
        let mut next = Changes::new([key_words, key_words].into_iter());
        for step in 0..5000u32 {
            next.clear();
            let priority = Priority(random(80));
            match live.remove(&priority) {
                Some((rule, ..)) => next.remove(rule),
                None => {
                    let rule = Match { rule: RuleId::new(100 + step, 0), priority };
                    let counts = [random(3) as usize, random(2) as usize];
                    let inserted: Result<(), ()> = next.insert(rule, |part, regions| {
                        let region = hi(step);
                        (0..counts[part]).for_each(|_| regions.push(Region { lo: &lo, hi: &region, ternary: None }));
                        Ok(())
                    });
                    inserted.expect("it does not fail");
                    live.insert(priority, (rule, step, counts));
                }
            }
            log.append(&next);
            if step % 700 == 600 {
                log.shorten();
                assert!(log.len <= 120, "{} changes of 80 priorities", log.len);
            }
            if step % 97 == 0 {
                let pieces = log.pieces();
                let pieces: Vec<&Changes> = pieces.iter().map(|piece| &**piece).collect();
                for (part, store) in stores.iter().enumerate() {
                    let is = changed(store, &pieces, part);
                    let want = live.values().flat_map(|&(rule, value, counts)| vec![(rule, value); counts[part]]);
                    let is = is.rules().iter().zip(is.regions().iter()).map(|(rule, region)| (*rule, region.hi[0]));
                    assert!(is.eq(want), "part {part}, step {step}");
                }
            }
        }
    }

    /// The log is long if it has more than 512 changes, and more than twice as many as there are changed rules.
    #[test]
    fn a_log_is_long_where_changes_undo_others() {
        let mut log = Log::new([1].into_iter());
        let mut one = Changes::new([1].into_iter());
        one.remove(Match { rule: RuleId::new(0, 0), priority: Priority(0) });
        (0..512).for_each(|_| _ = log.append(&one));
        assert!(!log.is_long(0));
        _ = log.append(&one);
        assert!(log.is_long(0) && log.is_long(256) && !log.is_long(257));
    }

    /// Every piece but the last has 256 changes; a rebuild closes the last one, and no piece is empty.
    #[test]
    fn a_log_grows_by_whole_pieces() {
        let mut log = Log::new([1].into_iter());
        let mut changes = Changes::new([1].into_iter());
        assert!(log.pieces().is_empty());
        (0..300).for_each(|_| changes.remove(Match { rule: RuleId::new(0, 0), priority: Priority(0) }));
        assert_eq!([0; 3].map(|_| log.append(&changes)), [1, 1, 1]);
        let sizes = |log: &Log| log.since(0).map(Changes::len).collect::<Vec<_>>();
        assert_eq!(sizes(&log), [PIECE, PIECE, PIECE, 900 - 3 * PIECE]);
        for _ in 0..2 {
            assert_eq!(log.pieces().iter().map(|piece| piece.len()).collect::<Vec<_>>(), [PIECE, PIECE, PIECE, 132]);
            assert_eq!((log.len, log.last.len()), (900, 0));
        }
        assert_eq!((log.append(&changes), sizes(&log)), (1, vec![PIECE, PIECE, PIECE, 132, PIECE, 44]));
    }

    /// Changes take bytes for each rule, and more for each insertion: its places and its regions.
    #[test]
    fn insertions_take_more_bytes_than_removals() {
        let rule = |slot| Match { rule: RuleId::new(slot, 0), priority: Priority(u64::from(slot)) };
        let [mut inserted, mut removed] = [(); 2].map(|()| Changes::new([1, 1].into_iter()));
        for slot in 0..1000 {
            let put: Result<(), ()> = inserted.insert(rule(slot), |_, _| Ok(()));
            assert!(put.is_ok());
            removed.remove(rule(slot));
        }
        let [a, b] = [&inserted, &removed].map(Changes::bytes);
        assert!(b >= 1000 * size_of::<Match>() && a >= b + 2000 * size_of::<[u32; 2]>(), "{a} and {b} bytes");
    }

    /// A shortened log has whole pieces, like a log that only grew.
    #[test]
    fn a_shortened_log_has_whole_pieces() {
        let mut log = Log::new([1].into_iter());
        for slot in 0..1000u32 {
            let mut one = Changes::new([1].into_iter());
            one.remove(Match { rule: RuleId::new(slot / 2, 0), priority: Priority(u64::from(slot / 2)) });
            _ = log.append(&one);
        }
        for _ in 0..2 {
            log.shorten();
            let pieces: Vec<usize> = log.since(0).map(Changes::len).collect();
            assert_eq!((log.len, &pieces[..]), (500, &[PIECE, 500 - PIECE][..]));
        }
    }

    /// Many changes that undo each other are replaced by what they come to, removals first.
    #[test]
    fn many_changes_are_shortened() {
        let rule = |slot, priority| Match { rule: RuleId::new(slot, 0), priority: Priority(priority) };
        let mut changes = Changes::new([1].into_iter());
        let insert = |changes: &mut Changes, rule| {
            let put: Result<(), ()> = changes.insert(rule, |_, regions| {
                regions.push(Region { lo: &[1], hi: &[2], ternary: None });
                Ok(())
            });
            put.expect("it does not fail");
        };
        insert(&mut changes, rule(7, 3));
        for round in 0..LEAST / 2 {
            changes.shorten();
            assert_eq!((changes.len(), changes.puts_left(0)), (1 + 2 * round, 1));
            insert(&mut changes, rule(1, 5));
            changes.remove(rule(1, 5));
        }
        changes.remove(rule(9, 6));
        changes.shorten();
        assert_eq!(changes.rules().collect::<Vec<_>>(), [(rule(9, 6), false), (rule(7, 3), true)]);
        assert_eq!((changes.is_put(1, 0), changes.puts_left(0)), (true, 1));
    }

    /// Regions that a failed insertion leaves belong to no rule.
    #[test]
    fn a_failed_insertion_is_not_there() {
        let mut changes = Changes::new([1, 1].into_iter());
        let rule = |slot| Match { rule: RuleId::new(slot, 0), priority: Priority(u64::from(slot)) };
        let region =
            |value: &[u32; 1], regions: &mut Regions| regions.push(Region { lo: value, hi: value, ternary: None });
        let failed = changes.insert(rule(1), |part, regions| {
            region(&[1], regions);
            if part == 0 { Ok(()) } else { Err("no") }
        });
        assert_eq!((failed, changes.len()), (Err("no"), 0));
        let inserted: Result<(), ()> = changes.insert(rule(2), |part, regions| {
            region(&[2 + part as u32], regions);
            Ok(())
        });
        assert_eq!((inserted, changes.len()), (Ok(()), 1));
        for part in 0..2 {
            let mut regions = Regions::new(1);
            let (found, regions) = changes.get(0, part, &mut regions);
            let values: Vec<u32> = regions.expect("an insertion").iter().map(|region| region.lo[0]).collect();
            assert_eq!((found, values), (rule(2), vec![2 + part as u32]));
        }
    }
}
