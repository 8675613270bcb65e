//! Rule lists by the name of a profile, or mixed from several.

use std::num::NonZeroU32;
use std::path::Path;

use anyhow::{Context, ensure};
use firstmatch_core::RuleSet;
use firstmatch_core::rule::{Priority, RuleSpec};
use firstmatch_generate::{Profile, rules};

use crate::generate;

/// Source of lists: one profile, or several that have an equal share of each list.
pub(super) struct Lists(Vec<Profile>);

impl Lists {
    /// Looks up profiles by name, such as `acl1` or `acl1+fw1`.
    ///
    /// They are built-in profiles, or the parameter files of these names in a folder.
    pub(super) fn of(name: &str, seeds: Option<&Path>) -> anyhow::Result<Self> {
        let one = |name: &str| match seeds {
            Some(folder) => Ok(generate::seed(folder, name)?.0),
            None => Ok(name.parse()?),
        };
        Ok(Self(name.split('+').map(one).collect::<anyhow::Result<_>>().with_context(|| name.to_owned())?))
    }

    /// Generates a list of `size` rules, or fewer if a profile has fewer.
    ///
    /// The rules of several profiles take turns, each in its own order. For example, 100 rules of `acl1+fw1` are 50 of
    /// `acl1` at the odd lines and 50 of `fw1` at the even ones.
    pub(super) fn list(&self, size: usize, smoothing: u8, seed: u64) -> anyhow::Result<RuleSet> {
        let share = size / self.0.len();
        ensure!(share > 0, "{size} rules are too few for {} profiles", self.0.len());
        let one = |profile: &Profile| {
            let profile = profile.clone();
            let config = rules::Config { rules: share, seed, profile, smoothing, fewer: true, ..Default::default() };
            rules::generate(&config)
        };
        let mut sets = self.0.iter().map(one).collect::<Result<Vec<_>, _>>()?;
        if sets.len() == 1 {
            return Ok(sets.remove(0));
        }
        let mut mixed = RuleSet::new(sets[0].schemas()[0].clone());
        let mut turns: Vec<_> = sets.iter().map(RuleSet::iter).collect();
        for _ in 0..share {
            for rule in turns.iter_mut().filter_map(Iterator::next) {
                let line = u32::try_from(mixed.len() + 1)?;
                let (priority, line) = (Priority::of_line(line), NonZeroU32::new(line));
                mixed.insert(RuleSpec { priority, line, ..rule.spec.clone() })?;
            }
        }
        Ok(mixed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_several_profiles_take_turns() {
        let conditions =
            |set: &RuleSet| -> Vec<_> { set.iter().map(|rule| rule.conditions.to_vec()).collect::<Vec<_>>() };
        let alone = |name: &str| conditions(&Lists::of(name, None).expect("a profile").list(50, 2, 7).expect("rules"));
        let mixed = Lists::of("acl1+fw1", None).expect("profiles").list(100, 2, 7).expect("rules");
        assert!(mixed.iter().map(|rule| rule.priority).is_sorted());
        let (acl, fw) = (alone("acl1"), alone("fw1"));
        let turns: Vec<_> = acl.iter().zip(&fw).flat_map(|(acl, fw)| [acl.clone(), fw.clone()]).collect();
        assert_eq!(conditions(&mixed), turns);
        assert!(
            Lists::of("acl1+fw77", None).is_err() && Lists::of("acl1+fw1", None).expect("two").list(1, 0, 1).is_err()
        );
    }
}
