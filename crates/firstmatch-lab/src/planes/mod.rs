//! Planes of threads that look packets up: measured on this machine, and simulated for cores that it does not have.
//!
//! - `measure` runs planes over packets in memory, and times their steps meanwhile.
//! - `simulate` is a discrete-event model of threads, rings and cores.
//! - `costs` times and fits what threads cost on this machine, and makes models of planes.
//! - `validate` shows measured planes beside simulated ones, and projects them to more cores.

pub(crate) mod costs;
pub(crate) mod measure;
pub(crate) mod simulate;
pub(crate) mod validate;

pub(crate) use validate::{PlanesArgs, planes};
