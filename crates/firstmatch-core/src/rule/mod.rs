//! Rules as people write them.
//!
//! A rule has conditions on whole field values, an action, an id and a priority. The meaning of a rule is defined here
//! and in [`first_match`], the oracle. [`lower`] turns rules into products of sets, and into the regions over key words
//! that most engines search. Oracle and lowering share no code, so that each checks the other.

mod address;
mod condition;
mod conditions;
mod expansion;
pub(crate) mod id;
mod live_sets;
mod lower;
mod lowered;
mod matched;
mod member;
mod members;
mod oracle;
mod products;
mod region;
mod room;
mod set;
mod sets;
mod spec;
mod tested;

pub(crate) use address::Address;
pub use condition::{Condition, NamedCondition, Test};
pub use conditions::{ConditionRef, Conditions, pack};
pub use expansion::ExpansionLimits;
pub use id::{Priority, RuleId, SetId};
pub use live_sets::LiveSets;
pub use lower::{can_match, count_regions, lower, lower_products, lower_rule};
pub(crate) use lower::{lower_fixed, unite_intervals};
pub(crate) use lowered::FAR_MORE;
pub use lowered::Lowered;
pub use matched::Match;
pub use member::{LiveSet, Member};
pub(crate) use members::Members;
pub use oracle::first_match;
pub(crate) use products::RuleProducts;
pub use region::{Region, Regions};
pub(crate) use region::{containing_prefix, fixed_bits};
pub(crate) use room::{Place, Placed};
pub use set::RuleSet;
pub(crate) use sets::FieldSets;
pub use spec::{Action, FieldValues, Rule, RuleSpec};
pub(crate) use tested::tested_fields;
