//! Insertions, splits and removals.

use super::TupleMerge;
use super::pool::{Entry, Pool};
use super::table::{Slot, Table};
use super::tuple::is_within;
use crate::engine::Match;
use crate::error::UpdateError;
use crate::rule::{Priority, Region, Regions, RuleId};

/// Where the regions of each rule are: the map F of the paper, by slot. The first place of a rule stands at its slot,
/// further ones in a list.
#[derive(Debug, Default)]
pub(super) struct Places {
    first: Vec<Place>,
    more: Vec<Place>,
    free: Vec<u32>,
}

/// Where one region is.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The hash under the table's tuple. For a rule without regions: the reuse count of its id.
    hash: u32,
    /// The table, or one of the two below.
    table: u32,
    /// The next place of the rule, in `more`.
    next: u32,
}

/// No rule has this slot.
const VACANT: u32 = u32::MAX;
/// The rule of this slot has no region here.
const NOWHERE: u32 = u32::MAX - 1;
const END: u32 = u32::MAX;

const NO_PLACE: Place = Place { hash: 0, table: VACANT, next: END };

impl Places {
    pub(super) fn bytes(&self) -> usize {
        (self.first.capacity() + self.more.capacity()) * size_of::<Place>() + self.free.capacity() * 4
    }

    /// At most how many bytes the places of one more rule may take.
    fn growth(&self, slot: usize, regions: usize) -> usize {
        let more = (self.more.capacity().max(regions).max(4) + regions) * size_of::<Place>();
        let first = if slot < self.first.capacity() { 0 } else { self.first.capacity().max(slot + 1).max(4) };
        let free = (self.more.capacity() + regions).max(4) * 8;
        first * size_of::<Place>() + free + if regions > 1 { more } else { 0 }
    }

    fn is_vacant(&self, slot: usize) -> bool {
        self.first.get(slot).is_none_or(|place| place.table == VACANT)
    }

    fn add(&mut self, slot: usize, hash: u32, table: u32) {
        if self.first.len() <= slot {
            self.first.resize(slot + 1, NO_PLACE);
        }
        let old = self.first[slot];
        let next = match old.table {
            VACANT | NOWHERE => END,
            _ => match self.free.pop() {
                Some(at) => {
                    self.more[at as usize] = old;
                    at
                }
                None => {
                    self.more.push(old);
                    self.more.len() as u32 - 1
                }
            },
        };
        self.first[slot] = Place { hash, table, next };
    }

    /// Takes one place of a rule; `None` when it has no more.
    fn take(&mut self, slot: usize) -> Option<Place> {
        let place = self.first[slot];
        if place.table == VACANT {
            return None;
        }
        self.first[slot] = match self.more.get(place.next as usize) {
            Some(&next) => {
                self.free.push(place.next);
                next
            }
            None => NO_PLACE,
        };
        Some(place)
    }

    /// A region of this rule has moved.
    fn moved(&mut self, slot: usize, from: (u32, u32), to: (u32, u32)) {
        let at_home = |place: &Place| (place.hash, place.table) == from;
        let mut next = self.first[slot].next;
        if at_home(&self.first[slot]) {
            (self.first[slot].hash, self.first[slot].table) = to;
            return;
        }
        while let Some(place) = self.more.get_mut(next as usize) {
            if at_home(place) {
                (place.hash, place.table) = to;
                return;
            }
            next = place.next;
        }
    }
}

/// Where an entry belongs.
enum Home {
    /// In this table.
    Room(u32),
    /// In this table, where its group is at the limit.
    Crowded(u32, u32),
    /// In a table of its own.
    None,
}

impl TupleMerge {
    pub(super) fn insert_rule(&mut self, rule: Match, regions: &Regions) -> Result<(), UpdateError> {
        let slot = rule.rule.slot();
        if regions.lanes() != self.shape.lanes() {
            return Err(UpdateError::lanes(regions.lanes(), self.shape.lanes()));
        }
        if !self.places.is_vacant(slot) {
            return Err(UpdateError::present(rule.rule));
        }
        for (before, region) in regions.iter().enumerate() {
            if self.budget != usize::MAX
                && let Err(error) = self.check_budget(slot, before, &region)
            {
                // What is in already goes again; that takes no memory.
                if before > 0 {
                    self.remove_rule(rule.rule)?;
                }
                return Err(error);
            }
            let entry = self.pool.make(rule, &region);
            self.insert_entry(&entry, rule);
            self.regions += 1;
            self.rules += usize::from(before == 0);
        }
        if regions.is_empty() {
            let needed = self.bytes().saturating_add(self.places.growth(slot, 0));
            if needed > self.budget {
                return Err(UpdateError::bytes(needed, self.budget));
            }
            self.places.add(slot, rule.rule.reuse(), NOWHERE);
        }
        Ok(())
    }

    /// Refuses what might exceed the budget: the next region of a rule, which has some already, may start a table, join
    /// the longest group, or have a table split, and each list may double.
    fn check_budget(&self, slot: usize, before: usize, region: &Region<'_>) -> Result<(), UpdateError> {
        let largest = self.in_order().map(Table::growth).max().unwrap_or(0);
        let lists = self.tables.capacity().max(4) * size_of::<Option<Table>>() + self.order.capacity().max(4) * 4;
        let moving = self.would_move(region);
        let needed = self.bytes()
            + self.places.growth(slot, before + 1)
            + lists
            + self.pool.growth(self.longest.max(self.limit), moving)
            + Table::largest_new(self.shape.stride())
            + largest
            + Table::buckets_bytes(moving);
        if needed > self.budget { Err(UpdateError::bytes(needed, self.budget)) } else { Ok(()) }
    }

    /// At most how many entries a split moves when this region is inserted.
    fn would_move(&self, region: &Region<'_>) -> usize {
        let mut nominal = vec![0; self.shape.stride()];
        let mut lo = vec![0; self.shape.stride()];
        self.shape.nominal(region, &mut nominal);
        lo[..region.lo.len()].copy_from_slice(region.lo);
        let Home::Crowded(t, group) = self.home(&lo, &nominal) else { return 0 };
        let Some(table) = &self.tables[t as usize] else { return 0 };
        if self.split_tuple(table.tuple(), group, &lo, &nominal).is_some() { table.len() } else { 0 }
    }

    fn insert_entry(&mut self, entry: &Entry, rule: Match) {
        let mut nominal = vec![0; self.shape.stride()];
        self.shape.nominal(&self.pool.region_outside(entry), &mut nominal);
        let target = match self.home(entry, &nominal) {
            Home::Room(t) => t,
            Home::Crowded(t, group) => self.split(t, group, entry, &nominal),
            Home::None => {
                let mut tuple = vec![0; self.shape.stride()];
                self.shape.relaxed(&nominal, &mut tuple);
                self.new_table(&tuple)
            }
        };
        let hash = self.put(target, entry, rule.priority);
        self.places.add(rule.rule.slot(), hash, target);
    }

    fn new_table(&mut self, tuple: &[u32]) -> u32 {
        let table = Table::new(tuple, &self.secrets);
        self.table_bytes += table.bytes();
        let free = self.tables.iter().position(Option::is_none);
        let number = free.unwrap_or_else(|| {
            self.tables.push(None);
            self.tables.len() - 1
        });
        self.tables[number] = Some(table);
        self.order.push(number as u32);
        number as u32
    }

    /// Puts an entry into a table; its hash there.
    fn put(&mut self, t: u32, entry: &Entry, priority: Priority) -> u32 {
        let Self { tables, pool, table_bytes, budget, longest, .. } = self;
        let Some(table) = &mut tables[t as usize] else { return 0 };
        let (hash, found) = find_group(table, pool, entry);
        match found {
            Some((slot, group)) => {
                let start = pool.add(Some(group), entry);
                table.set_group(slot, start);
                if *budget != usize::MAX {
                    *longest = pool.group_len(start).max(*longest);
                }
            }
            None => {
                let start = pool.add(None, entry);
                *table_bytes -= table.bytes();
                table.add_group(hash, start, |group| pool.lo(group));
                *table_bytes += table.bytes();
            }
        }
        if table.count_in(priority) {
            self.sort_in(t);
        }
        hash
    }

    /// Moves a table to its place in the order after its best priority has changed.
    fn sort_in(&mut self, t: u32) {
        let best = |t: u32| self.tables[t as usize].as_ref().map(Table::best);
        let Some(at) = self.order.iter().position(|&other| other == t) else { return };
        let to = self.order.iter().filter(|&&other| other != t && best(other) < best(t)).count();
        if at < to {
            self.order[at..=to].rotate_left(1);
        } else {
            self.order[to..=at].rotate_right(1);
        }
    }

    /// Where an entry of this tuple belongs: the first compatible table, or, where that is crowded, a later one that
    /// has room for its key.
    fn home(&self, entry: &[u32], nominal: &[u32]) -> Home {
        let mut crowded = Home::None;
        for &t in &self.order {
            let Some(table) = self.tables[t as usize].as_ref().filter(|t| is_within(t.tuple(), nominal)) else {
                continue;
            };
            let group = find_group(table, &self.pool, entry).1.map(|(_, group)| group);
            match group.filter(|&group| self.pool.group_len(group) >= self.limit) {
                None => return Home::Room(t),
                Some(group) if matches!(crowded, Home::None) => crowded = Home::Crowded(t, group),
                Some(_) => {}
            }
            if !self.spill {
                break;
            }
        }
        crowded
    }

    /// Splits a table, where that helps, since `group` has no room for a new entry; to which half that belongs.
    fn split(&mut self, t: u32, group: u32, entry: &Entry, nominal: &[u32]) -> u32 {
        let Some(table) = &self.tables[t as usize] else { return t };
        let Some(tuple) = self.split_tuple(table.tuple(), group, entry, nominal) else { return t };
        let second = self.new_table(&tuple);
        self.move_compatible(t, second, &tuple);
        if !is_within(&tuple, nominal) {
            return t; // Even if every resident has left: the new entry has nowhere else to go.
        }
        self.drop_if_empty(t);
        second
    }

    /// The tuple of the second table (section III-C3): the bits the colliding entries have in common or, where those
    /// are not specific enough, more of the field in which they differ most. `None` when nothing tells them apart.
    fn split_tuple(&self, tuple: &[u32], group: u32, entry: &[u32], nominal: &[u32]) -> Option<Vec<u32>> {
        let stride = self.shape.stride();
        let mut colliding: Vec<Vec<u32>> = vec![nominal.to_vec()];
        let mut lows: Vec<&[u32]> = vec![entry];
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
            // One tuple: its bits are all there is to tell them apart, if they do.
            return (common != tuple && most < keys.len()).then_some(common);
        }
        self.shape.raise(field, (shortest + longest).div_ceil(2), &colliding[at], &mut common);
        Some(common)
    }

    /// Moves every entry of one table that fits the tuple of another there.
    fn move_compatible(&mut self, from: u32, to: u32, tuple: &[u32]) {
        let Some(table) = &self.tables[from as usize] else { return };
        let mut nominal = vec![0; self.shape.stride()];
        let mut fits = |entry: u32| {
            self.shape.nominal(&self.pool.region(entry), &mut nominal);
            is_within(tuple, &nominal)
        };
        // Taken one by one by rule and priority: groups move in the pool as their entries leave.
        let entries = table.groups().flat_map(|(_, group)| self.pool.group(group));
        let moving: Vec<(u32, Match)> = entries
            .filter(|&entry| fits(entry))
            .filter_map(|entry| Some((table.hash(self.pool.lo(entry)), self.pool.found(entry)?)))
            .collect();
        for (hash, found) in moving {
            let mut fits = |entry: u32| {
                self.shape.nominal(&self.pool.region(entry), &mut nominal);
                is_within(tuple, &nominal)
            };
            let Some(table) = &self.tables[from as usize] else { return };
            let place = table.find(hash).find_map(|(slot, group)| {
                let mut group = self.pool.group(group);
                Some((slot, group.find(|&e| self.pool.found(e) == Some(found) && fits(e))?))
            });
            let Some((slot, entry)) = place else { continue };
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
            None => table.drop_group(slot, |group| self.pool.lo(group)),
        }
        if table.count_out(priority) && table.len() > 0 {
            table.tighten(&self.pool);
            self.sort_in(t);
        }
        taken
    }

    fn drop_if_empty(&mut self, t: u32) {
        if let Some(table) = self.tables[t as usize].take_if(|table| table.len() == 0) {
            self.table_bytes -= table.bytes();
            self.order.retain(|&other| other != t);
        }
    }

    pub(super) fn remove_rule(&mut self, rule: RuleId) -> Result<(), UpdateError> {
        let slot = rule.slot();
        if self.places.is_vacant(slot) || !self.holds(rule) {
            return Err(UpdateError::stale(rule));
        }
        while let Some(place) = self.places.take(slot) {
            let Some((slot, entry)) = self.locate(place, rule) else { continue };
            let entry = self.take_entry(place.table, slot, entry);
            self.pool.forget(&entry);
            self.regions -= 1;
            self.rules -= usize::from(self.places.is_vacant(rule.slot()));
            self.drop_if_empty(place.table);
        }
        Ok(())
    }

    /// Whether the rule at this slot is this one and not another use of the slot.
    fn holds(&self, rule: RuleId) -> bool {
        let place = self.places.first[rule.slot()];
        if place.table == NOWHERE { place.hash == rule.reuse() } else { self.locate(place, rule).is_some() }
    }

    fn locate(&self, place: Place, rule: RuleId) -> Option<(Slot, u32)> {
        let table = self.tables.get(place.table as usize)?.as_ref()?;
        table.find(place.hash).find_map(|(slot, group)| {
            let mut group = self.pool.group(group);
            Some((slot, group.find(|&e| self.pool.found(e).is_some_and(|found| found.rule == rule))?))
        })
    }
}

/// The hash of an entry in a table, and the group of its key there.
fn find_group(table: &Table, pool: &Pool, entry: &[u32]) -> (u32, Option<(Slot, u32)>) {
    let hash = table.hash(entry);
    let same = |group: u32| {
        let lanes = pool.lo(group).iter().zip(entry).zip(table.tuple());
        lanes.into_iter().all(|((a, b), mask)| (a ^ b) & mask == 0)
    };
    (hash, table.find(hash).find(|&(_, group)| same(group)))
}
