//! One cache or TLB: sets of blocks, replaced by least recent use.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, bail, ensure};

/// Shape of a cache of lines, or of a TLB, whose blocks are pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheShape {
    /// Number of sets; a block belongs to the set of its number modulo this.
    pub(crate) sets: u64,
    /// Blocks of a set.
    pub(crate) ways: usize,
    /// Bytes of a block, a power of two.
    pub(crate) block_bytes: u64,
}

impl CacheShape {
    /// Returns the shape of a cache by its bytes, ways and bytes of a line; 0 ways are all of them.
    fn of_bytes(bytes: u64, ways: u64, block_bytes: u64) -> anyhow::Result<Self> {
        ensure!(block_bytes.is_power_of_two(), "blocks of {block_bytes} bytes; expected a power of two");
        ensure!(
            bytes.is_multiple_of(block_bytes),
            "{bytes} bytes are no whole number of blocks of {block_bytes} bytes"
        );
        let blocks = bytes / block_bytes;
        ensure!((1..=1 << 28).contains(&blocks), "{blocks} blocks; expected a number from 1 to {}", 1 << 28);
        let ways = if ways == 0 { blocks } else { ways };
        ensure!(blocks.is_multiple_of(ways), "{blocks} blocks are no whole number of sets of {ways} ways");
        Ok(Self { sets: blocks / ways, ways: ways as usize, block_bytes })
    }

    /// Returns the bytes that all blocks cover.
    pub(crate) fn bytes(self) -> u64 {
        self.sets * self.ways as u64 * self.block_bytes
    }
}

/// Reads three numbers, `BYTES,WAYS,LINE`, as Valgrind's options take them; `full` is one set of all blocks.
impl FromStr for CacheShape {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let expected = || format!("`{text}`: expected BYTES,WAYS,LINE, such as 32768,8,64 or 32768,full,64");
        let [bytes, ways, line] = text.split(',').map(str::trim).collect::<Vec<_>>()[..] else { bail!(expected()) };
        let number = |part: &str| part.parse::<u64>().ok().filter(|&number| number > 0).with_context(expected);
        let ways = if ways == "full" { 0 } else { number(ways)? };
        Self::of_bytes(number(bytes)?, ways, number(line)?).with_context(|| format!("`{text}`"))
    }
}

impl fmt::Display for CacheShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ways = if self.sets == 1 { "full".to_owned() } else { self.ways.to_string() };
        write!(f, "{},{ways},{}", self.bytes(), self.block_bytes)
    }
}

/// Cache whose sets replace the block that was used least recently.
///
/// # Invariants
///
/// - The blocks of a set stand in order of use, the most recent first: `misses_follow_from_distances` and
///   `more_ways_never_miss_more` compare this with distances counted apart.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    shape: CacheShape,
    /// Blocks of each set by recent use.
    sets: Vec<Vec<u64>>,
    pub(crate) accesses: u64,
    /// Accesses of which a block was absent.
    pub(crate) misses: u64,
}

impl Cache {
    /// Creates an empty cache.
    pub(crate) fn new(shape: CacheShape) -> Self {
        Self { shape, sets: vec![Vec::new(); shape.sets as usize], accesses: 0, misses: 0 }
    }

    /// Begins to count anew; the blocks stay.
    pub(crate) fn count_anew(&mut self) {
        (self.accesses, self.misses) = (0, 0);
    }

    pub(crate) fn shape(&self) -> CacheShape {
        self.shape
    }

    /// Uses every block of an access and returns whether all of them were there.
    ///
    /// An access counts once, however many blocks it spans. For example, 8 bytes at 60 lie in two lines of 64 bytes,
    /// and are one miss if one of the lines is absent.
    pub(crate) fn access(&mut self, address: u64, bytes: u64) -> bool {
        let last = address.saturating_add(bytes.max(1) - 1);
        let mut hit = true;
        for block in address / self.shape.block_bytes..=last / self.shape.block_bytes {
            hit &= self.block(block);
        }
        self.accesses += 1;
        self.misses += u64::from(!hit);
        hit
    }

    /// Makes a block the most recent one of its set and returns whether it was there.
    fn block(&mut self, block: u64) -> bool {
        let set = &mut self.sets[(block % self.shape.sets) as usize];
        match set.iter().position(|&other| other == block) {
            Some(place) => {
                set[..=place].rotate_right(1);
                true
            }
            None => {
                if set.len() == self.shape.ways {
                    set.pop();
                }
                set.insert(0, block);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    fn cache(shape: &str) -> Cache {
        Cache::new(shape.parse().expect("a shape"))
    }

    /// Returns whether each of the lines, by its number, was there.
    fn hits(cache: &mut Cache, lines: &[u64]) -> Vec<bool> {
        lines.iter().map(|line| cache.access(line * 64, 8)).collect()
    }

    #[test]
    fn shapes_are_read_and_checked() {
        let shape: CacheShape = "32768,8,64".parse().expect("a shape");
        assert_eq!((shape.sets, shape.ways, shape.bytes()), (64, 8, 32_768));
        let tlb: CacheShape = "262144,full,4096".parse().expect("a shape");
        assert_eq!((tlb.sets, tlb.ways, tlb.to_string().as_str()), (1, 64, "262144,full,4096"));
        assert_eq!("393216,12,64".parse::<CacheShape>().expect("a shape").sets, 512, "sets need no power of two");
        for (text, expected) in [
            ("32768,8", "expected BYTES,WAYS,LINE"),
            ("32768,8,many", "expected BYTES,WAYS,LINE"),
            ("32768,0,64", "expected BYTES,WAYS,LINE"),
            ("32768,8,48", "blocks of 48 bytes; expected a power of two"),
            ("100,1,64", "100 bytes are no whole number of blocks"),
            ("32768,7,64", "512 blocks are no whole number of sets of 7 ways"),
        ] {
            let error = text.parse::<CacheShape>().expect_err(text);
            assert!(format!("{error:#}").contains(expected), "{text}: {error:#}");
        }
    }

    /// By hand: two sets of two ways; even lines share one set, odd ones the other.
    #[test]
    fn the_least_recent_block_of_a_set_goes() {
        let mut two = cache("256,2,64");
        let found = hits(&mut two, &[0, 2, 0, 4, 0, 2, 1, 4, 2]);
        // 4 replaces 2, because 0 was used since. 2 replaces 4. 1 lies in the other set. 4 replaces 0.
        assert_eq!(found, [false, false, true, false, true, false, false, false, true]);
        assert_eq!((two.accesses, two.misses), (9, 6));
        two.count_anew();
        assert_eq!((hits(&mut two, &[2, 0]), two.accesses, two.misses), (vec![true, false], 2, 1));
        let mut direct = cache("128,1,64");
        assert_eq!(hits(&mut direct, &[0, 2, 0, 1, 1]), [false, false, false, false, true]);
    }

    #[test]
    fn an_access_over_two_blocks_counts_once() {
        let mut one = cache("512,full,64");
        assert!(!one.access(60, 8), "two lines are absent");
        assert!(one.access(60, 8) && one.access(0, 64) && one.access(64, 1));
        assert!(!one.access(120, 16), "the second is absent");
        assert_eq!((one.accesses, one.misses), (5, 2));
        let mut pages = cache("16384,full,4096");
        assert!(!pages.access(4095, 1) && !pages.access(4096, 1) && pages.access(4090, 100));
        let mut large = cache("8388608,full,2097152");
        assert!(!large.access(4095, 1) && large.access(4096, 1) && large.access((2 << 20) - 1, 1));
        assert!(!large.access(2 << 20, 1));
    }

    /// A cyclic walk over one block more than there is room for always misses; one over as many blocks never again.
    #[test]
    fn cyclic_walks_hit_always_or_never() {
        let walk: Vec<u64> = (0..3 * 9).map(|at| at % 9).collect();
        let mut small = cache("512,full,64");
        assert!(hits(&mut small, &walk).iter().all(|hit| !hit));
        let mut fits = cache("576,full,64");
        assert_eq!(hits(&mut fits, &walk).iter().filter(|hit| !**hit).count(), 9);
    }

    fn random_walk(seed: u64) -> Vec<u64> {
        let mut random = Pcg64::seed_from_u64(seed);
        let mut near = 0;
        let next = |_| {
            near = if random.random_bool(0.1) {
                random.random_range(0..64)
            } else {
                (near + random.random_range(0..4)) % 64
            };
            near
        };
        (0..4000).map(next).collect()
    }

    /// With full associativity, an access hits if and only if fewer other blocks than ways came since its last use.
    #[test]
    fn misses_follow_from_distances() {
        for seed in 0..4 {
            let walk = random_walk(seed);
            for ways in [1, 2, 5, 16, 63, 64] {
                let mut full = cache(&format!("{},full,64", ways * 64));
                let found = hits(&mut full, &walk);
                for (at, &line) in walk.iter().enumerate() {
                    let last = walk[..at].iter().rposition(|&other| other == line);
                    let distance = last.map(|last| {
                        let mut between: Vec<u64> = walk[last + 1..at].to_vec();
                        between.sort_unstable();
                        between.dedup();
                        between.len()
                    });
                    assert_eq!(found[at], distance.is_some_and(|distance| distance < ways), "{seed} {ways} {at}");
                }
            }
        }
    }

    /// Inclusion: at equal sets, whatever hits in a cache hits in one with more ways.
    #[test]
    fn more_ways_never_miss_more() {
        for seed in 4..8 {
            let walk = random_walk(seed);
            for sets in [1, 2, 4, 8] {
                let mut before: Option<Vec<bool>> = None;
                for ways in 1..=64 / sets {
                    let mut cache = cache(&format!("{},{ways},64", sets * ways * 64));
                    let found = hits(&mut cache, &walk);
                    if let Some(before) = before {
                        assert!(before.iter().zip(&found).all(|(fewer, more)| fewer <= more), "{sets} × {ways}");
                    }
                    before = Some(found);
                }
                let cold = before.expect("caches").iter().filter(|hit| !**hit).count();
                assert_eq!(cold, 64, "as many misses as lines, if there is room for all");
            }
        }
    }
}
