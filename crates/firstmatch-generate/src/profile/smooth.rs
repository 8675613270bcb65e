//! Smoothing: prefix lengths near those of a profile (Taylor and Turner 2007, III-D).

use std::collections::BTreeMap;

use super::{LengthPair, Profile};

impl Profile {
    /// Returns the profile with each pair of prefix lengths spread over at most `radius` steps.
    ///
    /// A step is one bit of one of the two lengths. The sum of the two is spread by the symmetric binomial distribution
    /// over `-radius ..= radius`, then the source's length among those in reach by another. Lengths outside 0 to 32 are
    /// left out.
    #[must_use]
    pub fn smoothed(&self, radius: u8) -> Self {
        let mut profile = self.clone();
        if radius > 0 {
            profile.lengths = spread(&self.lengths, radius);
            profile.lengths_of = self.lengths_of.iter().map(|(of, own)| (*of, spread(own, radius))).collect();
        }
        profile
    }
}

fn spread(pairs: &[LengthPair], radius: u8) -> Vec<LengthPair> {
    let radius = i32::from(radius);
    let mut shares: BTreeMap<(u8, u8), f64> = BTreeMap::new();
    let totals = binomial(2 * radius);
    for pair in pairs.iter().filter(|pair| pair.share > 0.0) {
        let (source, total) = (i32::from(pair.source), i32::from(pair.source) + i32::from(pair.destination));
        for (further, part) in (-radius..=radius).zip(&totals) {
            // Remaining steps go in pairs: one length up, the other down.
            let aside = (radius - further.abs()) / 2;
            let (first, last) = (source + further.min(0) - aside, source + further.max(0) + aside);
            for (source, own) in (first..=last).zip(binomial(last - first)) {
                let destination = total + further - source;
                if let (Ok(source @ 0..=32), Ok(destination @ 0..=32)) =
                    (u8::try_from(source), u8::try_from(destination))
                {
                    *shares.entry((source, destination)).or_default() += pair.share * part * own;
                }
            }
        }
    }
    shares.into_iter().map(|((source, destination), share)| LengthPair { source, destination, share }).collect()
}

/// Returns the probabilities of 0 to `n` heads of `n` coins.
fn binomial(n: i32) -> Vec<f64> {
    let mut row = vec![1.0];
    for _ in 0..n {
        let above = row.iter().chain([&0.0]).zip([0.0].iter().chain(&row));
        row = above.map(|(one, other)| (one + other) / 2.0).collect();
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_spread_as_far_as_the_radius_and_keeps_its_weight() {
        for radius in [1u8, 2, 3, 8] {
            let far = spread(&[LengthPair::new(16, 16, 2.0)], radius);
            let steps = |p: &LengthPair| p.source.abs_diff(16) + p.destination.abs_diff(16);
            assert_eq!(far.iter().map(steps).max(), Some(radius));
            let (sum, mean) = far.iter().fold((0.0, 0.0), |(sum, mean), p| {
                (sum + p.share, mean + p.share * f64::from(p.source + p.destination))
            });
            assert!((sum - 2.0).abs() < 1e-12 && (mean / sum - 32.0).abs() < 1e-9, "{sum} {mean}");
        }
        assert_eq!(binomial(2), [0.25, 0.5, 0.25]);
    }

    #[test]
    fn what_falls_outside_is_left_out() {
        let edge = spread(&[LengthPair::new(0, 32, 1.0)], 2);
        assert!(edge.iter().all(|p| p.source <= 2 && p.destination >= 30), "{edge:?}");
        // The weight falls with the distance from the pair.
        let at = |s, d| edge.iter().find(|p| (p.source, p.destination) == (s, d)).map_or(0.0, |p| p.share);
        assert!(at(0, 32) > at(1, 32) && at(1, 32) > at(2, 32) && at(2, 32) > 0.0, "{edge:?}");
        let plain = Profile::acl();
        assert_eq!(plain.smoothed(0), plain);
        assert!(plain.smoothed(3).lengths.len() > plain.lengths.len());
        assert!(plain.smoothed(64).check().is_ok());
    }
}
