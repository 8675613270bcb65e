//! Engines that definitions and experiments can name, with their configurations.

use std::collections::BTreeSet;

use anyhow::{Context, bail, ensure};
use firstmatch_core::cache::flow::{self, FlowCache};
use firstmatch_core::cache::rule::{self, RuleCache};
use firstmatch_core::engines::registry::{self, Entry, Settings};
use firstmatch_core::live;
use firstmatch_core::rule::Lowered;
use firstmatch_core::{Budget, BuildError, Classifier, Schema, Updatable};
use serde::Deserialize;

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

/// Name of the engine that stands for Open vSwitch, which the core does not have.
const OVS_LIKE: &str = "ovs_like";

/// Returns the engines of the core.
fn entries() -> impl Iterator<Item = &'static Entry> {
    registry::ENGINES.iter().chain([&live::META])
}

impl definition::Engine {
    /// Returns the constructors of the engine.
    pub(crate) fn recipe(&self) -> anyhow::Result<Recipe> {
        let recipe = match entries().find(|entry| entry.name == self.engine) {
            Some(entry) => self.by_name(entry),
            None if self.engine == OVS_LIKE => self.ovs_like(),
            None => {
                let names: BTreeSet<&str> = entries().map(|entry| entry.name).chain([OVS_LIKE]).collect();
                let names = names.into_iter().collect::<Vec<_>>().join(", ");
                bail!("there is no engine `{}`; expected one of {names}", self.engine);
            }
        };
        let recipe = recipe.context("config")?;
        let is_cached = self.flow_cache.is_some() || self.rule_cache.is_some();
        ensure!(self.steps_aside.is_none() || is_cached, "`steps_aside` needs a `flow_cache` or a `rule_cache`");
        ensure!(!self.grows_boxes || self.rule_cache.is_some(), "`grows_boxes` needs a `rule_cache`");
        let recipe = match self.rule_cache {
            Some(boxes) => {
                let mut config = if self.grows_boxes { rule::Config::paper() } else { rule::Config::default() };
                config.steps_aside = self.steps_aside.unwrap_or(config.steps_aside);
                (config.boxes, config.simd, config.budget) = (boxes, self.simd, self.budget());
                recipe.behind_rule_cache(config)
            }
            None => recipe,
        };
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

    /// Returns the settings that the definition states, with a fixed seed, so that two builds are the same.
    fn settings(&self) -> anyhow::Result<Settings> {
        let mut settings = Settings::default();
        (settings.budget, settings.simd, settings.seed) = (self.budget(), self.simd, Some(1));
        for (name, value) in &self.config {
            let text = match value {
                toml::Value::String(text) => text.clone(),
                toml::Value::Integer(_) | toml::Value::Float(_) | toml::Value::Boolean(_) => value.to_string(),
                _ => bail!("`{name}`: expected a number, true, false or a word"),
            };
            settings = settings.with_option(name, &text);
        }
        Ok(settings)
    }

    fn budget(&self) -> Budget {
        Budget { run_bytes: self.run_bytes.unwrap_or(usize::MAX) }
    }

    fn by_name(&self, entry: &'static Entry) -> anyhow::Result<Recipe> {
        let settings = self.settings()?;
        entry.check(&settings)?;
        let live = (entry.name == live::META.name).then(|| live::Config::of(&settings)).transpose()?;
        let again = settings.clone();
        let empty = entry
            .updatable
            .map(|build| -> Box<Empty> { Box::new(move |schema| build(&Lowered::empty(schema), &again)) });
        Ok(Recipe { build: Box::new(move |rules| (entry.build)(rules, &settings)), empty, live })
    }

    fn ovs_like(&self) -> anyhow::Result<Recipe> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Names {
            /// Number of keys of the exact-match cache.
            emc: Option<usize>,
            megaflows: Option<usize>,
        }
        let Names { emc, megaflows } = self.config.clone().try_into()?;
        ensure!(self.run_bytes.is_none(), "{OVS_LIKE} keeps no budget; expected no `run_bytes`");
        let exact = flow::Config {
            entries: emc.unwrap_or(8192),
            ways: 2,
            steps_aside: false,
            simd: self.simd,
            seed: Some(1),
            ..Default::default()
        };
        let megaflows = megaflows.unwrap_or(200_000);
        let build = move |rules: &Lowered| -> Result<Box<dyn Classifier>, BuildError> {
            Ok(Box::new(FlowCache::new(OvsLike::build(rules, megaflows), &exact)?))
        };
        Ok(Recipe { build: Box::new(build), empty: None, live: None })
    }
}

impl Recipe {
    fn behind_rule_cache(self, config: rule::Config) -> Self {
        let (Self { build, empty, .. }, again) = (self, config.clone());
        Self {
            live: None,
            build: Box::new(move |rules| Ok(Box::new(RuleCache::over(build(rules)?, rules, &config)?))),
            empty: empty.map(|empty| -> Box<Empty> {
                Box::new(move |schema| Ok(Box::new(RuleCache::over(empty(schema)?, &Lowered::empty(schema), &again)?)))
            }),
        }
    }

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
