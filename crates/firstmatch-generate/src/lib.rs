//! Rule sets and packet traces of any size; a seed gives the same bytes on every machine.
//!
//! ```
//! use firstmatch_core::Policy;
//! use firstmatch_formats::write;
//! use firstmatch_generate::{Profile, rules, trace};
//!
//! let set = rules::generate(&rules::Config { rules: 100, seed: 7, profile: Profile::fw(), ..Default::default() })?;
//! let mut text = String::new();
//! write::classbench(&set, &Policy::default(), &mut text)?;
//! assert_eq!(text.lines().count(), 100);
//!
//! let trace = trace::generate(&set, &trace::Config { headers: 1000, seed: 7, ..Default::default() })?;
//! assert_eq!((trace.len(), trace.coverage().given_up.len()), (1000, 0));
//! let mut text = Vec::new();
//! trace.write(&mut text)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`Profile`]: the shape of rules in numbers: prefix trees, port classes, protocols, prefix lengths.
//!   Twenty-nine come with the crate; ClassBench parameter files can be read. [`profile::core`] has classifiers of core
//!   routers, without a protocol.
//! - [`rules`]: rule sets of 1 to 2^24 rules, IPv4, IPv6 or both, in an order with no rule behind one that holds it.
//! - [`policy`]: policies whose rules are on named groups of addresses and ports.
//! - [`openflow`] and [`npf`]: the rule sets of two papers. [`attack`]: rule sets that make classifiers explode.
//! - [`trace`]: headers that hit every rule that can be hit, with locality, in flows or phases, and headers that match
//!   nothing; or headers from elsewhere. [`trace::packets`] takes rules over any fields.
//! - [`keys`]: rows for rules over any schema: from rules, from their edges, uniform, or the costliest found.
//! - [`Statistics`]: figures of a rule set, by which two sets can be compared.
//!
//! [`firstmatch_formats::write`] writes rule sets as text.
//!
//! # The same bytes
//!
//! A seed and a configuration give the same rules and headers on every machine, because no function of the platform is
//! used. All random bits are those of PCG XSL RR 128/64 and of SplitMix64's finaliser. Numbers are drawn from them by
//! integer arithmetic or by arithmetic of IEEE doubles. Tests hold digests of the results; a change of a digest is a
//! change of version.
#![deny(unsafe_code)]

pub mod attack;
mod error;
pub mod keys;
pub mod npf;
pub mod openflow;
pub mod policy;
pub mod profile;
mod random;
pub mod rules;
pub mod statistics;
pub mod trace;

pub use error::Error;
pub use profile::Profile;
pub use rules::stretch;
pub use statistics::Statistics;
