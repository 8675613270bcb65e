//! Rules in the form in which boxes are proved.

use std::sync::Arc;

use super::config::Config;
use crate::engine::Overlaps;
use crate::engines::shared::RegionList;
use crate::error::BuildError;
use crate::raw::Level;
use crate::rule::Lowered;

/// Structure that is searched to prove boxes.
pub(super) enum Rules {
    Own(RegionList),
    Shared(Arc<dyn Overlaps>),
}

impl Rules {
    pub(super) fn overlaps(&self) -> &dyn Overlaps {
        match self {
            Self::Own(list) => list,
            Self::Shared(shared) => &**shared,
        }
    }
}

/// Builds a list of the regions of `rules`, within the budget of `config`.
pub(super) fn list(rules: &Lowered, config: &Config) -> Result<RegionList, BuildError> {
    rules.expanded()?;
    let (level, most) = (Level::choose(config.simd)?, config.budget.run_bytes);
    RegionList::build(rules, level, most).map_err(|needed| BuildError::bytes(needed, most))
}
