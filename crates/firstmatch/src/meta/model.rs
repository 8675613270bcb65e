//! What lookups of a base will take: what they do, counted, times what each of that takes.

use super::candidate::Kind;
use super::machine::Machine;
use super::weights;
use crate::work::{KINDS, Work};

/// What a lookup was predicted to take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Nanoseconds a packet, in batches of 256.
    pub nanos: f64,
    /// What it adds up from before it is weighed, in nanoseconds of the [`Machine`]: steps, one for each packet and one
    /// for each of what the engine does, and at the end what the lines of memory take that are far away.
    pub terms: [f64; Self::TERMS],
}

impl Prediction {
    /// How many terms there are; an engine need not have all.
    pub const TERMS: usize = KINDS + 1;
}

/// Of lookups that do this in a base of a kind.
pub(super) fn predict(kind: Kind, work: &Work, machine: &Machine) -> Prediction {
    let &Work { done, lines, bytes, .. } = work;
    let mut terms = [0.0; Prediction::TERMS];
    terms.iter_mut().zip(done).for_each(|(term, count)| *term = count * machine.step);
    terms[KINDS] = lines * machine.far(bytes);
    Prediction { nanos: nanos(kind, &terms), terms }
}

fn nanos(kind: Kind, terms: &[f64; Prediction::TERMS]) -> f64 {
    let weights = match kind {
        Kind::BitSelect => &weights::BIT_SELECT,
        Kind::BitVector => &weights::BIT_VECTOR,
        Kind::TupleMerge => &weights::TUPLEMERGE,
        Kind::Linear => &weights::LINEAR,
    };
    terms.iter().zip(weights).map(|(term, weight)| term * weight).sum()
}
