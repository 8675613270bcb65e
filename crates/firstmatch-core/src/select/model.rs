//! Model of lookup times: counted operations of a lookup, times fitted weights.

use super::candidate::Kind;
use super::machine::Machine;
use super::weights;
use crate::engine::cost::{KINDS, Work};

/// Predicted time of a lookup.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Nanoseconds a packet, in batches of 256.
    pub nanos: f64,
    /// Terms of the sum before their weights, in nanoseconds of the [`Machine`].
    ///
    /// The first is a step for each packet, and the next ones are steps for each kind of operation that the engine
    /// counts. The last is the extra time of cache lines that are far away. For example, 3 probes a packet on a machine
    /// of 1.2 ns a step make a term of 3.6 ns.
    pub terms: [f64; Self::TERMS],
}

impl Prediction {
    /// Number of terms; an engine need not use all.
    pub const TERMS: usize = KINDS + 1;
}

/// Predicts the time of lookups of cost `work` in a base of a kind.
pub(crate) fn predict(kind: Kind, work: &Work, machine: &Machine) -> Prediction {
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
