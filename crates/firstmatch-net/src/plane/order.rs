//! Order of messages.

use std::fmt;

/// Order in which a plane's messages come out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResultOrder {
    /// In the order in which they came in.
    Arrival,
    /// Messages of one flow are in order, as long as the number of active workers does not change.
    Flow,
    /// Messages of one worker of the source are in order. So are the messages of a flow that come from one worker.
    Share,
    /// In any order, even within a flow.
    NotKept {
        /// Reason why.
        reason: &'static str,
    },
}

impl fmt::Display for ResultOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Arrival => f.write_str("results are in order of arrival"),
            Self::Flow => f.write_str("results of one flow are in order"),
            Self::Share => f.write_str("results of one source worker are in order"),
            Self::NotKept { reason } => write!(f, "results are in no order, because {reason}"),
        }
    }
}
