//! The machine that the model was fitted on, and for each engine the weights of a prediction's terms: written by
//! `firstmatch-lab calibrate`.

use super::{Machine, Prediction};

pub(crate) const MACHINE: Machine = Machine { step: 1.202, lines: [0.773, 0.789, 0.847, 0.943, 1.660, 3.171] };

pub(crate) const BIT_SELECT: [f64; Prediction::TERMS] =
    [0.000, 0.465, 2.329, 1.598, 13.347, 0.088, 15.322, 0.466, 0.000, 3.993];

pub(crate) const BIT_VECTOR: [f64; Prediction::TERMS] =
    [1.130, 0.114, 0.337, 0.056, 0.305, 0.674, 0.064, 0.072, 1.101, 1.005];

pub(crate) const TUPLEMERGE: [f64; Prediction::TERMS] =
    [0.000, 0.000, 3.890, 0.232, 3.281, 2.163, 35.736, 20.445, 0.000, 1.326];

pub(crate) const LINEAR: [f64; Prediction::TERMS] =
    [0.000, 2.929, 0.655, 0.110, 0.000, 0.000, 0.000, 0.000, 0.000, 0.000];
