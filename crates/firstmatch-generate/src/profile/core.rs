//! Profile `core`: classifiers of core routers over four fields, without a protocol.
//!
//! The sets resemble those on which Liu, Chen, Hua, Yu and Tang measured Bitmap-RFC (ACM TECS 7(2), 2008). That paper
//! publishes none of its sets. It says that they were made by the properties that other studies report.
//!
//! # Fields
//!
//! A rule tests a source and a destination prefix, and a range of source and of destination ports. The set's schema is
//! `src`, `dst`, `sport`, `dport`, of no family, so a key has four words. As in the 5-tuple, a packet may lack ports:
//! a rule that tests a port is for packets of any protocol that have ports. A set with the protocol as a wildcard
//! would have a fifth word that no rule tests, so it is not used here. The native format holds these sets under a
//! `schema` directive; the ClassBench format does not, because it always has a protocol.
//!
//! # Taken from studies
//!
//! - The fields and [`PAPER_SIZES`] are those of Liu et al., Sections 6.1 and 6.2.
//! - The sizes of RFC's tables X, Y and Z are within a factor of 1.8 of those of Liu et al., Table III. Table Z takes
//!   two bytes for each pair of a class of X and a class of Y. With N rules the paper's table Z takes 2 · (0.99 · N)²
//!   bytes at each of its four sizes. Hence X and Y have about N classes each, as the geometric mean. No wildcard
//!   source has a source port and no wildcard destination a destination port, because each port of such a rule would
//!   multiply the classes.
//! - A packet matches few distinct pairs of a source and a destination prefix, whatever the size of the set (Baboescu,
//!   Singh and Varghese, INFOCOM 2003). The study is about sets of Tier 1 providers, of about 2,000 rules.
//! - The form of the figures is that of Taylor and Turner (ClassBench, INFOCOM 2005): trees with branching, skew and a
//!   bound on nesting, and five classes of ports.
//!
//! Liu et al. also name Kounavis et al. (NP2, 2003) and Singh et al. (SIGCOMM 2003). No figure is taken from these.
//!
//! # Chosen
//!
//! All other figures are chosen, and no study is a source for them: the shares of prefix lengths (most are 24, 16 or
//! 32 bits), of wildcards and of port classes, the ports, at most four nested prefixes beside the wildcard, and the
//! branching and skew of the trees. The trees are the same up to 17,000 rules, so larger sets share more prefixes.
//!
//! The test `core.rs` compares sets of [`PAPER_SIZES`] with all of these.
//!
//! ```
//! use firstmatch_generate::{Profile, rules};
//!
//! let set = rules::generate(&rules::Config { rules: 1000, profile: Profile::core(), ..Default::default() })?;
//! assert_eq!((set.len(), set.schemas()[0].words().len()), (1000, 4));
//! let mut text = String::new();
//! firstmatch_formats::write::native(&set, &Default::default(), &mut text)?;
//! assert!(text.starts_with("schema {\n    src 32 prefix from src\n"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::ops::RangeInclusive;

use super::Profile;

/// Numbers of rules of the sets of Liu et al.
///
/// The first three are those of the sets CL#1 to CL#3 (Section 6.1), the others those of Table III.
pub const PAPER_SIZES: [usize; 7] = [1000, 2000, 3000, 5700, 8050, 12_000, 17_000];

/// Numbers of rules for which sets have the figures that [the module](self) states.
///
/// Sets of other sizes can be generated. Smaller ones suit tests; the trees of larger ones grow as in ClassBench.
pub const SIZES: RangeInclusive<usize> = 1000..=17_000;

impl Profile {
    /// Returns the profile `core`, classifiers of core routers over four fields: see [`core`](super::core).
    pub fn core() -> Self {
        Self::built_in("core")
    }
}
