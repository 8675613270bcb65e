//! Packet classification: for every packet, the first rule that matches, while the rules change.
//!
//! ```
//! use firstmatch::{Firewall, LinkType, Verdict};
//!
//! # fn main() -> Result<(), firstmatch::Error> {
//! # let frames = [firstmatch::doc_frame(23), firstmatch::doc_frame(443)];
//! let firewall = Firewall::from_text("permit dst 192.0.2.0/24\n")?;
//! let mut worker = firewall.worker(); // one per thread; clones of `firewall` are cheap
//! worker.push_all(LinkType::Ethernet, &frames); // or `push`, frame by frame
//! for decision in worker.classify() {
//!     println!("{} {:?} {}", decision.verdict, decision.rule, decision.outcome);
//! }
//! let mut update = firewall.update(); // a transaction: all of it or nothing
//! let first = update.rules().next().expect("one rule").id;
//! let telnet = update.insert_before(first, "deny tcp dport 23")?;
//! update.commit()?;
//!
//! worker.push(LinkType::Ethernet, &frames[0]);
//! assert_eq!(worker.classify()[0].verdict, Verdict::Deny);
//! assert_eq!(worker.classify().len(), 0); // every packet is decided once
//! assert_eq!(firewall.explain(LinkType::Ethernet, &frames[0]).decision.rule, Some(telnet));
//! # Ok(())
//! # }
//! ```
//!
//! # The way of a packet
//!
//! - A [`Firewall`] is the handle: rules, policy and the engine that serves them. Clones share everything.
//! - A [`Worker`] belongs to one thread. [`Worker::push_all`] or [`Worker::push`] parses frames into rows of keys.
//!   [`Worker::classify`] decides all rows at once, in the generation of one commit. It allocates nothing once it is
//!   warm.
//! - A [`Decision`] has the verdict on a packet, the origin of that verdict ([`Basis`]), the rule (id, source line,
//!   your value), and how much of the headers could be read ([`Outcome`]). An unknown packet gets the policy's verdict
//!   for unknown packets.
//! - An [`Update`] is a transaction beside all workers. No worker ever waits for it.
//!
//! Rules are text in the project's own format ([`Firewall::from_text`]; one rule per line), or values of Rust
//! ([`Rule`]), or a [`RuleSet`](core::RuleSet) over a schema of your own, whose rows you fill yourself
//! ([`Worker::push_values`]). Packets that you have parsed already can be records of your own
//! ([`Worker::push_record`]).
//!
//! # Questions about rules
//!
//! [`Firewall::check`] finds rules that never decide, [`Firewall::diff`] the packets that two rule sets decide
//! differently, and [`Firewall::prove`] compares the engines with the rules. For a dry run of a change, give the same
//! frames to two workers:
//!
//! ```
//! use firstmatch::{Firewall, LinkType};
//!
//! let [now, then] = ["permit\n", "deny tcp dport 23\npermit\n"].map(Firewall::from_text);
//! let (mut now, mut then) = (now?.worker(), then?.worker());
//! let frames = [23, 80, 443].map(firstmatch::doc_frame);
//! now.push_all(LinkType::Ethernet, &frames);
//! then.push_all(LinkType::Ethernet, &frames);
//! let changed = now.classify().iter().zip(then.classify()).filter(|(now, then)| now.verdict != then.verdict).count();
//! assert_eq!(changed, 1);
//! # Ok::<(), firstmatch::Error>(())
//! ```
//!
//! # Experts
//!
//! Everything here is made of three crates that are re-exported whole: [`core`] (rules, engines, live rules),
//! [`formats`] (rule formats) and [`net`] (header parsing).
//!
//! # Features
//!
//! None is on by default.
//!
//! | feature | adds |
//! |---|---|
//! | `captures` | `net::source`: captures, traces and tables of header fields from files |
//! | `json` | `formats::json`: rules and policy as JSON |
//! | `plane` | `net::plane`: threads that carry packets through stages |
//! | `systems` | `net::systems`: planes over engines; with it `plane` |
#![deny(unsafe_code)]

pub use firstmatch_core as core;
pub use firstmatch_formats as formats;
pub use firstmatch_net as net;

mod analyze;
mod builder;
mod error;
mod explain;
mod firewall;
mod rebuild;
mod reload;
mod rule;
mod rules;
mod sets;
pub mod show;
mod update;
mod worker;

pub use analyze::Proof;
pub use builder::{Builder, Rebuilds};
pub use error::{Error, OtherFieldsError};
pub use explain::Explanation;
pub use firewall::Firewall;
pub use firstmatch_core::policy::{Basis, Fragments, Policy, Verdict};
pub use firstmatch_core::rule::{Action, Member, RuleId, SetId};
pub use firstmatch_formats::Fields;
pub use firstmatch_net::wire::{LinkType, Outcome};
pub use reload::Reloaded;
pub use rule::{Addresses, Ports, Rule};
pub use rules::ListedRule;
pub use sets::{IntoMember, Replaced, Set};
pub use update::{IntoRule, Update};
pub use worker::{Decision, Worker};

/// Returns an Ethernet frame with a TCP segment from 10.0.0.1 to port `dport` of 192.0.2.7, for examples.
#[doc(hidden)]
pub fn doc_frame(dport: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend([0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 192, 0, 2, 7]);
    frame.extend(50_000u16.to_be_bytes());
    frame.extend(dport.to_be_bytes());
    frame.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, 2, 0, 0, 0, 0, 0, 0]);
    frame
}
