//! The error of all functions here that can fail.

use std::fmt;

use firstmatch_core::{BuildError, Diagnostic, UpdateError};
use firstmatch_formats::ParseError;
use firstmatch_net::wire::NoSource;

/// A batch has other fields than the rules, see [`Worker::classify_batch`](crate::Worker::classify_batch).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherFieldsError;

impl fmt::Display for OtherFieldsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the rules have other fields than the batch")
    }
}

impl std::error::Error for OtherFieldsError {}

/// Reason why rules were not taken, built or changed. Nothing is changed if it is returned.
#[derive(Debug)]
pub struct Error(Kind);

#[derive(Debug)]
enum Kind {
    Parse(ParseError),
    Build(BuildError),
    Update(UpdateError),
    Field(NoSource),
    Rule(String),
}

impl Error {
    /// Returns an error about a rule that does not come from text.
    pub(crate) fn rule(message: impl Into<String>) -> Self {
        Self(Kind::Rule(message.into()))
    }

    /// Returns the faults of the text, in the order of lines; none if the error is of another kind.
    ///
    /// ```
    /// let error = firstmatch::Firewall::from_text("permit tpc\n").unwrap_err();
    /// assert_eq!((error.faults()[0].line, error.faults()[0].column), (1, 8));
    /// ```
    pub fn faults(&self) -> &[Diagnostic] {
        if let Kind::Parse(error) = &self.0 { error.faults() } else { &[] }
    }

    /// Returns the line of the rule that the error is about, from 1, if it has one.
    ///
    /// ```
    /// let error = firstmatch::Firewall::from_text("permit\ndeny tpc\n").unwrap_err();
    /// assert_eq!(error.line(), Some(2));
    /// ```
    pub fn line(&self) -> Option<u32> {
        match &self.0 {
            Kind::Parse(error) => Some(error.line()),
            Kind::Build(error) => error.line(),
            _ => None,
        }
    }

    /// Whether a memory limit or a limit on the worst case leaves no room.
    pub fn budget_exceeded(&self) -> bool {
        match &self.0 {
            Kind::Build(error) => error.budget_exceeded(),
            Kind::Update(error) => error.budget_exceeded(),
            _ => false,
        }
    }

    /// Whether there is room for the change once a rebuild is installed:
    /// [`Firewall::rebuild`](crate::Firewall::rebuild).
    pub fn needs_rebuild(&self) -> bool {
        matches!(&self.0, Kind::Update(error) if error.needs_rebuild())
    }

    /// Whether a batch in progress blocks [`Update::try_commit`](crate::Update::try_commit).
    pub fn is_busy(&self) -> bool {
        matches!(&self.0, Kind::Update(error) if error.is_busy())
    }

    /// Whether the id belongs to a rule that was removed.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23\npermit\n")?;
    /// let id = firewall.update().rules().next().expect("two rules").id;
    /// let mut update = firewall.update();
    /// update.remove(id)?;
    /// assert!(update.remove(id).unwrap_err().is_stale());
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn is_stale(&self) -> bool {
        matches!(&self.0, Kind::Update(error) if error.is_stale())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Parse(error) => error.fmt(f),
            Kind::Build(error) => error.fmt(f),
            Kind::Update(error) => error.fmt(f),
            Kind::Field(error) => error.fmt(f),
            Kind::Rule(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0 {
            Kind::Parse(error) => Some(error),
            Kind::Build(error) => Some(error),
            Kind::Update(error) => Some(error),
            Kind::Field(error) => Some(error),
            Kind::Rule(_) => None,
        }
    }
}

impl From<ParseError> for Error {
    fn from(error: ParseError) -> Self {
        Self(Kind::Parse(error))
    }
}

impl From<BuildError> for Error {
    fn from(error: BuildError) -> Self {
        Self(Kind::Build(error))
    }
}

impl From<UpdateError> for Error {
    fn from(error: UpdateError) -> Self {
        Self(Kind::Update(error))
    }
}

impl From<NoSource> for Error {
    fn from(error: NoSource) -> Self {
        Self(Kind::Field(error))
    }
}
