//! Errors of the generators.

use std::fmt;

/// Reason why nothing was generated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Config(String),
    Exhausted { profile: String, found: usize, asked: usize, tries: u64 },
    TooFewHeaders { headers: usize, needed: usize },
    NothingUnmatched { tries: usize, proved: bool },
    NothingMatched,
    Unsupported(String),
    Engine(String),
}

impl Error {
    pub(crate) fn config(what: impl Into<String>) -> Self {
        Self(Kind::Config(what.into()))
    }

    pub(crate) fn exhausted(profile: &str, found: usize, asked: usize, tries: u64) -> Self {
        Self(Kind::Exhausted { profile: profile.to_owned(), found, asked, tries })
    }

    pub(crate) fn too_few_headers(headers: usize, needed: usize) -> Self {
        Self(Kind::TooFewHeaders { headers, needed })
    }

    pub(crate) fn nothing_unmatched(tries: usize, proved: bool) -> Self {
        Self(Kind::NothingUnmatched { tries, proved })
    }

    pub(crate) fn nothing_matched() -> Self {
        Self(Kind::NothingMatched)
    }

    pub(crate) fn unsupported(what: impl Into<String>) -> Self {
        Self(Kind::Unsupported(what.into()))
    }

    pub(crate) fn engine(error: &firstmatch_core::BuildError) -> Self {
        Self(Kind::Engine(error.to_string()))
    }

    /// Whether the rules test what the wanted form of a trace has no room for.
    pub fn is_unsupported(&self) -> bool {
        matches!(self.0, Kind::Unsupported(_))
    }

    /// Returns whether a value of the configuration is out of its bounds.
    pub fn is_config(&self) -> bool {
        matches!(self.0, Kind::Config(_))
    }

    /// Returns the numbers of distinct rules found and requested, if the profile was exhausted.
    pub fn exhausted_at(&self) -> Option<(usize, usize)> {
        match self.0 {
            Kind::Exhausted { found, asked, .. } => Some((found, asked)),
            _ => None,
        }
    }

    /// Returns the number of headers needed, if the trace is too short to hit every rule.
    pub fn headers_needed(&self) -> Option<usize> {
        match self.0 {
            Kind::TooFewHeaders { needed, .. } => Some(needed),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Config(what) | Kind::Unsupported(what) => f.write_str(what),
            Kind::Exhausted { profile, found, asked, tries } => write!(
                f,
                "the profile {profile} yields {found} distinct rules in {tries} tries; {asked} were asked for: \
                 let its trees branch more, or take those that there are"
            ),
            Kind::TooFewHeaders { headers, needed } => write!(
                f,
                "{headers} headers cannot hit every rule; it takes at least {needed} (or coverage that is not complete)"
            ),
            Kind::NothingUnmatched { proved: true, .. } => {
                f.write_str("the rules match every header: none can be drawn that matches nothing")
            }
            Kind::NothingUnmatched { tries, .. } => {
                write!(f, "none of {tries} headers matched nothing: the rules match nearly everything")
            }
            Kind::NothingMatched => f.write_str("no rule can be hit: there is nothing to draw headers from"),
            Kind::Engine(what) => write!(f, "the rules cannot be searched: {what}"),
        }
    }
}

impl std::error::Error for Error {}
