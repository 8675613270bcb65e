//! Insertions, splits and removals.

use super::candidates::PLANE;
use super::config::Merge;
use super::pool::{Entry, LONGEST, Pool, SHARED};
use super::structure::{Bounds, TupleMerge};
use super::table::{Slot, Table};
use super::tuple::is_within;
use crate::engine::{Match, Updatable};
use crate::engines::shared::places::{OVERFLOW, Place, UNMATCHABLE, VACANT};
use crate::engines::shared::vec_growth;
use crate::error::UpdateError;
use crate::raw::Hasher;
use crate::rule::{Priority, Region, Regions, RuleId};

/// Number of row words that one removal pays for when stale bits are cleared.
const REFRESH: usize = 64;

/// Number of places by which the list of tables grows.
///
/// If it doubled instead, its unused half would take some bytes per rule.
const MORE_TABLES: usize = 8;

/// Maximum number of entries of a table whose candidate bits are set anew after each removal.
const FEW: usize = 4;

/// Minimum number of insertions after which tables that are out of order are numbered anew.
const LEAST_INSERTIONS: usize = 256;

/// Number of tables below which each new tuple gets its own table, with `Config::spill`.
///
/// A lookup checks 64 tables at a time, so that more tables cost nothing up to there, and each has fewer entries to
/// compare with a key. A higher limit takes more memory and is no faster.
const OWN_TABLES: usize = 24;
/// The same limit for an entry that an existing table could take.
///
/// It is higher, because rules in random order create a general table early, which would take all later rules. It is
/// not much higher, because otherwise some small sets would need more than 64 tables.
const OWN_AMONG_OTHERS: usize = 28;

/// Multiple of the collision limit beyond which a group has resisted every split so far.
///
/// Another split is then tried only when its length is a power of two. Otherwise each of many equal rules would be
/// compared with the whole group.
const RESISTED: usize = 4;

/// Table where an entry belongs.
enum Home {
    /// This table, which has room.
    Room(u32),
    /// This table, whose group for the key (the second number) is at or above the collision limit.
    Crowded(u32, u32),
    /// A new table of its own tuple.
    Own,
    /// A new table of a tuple with fewer bits, which others may share.
    Relaxed,
}

impl Updatable for TupleMerge {
    fn insert(&mut self, rule: Match, regions: &Regions) -> Result<(), UpdateError> {
        let slot = rule.rule.slot();
        if regions.key_words() != self.shape.key_words() {
            return Err(UpdateError::key_words(regions.key_words(), self.shape.key_words()));
        }
        if !self.places.is_vacant(slot) {
            return Err(UpdateError::present(rule.rule));
        }
        for (before, region) in regions.iter().enumerate() {
            if let Err(error) = self.check_budget(slot, before, &region) {
                // Regions that are in already go again, which takes no memory.
                if before > 0 {
                    self.remove(rule.rule)?;
                }
                return Err(error);
            }
            self.insert_region(rule, &region);
        }
        if regions.is_empty() {
            let needed = self.bytes().saturating_add(self.places.growth(slot, 0));
            if needed > self.budget {
                return Err(UpdateError::bytes(needed, self.budget));
            }
            self.places.add(slot, rule.rule.reuse(), UNMATCHABLE);
        }
        Ok(())
    }

    fn remove(&mut self, rule: RuleId) -> Result<(), UpdateError> {
        let slot = rule.slot();
        if self.places.is_vacant(slot) || !self.holds(rule) {
            return Err(UpdateError::stale(rule));
        }
        while let Some(place) = self.places.take(slot) {
            if place.part == OVERFLOW {
                if let Some((moved, from)) = self.overflow.take(place.at) {
                    self.places.moved(moved.rule.slot(), (from, OVERFLOW), (place.at, OVERFLOW));
                }
            } else if let Some((slot, entry)) = self.locate(place, rule) {
                let entry = self.take_entry(place.part, slot, entry);
                self.pool.forget(&entry);
                self.drop_if_empty(place.part);
            } else {
                continue;
            }
            self.regions -= 1;
            self.rules -= usize::from(self.places.is_vacant(rule.slot()));
        }
        Ok(())
    }
}

impl TupleMerge {
    /// Refuses the next region of a rule if it might exceed the budget.
    ///
    /// The rule has `before` regions already. The next may start a table, join the longest group, or have a table
    /// split, and each list may double.
    pub(super) fn check_budget(&self, slot: usize, before: usize, region: &Region<'_>) -> Result<(), UpdateError> {
        // No memory is that large.
        if self.budget > isize::MAX as usize {
            return Ok(());
        }
        let largest = self.in_order().map(Table::growth).max().unwrap_or(0);
        let list = |capacity: usize| capacity.max(4) * 4;
        let lists = MORE_TABLES * size_of::<Option<Table>>()
            + list(self.order.capacity())
            + list(self.fingerprints.capacity())
            + vec_growth(self.bounds.len(), self.bounds.capacity(), PLANE) * size_of::<Bounds>();
        let moving = self.would_move(region);
        let needed = self.bytes()
            + self.places.growth(slot, before + 1)
            + lists
            + self.pool.growth(self.longest, moving)
            + self.candidates.growth(self.regions + 1, self.tables.len() + 1)
            + if self.has_room_for_tables() && self.longest < LONGEST { 0 } else { self.overflow.growth() }
            + Table::least_bytes(self.shape.stride())
            + largest
            + Table::buckets_bytes(moving);
        if needed > self.budget { Err(UpdateError::bytes(needed, self.budget)) } else { Ok(()) }
    }

    /// Maximum number of entries that a split moves when this region is inserted.
    fn would_move(&self, region: &Region<'_>) -> usize {
        let (lo, nominal) = self.rows(region);
        let Home::Crowded(t, group) = self.home(&lo, &nominal) else { return 0 };
        let Some(table) = &self.tables[t as usize] else { return 0 };
        if self.split_tuple(table.tuple(), group, &lo, &nominal).is_some() { table.len() } else { 0 }
    }

    /// Returns the lower bounds of a region and the bits it fixes, as rows.
    pub(super) fn rows(&self, region: &Region<'_>) -> (Vec<u32>, Vec<u32>) {
        let (mut lo, mut nominal) = (vec![0; self.shape.stride()], vec![0; self.shape.stride()]);
        lo[..region.lo.len()].copy_from_slice(region.lo);
        self.shape.nominal(region, &mut nominal);
        (lo, nominal)
    }

    fn insert_region(&mut self, rule: Match, region: &Region<'_>) {
        self.inserted += 1;
        self.visits += 1 + self.order.len();
        // Tables whose numbers are out of order are probed too early. Mending that takes as many steps as there were
        // insertions.
        let stale = self.inserted > self.regions + LEAST_INSERTIONS && self.are_out_of_order();
        if stale || self.candidates.is_crowded(self.regions + 1) {
            self.renumber(self.regions + 1);
        }
        let (lo, nominal) = self.rows(region);
        let target = match self.home(&lo, &nominal) {
            Home::Room(t) => Some(t),
            Home::Crowded(t, group) => Some(self.split(t, group, &lo, &nominal)),
            Home::Own => self.has_room_for_tables().then(|| self.new_table(&nominal)),
            Home::Relaxed => self.has_room_for_tables().then(|| {
                let mut tuple = nominal.clone();
                self.shape.relaxed(&nominal, &mut tuple);
                self.new_table(&tuple)
            }),
        };
        self.insert_into(target, rule, region, &lo);
    }

    /// Puts a region into a table, or into the overflow list if there is none with room.
    ///
    /// A group of `LONGEST` entries has no room.
    pub(super) fn insert_into(&mut self, target: Option<u32>, rule: Match, region: &Region<'_>, lo: &[u32]) {
        let table = target.and_then(|t| Some((t, self.tables[t as usize].as_ref()?)));
        let group = table.and_then(|(_, table)| find_group(table, &self.hasher, &self.pool, lo).1);
        let len = group.map_or(0, |(_, group)| self.pool.group_len(group));
        self.visits += len.min(SHARED);
        let (hash, t) = match target.filter(|_| len < LONGEST) {
            Some(t) => {
                let entry = self.pool.make(rule, region);
                (self.put(t, &entry, rule.priority), t)
            }
            None => (self.overflow.add(rule, region), OVERFLOW),
        };
        self.regions += 1;
        self.rules += usize::from(self.places.is_vacant(rule.rule.slot()));
        self.places.add(rule.rule.slot(), hash, t);
    }

    fn has_room_for_tables(&self) -> bool {
        self.order.len() < self.most_tables
    }

    pub(super) fn new_table(&mut self, tuple: &[u32]) -> u32 {
        let table = Table::new(tuple);
        let fingerprint = self.hasher.hash(tuple, tuple);
        self.table_bytes += table.bytes();
        let free =
            if self.order.len() < self.tables.len() { self.tables.iter().position(Option::is_none) } else { None };
        let number = free.unwrap_or_else(|| {
            if self.tables.len() == self.tables.capacity() {
                self.tables.reserve_exact(MORE_TABLES);
            }
            self.tables.push(None);
            self.fingerprints.push(0);
            if self.bounds.len() < self.tables.len() {
                self.bounds.resize(self.tables.len().next_multiple_of(PLANE), Bounds::NONE);
            }
            self.tables.len() - 1
        });
        self.tables[number] = Some(table);
        self.fingerprints[number] = fingerprint;
        self.order.push(number as u32);
        number as u32
    }

    /// Puts an entry into a table; returns its hash there.
    fn put(&mut self, t: u32, entry: &Entry, priority: Priority) -> u32 {
        let Self { tables, pool, table_bytes, longest, hasher, candidates, .. } = self;
        let Some(table) = &mut tables[t as usize] else { return 0 };
        candidates.add(t as usize, &pool.region_of(entry));
        let (hash, found) = find_group(table, hasher, pool, entry);
        match found {
            Some((slot, group)) => {
                let start = pool.add(Some(group), entry);
                let entries = pool.group_len(start);
                table.set_group(slot, start);
                table.grew(entries);
                *longest = entries.max(*longest);
            }
            None => {
                let start = pool.add(None, entry);
                *table_bytes -= table.bytes();
                table.add_group(hash, start);
                table.grew(1);
                *table_bytes += table.bytes();
            }
        }
        if table.count_in(priority) {
            self.sort_in(t);
        }
        hash
    }

    /// Whether lookups probe candidates in another order than that of the tables' best priorities.
    ///
    /// Lookups without candidates follow `order` itself, so that table numbers do not matter.
    pub(super) fn are_out_of_order(&self) -> bool {
        self.candidates.are_asked() && !self.order.is_sorted()
    }

    /// Numbers the tables in their order, and adds every region to the candidates anew.
    ///
    /// The candidates then have at least as many rows as `regions` regions need.
    pub(super) fn renumber(&mut self, regions: usize) {
        let mut numbers = vec![VACANT; self.tables.len()];
        let mut tables: Vec<Option<Table>> = Vec::with_capacity(self.tables.capacity());
        let mut fingerprints = Vec::with_capacity(self.fingerprints.capacity());
        for (new, t) in (0u32..).zip(&mut self.order) {
            let old = std::mem::replace(t, new) as usize;
            numbers[old] = new;
            tables.push(self.tables[old].take());
            fingerprints.push(self.fingerprints[old]);
        }
        (self.tables, self.fingerprints, self.inserted) = (tables, fingerprints, 0);
        self.places.renumber(&numbers);
        self.settle_bounds();
        self.candidates.restart(regions);
        for t in 0..self.tables.len() {
            self.tell_candidates(t);
        }
    }

    /// Computes the bounds of all tables anew.
    fn settle_bounds(&mut self) {
        let mut after = u64::MAX;
        for (t, bounds) in self.bounds.iter_mut().enumerate().rev() {
            *bounds = Bounds { best: best_of(&self.tables, t), after };
            after = after.min(bounds.best);
        }
    }

    /// Updates the bounds after the best priority of one table has changed.
    fn settle_bound(&mut self, t: usize) {
        self.bounds[t].best = best_of(&self.tables, t);
        let mut after = self.bounds[t].best.min(self.bounds[t].after);
        for bounds in self.bounds[..t].iter_mut().rev() {
            if std::mem::replace(&mut bounds.after, after) == after {
                break;
            }
            after = after.min(bounds.best);
        }
    }

    /// Adds every region of a table to its candidates.
    fn tell_candidates(&mut self, t: usize) {
        let Self { tables, pool, candidates, visits, .. } = self;
        let Some(table) = &mut tables[t] else { return };
        *visits += table.len();
        let mut longest = 0;
        for (_, group) in table.groups() {
            let mut entries = 0;
            for entry in pool.group(group) {
                candidates.add(t, &pool.region(entry));
                entries += 1;
            }
            longest = longest.max(entries);
        }
        table.refreshed(longest);
    }

    /// Moves a table to its position in the order after its best priority has changed.
    fn sort_in(&mut self, t: u32) {
        self.take_from_order(t);
        let to = self.first_of(best_of(&self.tables, t as usize));
        self.order.insert(to, t);
        self.settle_bound(t as usize);
    }

    fn take_from_order(&mut self, t: u32) {
        let from = self.first_of(self.bounds[t as usize].best);
        if let Some(at) = self.order[from..].iter().position(|&other| other == t) {
            self.order.remove(from + at);
        }
    }

    /// Returns the position in `order` of the first table whose best priority is `best` or worse, by the bounds.
    fn first_of(&self, best: u64) -> usize {
        self.order.partition_point(|&t| self.bounds[t as usize].best < best)
    }

    /// Returns where an entry of this tuple belongs: the first compatible table, or a new one.
    ///
    /// With `spill`, the table of exactly this tuple comes first, or a new one of this tuple. Next comes the compatible
    /// table with most bits that has room for the entry's key.
    fn home(&self, lo: &[u32], nominal: &[u32]) -> Home {
        let exact = || {
            let fingerprint = self.hasher.hash(nominal, nominal);
            let alike = (0u32..).zip(&self.fingerprints).filter(|&(_, &other)| other == fingerprint);
            let same = |&t: &u32| self.tables[t as usize].as_ref().is_some_and(|table| table.tuple() == nominal);
            alike.map(|(t, _)| t).find(same)
        };
        if self.merge == Merge::None {
            return exact().map_or(Home::Own, Home::Room);
        }
        let crowded_group = |table: &Table| {
            let group = find_group(table, &self.hasher, &self.pool, lo).1.map(|(_, group)| group);
            group.filter(|&group| self.pool.group(group).nth(self.limit - 1).is_some())
        };
        let compatible = || {
            let tables = self.order.iter().filter_map(|&t| Some((t, self.tables[t as usize].as_ref()?)));
            tables.filter(|(_, table)| is_within(table.tuple(), nominal))
        };
        if self.spill {
            let exact = exact().and_then(|t| Some((t, self.tables[t as usize].as_ref()?)));
            match exact {
                Some((t, table)) if crowded_group(table).is_none() => return Home::Room(t),
                None if self.has_room_for_tables() && self.may_own(compatible().next().is_some()) => return Home::Own,
                _ => {}
            }
            let mut most = None;
            for (t, table) in compatible() {
                let bits: u32 = table.tuple().iter().map(|mask| mask.count_ones()).sum();
                if most.is_none_or(|(most, _)| bits > most) && crowded_group(table).is_none() {
                    most = Some((bits, t));
                }
            }
            if let Some((_, t)) = most {
                return Home::Room(t);
            }
        }
        let Some((t, table)) = compatible().next() else { return Home::Relaxed };
        crowded_group(table).map_or(Home::Room(t), |group| Home::Crowded(t, group))
    }

    /// Whether an entry may have a new table of exactly its tuple.
    ///
    /// `among_others` says whether another table could take the entry.
    fn may_own(&self, among_others: bool) -> bool {
        self.order.len() < if among_others { OWN_AMONG_OTHERS } else { OWN_TABLES }
    }

    /// Splits table `t`, if that helps, because `group` has no room for a new entry.
    ///
    /// Returns the table to which the new entry belongs.
    fn split(&mut self, t: u32, group: u32, lo: &[u32], nominal: &[u32]) -> u32 {
        let Some(table) = self.tables[t as usize].as_ref().filter(|_| self.has_room_for_tables()) else { return t };
        let tuple = self.split_tuple(table.tuple(), group, lo, nominal);
        self.visits += if self.resists(group) { 0 } else { self.pool.group_len(group) };
        let Some(tuple) = tuple else { return t };
        let second = self.new_table(&tuple);
        self.move_compatible(t, second, &tuple);
        if !is_within(&tuple, nominal) {
            return t; // Even if every resident has left: the new entry has nowhere else to go.
        }
        self.drop_if_empty(t);
        second
    }

    /// Whether a group has resisted so many splits that none is tried at its present length.
    fn resists(&self, group: u32) -> bool {
        let len = self.pool.group_len(group);
        len > RESISTED * self.limit && (len == LONGEST || !len.is_power_of_two())
    }

    /// Returns the tuple of the second table of a split (section III-C3).
    ///
    /// It is `None` if no tuple separates the entries, or no split is tried at this length of the group.
    ///
    /// The tuple has the bits that all colliding entries share. If these are not specific enough, it gets more bits of
    /// the field whose length differs most. For example, if the sources have 16 to 25 bits, it gets 21 source bits.
    fn split_tuple(&self, tuple: &[u32], group: u32, lo: &[u32], nominal: &[u32]) -> Option<Vec<u32>> {
        if self.resists(group) {
            return None;
        }
        let stride = self.shape.stride();
        let mut colliding: Vec<Vec<u32>> = vec![nominal.to_vec()];
        let mut lows: Vec<&[u32]> = vec![lo];
        for resident in self.pool.group(group) {
            let mut own = vec![0; stride];
            self.shape.nominal(&self.pool.region(resident), &mut own);
            colliding.push(own);
            lows.push(self.pool.lo(resident));
        }
        let mut common = nominal.to_vec();
        for other in &colliding {
            common.iter_mut().zip(other).for_each(|(bits, o)| *bits &= o);
        }
        let key = |lo: &[u32]| -> Vec<u32> { lo.iter().zip(&common).map(|(l, mask)| l & mask).collect() };
        let mut keys: Vec<Vec<u32>> = lows.into_iter().map(key).collect();
        keys.sort_unstable();
        let most = keys.chunk_by(|a, b| a == b).map(<[_]>::len).max().unwrap_or(0);
        if common != tuple && most <= self.limit {
            return Some(common);
        }
        let spread = self.shape.fields().map(|field| {
            let lengths = colliding.iter().map(|own| self.shape.length(field, own));
            let shortest = lengths.clone().min().unwrap_or(0);
            let (longest, at) =
                lengths.zip(0..).max_by_key(|&(length, at)| (length, usize::MAX - at)).unwrap_or((0, 0));
            (longest - shortest, shortest, longest, field, at)
        });
        let (difference, shortest, longest, field, at) = spread.max_by_key(|&(d, .., f, _)| (d, usize::MAX - f))?;
        if difference == 0 {
            // All entries have the same tuple: only their values under it can tell them apart.
            return (common != tuple && most < keys.len()).then_some(common);
        }
        self.shape.raise(field, (shortest + longest).div_ceil(2), &colliding[at], &mut common);
        Some(common)
    }

    /// Moves every entry of table `from` that fits `tuple`, which is that of table `to`.
    fn move_compatible(&mut self, from: u32, to: u32, tuple: &[u32]) {
        let Some(table) = &self.tables[from as usize] else { return };
        self.visits += table.len();
        let mut nominal = vec![0; self.shape.stride()];
        let mut fits = |entry: u32| {
            self.shape.nominal(&self.pool.region(entry), &mut nominal);
            is_within(tuple, &nominal)
        };
        // Entries are looked up again by rule and priority, because groups move in the pool as their entries leave.
        let entries = table.groups().flat_map(|(_, group)| self.pool.group(group));
        let moving: Vec<(u32, Match)> = entries
            .filter(|&entry| fits(entry))
            .filter_map(|entry| {
                Some((hash_of(&self.hasher, &self.pool, entry, table.tuple()), self.pool.found(entry)?))
            })
            .collect();
        for (hash, found) in moving {
            let mut fits = |entry: u32| {
                self.shape.nominal(&self.pool.region(entry), &mut nominal);
                is_within(tuple, &nominal)
            };
            let Some(table) = &self.tables[from as usize] else { return };
            let place = table.find(hash).find_map(|(slot, group)| {
                let mut group = (1..).zip(self.pool.group(group));
                Some((slot, group.find(|&(_, e)| self.pool.found(e) == Some(found) && fits(e))?))
            });
            let Some((slot, (passed, entry))) = place else { continue };
            self.visits += passed;
            let entry = self.take_entry(from, slot, entry);
            let moved = self.put(to, &entry, found.priority);
            self.places.moved(found.rule.slot(), (hash, from), (moved, to));
        }
    }

    fn take_entry(&mut self, t: u32, slot: Slot, entry: u32) -> Entry {
        let priority = self.pool.priority(entry);
        let Some(table) = &mut self.tables[t as usize] else { return Entry::new() };
        let first = table.group_at(slot);
        let (taken, rest) = self.pool.take(first, entry);
        match rest {
            Some(start) => table.set_group(slot, start),
            None => table.drop_group(slot),
        }
        if table.count_out(priority) && table.len() > 0 {
            self.visits += table.len();
            table.tighten(&self.pool);
            self.sort_in(t);
        }
        self.tell_of_removal(t as usize, &taken);
        taken
    }

    /// Clears stale candidate bits of a table after `taken` was removed from it: at once if the table has few entries,
    /// otherwise only after many removals.
    fn tell_of_removal(&mut self, t: usize, taken: &Entry) {
        let Some(table) = self.tables[t].as_ref().filter(|_| self.candidates.are_asked()) else { return };
        if table.gone() == 1 && table.len() <= FEW {
            let others = table.groups().flat_map(|(_, group)| self.pool.group(group));
            let others = others.map(|entry| self.pool.region(entry));
            self.candidates.remove(t, &self.pool.region_of(taken), others);
            self.tell_candidates(t);
        } else if table.len() > 0 && table.is_stale(self.candidates.rows() / REFRESH) {
            self.candidates.clear(t);
            self.tell_candidates(t);
        }
    }

    fn drop_if_empty(&mut self, t: u32) {
        if let Some(table) = self.tables[t as usize].take_if(|table| table.len() == 0) {
            self.table_bytes -= table.bytes();
            self.take_from_order(t);
            if table.gone() > 0 {
                self.candidates.clear(t as usize);
            }
            self.settle_bound(t as usize);
        }
    }

    /// Whether the rule at this slot is `rule` and not another use of the slot.
    fn holds(&self, rule: RuleId) -> bool {
        let place = self.places.get(rule.slot());
        match place.part {
            UNMATCHABLE => place.at == rule.reuse(),
            OVERFLOW => self.overflow.rule(place.at).is_some_and(|found| found.rule == rule),
            _ => self.locate(place, rule).is_some(),
        }
    }

    fn locate(&self, place: Place, rule: RuleId) -> Option<(Slot, u32)> {
        let table = self.tables.get(place.part as usize)?.as_ref()?;
        table.find(place.at).find_map(|(slot, group)| {
            let mut group = self.pool.group(group);
            Some((slot, group.find(|&e| self.pool.found(e).is_some_and(|found| found.rule == rule))?))
        })
    }
}

/// Returns the best priority of a table, or the worst possible one if the table was dropped.
fn best_of(tables: &[Option<Table>], t: usize) -> u64 {
    tables.get(t).and_then(|table| Some(table.as_ref()?.best().0)).unwrap_or(u64::MAX)
}

fn hash_of(hasher: &Hasher, pool: &Pool, entry: u32, tuple: &[u32]) -> u32 {
    hasher.hash(&pool.lo(entry)[..tuple.len()], tuple)
}

/// Returns the hash of `lo` under the table's tuple, and the group of this key in the table.
fn find_group(table: &Table, hasher: &Hasher, pool: &Pool, lo: &[u32]) -> (u32, Option<(Slot, u32)>) {
    let hash = hasher.hash(&lo[..table.tuple().len()], table.tuple());
    let same = |group: u32| {
        let mut words = pool.lo(group).iter().zip(lo).zip(table.tuple());
        words.all(|((a, b), mask)| (a ^ b) & mask == 0)
    };
    (hash, table.find(hash).find(|&(_, group)| same(group)))
}
