//! Numbers by name: steps that lookups took, or parts of an engine.

use std::fmt;

/// Numbers by name, in a fixed order.
///
/// Each engine chooses the names, such as `nodes`, `tests`, `table reads`, `lines` or `evaluations`. As text, it is
/// each name with its number; for example, `nodes 12, tests 96`.
///
/// ```
/// use firstmatch_core::NamedCounts;
///
/// let mut all = NamedCounts::from([("nodes", 3), ("tests", 8)]);
/// all.add(&NamedCounts::from([("tests", 16), ("lines", 5)]));
/// assert_eq!(all.get("tests"), Some(24));
/// assert_eq!(all.to_string(), "nodes 3, tests 24, lines 5");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedCounts(Vec<(&'static str, u64)>);

impl NamedCounts {
    /// Returns the number of this name, if there is one.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.0.iter().find(|(of, _)| *of == name).map(|&(_, count)| count)
    }

    /// Returns each name with its number.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().copied()
    }

    /// Whether there is no number.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the numbers of `others`, name by name; new names are appended.
    pub fn add(&mut self, others: &Self) {
        for (name, more) in others.iter() {
            match self.0.iter_mut().find(|(of, _)| *of == name) {
                Some((_, count)) => *count += more,
                None => self.0.push((name, more)),
            }
        }
    }
}

impl<const COUNT: usize> From<[(&'static str, u64); COUNT]> for NamedCounts {
    fn from(counts: [(&'static str, u64); COUNT]) -> Self {
        Self(counts.into())
    }
}

impl fmt::Display for NamedCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, count)) in self.iter().enumerate() {
            write!(f, "{}{name} {count}", if at > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}
