//! Live sets: rules whose sets of addresses change without a rebuild.
//!
//! Rules that test live sets are in no base and no overlay. They are looked up behind them, for keys whose best match
//! does not come before all of these rules. All their conditions on addresses, also those without a live set, are sets
//! of addresses here.
//!
//! - `tree`, `rows` and `leaf` are what lookups read, once in each replica.
//! - `field` has signatures and classes, and turns a change of a member into steps for both replicas.
//! - `replica` has the rules and looks up keys; `compiled` makes rules for it.
//! - `writer` applies transactions and undoes those that are refused.

mod compiled;
mod field;
mod leaf;
mod replica;
mod rows;
mod tree;
mod writer;

pub(super) use compiled::Compiled;
pub(super) use replica::SetRules;
pub(super) use writer::{SetChanges, SetWriter};
