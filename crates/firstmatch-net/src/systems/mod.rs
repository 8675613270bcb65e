//! Systems: planes over engines.
//!
//! A lookup is a list of named [`Step`]s over a message. A step comes from an engine: a whole lookup, a lookup in a
//! part of the rules, or a public part of a lookup, such as the search of one key word. A plane does the steps on
//! threads:
//!
//! | form | steps | on a plane |
//! |---|---|---|
//! | copies | [`copies::whole`] | workers of a [`copies::source`] take packets and do all steps |
//! | copies, shared boxes | [`shared::step`] | as copies, and a [`shared::updater`] that makes the boxes of a rule cache for all |
//! | Storm's | a step for packets in no box | [`storm::stages`]: a stage of boxes before it, and an updater |
//! | in parts | [`parts::steps`], one for each part of the rules | a [`chain`] of stages, each with any number of workers |
//! | by fields | [`fields::steps`], one for each key word, then the first match | a [`chain`] |
//! | Pnpf | [`pnpf::steps`], one for each key word of the engine `npf`, then the first match | [`pnpf::stages`], with a controller of their workers |
//! | RFC's | [`rfc::steps`], some leaves and tables of the engine `rfc` each | a [`chain`] |
//!
//! ```text
//! copies   ┌ pull ▸ whole ┐          parts, fields    pull ──▸ step 1 ──▸ step 2 ──▸ … ──▸ caller
//!          ├ pull ▸ whole ┼──▸ caller                            │ rings, workers by stage
//!          └ pull ▸ whole ┘
//! ```
//!
//! [`verdict`] is not such a form but a cache of verdicts without their rules, as in the paper Storm.
//!
//! A message has the keys of its packets, their best matches so far, and 64-bit words that steps pass on
//! ([`LookupMessage`]). All of these keep their memory from step to step.
//!
//! ```
//! use std::sync::Arc;
//!
//! use firstmatch_core::engines::linear::{Config, Linear};
//! use firstmatch_core::{Classifier, KeyBuf, Match};
//! use firstmatch_net::plane::{Link, Message, PlaneBuilder};
//! use firstmatch_net::systems::{LookupMessage, LookupView, chain, parts};
//!
//! /// Packets of one flow.
//! struct Batch {
//!     keys: KeyBuf,
//!     best: Vec<Option<Match>>,
//! }
//!
//! impl Message for Batch {
//!     fn packets(&self) -> usize {
//!         self.best.len()
//!     }
//!     fn flow(&self) -> u64 {
//!         0
//!     }
//! }
//!
//! impl LookupMessage for Batch {
//!     fn view(&mut self) -> LookupView<'_> {
//!         LookupView { keys: self.keys.keys(), best: &mut self.best, words: &mut [] }
//!     }
//! }
//!
//! let text = "family ipv4\ndeny tcp dport 23\npermit udp\npermit tcp\n";
//! let rules = firstmatch_formats::parse(text, &Default::default())?.rules;
//! let schema = &rules.schemas()[0];
//! // Two engines, with a rule and two rules; each packet goes from the first to the second.
//! let mut engines: Vec<Arc<dyn Classifier>> = Vec::new();
//! for part in parts::divide(&rules, 2) {
//!     let lowered = firstmatch_core::rule::lower(&part, schema, &Default::default())?;
//!     engines.push(Arc::new(Linear::build(&lowered, &Config::default())?));
//! }
//! let mut builder = PlaneBuilder::new();
//! let stages = chain(&mut builder, &parts::steps(engines), &[1, 1], Link::new());
//! builder.enter(stages[0], Link::new()).leave(stages[1], Link::new());
//! let plane = builder.start()?;
//!
//! let mut keys = KeyBuf::new(schema);
//! for (port, protocol) in [(23, 6), (80, 6), (80, 47)] {
//!     keys.push().copy_from_slice(&[1, 2, 1024, port, protocol, 0, 0, 0]);
//! }
//! plane.send(Batch { keys, best: vec![None; 3] }).expect("the plane runs");
//! let found = plane.recv().expect("it comes through").best;
//! let ids: Vec<_> = rules.iter().map(|rule| rule.id).collect();
//! assert_eq!(found.iter().map(|found| found.map(|found| found.rule)).collect::<Vec<_>>(), [
//!     Some(ids[0]),
//!     Some(ids[2]),
//!     None
//! ]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod advice;
pub mod copies;
pub mod fields;
pub mod parts;
pub mod pnpf;
pub mod rfc;
mod rows;
pub mod shared;
mod step;
pub mod storm;
pub mod verdict;
mod whole;

pub use rows::Rows;
pub use step::{LookupMessage, LookupView, Step, StepWork, chain};
pub use whole::plane;
