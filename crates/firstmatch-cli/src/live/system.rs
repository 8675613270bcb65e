//! `--system`: the lookups of lanes by an arrangement of threads.

use std::sync::Arc;

use anyhow::{Context, anyhow};
use firstmatch::{Policy, RuleId};
use firstmatch_core::engines::registry::{Entry, Settings};
use firstmatch_core::rule::{Lowered, Rule, lower};
use firstmatch_core::{Schema, Stats};
use firstmatch_live::systems::{Generation, Generations};
use firstmatch_net::wire::Batch;

use crate::args::{LiveArgs, System, Threads};
use crate::engines;
use crate::rules::Loaded;
use crate::systems::{Engines, threads};

/// Number of packets at which Storm's stage of boxes sends on those that are in none.
const BATCH: usize = 32;

/// System of a command, and the rules that its lanes have.
pub(super) struct LiveSystem {
    system: System,
    engine: &'static Entry,
    settings: Settings,
    threads: Option<Threads>,
    /// Source of rules for the lanes, once there are some.
    pub(super) generations: Option<Arc<Generations>>,
    /// Schemas and figures of the engines that are in service.
    pub(super) stats: Vec<(Schema, Stats)>,
}

/// Engines for rules that are not in service yet, one for each family.
pub(super) struct Built {
    engines: Vec<(Arc<Engines>, Arc<Lowered>, Vec<usize>)>,
    batch: Batch,
}

impl LiveSystem {
    /// Returns the system that was asked for; `None` if each lane does whole lookups on its own thread.
    pub(super) fn of(args: &LiveArgs) -> anyhow::Result<Option<Self>> {
        let Some(system) = args.system.filter(|system| *system != System::Copies) else { return Ok(None) };
        let engine = engines::named(&args.engine).ok_or_else(|| anyhow!("there is no engine {}", args.engine))?;
        let settings = engines::settings(engine, &args.choice, &args.option)?;
        let threads = args.threads.clone();
        Ok(Some(Self { system, engine, settings, threads, generations: None, stats: Vec::new() }))
    }

    /// Builds the engines for rules, before these take effect anywhere.
    pub(super) fn build(&self, loaded: &Loaded, policy: &Policy) -> anyhow::Result<Built> {
        let (mut built, schemas) = (Vec::new(), loaded.file.rules.schemas());
        for schema in schemas {
            let lowered =
                lower(&loaded.file.rules, schema, &loaded.expansion()).context("the rules have too many regions")?;
            let engines = Engines::build(self.system, (self.engine, &self.settings), &lowered)?;
            let threads = threads(self.system, self.threads.as_ref(), &lowered)?;
            built.push((Arc::new(engines), Arc::new(lowered), threads));
        }
        Ok(Built { engines: built, batch: Batch::for_policy(policy, schemas)? })
    }

    /// Has the lanes take up what was built. `rules` are those of the file, each with its id in the firewall, which has
    /// them in the generation `number`.
    pub(super) fn publish(&mut self, built: Built, policy: Policy, rules: &[(RuleId, &Rule)], number: u64) {
        let Built { engines, batch } = built;
        let slots = rules.iter().map(|(_, rule)| rule.id.slot() + 1).max().unwrap_or(0);
        let mut by_slot = vec![None; slots];
        for (id, rule) in rules {
            by_slot[rule.id.slot()] = Some((rule.action.into(), *id));
        }
        self.stats = engines.iter().map(|(of, lowered, _)| (lowered.schema().clone(), of.whole().stats())).collect();
        let (widths, system) = (engines.iter().map(|(of, ..)| of.width()).collect(), self.system);
        let start = move |schema: usize| {
            let (of, lowered, threads) = &engines[schema];
            of.start(system, threads, BATCH, lowered).map(|running| running.plane).map_err(Into::into)
        };
        let next = Generation { start: Box::new(start), widths, batch, policy, number, rules: by_slot };
        match &self.generations {
            Some(generations) => generations.publish(next),
            None => self.generations = Some(Generations::new(next)),
        }
    }
}
