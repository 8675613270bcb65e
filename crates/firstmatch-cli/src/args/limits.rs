//! Limits on the regions that rules become, which several commands take.

use firstmatch_core::rule::ExpansionLimits;

/// Limits on the regions that rules become.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct RuleLimits {
    /// The most regions of one rule: the product of the values and ranges in its conditions
    #[arg(long, value_name = "N", default_value_t = ExpansionLimits::default().regions_per_rule, value_parser = regions)]
    pub(crate) max_regions_per_rule: usize,
    /// The most regions of all rules of one address family
    #[arg(long, value_name = "N", default_value_t = ExpansionLimits::default().regions_per_set, value_parser = regions)]
    pub(crate) max_regions: usize,
    /// The most bytes that the regions of one address family may take, before an engine is built from them
    #[arg(long, value_name = "BYTES", default_value_t = ExpansionLimits::default().region_bytes)]
    pub(crate) max_region_bytes: usize,
    /// The most comparisons that values under masks may take in one condition
    #[arg(long, value_name = "N", default_value_t = ExpansionLimits::default().mask_comparisons)]
    pub(crate) max_mask_comparisons: usize,
}

impl Default for RuleLimits {
    fn default() -> Self {
        let ExpansionLimits { regions_per_rule, regions_per_set, region_bytes, mask_comparisons } =
            ExpansionLimits::default();
        Self {
            max_regions_per_rule: regions_per_rule,
            max_regions: regions_per_set,
            max_region_bytes: region_bytes,
            max_mask_comparisons: mask_comparisons,
        }
    }
}

impl RuleLimits {
    /// Returns the limits as the core has them.
    pub(crate) fn expansion(&self) -> ExpansionLimits {
        ExpansionLimits {
            regions_per_rule: self.max_regions_per_rule,
            regions_per_set: self.max_regions,
            region_bytes: self.max_region_bytes,
            mask_comparisons: self.max_mask_comparisons,
        }
    }
}

/// Reads a number of regions that engines can hold.
fn regions(text: &str) -> Result<usize, String> {
    let most = ExpansionLimits::default().regions_per_set;
    let number = text.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("expected a number from 1 to {most}"))
}
