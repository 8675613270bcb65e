//! Exact answers about rule sets: which rules never decide, and which change no verdict.
//!
//! All answers come from one question: is a box of packets covered by the rules before some rank? [`Analysis`] asks it
//! of every rule. The answers are exact for any schema and both families. A question that takes more work than
//! [`Limits`] allow is *undecided*, never answered wrongly.
//!
//! ```
//! use firstmatch_core::analyze::{Analysis, Config, Kind};
//!
//! let text = "permit tcp dport 0-1023\npermit tcp dport 1024-65535\ndeny tcp src 10.0.0.0/8\npermit udp\n";
//! let file = firstmatch_formats::parse(text, &firstmatch_formats::Options::default())?;
//! let report = Analysis::new(&file.rules, &file.policy, &Config::default())?.check();
//! let [finding] = &report.findings[..] else { panic!("one rule never decides") };
//! let line = |id| file.rules.get(id).and_then(|rule| rule.line).map_or(0, u32::from);
//! assert_eq!((finding.kind, line(finding.rule)), (Kind::Shadowed, 3));
//! assert_eq!(finding.by.iter().map(|&rule| line(rule)).collect::<Vec<_>>(), [1, 2]);
//! assert!(report.is_complete());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`diff`] compares two rule sets in the same way:
//!
//! ```
//! use firstmatch_core::analyze::{Config, diff};
//!
//! let parse = |text: &str| firstmatch_formats::parse(text, &firstmatch_formats::Options::default());
//! let before = parse("permit tcp src 10.0.0.0/8\n")?;
//! let after = parse("deny tcp src 10.0.0.0/9 dport 22\npermit tcp src 10.0.0.0/8\n")?;
//! let found = diff((&before.rules, &before.policy), (&after.rules, &after.policy), &Config::default())?;
//! let [pair] = &found.pairs[..] else { panic!("one pair of rules gives different verdicts") };
//! assert_eq!(pair.verdicts.map(|verdict| verdict.to_string()), ["permit", "deny"]);
//! assert_eq!(pair.packet.values[3], Some(22));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Cost
//! Questions go to a tree of boxes, built in O(n log n). Hardly any question of usual rules needs a search; deciding
//! the others is NP-hard, so that their work is capped. All caps are counts, so that a run can be repeated.
//!
//! Rules with more regions than [`Config::expansion`] allows, or far more regions than rules, are analysed over classes:
//! values of a field that no rule tells apart have one number. A rule that exceeds the limits even so is undecided.

mod align;
mod analysis;
mod beyond;
mod cells;
mod classes;
mod cover;
mod covered;
mod differ;
mod findings;
mod hidden;
mod leftover;
mod listed;
mod one_sided;
mod overlaps;
mod piece;
mod possible;
mod tree;

pub use align::align;
pub use analysis::{Analysis, Config, KeySpace, Limits};
pub use cells::Sampled;
pub use covered::{Covering, covered};
pub use differ::{Difference, Differences, OneSided, comparable, diff};
pub use findings::{Finding, Kind, Report};
pub use listed::{HeldValue, held_values};
pub use overlaps::{OverlapPair, Overlapping};
