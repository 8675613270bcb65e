//! Figures of the built-in profiles that keep rare kinds of rules.
//!
//! They are those of [`super::figures`] before rare kinds are folded into their neighbours.

mod acl;
mod fw;
mod ipc;

use super::PortClass::{Exact as Em, High as Hi, Low as Lo, Range as Ar, Wildcard as Wc};
use super::figures::{Figures, Values};

/// Figures in the order of [`super::FULL_PROFILES`].
pub(super) const ALL: [&Figures; 12] = [
    &acl::ACL1,
    &acl::ACL2,
    &acl::ACL3,
    &acl::ACL4,
    &acl::ACL5,
    &fw::FW1,
    &fw::FW2,
    &fw::FW3,
    &fw::FW4,
    &fw::FW5,
    &ipc::IPC1,
    &ipc::IPC2,
];
