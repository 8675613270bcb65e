//! Claims about planes by name.

use anyhow::{Context, ensure};
use serde::Deserialize;

use super::super::{Measured, NEARBY, mean};
use super::{Found, Rate, StormFound};

/// Subject of a claim about planes by name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::reproduce) struct About {
    pub(in crate::reproduce) id: String,
    pub(super) of: Of,
    pub(super) planes: Vec<String>,
    /// Profile of the sets, if not the first.
    pub(super) profile: Option<String>,
    /// Size of the set, if not all sizes one after another.
    pub(super) rules: Option<usize>,
    /// Whether the least and the most of all numbers are claimed.
    #[serde(default)]
    ends: bool,
    /// Factor on the numbers.
    #[serde(default = "one")]
    scale: f64,
}

fn one() -> f64 {
    1.0
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(super) enum Of {
    /// Rate of each plane in millions of packets a second.
    Mpps,
    /// Rate of each plane in gigabits a second, by the size of a packet.
    Gbps,
    /// Rate of the first plane over that of the second, and so on in pairs.
    Ratio,
    /// The same in per cent more.
    Percent,
    /// Highest rate of the first plane over its lowest, of all sizes.
    Spread,
    /// Mean nanoseconds per packet of each plane: 1,000 over its Mpps.
    Nanos,
    /// The same of the stage of boxes of each plane in Storm's form.
    Cache,
    /// Nanoseconds per packet of one worker of each of the two stages, as they were measured.
    Stages,
    /// CPU nanoseconds per packet of all threads of each plane that ran, with boxes where it has any: means over the sets.
    Cpu,
    /// Milliseconds until the last loss after a cold start of each plane in Storm's form.
    WarmUp,
    /// Partition of the first plane at the end of that, with an updater, for the largest set.
    Partition,
}

/// Returns rates of which that of one plane is another, within the noise.
pub(super) fn nearby(all: &[Vec<Found>]) -> impl Iterator<Item = Vec<Vec<Found>>> {
    let planes = all.first().map_or(0, Vec::len);
    (0..planes).flat_map(|at| NEARBY.map(|factor| (at, factor))).map(|(at, factor)| {
        let mut other = all.to_vec();
        for sizes in &mut other {
            sizes[at].mpps *= factor;
            sizes[at].simulated.iter_mut().for_each(|mpps| *mpps *= factor);
            if let Some(storm) = &mut sizes[at].storm {
                storm.warm_up *= factor;
            }
            sizes[at].cpu.iter_mut().for_each(|cpu| cpu[0] *= factor);
        }
        other
    })
}

impl Rate {
    /// Returns the measurement of a claim from what was found of each set.
    pub(super) fn measured(&self, all: &[Vec<Found>], about: &About) -> anyhow::Result<Measured> {
        let place = |name: &String| {
            let place = all.first().and_then(|found| found.iter().position(|found| found.name == *name));
            place.with_context(|| format!("there is no plane `{name}` in this entry"))
        };
        let places = about.planes.iter().map(place).collect::<anyhow::Result<Vec<usize>>>()?;
        let count = places.len();
        let enough = !matches!(about.of, Of::Ratio | Of::Percent) || count.is_multiple_of(2);
        ensure!(enough && count > 0, "{count} planes; expected two for a ratio, else one at least");
        let profile = about.profile.as_ref().unwrap_or(&self.profile);
        let is_meant = |(own, size): (&str, usize)| own == *profile && about.rules.is_none_or(|only| only == size);
        let sizes = self.sets().zip(all).filter(|(set, _)| is_meant(*set));
        let found: Vec<&Found> = sizes.flat_map(|(_, all)| places.iter().map(|&at| &all[at])).collect();
        ensure!(!found.is_empty(), "there is no set of this profile and size");
        // Both rates of a ratio are measured, or both are simulated, because the simulation has an error of its own.
        let is_projected = found.iter().any(|found| found.is_projected);
        let rate = |found: &Found| found.simulated.filter(|_| is_projected).unwrap_or(found.mpps);
        let ratios = || found.chunks(2).map(|pair| rate(pair[0]) / rate(pair[1]));
        let storm = |numbers: fn(&Found, StormFound) -> Vec<f64>| -> anyhow::Result<Vec<f64>> {
            let all = found.iter().map(|found| found.storm.map(|storm| numbers(found, storm)));
            Ok(all.collect::<Option<Vec<_>>>().context("expected planes in Storm's form")?.concat())
        };
        let mut numbers: Vec<f64> = match about.of {
            Of::Mpps => found.iter().map(|found| found.mpps).collect(),
            Of::Gbps => found.iter().map(|found| self.gbps(found.mpps)).collect(),
            Of::Ratio => ratios().collect(),
            Of::Percent => ratios().map(|ratio| (ratio - 1.0) * 100.0).collect(),
            Of::Spread => {
                let rates = || found.iter().step_by(count).map(|found| found.mpps);
                vec![rates().fold(0.0, f64::max) / rates().fold(f64::INFINITY, f64::min)]
            }
            Of::Nanos => found.iter().map(|found| 1e3 / found.mpps).collect(),
            Of::Cache => storm(|found, storm| vec![storm.stages[0] / found.workers[0] as f64])?,
            Of::Stages => return Ok(Measured::Numbers(storm(|_, storm| storm.stages.to_vec())?)),
            Of::Cpu => {
                let of = |found: &&Found| found.cpu.map(|cpu| cpu[0]).context("a plane did not run");
                let all = found.iter().map(of).collect::<anyhow::Result<Vec<f64>>>()?;
                let of_plane = |at: usize| mean(all.iter().skip(at).step_by(count).copied());
                return Ok(Measured::Numbers((0..count).map(of_plane).collect()));
            }
            Of::WarmUp => storm(|_, storm| vec![storm.warm_up])?,
            Of::Partition => {
                let last = found[found.len() - count].storm.context("expected a plane in Storm's form")?.last;
                return Ok(Measured::Text(format!("{}-{}-1", last[0], last[1])));
            }
        };
        numbers.iter_mut().for_each(|number| *number *= about.scale);
        if about.ends {
            numbers.sort_unstable_by(f64::total_cmp);
            numbers = vec![numbers[0], numbers[numbers.len() - 1]];
        }
        Ok(if is_projected { Measured::Projected(numbers) } else { Measured::Numbers(numbers) })
    }
}
