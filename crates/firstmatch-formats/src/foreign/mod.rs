//! Rule files of other firewalls.
//!
//! A reader turns a file into chains: rules with products of value sets, verdicts and jumps (`chains`, `product`,
//! `values`). One unfolding makes a list of them in which the first match decides, and `emit` makes rules of the list.
//! Readers decide no order, and the unfolding knows no format. Text that cannot be held is a fault with its line, and
//! nothing is left out.

#[cfg(feature = "json")]
mod aws;
mod chains;
mod emit;
mod ios;
mod iptables;
mod options;
mod product;
mod sniff;
#[cfg(test)]
mod tests;
pub(crate) mod values;
mod view;

pub use options::{Hook, Import, RateLimit, State, Table};
#[cfg(feature = "json")]
pub(crate) use sniff::in_json;
pub(crate) use sniff::{instead, is_aws, sniff};

use firstmatch_core::schema::Family;

use crate::error::ParseError;
use crate::report::Report;
use crate::{Options, RuleFile};

/// Reads the output of iptables-save, or of ip6tables-save if `family` is IPv6.
pub(crate) fn iptables(text: &str, family: Family, options: &Options) -> Result<RuleFile, ParseError> {
    let mut report = Report::new(text, options);
    let hooks = iptables::read(text, family, &options.import, &mut report);
    let read = if report.has_faults() { None } else { emit::rules(&hooks, family, options, &mut report) };
    emit::finish(read, report)
}

/// Reads an access list of Cisco IOS and its kin; `is_nxos` is whether it is known to be one of NX-OS.
pub(crate) fn ios(text: &str, is_nxos: bool, options: &Options) -> Result<RuleFile, ParseError> {
    let mut report = Report::new(text, options);
    let read = ios::read(text, is_nxos, &options.import, &mut report).filter(|_| !report.has_faults());
    let read = read.and_then(|of| emit::of_views(&[of], options, &mut report));
    emit::finish(read, report)
}

/// Reads a security group or a network ACL of AWS.
#[cfg(feature = "json")]
pub(crate) fn aws(text: &str, options: &Options) -> Result<RuleFile, ParseError> {
    aws::read(text, options)
}

/// Refuses a file of AWS, because JSON is not read.
#[cfg(not(feature = "json"))]
pub(crate) fn aws(text: &str, options: &Options) -> Result<RuleFile, ParseError> {
    let mut report = Report::new(text, options);
    report.fault(
        crate::report::Span { line: 1, ..Default::default() },
        || "files of AWS are read with the feature `json`",
    );
    emit::finish(None, report)
}
