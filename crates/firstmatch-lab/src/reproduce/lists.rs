//! Rule lists by the name of a profile, or mixed from several.

use std::num::NonZeroU32;
use std::path::Path;

use anyhow::{Context, ensure};
use firstmatch_core::RuleSet;
use firstmatch_core::rule::{Priority, RuleSpec};
use firstmatch_core::schema::Family;
use firstmatch_generate::profile::classbench;
use firstmatch_generate::rules::Actions;
use firstmatch_generate::{Profile, npf, openflow, rules, trace};
use firstmatch_net::source;
use indicatif::ProgressBar;

use crate::definition::OPENFLOW;

/// Rule sets of an experiment: some of every profile and size.
pub(super) struct Plan<'a> {
    pub(super) profiles: &'a [String],
    pub(super) sizes: &'a [usize],
    /// Number of rule sets of each profile and size, each with its own seed.
    pub(super) lists: u64,
    pub(super) bias: Bias,
    /// Folder of parameter files that replace the profiles.
    pub(super) seeds: Option<&'a Path>,
}

/// Parameters by which the rules of a list deviate from their profile.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bias {
    /// Smoothing of prefix lengths, in bits.
    pub(super) smoothing: u8,
    /// Share of the rules that deny; the others permit. With 0, no action is stated.
    pub(super) deny: f64,
}

impl Bias {
    /// Returns the bias of smoothing alone.
    pub(super) fn smoothed(smoothing: u8) -> Self {
        Self { smoothing, ..Self::default() }
    }
}

/// Position of a rule set in a plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) profile: usize,
    pub(super) size: usize,
    pub(super) seed: u64,
}

impl Plan<'_> {
    /// Generates every rule set and hands it to `take`.
    ///
    /// # Errors
    ///
    /// If there is no rule set, a profile is not known or `take` fails; the error names profile and size.
    pub(super) fn each(&self, mut take: impl FnMut(Place, RuleSet) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let Self { profiles, sizes, lists, bias, seeds } = *self;
        ensure!(!profiles.is_empty() && !sizes.is_empty() && lists > 0, "there is no rule set");
        let bar = ProgressBar::new((profiles.len() * sizes.len()) as u64 * lists);
        for (profile, name) in profiles.iter().enumerate() {
            let source = Lists::of(name, seeds)?;
            for (size, &rules) in sizes.iter().enumerate() {
                for seed in 1..=lists {
                    let set = source.list(rules, bias, seed);
                    let taken = set.and_then(|set| take(Place { profile, size, seed }, set));
                    taken.with_context(|| format!("{name}, {rules} rules"))?;
                    bar.inc(1);
                }
            }
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// Returns a zero for each profile and size.
    pub(super) fn zeros(&self) -> Vec<Vec<f64>> {
        vec![vec![0.0; self.sizes.len()]; self.profiles.len()]
    }
}

/// Rules of each profile whose values are pooled for `npf`.
const POOLED: usize = 1000;
/// Packets of each profile whose values are pooled for `pnpf`.
const CAPTURED: usize = 20_000;

/// Source of lists: one profile, or several that have an equal share of each list.
pub(super) struct Lists(Vec<Source>);

/// Source of the rules of one profile.
enum Source {
    Profile(Box<Profile>),
    /// OpenFlow rules with these ratios of distinct values.
    Openflow([f64; 15]),
    /// Rules of values of these pools, with random prefixes or with addresses of the pools.
    Npf(Box<npf::Pools>, npf::Addresses),
}

impl Lists {
    /// Looks up profiles by name, such as `acl1` or `acl1+fw1`.
    ///
    /// They are built-in profiles, or the parameter files of these names in a folder. Profiles without a protocol are
    /// always built-in, because parameter files have one. `openflow` has the 15 fields of OpenFlow; `openflow*0.5` has
    /// them with half of the distinct values. `npf` has the values of `acl1` and `fw1` behind random prefixes, as
    /// Section 4.6 of its thesis. `pnpf` has 2^8 values of each field of packets of these profiles, as Section 5.8.2.
    pub(super) fn of(name: &str, seeds: Option<&Path>) -> anyhow::Result<Self> {
        let one = |name: &str| {
            if let Some(factor) = factor(name)? {
                return Ok(Source::Openflow(openflow::TABLE_III.map(|ratio| (ratio * factor).min(1.0))));
            }
            if name == "npf" || name == "pnpf" {
                let lists = Self::of("acl1", seeds)?.0.into_iter().chain(Self::of("fw1", seeds)?.0);
                let sets = lists.map(|source| Self(vec![source]).list(POOLED, Bias::default(), 1));
                let sets = sets.collect::<anyhow::Result<Vec<_>>>()?;
                if name == "npf" {
                    let pools = npf::Pools::of_rules(Family::Ipv4, &sets);
                    return Ok(Source::Npf(Box::new(pools), npf::Addresses::Random));
                }
                let config =
                    trace::Config { headers: CAPTURED, coverage: trace::Coverage::Drawn, ..Default::default() };
                let traces = sets.iter().map(|set| trace::generate(set, &config)).collect::<Result<Vec<_>, _>>()?;
                // Packets of the profiles take turns.
                let headers = (0..CAPTURED).flat_map(|at| traces.iter().filter_map(move |trace| trace.iter().nth(at)));
                let pools = npf::Pools::of_headers(Family::Ipv4, headers.copied(), npf::VALUES);
                return Ok(Source::Npf(Box::new(pools), npf::Addresses::Pooled));
            }
            let profile = match (seeds, name.parse::<Profile>()) {
                (_, Ok(profile)) if !profile.has_protocol => profile,
                (Some(folder), _) => parameter_file(folder, name)?,
                (None, profile) => profile?,
            };
            anyhow::Ok(Source::Profile(Box::new(profile)))
        };
        Ok(Self(name.split('+').map(one).collect::<anyhow::Result<_>>().with_context(|| name.to_owned())?))
    }

    /// Generates a list of `size` rules, or fewer if a profile has fewer.
    ///
    /// The rules of several profiles take turns, each in its own order. For example, 100 rules of `acl1+fw1` are 50 of
    /// `acl1` at the odd lines and 50 of `fw1` at the even ones.
    pub(super) fn list(&self, size: usize, Bias { smoothing, deny }: Bias, seed: u64) -> anyhow::Result<RuleSet> {
        let share = size / self.0.len();
        ensure!(share > 0, "{size} rules are too few for {} profiles", self.0.len());
        let one = |source: &Source| match source {
            Source::Profile(profile) => {
                let profile = (**profile).clone();
                let actions = if deny > 0.0 { Actions::Stated { deny, mark: 0.0 } } else { Actions::Unstated };
                let config = rules::Config { rules: share, seed, profile, actions, smoothing, ..Default::default() };
                rules::generate(&rules::Config { fewer: true, ..config })
            }
            Source::Npf(pools, addresses) => npf::generate(pools, *addresses, share, seed),
            &Source::Openflow(ratios) => {
                openflow::generate(&openflow::Config { rules: share, seed, ratios, ..Default::default() })
            }
        };
        let mut sets = self.0.iter().map(one).collect::<Result<Vec<_>, _>>()?;
        if sets.len() == 1 {
            return Ok(sets.remove(0));
        }
        let fields = |set: &RuleSet| set.schemas()[0].clone();
        ensure!(
            sets.iter().all(|set| fields(set) == fields(&sets[0])),
            "the profiles have rules over different fields"
        );
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

/// Reads the profile of the parameter file `<name>_seed` in a folder.
fn parameter_file(folder: &Path, name: &str) -> anyhow::Result<Profile> {
    let path = folder.join(format!("{name}_seed"));
    Ok(classbench::parse(&path.display().to_string(), &source::read_text(&path)?)?)
}

/// Returns the factor on the ratios of distinct values in a name such as `openflow*0.5`; `None` for other profiles.
pub(super) fn factor(name: &str) -> anyhow::Result<Option<f64>> {
    let Some(rest) = name.strip_prefix(OPENFLOW) else { return Ok(None) };
    let factor = if rest.is_empty() { Some(1.0) } else { rest.strip_prefix('*').and_then(|text| text.parse().ok()) };
    let factor = factor.filter(|factor| *factor > 0.0);
    Ok(Some(factor.with_context(|| format!("expected `{OPENFLOW}`, or `{OPENFLOW}*0.5` for half of the values"))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openflow_lists_have_a_share_of_the_values() {
        let values = |name: &str| {
            let set = Lists::of(name, None).expect("a source").list(400, Bias::default(), 1).expect("rules");
            let sources = set.iter().map(|rule| format!("{:?}", rule.conditions.on(9)));
            sources.collect::<std::collections::HashSet<_>>().len()
        };
        assert_eq!([values("openflow"), values("openflow*0.5"), values("openflow*0.25")], [100, 50, 25]);
        for bad in ["openflow*", "openflow*-1", "openflows", "openflow*x"] {
            let error = format!("{:#}", Lists::of(bad, None).err().expect("a bad name"));
            assert!(error.contains("expected `openflow`"), "{error}");
        }
    }

    #[test]
    fn lists_without_a_protocol_have_no_parameter_files() {
        let folder = Path::new("no such folder");
        let set = Lists::of("core", Some(folder)).expect("a profile").list(1000, Bias::default(), 1).expect("rules");
        assert_eq!((set.len(), set.schemas()[0].words().len()), (1000, 4));
        assert!(Lists::of("acl1", Some(folder)).is_err());
    }

    #[test]
    fn rules_of_several_profiles_take_turns() {
        let conditions =
            |set: &RuleSet| -> Vec<_> { set.iter().map(|rule| rule.conditions.to_vec()).collect::<Vec<_>>() };
        let alone = |name: &str| {
            conditions(&Lists::of(name, None).expect("a profile").list(50, Bias::smoothed(2), 7).expect("rules"))
        };
        let mixed = Lists::of("acl1+fw1", None).expect("profiles").list(100, Bias::smoothed(2), 7).expect("rules");
        assert!(mixed.iter().map(|rule| rule.priority).is_sorted());
        let (acl, fw) = (alone("acl1"), alone("fw1"));
        let turns: Vec<_> = acl.iter().zip(&fw).flat_map(|(acl, fw)| [acl.clone(), fw.clone()]).collect();
        assert_eq!(conditions(&mixed), turns);
        assert!(
            Lists::of("acl1+fw77", None).is_err()
                && Lists::of("acl1+core", None).expect("two").list(10, Bias::default(), 1).is_err()
                && Lists::of("acl1+fw1", None).expect("two").list(1, Bias::default(), 1).is_err()
        );
    }
}
