//! Workers for the stages of Storm's form, by equation 1 of its paper and by enumeration.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, ensure};
use firstmatch_net::systems::advice::StageTimes;
use serde::Deserialize;

use super::{Emit, Measured, Outcome};
use crate::table::table;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Advice {
    /// Nanoseconds of a search of boxes, and of a whole lookup.
    times: [f64; 2],
    /// Share of packets that boxes answer.
    hits: f64,
    pub(super) claims: Vec<About>,
}

/// Claim about the cache workers that equation 1 gives.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct About {
    pub(super) id: String,
    threads: usize,
}

pub(super) fn run(run: &Advice, _: Option<&Path>, out: &mut dyn Write, emit: Emit<'_>) -> anyhow::Result<()> {
    let Advice { times: [cache, full], hits, ref claims } = *run;
    ensure!(cache > 0.0 && full > 0.0 && (0.0..1.0).contains(&hits), "expected times above 0 and hits from 0 to 1");
    let times = StageTimes { cache, full, hits };
    let head = ["threads", "equation 1", "stages equally fast", "fastest partition", "its Mpps"];
    let mut table = table(head);
    for &About { ref id, threads } in claims {
        let best = times.advise(threads).with_context(|| format!("claim `{id}`: {threads} threads; expected two"))?;
        let numbers = [times.equation_1(threads), times.balanced(threads), times.mpps(best)];
        let [equation, balanced, mpps] = numbers.map(|number| format!("{number:.3}"));
        table.add_row([threads.to_string(), equation, balanced, format!("{}-{}", best.cache, best.full), mpps]);
    }
    writeln!(out, "{table}")?;
    let measured = |threads| Measured::Numbers(vec![times.equation_1(threads)]);
    claims.iter().try_for_each(|about| emit(Outcome::exact(&about.id, measured(about.threads), "")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::testing::{numbers, ran};

    #[test]
    fn equation_and_enumeration_stand_side_by_side() {
        let text = "times = [200, 2000]\nhits = 0.95\nclaims = [{ id = 'a', threads = 15 }]";
        let (out, found) = ran(run, text).expect("a run");
        assert!(out.contains("| 15      |      8.693 |              10.000 |              10-5 |   50.000 |"), "{out}");
        assert!((numbers(&found[0])[0] - 8.693).abs() < 1e-3);
        for (from, to, expected) in [("0.95", "1.5", "hits from 0 to 1"), ("15", "1", "1 threads; expected two")] {
            let error = ran(run, &text.replace(from, to)).expect_err("a bad run");
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
