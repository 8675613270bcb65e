//! Caches and TLBs of several levels, which one stream of accesses goes through.

use super::cache::{Cache, CacheShape};
use super::lackey::{Access, Kind};

/// Levels in order, the nearest first; a level sees the accesses that missed in the level before.
#[derive(Clone, Debug, Default)]
struct Levels(Vec<Cache>);

impl Levels {
    fn new(shapes: &[CacheShape]) -> Self {
        Self(shapes.iter().copied().map(Cache::new).collect())
    }

    /// Goes on until a level has every block; at a further level an access uses all of its blocks again.
    fn access(&mut self, address: u64, bytes: u64) {
        for level in &mut self.0 {
            if level.access(address, bytes) {
                return;
            }
        }
    }
}

/// Shapes of all caches and TLBs.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryShape {
    /// Caches of data, the nearest first. Instructions share those behind the first.
    pub(crate) data: Vec<CacheShape>,
    /// First cache of instructions; without it instructions touch no cache.
    pub(crate) code: Option<CacheShape>,
    /// TLBs of data: those of one page size are levels, the nearest first.
    pub(crate) tlbs: Vec<CacheShape>,
}

/// Simulated memory, which counts accesses and misses by level.
///
/// Levels are neither inclusive nor exclusive: each replaces its own blocks by its own accesses, as Cachegrind's do.
/// A store is like a load, because caches of today fetch the line of a store, too.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    data: Levels,
    code: Option<Cache>,
    /// TLBs by page size, each as if all pages had that size.
    tlbs: Vec<Levels>,
}

impl Memory {
    /// Creates empty caches.
    pub(crate) fn new(shape: &MemoryShape) -> Self {
        let mut sizes: Vec<u64> = shape.tlbs.iter().map(|tlb| tlb.block_bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let of_size = |&size: &u64| {
            let levels = shape.tlbs.iter().copied().filter(|tlb| tlb.block_bytes == size);
            Levels::new(&levels.collect::<Vec<_>>())
        };
        Self {
            data: Levels::new(&shape.data),
            code: shape.code.map(Cache::new),
            tlbs: sizes.iter().map(of_size).collect(),
        }
    }

    /// Takes one access through all levels.
    pub(crate) fn access(&mut self, Access { kind, address, bytes }: Access) {
        if kind == Kind::Fetch {
            let missed = self.code.as_mut().is_some_and(|code| !code.access(address, bytes));
            if missed {
                for level in self.data.0.iter_mut().skip(1) {
                    if level.access(address, bytes) {
                        break;
                    }
                }
            }
            return;
        }
        self.data.access(address, bytes);
        self.tlbs.iter_mut().for_each(|tlb| tlb.access(address, bytes));
    }

    /// Begins to count anew, with all blocks where they are.
    pub(crate) fn count_anew(&mut self) {
        let tlbs = self.tlbs.iter_mut().flat_map(|tlb| &mut tlb.0);
        self.code.iter_mut().chain(&mut self.data.0).chain(tlbs).for_each(Cache::count_anew);
    }

    /// Returns the number of fetched instructions, and that of loads and stores.
    pub(crate) fn accesses(&self) -> (u64, u64) {
        (self.code.as_ref().map_or(0, |code| code.accesses), self.data.0.first().map_or(0, |first| first.accesses))
    }

    /// Returns every cache and TLB with its name, such as `L2` or `TLB 1, pages of 4 KiB`.
    pub(crate) fn levels(&self) -> Vec<(String, &Cache)> {
        let code = self.code.iter().map(|code| ("L1, instructions".to_owned(), code));
        let data = self.data.0.iter().enumerate().map(|(at, level)| match at {
            0 => ("L1, data".to_owned(), level),
            _ if self.code.is_some() => (format!("L{}, both", at + 1), level),
            _ => (format!("L{}, data", at + 1), level),
        });
        let tlbs = self.tlbs.iter().flat_map(|tlb| tlb.0.iter().enumerate()).map(|(at, level)| {
            let page = level.shape().block_bytes;
            let page = if page.is_multiple_of(1 << 20) {
                format!("{} MiB", page >> 20)
            } else {
                format!("{} KiB", page >> 10)
            };
            (format!("TLB {}, pages of {page}", at + 1), level)
        });
        code.chain(data).chain(tlbs).collect()
    }
}

#[cfg(test)]
mod tests {
    use firstmatch_core::Classifier;
    use firstmatch_core::engines::cut_tree::{self, CutTree, Layout};
    use firstmatch_generate::{rules, trace};

    use super::*;
    use crate::workload;

    fn shapes(texts: &[&str]) -> Vec<CacheShape> {
        texts.iter().map(|text| text.parse().expect("a shape")).collect()
    }

    fn counts(memory: &Memory) -> Vec<(String, u64, u64)> {
        memory.levels().into_iter().map(|(name, level)| (name, level.accesses, level.misses)).collect()
    }

    fn load(address: u64) -> Access {
        Access { kind: Kind::Load, address, bytes: 8 }
    }

    /// By hand: lines 0, 1, 2 go around twice; the first level has two lines, the second has four.
    #[test]
    fn a_level_sees_the_misses_of_the_level_before() {
        let data = shapes(&["128,full,64", "256,full,64", "4096,full,64"]);
        let mut memory = Memory::new(&MemoryShape { data, ..Default::default() });
        (0..6).for_each(|at| memory.access(load(at % 3 * 64)));
        memory.access(load(2 * 64));
        let expected = [("L1, data", 7, 6), ("L2, data", 6, 3), ("L3, data", 3, 3)];
        assert_eq!(counts(&memory), expected.map(|(name, all, missed)| (name.to_owned(), all, missed)));
    }

    /// Instructions have a first level of their own and share the second with data.
    #[test]
    fn instructions_share_the_further_levels() {
        let data = shapes(&["128,full,64", "128,full,64"]);
        let code = Some("64,full,64".parse().expect("a shape"));
        let mut memory = Memory::new(&MemoryShape { data, code, ..Default::default() });
        let fetch = |address| Access { kind: Kind::Fetch, address, bytes: 4 };
        for access in [fetch(0), fetch(4), load(64), fetch(128), fetch(0), load(64), load(192), load(64), load(0)] {
            memory.access(access);
        }
        // The second level sees the lines 0, 1, 2, 0, 3, 0 and has room for two.
        let expected = [("L1, instructions", 4, 3), ("L1, data", 5, 3), ("L2, both", 6, 5)];
        assert_eq!(counts(&memory), expected.map(|(name, all, missed)| (name.to_owned(), all, missed)));
        let mut without = Memory::new(&MemoryShape { data: shapes(&["128,full,64"]), ..Default::default() });
        without.access(fetch(0));
        assert_eq!(counts(&without), [("L1, data".to_owned(), 0, 0)]);
    }

    /// TLBs of two page sizes see the same accesses, each as if all pages had its size.
    #[test]
    fn pages_of_two_sizes_are_counted_apart() {
        let tlbs = shapes(&["8192,full,4096", "16384,full,4096", "2097152,full,2097152"]);
        let mut memory = Memory::new(&MemoryShape { tlbs, ..Default::default() });
        (0..8).for_each(|at| memory.access(load(at % 4 * 4096)));
        memory.access(load(2 << 20));
        let expected =
            [("TLB 1, pages of 4 KiB", 9, 9), ("TLB 2, pages of 4 KiB", 9, 5), ("TLB 1, pages of 2 MiB", 9, 2)];
        assert_eq!(counts(&memory), expected.map(|(name, all, missed)| (name.to_owned(), all, missed)));
    }

    /// The lines and pages that an engine counts are those that caches of blocks of that size miss, each walk anew.
    #[test]
    fn counted_lines_and_pages_are_those_of_the_caches() {
        let config = rules::Config { rules: 2000, ..Default::default() };
        let set = rules::generate(&config).expect("rules");
        let work = workload::drawn(&set, &trace::Config { headers: 2000, ..Default::default() }).expect("packets");
        for layout in [Layout::BreadthFirst, Layout::VanEmdeBoas, Layout::Pages, Layout::PagesAndLines] {
            let config = cut_tree::Config { binth: 2, layout, page_bytes: 1024, trees: 1, ..Default::default() };
            let tree = CutTree::build(&work.lowered, &config).expect("no budget");
            let mut missed = [0; 2];
            for at in 0..work.keys.len() {
                let places = tree.walk(&work.keys.keys().slice(at, at + 1));
                for (missed, shape) in missed.iter_mut().zip(shapes(&["1048576,full,64", "1048576,full,1024"])) {
                    let mut cache = Cache::new(shape);
                    places.iter().for_each(|&place| {
                        cache.access(place as u64, 16);
                    });
                    *missed += cache.misses;
                }
            }
            let mut answers = vec![None; work.keys.len()];
            let counts = tree.count_batch(&mut tree.scratch(), &work.keys.keys(), &mut answers);
            let counted = ["node lines", "node pages"].map(|name| counts.get(name).expect("a count"));
            assert!(counted == missed && missed[1] > answers.len() as u64, "{layout:?}: {counted:?}, {missed:?}");
        }
    }
}
