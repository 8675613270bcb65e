//! The machine that the model was fitted on, and for each engine the weights of a prediction's terms: written by
//! `firstmatch-lab calibrate`.

use super::{Machine, Prediction};

pub(super) const MACHINE: Machine = Machine { step: 1.216, lines: [0.782, 0.794, 0.852, 0.974, 1.821, 3.698] };

pub(super) const BIT_SELECT: [f64; Prediction::TERMS] =
    [0.142, 0.541, 2.415, 1.881, 13.192, 0.000, 15.640, 0.489, 0.000, 3.768];

pub(super) const BIT_VECTOR: [f64; Prediction::TERMS] =
    [1.204, 0.081, 0.352, 0.070, 0.285, 0.665, 0.105, 0.071, 0.861, 1.197];

pub(super) const TUPLEMERGE: [f64; Prediction::TERMS] =
    [0.000, 0.000, 3.843, 0.266, 3.049, 2.321, 35.507, 25.254, 0.000, 1.198];

pub(super) const LINEAR: [f64; Prediction::TERMS] =
    [0.000, 2.191, 0.851, 0.089, 0.000, 0.000, 0.000, 0.000, 0.000, 0.000];
