//! Context pipelining over [`Rfc`]: a stage for each part of a lookup, with any number of workers.
//!
//! ```text
//! phases     leaves ──▸ tables
//! reads      leaves 1 to 3 ──▸ leaves 4 to 6, table 1 ──▸ tables 2 and 3
//! ```
//!
//! A message carries the classes that were found, [`Rfc::width`] words per packet. The alternative, *multiprocessing*,
//! is [`copies::whole`](super::copies::whole) over the same engine: each worker does whole lookups.
//! [`PlaneCounters::fullness`](crate::plane::PlaneCounters::fullness) measures how full the rings before a stage were.
//!
//! # Paper
//! D. Liu, Z. Chen, B. Hua, N. Yu and X. Tang (ACM TECS 7(2), 2008), sections 5.5 and 6.7. Its pipelines 1 and 2 are
//! the cuts with one worker per stage; 3 and 4 have two workers or more.
//!
//! # Deviations
//! - A ring carries messages of packets, not packets.
//! - Each pair of workers has a ring. The paper has rings between neighbouring processors alone.

use std::ops::Range;
use std::sync::Arc;

use firstmatch_core::Engine;
use firstmatch_core::engines::rfc::Rfc;

use super::step::{LookupMessage, LookupView, Step};

/// Cut of a lookup into stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// All leaves, then all tables.
    Phases,
    /// The first half of the leaves; the other leaves with the first table; the other tables. The paper's nine reads
    /// are divided into three, four and two.
    Reads,
}

impl Cut {
    /// Returns the slots that each stage fills.
    ///
    /// ```
    /// use firstmatch_core::engines::rfc::{Config, Rfc};
    /// use firstmatch_core::rule::Lowered;
    /// use firstmatch_core::Schema;
    /// use firstmatch_core::schema::{Field, Kind};
    /// use firstmatch_net::systems::rfc::Cut;
    ///
    /// let fields = [("src", 32), ("dst", 32), ("sport", 16), ("dport", 16)];
    /// let fields = fields.map(|(name, width)| Field::new(name, width, Kind::Range, None));
    /// let engine = Rfc::build(&Lowered::empty(&Schema::new(None, fields.into())), &Config::paper())?;
    /// assert_eq!(Cut::Phases.slots(&engine), [0..6, 6..9]);
    /// assert_eq!(Cut::Reads.slots(&engine), [0..3, 3..7, 7..9]);
    /// # Ok::<(), firstmatch_core::BuildError>(())
    /// ```
    pub fn slots(self, engine: &Rfc) -> Vec<Range<usize>> {
        let (leaves, all) = (engine.leaves(), engine.slots());
        let ends = match self {
            Self::Phases => vec![leaves, all],
            Self::Reads => vec![leaves / 2, leaves + 1, all],
        };
        let starts = [0].into_iter().chain(ends.clone());
        starts.zip(ends).map(|(start, end)| start..end).collect()
    }

    /// Returns the names of the stages.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Phases => &["leaves", "tables"],
            Self::Reads => &["first leaves", "first table", "other tables"],
        }
    }
}

/// Returns a step for each stage of a cut. A message must have [`Rfc::width`] words per packet.
///
/// The step with the last table improves on the best matches so far.
pub fn steps<T: LookupMessage>(engine: &Arc<Rfc>, cut: Cut) -> Vec<Step<T>> {
    let step = |(name, slots): (&&str, Range<usize>)| {
        let engine = Arc::clone(engine);
        Step::on_packets(*name, move || {
            let (engine, slots) = (Arc::clone(&engine), slots.clone());
            let mut scratch = engine.new_scratch();
            move |LookupView { keys, best, words }: LookupView<'_>| {
                engine.improve_in(&mut scratch, slots.clone(), &keys, words, best);
            }
        })
    };
    cut.names().iter().zip(cut.slots(engine)).map(step).collect()
}
