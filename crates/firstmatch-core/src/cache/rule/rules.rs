//! Rules in the form in which boxes are proved.

use std::sync::Arc;

use super::config::{Config, Proof};
use crate::engine::Overlaps;
use crate::engines::cut_tree::{self, CutTree, Method};
use crate::engines::shared::RegionList;
use crate::error::BuildError;
use crate::raw::Level;
use crate::rule::Lowered;

/// Structure that is searched to prove boxes.
pub(super) enum Rules {
    /// A list of the regions, and with [`Proof::Tree`] a tree over them, until they change.
    Own(RegionList, Option<Box<CutTree>>),
    Shared(Arc<dyn Overlaps>),
}

impl Rules {
    /// Builds the structures of `config` over `rules`, and the list that follows changes.
    pub(super) fn own(rules: &Lowered, config: &Config) -> Result<Self, BuildError> {
        let tree = if config.proof == Proof::Tree { Some(Box::new(tree(rules, config)?)) } else { None };
        Ok(Self::Own(list(rules, config)?, tree))
    }

    pub(super) fn overlaps(&self) -> &dyn Overlaps {
        match self {
            Self::Own(_, Some(tree)) => &**tree,
            Self::Own(list, None) => list,
            Self::Shared(shared) => &**shared,
        }
    }
}

/// Builds the structure of `config` over `rules` that do not change.
pub(super) fn search(rules: &Lowered, config: &Config) -> Result<Arc<dyn Overlaps>, BuildError> {
    Ok(match config.proof {
        Proof::List => Arc::new(list(rules, config)?),
        Proof::Tree => Arc::new(tree(rules, config)?),
    })
}

fn list(rules: &Lowered, config: &Config) -> Result<RegionList, BuildError> {
    let (level, most) = (Level::choose(config.simd)?, config.budget.run_bytes);
    RegionList::build(rules, level, most).map_err(|needed| BuildError::bytes(needed, most))
}

fn tree(rules: &Lowered, config: &Config) -> Result<CutTree, BuildError> {
    let own = cut_tree::Config::paper(Method::HyperCuts);
    CutTree::build(rules, &cut_tree::Config { budget: config.budget, simd: config.simd, ..own })
}
