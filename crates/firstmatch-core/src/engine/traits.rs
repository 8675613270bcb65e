//! The traits of engines: what an author implements, and what users hold.

use std::fmt::{self, Debug};

use super::counts::NamedCounts;
use super::stats::Stats;
use crate::error::UpdateError;
use crate::key::Keys;
use crate::raw::Erased;
use crate::rule::{Match, Regions, RuleId};
use crate::schema::Schema;

/// Packet classification engine, as its author implements it.
///
/// A built engine is immutable while it is shared.
///
/// For example, this engine walks the regions of a packet's protocol:
///
/// ```
/// use firstmatch_core::engines::registry::{Entry, Settings};
/// use firstmatch_core::rule::{ExpansionLimits, FieldValues, Lowered, first_match, lower};
/// use firstmatch_core::{Classifier, Engine, KeyBuf, Keys, Match, Schema, Stats};
///
/// #[derive(Debug)]
/// struct ByProtocol {
///     set: Lowered,
///     /// Regions that hold each protocol, in order.
///     lists: Vec<Vec<usize>>,
/// }
///
/// impl ByProtocol {
///     fn build(set: &Lowered) -> Self {
///         let (last, regions) = (set.schema().words().len() - 1, set.regions());
///         let holds = |at: &usize, protocol| (regions.get(*at).lo[last]..=regions.get(*at).hi[last]).contains(&protocol);
///         let list = |protocol: u32| (0..regions.len()).filter(|at| holds(at, protocol)).collect();
///         Self { lists: (0..256).map(list).collect(), set: set.clone() }
///     }
/// }
///
/// impl Engine for ByProtocol {
///     type Scratch = (); // a lookup writes nothing
///
///     fn schema(&self) -> &Schema {
///         self.set.schema()
///     }
///
///     fn new_scratch(&self) {}
///
///     fn stats(&self) -> Stats {
///         let tests = self.lists.iter().map(Vec::len).max().unwrap_or(0);
///         Stats { regions: self.set.regions().len(), worst_tests: tests, keeps_shadowed: true, ..Stats::default() }
///     }
///
///     fn improve(&self, _scratch: &mut (), keys: &Keys<'_>, best: &mut [Option<Match>]) {
///         for (at, best) in best.iter_mut().enumerate() {
///             let key = &keys.row(at)[..keys.key_words()];
///             let mut list = self.lists[key[key.len() - 1] as usize].iter();
///             let found = list.find(|&&region| self.set.regions().get(region).contains(key));
///             if let Some(found) = found.map(|&region| self.set.rules()[region])
///                 && Match::wins(found.priority, best)
///             {
///                 *best = Some(found);
///             }
///         }
///     }
/// }
///
/// // The line of the registry.
/// const ENTRY: Entry = Entry::new("by_protocol", "a list a protocol", |rules, _| Ok(Box::new(ByProtocol::build(rules))));
///
/// // The harness does this for every engine, with many sets and packets.
/// let text = "family ipv4\ndeny tcp dport 23\npermit udp\npermit src 10.0.0.0/8\n";
/// let rules = firstmatch_formats::parse(text, &firstmatch_formats::Options::default())?.rules;
/// let schema = &rules.schemas()[0];
/// let engine = (ENTRY.build)(&lower(&rules, schema, &ExpansionLimits::default())?, &Settings::default())?;
/// for (protocol, port) in [(6, 23), (6, 80), (17, 23)] {
///     let values = [0x0A00_0001, 1, 2, port, protocol].map(Some).to_vec();
///     let packet = FieldValues { family: schema.family(), values };
///     let mut key = KeyBuf::new(schema);
///     key.push_values(&packet);
///     let found = engine.classify(&mut engine.scratch(), key.keys());
///     assert_eq!(found.map(|found| found.rule), first_match(&rules, &packet).map(|rule| rule.id));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Engine: Debug + Send + Sync + 'static {
    /// State that a lookup may write to, of a fixed size.
    type Scratch: Send + 'static;

    /// Returns the schema that the engine was built for.
    fn schema(&self) -> &Schema;

    /// Builds a scratch; each thread has one.
    fn new_scratch(&self) -> Self::Scratch;

    /// Whether `scratch` serves this engine; if not, it is renewed.
    ///
    /// `scratch` comes from an engine of this type, perhaps with other rules.
    fn fits(&self, _scratch: &Self::Scratch) -> bool {
        true
    }

    /// Returns the statistics of the engine.
    fn stats(&self) -> Stats;

    /// Returns the version of the answers: a number that changes whenever they change.
    ///
    /// It never returns to a former value. A cache of answers reads it before each batch and drops the answers of any
    /// other version. For example, a flow cache that sees the version go from 4 to 5 looks every key up again. An
    /// engine that changes only through `&mut` may leave it at 0.
    fn version(&self) -> u64 {
        0
    }

    /// Improves `best` for each key of `keys`; must not allocate.
    ///
    /// On entry `best[i]` is the match to beat, or `None`. On return it is a better match, or unchanged. The
    /// [`Classifier`] has checked that `best` has an entry per key, and that keys have the words of the schema.
    fn improve(&self, scratch: &mut Self::Scratch, keys: &Keys<'_>, best: &mut [Option<Match>]);

    /// Improves `best` as [`improve`](Self::improve) does, and returns the steps that it took.
    ///
    /// The engine chooses the names of its steps, such as `nodes`, `tests`, `table reads`, `lines` or `evaluations`.
    /// Numbers are sums over all keys. They are empty if the engine counts nothing, which is the default.
    fn count(&self, scratch: &mut Self::Scratch, keys: &Keys<'_>, best: &mut [Option<Match>]) -> NamedCounts {
        self.improve(scratch, keys, best);
        NamedCounts::default()
    }

    /// Describes the built structure as text, for people and for tests; `None` if the engine has no description.
    ///
    /// The text grows with the engine, so it is for a few rules.
    fn structure(&self) -> Option<String> {
        None
    }
}

/// Scratch for any engine.
///
/// A scratch from another engine, or from before a change, is renewed by the first batch.
pub struct Scratch(Erased);

impl Scratch {
    /// Returns the scratch of an engine of type `E`, if this is one.
    pub(crate) fn of<E: Engine>(&self) -> Option<&E::Scratch> {
        self.0.get()
    }
}

impl Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scratch")
    }
}

/// Packet classification engine of any type, as its users hold it.
///
/// ```
/// use firstmatch_core::engines::linear::{Config, Linear};
/// use firstmatch_core::rule::{ExpansionLimits, lower};
/// use firstmatch_core::{Classifier, KeyBuf};
///
/// let text = "schema {\n    port 4 range\n}\ndeny port 2-5\npermit\n";
/// let rules = firstmatch_formats::parse(text, &firstmatch_formats::Options::default())?.rules;
/// let rules = lower(&rules, &rules.schemas()[0], &ExpansionLimits::default())?;
/// let engine: Box<dyn Classifier> = Box::new(Linear::build(&rules, &Config::default())?);
/// let mut keys = KeyBuf::new(engine.schema());
/// [3, 9].into_iter().for_each(|port| keys.push()[0] = port);
/// let (mut scratch, mut matches) = (engine.scratch(), [None; 2]);
/// engine.classify_batch(&mut scratch, keys.keys(), &mut matches);
/// assert_eq!(matches.map(|found| found.expect("a rule").rule.slot()), [0, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Classifier: Debug + Send + Sync {
    /// Returns the schema that the engine was built for.
    fn schema(&self) -> &Schema;

    /// Builds a scratch, which a thread's lookups write to.
    fn scratch(&self) -> Scratch;

    /// Returns the statistics of the engine.
    fn stats(&self) -> Stats;

    /// Returns the [version](Engine::version) of the answers.
    fn version(&self) -> u64;

    /// Improves `best` for each key of `keys`.
    ///
    /// On entry `best[i]` is the match to beat, or `None`. On return it is a better match, or unchanged. Partitions,
    /// caches and overlays compose this way: each passes its best so far to the next.
    ///
    /// # Panics
    /// If `best` does not have one entry per key, or the keys do not have the words of the schema.
    fn improve_batch(&self, scratch: &mut Scratch, keys: &Keys<'_>, best: &mut [Option<Match>]);

    /// Improves `best` as [`improve_batch`](Self::improve_batch) does, and returns the steps that it took.
    ///
    /// Numbers are sums over all keys, and are empty if the engine counts nothing. A counted lookup takes the same
    /// steps as any other, but more time.
    ///
    /// # Panics
    /// As [`Classifier::improve_batch`].
    fn count_batch(&self, scratch: &mut Scratch, keys: &Keys<'_>, best: &mut [Option<Match>]) -> NamedCounts;

    /// Describes the built structure as text, for a few rules; `None` if the engine has no description.
    fn structure(&self) -> Option<String>;

    /// Finds the first rule that matches, for each key of `keys`.
    ///
    /// # Panics
    /// As [`Classifier::improve_batch`].
    fn classify_batch(&self, scratch: &mut Scratch, keys: Keys<'_>, out: &mut [Option<Match>]) {
        // A single entry is set separately, because a fill of any number of entries takes longer.
        if let [out] = out {
            *out = None;
        } else {
            out.fill(None);
        }
        self.improve_batch(scratch, &keys, out);
    }

    /// Returns the first rule that matches the first key of `key`.
    ///
    /// # Panics
    /// If there is no key, or as [`Classifier::improve_batch`].
    fn classify(&self, scratch: &mut Scratch, key: Keys<'_>) -> Option<Match> {
        let mut best = [None];
        self.improve_batch(scratch, &key.slice(0, 1), &mut best);
        best[0]
    }
}

impl<E: Engine> Classifier for E {
    fn schema(&self) -> &Schema {
        Engine::schema(self)
    }

    fn scratch(&self) -> Scratch {
        Scratch(Erased::new(self.new_scratch()))
    }

    fn stats(&self) -> Stats {
        Engine::stats(self)
    }

    fn version(&self) -> u64 {
        Engine::version(self)
    }

    // Checks and lookup are one function, because the time before a lookup matters for small batches.
    #[inline(always)]
    fn improve_batch(&self, scratch: &mut Scratch, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        assert!(keys.has(best.len()), "one place for a match a key");
        let key_words = Engine::schema(self).words().len();
        assert!(keys.key_words() == key_words, "keys have the words of the engine's schema");
        if const { size_of::<E::Scratch>() == 0 } {
            // A scratch without bytes keeps nothing.
            return self.improve(&mut self.new_scratch(), keys, best);
        }
        if let Some(own) = scratch.0.get_mut::<E::Scratch>()
            && self.fits(own)
        {
            return self.improve(own, keys, best);
        }
        renewed(self, scratch, keys, best);
    }

    fn count_batch(&self, scratch: &mut Scratch, keys: &Keys<'_>, best: &mut [Option<Match>]) -> NamedCounts {
        assert!(keys.has(best.len()), "one place for a match a key");
        assert!(keys.key_words() == Engine::schema(self).words().len(), "keys have the words of the engine's schema");
        if let Some(own) = scratch.0.get_mut::<E::Scratch>()
            && self.fits(own)
        {
            return self.count(own, keys, best);
        }
        let mut own = self.new_scratch();
        let counts = self.count(&mut own, keys, best);
        scratch.0 = Erased::new(own);
        counts
    }

    fn structure(&self) -> Option<String> {
        Engine::structure(self)
    }
}

/// Improves `best` with a new scratch, which replaces `scratch`.
///
/// It is a separate function, because its stack frame of kilobytes would otherwise be set up for every batch.
#[cold]
#[inline(never)]
fn renewed<E: Engine>(engine: &E, scratch: &mut Scratch, keys: &Keys<'_>, best: &mut [Option<Match>]) {
    let mut own = engine.new_scratch();
    engine.improve(&mut own, keys, best);
    scratch.0 = Erased::new(own);
}

/// Implements [`Classifier`] for a boxed trait object.
///
/// The type behind it is only known at run time.
macro_rules! boxed_classifier {
    ($kind:ty) => {
        impl Classifier for $kind {
            fn schema(&self) -> &Schema {
                (**self).schema()
            }

            fn scratch(&self) -> Scratch {
                (**self).scratch()
            }

            fn stats(&self) -> Stats {
                (**self).stats()
            }

            fn version(&self) -> u64 {
                (**self).version()
            }

            fn improve_batch(&self, scratch: &mut Scratch, keys: &Keys<'_>, best: &mut [Option<Match>]) {
                (**self).improve_batch(scratch, keys, best);
            }

            fn count_batch(&self, scratch: &mut Scratch, keys: &Keys<'_>, best: &mut [Option<Match>]) -> NamedCounts {
                (**self).count_batch(scratch, keys, best)
            }

            fn structure(&self) -> Option<String> {
                (**self).structure()
            }
        }
    };
}

boxed_classifier!(Box<dyn Classifier>);
boxed_classifier!(Box<dyn Updatable>);

impl Updatable for Box<dyn Updatable> {
    fn insert(&mut self, rule: Match, regions: &Regions) -> Result<(), UpdateError> {
        (**self).insert(rule, regions)
    }

    fn remove(&mut self, rule: RuleId) -> Result<(), UpdateError> {
        (**self).remove(rule)
    }
}

/// Engine whose rules change, for the owner of an engine that is not shared.
///
/// ```
/// use firstmatch_core::engines::tuple::{Config, TupleMerge};
/// use firstmatch_core::rule::{Priority, Region, Regions};
/// use firstmatch_core::schema::{Field, Kind};
/// use firstmatch_core::{Classifier, KeyBuf, Match, RuleId, Schema, Updatable};
///
/// let schema = Schema::new(None, vec![Field::new("port", 4, Kind::Range, None)]);
/// let mut engine = TupleMerge::new(&schema, &Config::default())?;
/// let rule = Match { rule: RuleId::new(0, 0), priority: Priority(1) };
/// let mut regions = Regions::new(1);
/// regions.push(Region { lo: &[2], hi: &[5], ternary: None });
/// let mut key = KeyBuf::new(&schema);
/// key.push()[0] = 3;
///
/// engine.insert(rule, &regions)?;
/// assert_eq!(engine.classify(&mut engine.scratch(), key.keys()), Some(rule));
/// engine.remove(rule.rule)?;
/// assert_eq!(engine.classify(&mut engine.scratch(), key.keys()), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Updatable: Classifier {
    /// Inserts a rule with the regions that it lowers to.
    ///
    /// No other live rule may have its priority.
    ///
    /// # Errors
    /// If a rule of this slot is already there, the number of words differs or the budget has no room. Nothing is
    /// changed then.
    fn insert(&mut self, rule: Match, regions: &Regions) -> Result<(), UpdateError>;

    /// Removes a rule.
    ///
    /// # Errors
    /// If the rule is not there. Nothing is changed then.
    fn remove(&mut self, rule: RuleId) -> Result<(), UpdateError>;
}
