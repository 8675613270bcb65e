//! The machine that the model was fitted on, and for each engine the weights of a prediction's terms: written by
//! `firstmatch-lab calibrate`.

use super::{Machine, Prediction};

pub(super) const MACHINE: Machine = Machine { step: 1.216, lines: [0.779, 0.792, 0.835, 1.001, 1.603, 3.210] };

pub(super) const BIT_SELECT: [f64; Prediction::TERMS] =
    [0.500, 0.632, 1.701, 2.021, 12.056, 0.062, 14.290, 0.683, 0.000, 5.106];

pub(super) const BIT_VECTOR: [f64; Prediction::TERMS] =
    [1.133, 0.254, 0.298, 0.133, 0.206, 0.581, 0.297, 0.083, 0.944, 1.579];

pub(super) const TUPLEMERGE: [f64; Prediction::TERMS] =
    [0.000, 0.000, 3.882, 0.265, 3.003, 2.322, 38.352, 19.523, 0.000, 1.614];

pub(super) const LINEAR: [f64; Prediction::TERMS] =
    [1.673, 1.079, 0.867, 0.075, 0.000, 0.000, 0.000, 0.000, 0.000, 177.970];
