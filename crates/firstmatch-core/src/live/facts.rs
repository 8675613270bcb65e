//! Facts that the writer publishes with each replica, so that a query need not hold one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::front::FrontEngine;
use super::left_right::{ARC, Facts, LeftRight};
use super::snapshot::{Built, MOST_PARTS, Part, State};
use crate::engine::{Scratch, Stats};

/// Declares a struct of numbers and its conversion to and from an array of words.
macro_rules! numbers {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $field:ident),* $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default)]
        pub(super) struct $name {
            $($(#[$doc])* pub(super) $field: usize),*
        }

        impl $name {
            const WORDS: usize = [$(stringify!($field)),*].len();

            fn words(&self) -> [u64; Self::WORDS] {
                [$(self.$field as u64),*]
            }

            fn of(words: [u64; Self::WORDS]) -> Self {
                let [$($field),*] = words.map(|word| word as usize);
                Self { $($field),* }
            }
        }
    };
}

numbers! {
    /// Numbers about the rules of one schema.
    PartFacts {
        base_rules,
        base_regions,
        base_tables,
        base_tests,
        base_lines,
        base_longest,
        base_overflow,
        overlay_rules,
        overlay_regions,
        overlay_tables,
        overlay_tests,
        overlay_lines,
        overlay_longest,
        overlay_overflow,
        /// Number of rules that the overlay may hold.
        most,
        /// Number of live rules, those of the overlay included.
        rules,
        in_place,
        /// Number of rules that test live sets, and the lines and regions that a lookup in them touches at most.
        set_rules,
        set_lines,
        set_tests,
        dead,
        dead_regions,
        /// Bytes of the tombstones of both replicas; the next three count both as well.
        marks,
        overlay,
        filter,
        /// Bytes of the fronts: one, or two while a rebuild is installed in one replica only.
        front,
        /// Bytes of the lists of regions; 0 only if there are no lists.
        list,
        /// Bytes of the structs around the base, in both replicas.
        frame,
        /// Bytes that only the idle replica's base has; 0 if both replicas share one base.
        second_base,
    }
}

/// Number of words for one schema.
const PART: usize = PartFacts::WORDS + MOST_PARTS;
/// Number of words before the first schema's: generation, epoch, and bytes of attachments and of live sets.
const HEAD: usize = 4;

/// Returns the number of words for `parts` schemas.
fn words(parts: usize) -> usize {
    HEAD + parts * PART
}

/// Facts about one schema, all from one moment.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) generation: u64,
    pub(super) epoch: u64,
    /// Bytes of the data that rules attach to decisions, in both replicas.
    pub(super) attached: usize,
    /// Bytes of the rules of live sets, in both replicas.
    pub(super) sets: usize,
    pub(super) part: PartFacts,
    /// Bytes of the base's memory parts, in the order in which its statistics name them.
    bytes: [u64; MOST_PARTS],
}

/// Publishes the facts of `state`, the replica that readers are about to use.
///
/// `other` is the other replica; bytes are counted over both.
pub(super) fn publish_facts(facts: &Facts, state: &State, other: &State) {
    let attached = state.attached.bytes() + other.attached.bytes();
    let sets = state.sets.bytes() + other.sets.bytes();
    facts.set(0, &[state.generation, state.epoch, attached as u64, sets as u64]);
    for (number, (part, other)) in state.parts.iter().zip(&other.parts).enumerate() {
        let (start, now) = (HEAD + number * PART, part.base_stats());
        let [set_lines, set_tests] = state.sets.worst(number);
        let of_sets =
            PartFacts { set_rules: state.sets.rules(number), set_lines, set_tests, ..part_facts(part, other, &now) };
        facts.set(start, &of_sets.words());
        debug_assert!(now.bytes.len() <= MOST_PARTS, "{:?}", now.bytes);
        let mut bytes = [0; MOST_PARTS];
        bytes.iter_mut().zip(&now.bytes).for_each(|(to, (_, of))| *to = *of as u64);
        facts.set(start + PartFacts::WORDS, &bytes);
    }
}

fn part_facts(part: &Part, other: &Part, base: &Stats) -> PartFacts {
    let both = |bytes: fn(&Part) -> usize| bytes(part) + bytes(other);
    let overlay = part.overlay.bound();
    let known = |part: &Part| Built::own_bytes(&part.built.base);
    let mut frame = known(part) + ARC + size_of_val(&*part.base) + both(size_of_val);
    let mut second_base = 0;
    // The bases differ once they change in place, and while a rebuild is installed in one replica only.
    if !Arc::ptr_eq(&part.base, &other.base) {
        second_base = other.base_stats().total_bytes() - other.shared_bytes();
        frame += ARC + size_of_val(&*other.base);
    }
    let mut front = part.front_bytes();
    if !Arc::ptr_eq(&part.built, &other.built) {
        frame += known(other);
        front += other.front_bytes();
    }
    PartFacts {
        base_rules: base.rules,
        base_regions: base.regions,
        base_tables: base.tables,
        base_tests: base.worst_tests,
        base_lines: base.worst_lines,
        base_longest: base.longest_bucket,
        base_overflow: base.overflow,
        overlay_rules: part.overlay.rules(),
        overlay_regions: overlay.regions,
        overlay_tables: overlay.tables,
        overlay_tests: overlay.worst_tests,
        overlay_lines: overlay.worst_lines,
        overlay_longest: overlay.longest_bucket,
        overlay_overflow: overlay.overflow,
        most: part.most,
        rules: part.rules(),
        in_place: part.in_place(),
        set_rules: 0,
        set_lines: 0,
        set_tests: 0,
        dead: part.dead.rules(),
        dead_regions: part.dead_regions,
        marks: both(|part| part.dead.bytes()),
        overlay: both(|part| part.overlay.bytes()),
        filter: both(Part::filter_bytes),
        front,
        list: both(Part::list_bytes),
        frame,
        second_base,
    }
}

impl Known {
    /// Returns the statistics of the base; `built` has the names of its memory parts.
    pub(super) fn base(&self, built: &Built) -> Stats {
        let of = &self.part;
        let names = built.base.bytes.iter().map(|(name, _)| *name);
        Stats {
            rules: of.base_rules,
            regions: of.base_regions,
            bytes: names.zip(self.bytes.map(|bytes| bytes as usize)).collect(),
            tables: of.base_tables,
            worst_tests: of.base_tests,
            worst_lines: of.base_lines,
            longest_bucket: of.base_longest,
            overflow: of.base_overflow,
            keeps_shadowed: built.base.keeps_shadowed,
            ..Stats::default()
        }
    }
}

/// State that readers, queries and the writer share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) replicas: LeftRight<State>,
    /// Number and bases of the current epoch; during an installation, those of the new one, too.
    ///
    /// The writer takes this lock briefly in a rebuild, never in a commit.
    built: Mutex<[Option<Epoch>; 2]>,
    parts: usize,
}

type Epoch = (u64, Box<[Arc<Built>]>);

impl Shared {
    /// Returns the bytes of a `Shared` for `parts` schemas behind an `Arc`.
    ///
    /// They include its heap memory, but not the heap memory inside the replicas.
    pub(super) fn bytes_for(parts: usize) -> usize {
        ARC.next_multiple_of(align_of::<Self>())
            + size_of::<Self>()
            + LeftRight::<State>::bytes(words(parts))
            + parts * size_of::<Arc<Built>>()
    }

    pub(super) fn new(state: State) -> Self {
        let parts = state.parts.len();
        let replicas = LeftRight::new(state, words(parts), |facts, state| publish_facts(facts, state, state));
        let shared = Self { replicas, built: Mutex::new([None, None]), parts };
        let state = shared.replicas.now().1;
        shared.announce(state.epoch, state.parts.iter());
        shared.settle();
        shared
    }

    pub(super) fn bytes(&self) -> usize {
        Self::bytes_for(self.parts)
    }

    fn lock(&self) -> MutexGuard<'_, [Option<Epoch>; 2]> {
        self.built.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Announces the bases of the next epoch, before readers can use them.
    pub(super) fn announce<'b>(&self, epoch: u64, parts: impl Iterator<Item = &'b Part>) {
        let built = parts.map(|part| Arc::clone(&part.built)).collect();
        self.lock()[1] = Some((epoch, built));
    }

    /// Forgets the bases that were announced and are not used.
    pub(super) fn forget_announced(&self) {
        self.lock()[1] = None;
    }

    /// Forgets the bases of the epochs before the one that was announced last.
    pub(super) fn settle(&self) {
        let built = &mut *self.lock();
        built[0] = built[1].take();
    }

    /// Returns the facts about a schema, without those recorded when its base was built.
    pub(super) fn facts(&self, part: usize) -> Known {
        self.replicas.query(|facts| {
            let [generation, epoch, attached, sets] = facts.get(0);
            let start = HEAD + part * PART;
            let (part, bytes) = (PartFacts::of(facts.get(start)), facts.get(start + PartFacts::WORDS));
            Known { generation, epoch, attached: attached as usize, sets: sets as usize, part, bytes }
        })
    }

    /// Returns a scratch for the front of a schema, if there is one.
    pub(super) fn front_scratch(&self, part: usize) -> Option<Scratch> {
        self.known(part).1.front.as_deref().map(FrontEngine::scratch)
    }

    /// Returns the facts about a schema and those of its base, all from one moment.
    pub(super) fn known(&self, part: usize) -> (Known, Arc<Built>) {
        loop {
            let known = self.facts(part);
            let built = self.lock();
            let of_epoch = built.iter().flatten().find(|(epoch, _)| *epoch == known.epoch);
            // Two rebuilds were installed since the facts were read: read the newer facts.
            if let Some((_, parts)) = of_epoch {
                return (known, Arc::clone(&parts[part]));
            }
        }
    }
}
