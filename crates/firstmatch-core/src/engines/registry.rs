//! Registry of the engines, and of the engines that can be a base.
//!
//! A line of `bases!` makes an engine with the trait `BaseEngine` a candidate of every choice. A line of [`ENGINES`]
//! makes it known by name to the programs and to tests.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::str::FromStr;

use super::tuple::TupleMerge;
use super::{
    bit_select, bit_vector, cut_tree, decomposition, interval_tree, linear, partition_sort, rfc, set_pairs, tuple,
};
use crate::engine::base::{self, Base, BaseEngine};
pub use crate::engine::entry::{Build, BuildUpdatable, Entry, Settings};
pub use crate::engine::options::{EngineOption, OptionValues};
use crate::engine::tombstones::Tombstones;
use crate::engine::{Engine, Match, NamedCounts, Stats};
use crate::error::BuildError;
use crate::key::Keys;
use crate::raw::Level;
use crate::rule::Lowered;
use crate::schema::Schema;

/// Every engine that is known by name, the ones for changing rules first.
pub const ENGINES: &[Entry] = &[
    tuple::ONLINE,
    tuple::OFFLINE,
    bit_select::ENTRY,
    bit_vector::ENTRY,
    set_pairs::ENTRY,
    partition_sort::ENTRY,
    tuple::TSS,
    cut_tree::HICUTS,
    cut_tree::HYPERCUTS,
    rfc::ENTRY,
    rfc::BITMAP,
    decomposition::ENTRY,
    interval_tree::ENTRY,
    linear::ENTRY,
];

/// Engine of an overlay: it takes the insertions that a base does not.
pub(crate) type Overlay = TupleMerge;

/// Builds an overlay without rules.
pub(crate) fn new_overlay(schema: &Schema, simd: Option<Level>, seed: Option<u64>) -> Result<Overlay, BuildError> {
    Overlay::new(schema, &tuple::Config { simd, seed, ..Default::default() })
}

/// Defines [`Kind`], [`AnyBase`] and [`Scratch`] over the bases, in the order in which they are tried.
macro_rules! bases {
    ($($(#[$about:meta])* $kind:ident = $folder:ident::$engine:ident;)*) => {
        /// Kind of engine that can be a base.
        ///
        /// As text, it is its name; for example, `bit_select`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Kind {
            $($(#[$about])* $kind,)*
        }

        impl Kind {
            /// Every kind, in the order in which they are tried.
            pub const ALL: &'static [Self] = &[$(Self::$kind),*];

            /// Name of every kind, in the same order.
            pub const NAMES: &'static [&'static str] = &[$(Self::$kind.name()),*];

            /// Returns the name; for example, `bit_select`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => <$folder::$engine as BaseEngine>::NAME,)*
                }
            }

            pub(crate) fn is_list(self) -> bool {
                match self {
                    $(Self::$kind => <$folder::$engine as BaseEngine>::IS_LIST,)*
                }
            }

            pub(crate) fn changes_in_place(self) -> bool {
                match self {
                    $(Self::$kind => <$folder::$engine as BaseEngine>::CHANGES_IN_PLACE,)*
                }
            }

            pub(crate) fn takes_products(self) -> bool {
                match self {
                    $(Self::$kind => <$folder::$engine as BaseEngine>::TAKES_PRODUCTS,)*
                }
            }

            pub(crate) fn worth_bytes(self) -> usize {
                match self {
                    $(Self::$kind => <$folder::$engine as BaseEngine>::WORTH_BYTES,)*
                }
            }

            pub(crate) fn worth_lines(self) -> usize {
                match self {
                    $(Self::$kind => <$folder::$engine as BaseEngine>::WORTH_LINES,)*
                }
            }

            pub(crate) fn build_bytes(self, set: &Lowered, is_forced: bool) -> usize {
                match self {
                    $(Self::$kind => <$folder::$engine as BaseEngine>::build_bytes(set, is_forced),)*
                }
            }

            pub(crate) fn build_visits(self, set: &Lowered) -> usize {
                match self {
                    $(Self::$kind => <$folder::$engine as BaseEngine>::build_visits(set),)*
                }
            }

            pub(crate) fn tests_of(self, set: &Lowered) -> Option<usize> {
                match self {
                    $(Self::$kind => <$folder::$engine as BaseEngine>::tests_of(set),)*
                }
            }

            /// Builds a base of this kind.
            pub(crate) fn build(self, set: &Lowered, how: &base::Build<'_>) -> Result<AnyBase, BuildError> {
                Ok(match self {
                    $(Self::$kind => AnyBase::$kind(<$folder::$engine as BaseEngine>::build_base(set, how)?),)*
                })
            }
        }

        /// Scratch for the lookups of any base and of an overlay.
        #[derive(Debug)]
        pub(crate) struct Scratch {
            $($folder: <$folder::$engine as Engine>::Scratch,)*
        }

        impl Scratch {
            /// Builds a scratch for every base over a schema.
            ///
            /// So a base that replaces another finds everything that its lookups write to.
            pub(crate) fn new(schema: &Schema) -> Self {
                Self { $($folder: <$folder::$engine as BaseEngine>::largest_scratch(schema),)* }
            }
        }

        /// Base of any kind.
        #[derive(Debug)]
        pub(crate) enum AnyBase {
            $($kind($folder::$engine),)*
        }

        impl AnyBase {
            pub(crate) fn kind(&self) -> Kind {
                match self {
                    $(Self::$kind(_) => Kind::$kind,)*
                }
            }

            #[inline(never)]
            fn improve_other(&self, scratch: &mut Scratch, keys: &Keys<'_>, best: &mut [Option<Match>]) {
                match self {
                    $(Self::$kind(base) => base.improve(&mut scratch.$folder, keys, best),)*
                }
            }

            /// Improves every key over the rules without a tombstone.
            pub(crate) fn improve_live(
                &self,
                scratch: &mut Scratch,
                keys: &Keys<'_>,
                tombstones: &Tombstones,
                best: &mut [Option<Match>],
            ) {
                match self {
                    $(Self::$kind(base) => base.improve_live(&mut scratch.$folder, keys, tombstones, best),)*
                }
            }

            /// Improves `best` over all rules, and returns the steps that this took.
            pub(crate) fn count(
                &self,
                scratch: &mut Scratch,
                keys: &Keys<'_>,
                best: &mut [Option<Match>],
            ) -> NamedCounts {
                match self {
                    $(Self::$kind(base) => base.count(&mut scratch.$folder, keys, best),)*
                }
            }

            /// Returns a copy for the other replica, if the base changes in place.
            pub(crate) fn replica(&self) -> Option<Self> {
                match self {
                    $(Self::$kind(base) => base.replica().map(Self::$kind),)*
                }
            }

            /// Returns the statistics, without room for more memory parts and without open counts.
            ///
            /// Each replica publishes them with every commit.
            pub(crate) fn stats(&self) -> Stats {
                let mut stats = match self {
                    $(Self::$kind(base) => Engine::stats(base),)*
                };
                stats.bytes.shrink_to_fit();
                stats.counts = NamedCounts::default();
                stats
            }
        }

        impl Deref for AnyBase {
            type Target = dyn Base + 'static;

            fn deref(&self) -> &(dyn Base + 'static) {
                match self {
                    $(Self::$kind(base) => base,)*
                }
            }
        }

        impl DerefMut for AnyBase {
            fn deref_mut(&mut self) -> &mut (dyn Base + 'static) {
                match self {
                    $(Self::$kind(base) => base,)*
                }
            }
        }
    };
}

bases! {
    /// Engine [`bit_select`](mod@crate::engines::bit_select).
    BitSelect = bit_select::BitSelect;
    /// Engine [`bit_vector`](mod@crate::engines::bit_vector).
    BitVector = bit_vector::BitVector;
    /// Online TupleMerge of [`tuple`](mod@crate::engines::tuple).
    ///
    /// The offline algorithm is no candidate, because it is on no set the fastest.
    TupleMerge = tuple::TupleMerge;
    /// Engine [`set_pairs`](mod@crate::engines::set_pairs), for policies of groups that overlap.
    SetPairs = set_pairs::SetPairs;
    /// Engine [`decomposition`](mod@crate::engines::decomposition), for rules that nothing separates.
    ///
    /// `npf` is no candidate, because its scratch grows with the rules, so that a reader would allocate after a rebuild.
    Decomposition = decomposition::Decomposition;
    /// Engine [`linear`](mod@crate::engines::linear).
    Linear = linear::Linear;
}

impl AnyBase {
    /// Improves every key over all rules.
    ///
    /// With `bit_select`, the fastest base for most sets, the dispatch is one comparison.
    #[inline(always)]
    pub(crate) fn improve(&self, scratch: &mut Scratch, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        if let Self::BitSelect(base) = self {
            return base.improve(&mut (), keys, best);
        }
        self.improve_other(scratch, keys, best);
    }
}

impl Scratch {
    /// Returns the scratch of an overlay.
    #[inline(always)]
    pub(crate) fn overlay(&mut self) -> &mut <Overlay as Engine>::Scratch {
        &mut self.tuple
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Error: the text is no kind's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownKind(String);

impl fmt::Display for UnknownKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        write!(f, "there is no base `{}`; expected one of {}", self.0, names.join(", "))
    }
}

impl std::error::Error for UnknownKind {}

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        Self::ALL.iter().copied().find(|kind| kind.name() == text).ok_or_else(|| UnknownKind(text.to_owned()))
    }
}
