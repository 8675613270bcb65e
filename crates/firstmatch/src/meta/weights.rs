//! The machine that the model was fitted on, and for each engine the weights of a prediction's terms: written by
//! `firstmatch-lab calibrate`.

use super::{Machine, Prediction};

pub(super) const MACHINE: Machine = Machine { step: 1.185, lines: [0.760, 0.774, 0.858, 0.859, 1.551, 3.378] };

pub(super) const BIT_SELECT: [f64; Prediction::TERMS] =
    [0.000, 0.633, 2.108, 1.741, 11.127, 0.009, 16.725, 0.701, 0.000, 2.160];

pub(super) const BIT_VECTOR: [f64; Prediction::TERMS] =
    [0.774, 0.261, 0.327, 0.102, 0.253, 0.651, 0.068, 0.000, 0.832, 0.877];

pub(super) const TUPLEMERGE: [f64; Prediction::TERMS] =
    [0.000, 0.000, 4.438, 0.191, 2.737, 2.572, 34.103, 11.564, 0.000, 1.388];

pub(super) const LINEAR: [f64; Prediction::TERMS] =
    [0.000, 2.817, 0.734, 0.100, 0.000, 0.000, 0.000, 0.000, 0.000, 27.744];
