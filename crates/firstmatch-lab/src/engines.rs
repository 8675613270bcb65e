//! Registry of the engines that definitions can name, with their configurations.

use std::collections::BTreeSet;

use anyhow::{Context, bail, ensure};
use firstmatch_core::cache::flow::{self, FlowCache};
use firstmatch_core::engines::bit_select::{self, BitSelect};
use firstmatch_core::engines::partition_sort::{self, PartitionSort};
use firstmatch_core::engines::registry::{self, Entry, Settings};
use firstmatch_core::engines::tuple::{self, TupleMerge};
use firstmatch_core::live::{self, Owned};
use firstmatch_core::raw::Level;
use firstmatch_core::rule::Lowered;
use firstmatch_core::{Budget, BuildError, Classifier, Schema, Updatable};
use serde::Deserialize;
use serde::de::Error as _;

use crate::definition;
use crate::ovs_like::OvsLike;

type Build = dyn Fn(&Lowered) -> Result<Box<dyn Classifier>, BuildError>;
type Empty = dyn Fn(&Schema) -> Result<Box<dyn Updatable>, BuildError>;

/// Constructors of an engine in one configuration.
pub(crate) struct Recipe {
    /// Builds the engine from rules.
    pub(crate) build: Box<Build>,
    /// Builds the engine without rules, if it takes updates.
    pub(crate) empty: Option<Box<Empty>>,
    /// Configuration of a writer and readers, if the engine has them.
    pub(crate) live: Option<live::Config>,
}

/// Settings that every configuration has.
#[derive(Clone, Copy)]
struct Common {
    budget: Budget,
    simd: Option<Level>,
}

type Read = fn(toml::Table, Common) -> Result<Recipe, toml::de::Error>;

/// Engines with settings of their own; any other comes from the core's registry with its defaults.
const ENGINES: &[(&str, Read)] = &[
    ("bit_select", bit_select),
    ("meta", meta),
    ("ovs_like", ovs_like),
    ("partitionsort", partition_sort),
    ("tuplemerge", |table, common| tuples("tuplemerge", table, common)),
    ("tuplemerge_offline", |table, common| tuples("tuplemerge_offline", table, common)),
    ("tss", |table, common| tuples("tss", table, common)),
];

impl definition::Engine {
    /// Returns the constructors of the engine.
    pub(crate) fn recipe(&self) -> anyhow::Result<Recipe> {
        let (table, common) = (self.config.clone(), self.common());
        let own = ENGINES.iter().find(|(name, _)| *name == self.engine);
        let entry = registry::ENGINES.iter().find(|entry| entry.name == self.engine);
        let recipe = match (own, entry) {
            (Some((_, read)), _) => read(table, common),
            (None, Some(entry)) => registered(entry, table, common),
            (None, None) => {
                let own = ENGINES.iter().map(|(name, _)| *name);
                let others = registry::ENGINES.iter().map(|entry| entry.name);
                let names: BTreeSet<&str> = own.chain(others).collect();
                let names = names.into_iter().collect::<Vec<_>>().join(", ");
                bail!("there is no engine `{}`; expected one of {names}", self.engine);
            }
        };
        let recipe = recipe.context("config")?;
        ensure!(self.steps_aside.is_none() || self.flow_cache.is_some(), "`steps_aside` needs a `flow_cache`");
        Ok(match self.flow_cache {
            Some(entries) => {
                let default = flow::Config::default();
                let steps_aside = self.steps_aside.unwrap_or(default.steps_aside);
                recipe.behind_flow_cache(flow::Config {
                    entries,
                    steps_aside,
                    simd: self.simd,
                    seed: Some(1),
                    ..default
                })
            }
            None => recipe,
        })
    }
}

impl Recipe {
    fn behind_flow_cache(self, config: flow::Config) -> Self {
        let (Self { build, empty, .. }, again) = (self, config.clone());
        Self {
            live: None,
            build: Box::new(move |rules| Ok(Box::new(FlowCache::new(build(rules)?, &config)?))),
            empty: empty.map(|empty| -> Box<Empty> {
                Box::new(move |schema| Ok(Box::new(FlowCache::new(empty(schema)?, &again)?)))
            }),
        }
    }
}

/// Reads an engine without settings of its own.
fn registered(entry: &'static Entry, table: toml::Table, common: Common) -> Result<Recipe, toml::de::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Names {}
    let Names {} = table.try_into()?;
    let mut settings = Settings::default();
    (settings.budget, settings.simd, settings.seed) = (common.budget, common.simd, Some(1));
    let empty = entry
        .updatable
        .map(|build| -> Box<Empty> { Box::new(move |schema| build(&Lowered::empty(schema), &settings)) });
    Ok(Recipe { build: Box::new(move |rules| (entry.build)(rules, &settings)), empty, live: None })
}

fn bit_select(table: toml::Table, Common { budget, simd }: Common) -> Result<Recipe, toml::de::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Names {
        trees: Option<usize>,
        levels: Option<usize>,
        fan_out: Option<usize>,
        open: Option<u32>,
        growth: Option<f64>,
    }
    let Names { trees, levels, fan_out, open, growth } = table.try_into()?;
    let default = bit_select::Shape::default();
    let is_forced = trees.is_some() || levels.is_some() || fan_out.is_some() || open.is_some() || growth.is_some();
    let shape = is_forced.then_some(bit_select::Shape {
        trees: trees.unwrap_or(default.trees),
        levels: levels.unwrap_or(default.levels),
        fan_out: fan_out.unwrap_or(default.fan_out),
        open: open.unwrap_or(default.open),
        growth: growth.unwrap_or(default.growth),
    });
    let config = bit_select::Config { budget, simd, shape, ..Default::default() };
    Ok(Recipe {
        build: Box::new(move |rules| Ok(Box::new(BitSelect::build(rules, &config)?))),
        empty: None,
        live: None,
    })
}

/// Reads a `meta` engine.
///
/// Its lookups use a frozen rule set. Its updates use an owned engine, which rebuilds on the same thread when a rebuild
/// is due.
fn meta(table: toml::Table, Common { budget, simd }: Common) -> Result<Recipe, toml::de::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Names {
        base: Option<String>,
        trial: Option<usize>,
        overlay: Option<usize>,
        due: Option<usize>,
        dead: Option<usize>,
    }
    let Names { base, trial, overlay, due, dead } = table.try_into()?;
    let kind = base.map(|name| name.parse().map_err(toml::de::Error::custom)).transpose()?;
    let config = live::Config {
        budget,
        simd,
        strategy: kind.into(),
        trial,
        overlay,
        due,
        dead,
        seed: Some(1),
        ..Default::default()
    };
    let again = config.clone();
    Ok(Recipe {
        build: Box::new(move |rules| Ok(Box::new(live::Engine::build(rules, &config)?))),
        live: Some(again.clone()),
        empty: Some(Box::new(move |schema| Ok(Box::new(Owned::new(schema, &again)?)))),
    })
}

fn ovs_like(table: toml::Table, Common { budget, simd }: Common) -> Result<Recipe, toml::de::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Names {
        /// Number of keys of the exact-match cache.
        emc: Option<usize>,
        megaflows: Option<usize>,
    }
    let Names { emc, megaflows } = table.try_into()?;
    if budget != Budget::default() {
        return Err(serde::de::Error::custom("ovs_like keeps no budget; expected no `run_bytes`"));
    }
    let exact = flow::Config {
        entries: emc.unwrap_or(8192),
        ways: 2,
        steps_aside: false,
        simd,
        seed: Some(1),
        ..Default::default()
    };
    let megaflows = megaflows.unwrap_or(200_000);
    let build = move |rules: &Lowered| -> Result<Box<dyn Classifier>, BuildError> {
        Ok(Box::new(FlowCache::new(OvsLike::build(rules, megaflows), &exact)?))
    };
    Ok(Recipe { build: Box::new(build), empty: None, live: None })
}

fn partition_sort(table: toml::Table, Common { budget, simd }: Common) -> Result<Recipe, toml::de::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Names {
        reorder: Option<usize>,
        most_partitions: Option<usize>,
        /// Whether to start from the paper's own values.
        #[serde(default)]
        paper: bool,
    }
    let Names { reorder, most_partitions, paper } = table.try_into()?;
    let default = if paper { partition_sort::Config::paper() } else { partition_sort::Config::default() };
    let config = partition_sort::Config {
        budget,
        simd,
        reorder: reorder.unwrap_or(default.reorder),
        most_partitions: most_partitions.unwrap_or(default.most_partitions),
    };
    let again = config.clone();
    Ok(Recipe {
        build: Box::new(move |rules| Ok(Box::new(PartitionSort::build(rules, &config)?))),
        empty: Some(Box::new(move |schema| Ok(Box::new(PartitionSort::new(schema, &again)?)))),
        live: None,
    })
}

fn tuples(name: &str, table: toml::Table, common: Common) -> Result<Recipe, toml::de::Error> {
    let config = tuple_config(name, table, common)?;
    let again = config.clone();
    Ok(Recipe {
        build: Box::new(move |rules| Ok(Box::new(TupleMerge::build(rules, &config)?))),
        empty: Some(Box::new(move |schema| Ok(Box::new(TupleMerge::new(schema, &again)?)))),
        live: None,
    })
}

impl definition::Engine {
    /// Returns the configuration of a tuple engine.
    pub(crate) fn tuple_config(&self) -> anyhow::Result<tuple::Config> {
        tuple_config(&self.engine, self.config.clone(), self.common()).context("config")
    }

    fn common(&self) -> Common {
        Common { budget: Budget { run_bytes: self.run_bytes.unwrap_or(usize::MAX) }, simd: self.simd }
    }
}

fn tuple_config(
    name: &str,
    table: toml::Table,
    Common { budget, simd }: Common,
) -> Result<tuple::Config, toml::de::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Names {
        collision_limit: Option<usize>,
        spill: Option<bool>,
        most_tables: Option<usize>,
        preclassifier: Option<bool>,
        fields: Option<Fields>,
        /// Whether to start from the paper's own values.
        #[serde(default)]
        paper: bool,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Fields {
        All,
        Addresses,
    }
    let Names { collision_limit, spill, most_tables, preclassifier, fields, paper } = table.try_into()?;
    let default = match name {
        "tss" if paper => tuple::Config::paper_tss(),
        "tss" => tuple::Config::tss(),
        "tuplemerge_offline" if paper => tuple::Config::paper_offline(),
        "tuplemerge_offline" => tuple::Config::offline(),
        _ if paper => tuple::Config::paper(),
        _ => tuple::Config::default(),
    };
    let fields = fields.map(|fields| match fields {
        Fields::All => tuple::TupleFields::All,
        Fields::Addresses => tuple::TupleFields::Addresses,
    });
    Ok(tuple::Config {
        budget,
        simd,
        collision_limit: collision_limit.unwrap_or(default.collision_limit),
        spill: spill.unwrap_or(default.spill),
        most_tables: most_tables.unwrap_or(default.most_tables),
        preclassifier: preclassifier.unwrap_or(default.preclassifier),
        fields: fields.unwrap_or(default.fields),
        // A fixed seed, so that two builds, and builds in two runs, are the same.
        seed: Some(1),
        ..default
    })
}
