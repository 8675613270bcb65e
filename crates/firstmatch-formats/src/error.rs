//! Error of reading a rule file.

use std::fmt;

use firstmatch_core::Diagnostic;

/// Error of reading a rule file: every fault of the file, in order, up to a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    faults: Vec<Diagnostic>,
    more: usize,
}

impl ParseError {
    /// Builds the error from the faults to show and the number of further ones.
    ///
    /// # Panics
    /// If there is no fault.
    pub(crate) fn new(faults: Vec<Diagnostic>, more: usize) -> Self {
        assert!(!faults.is_empty());
        Self { faults, more }
    }

    /// Returns the faults in order.
    pub fn faults(&self) -> &[Diagnostic] {
        &self.faults
    }

    /// Number of faults beyond those kept.
    pub fn more(&self) -> usize {
        self.more
    }

    /// Returns the line of the first fault.
    pub fn line(&self) -> u32 {
        self.faults[0].line
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.faults.iter().enumerate() {
            let newline = if index > 0 { "\n" } else { "" };
            write!(f, "{newline}{fault}")?;
        }
        if self.more > 0 { write!(f, "\nand {} more", self.more) } else { Ok(()) }
    }
}

impl std::error::Error for ParseError {}
