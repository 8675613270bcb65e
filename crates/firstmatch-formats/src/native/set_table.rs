//! Table of the named sets of a file.

use std::collections::HashMap;

use super::entry::Entry;
use crate::report::{FaultIndex, Span};
use firstmatch_core::rule::SetId;

/// Sets by name, and the definition that is being read.
#[derive(Default)]
pub(super) struct Sets<'t> {
    pub(super) by_name: HashMap<&'t str, usize>,
    pub(super) all: Vec<Set>,
    /// Name of the set being defined.
    pub(super) current: Option<&'t str>,
    /// Whether the set being defined refers to other sets.
    pub(super) is_union: bool,
    /// Number of values of sets so far, counted at each definition and each use.
    pub(super) expanded: usize,
    /// Whether the set being defined is live.
    pub(super) is_live: bool,
    /// Live sets of the file, by index, in order.
    pub(super) live: Vec<usize>,
}

pub(super) struct Set {
    /// Span of the name where the set is defined, or where it is first used if it never is.
    pub(super) span: Span,
    /// Values; empty after a fault, so that no further fault is noted about the set.
    pub(super) entries: Vec<Entry>,
    pub(super) state: State,
    pub(super) used: bool,
    /// Number among the live sets; `None` for a set whose values are written out.
    pub(super) live: Option<SetId>,
}

pub(super) enum State {
    Good,
    Faulty,
    /// The set was used without a definition, which this fault reports.
    Undefined(Option<FaultIndex>),
}
