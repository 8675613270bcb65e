//! Model of lookup times: counted operations of a lookup, times fitted weights.

use super::machine::Machine;
use crate::engine::cost::{Cost, KINDS, TERMS, Weights};

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
    pub const TERMS: usize = TERMS;
}

/// Predicts the time of lookups of cost `cost` in an engine with these weights.
pub(crate) fn predict(weights: &Weights, cost: &Cost, machine: &Machine) -> Prediction {
    let &Cost { done, lines, bytes, .. } = cost;
    let mut terms = [0.0; TERMS];
    terms.iter_mut().zip(done).for_each(|(term, count)| *term = count * machine.step);
    terms[KINDS] = lines * machine.far(bytes);
    let nanos = terms.iter().zip(weights).map(|(term, weight)| term * weight).sum();
    Prediction { nanos, terms }
}
