//! Tables by selected bits of a word, and nine-way search trees over intervals of words.

use std::collections::HashMap;

use super::gather::Gather;

/// Value for each combination of some bits of a word.
#[derive(Debug)]
pub(crate) struct Table {
    mask: u32,
    /// One value for each combination of the mask's bits.
    values: Box<[u16]>,
}

impl Table {
    /// Builds a table for the bits of `mask`; missing values are 0.
    pub(crate) fn new(mask: u32, values: impl IntoIterator<Item = u16>) -> Self {
        let mut values: Vec<u16> = values.into_iter().collect();
        values.resize(1 << mask.count_ones(), 0);
        Self { mask, values: values.into() }
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&self.values[..])
    }

    /// Returns the parts that lookups read, by value, so that nothing that a lookup writes can change them.
    #[inline(always)]
    pub(crate) fn view(&self) -> TableView<'_> {
        TableView { mask: u64::from(self.mask), values: &self.values }
    }
}

/// [`Table`] for lookups.
#[derive(Clone, Copy)]
pub(crate) struct TableView<'a> {
    mask: u64,
    values: &'a [u16],
}

impl TableView<'_> {
    #[inline(always)]
    pub(crate) fn get<I: Gather>(self, isa: I, word: u32) -> u16 {
        let place = isa.gather(u64::from(word), self.mask) as usize;
        // SAFETY: as many bits are gathered as the mask has, and there is a value for each combination of them.
        unsafe { *self.values.get_unchecked(place) }
    }

    /// Looks up the values at the sums of places, eight by eight.
    ///
    /// A sum beyond the last place is replaced by the last place.
    ///
    /// # Panics
    /// If there are fewer places than values to be found.
    #[inline(always)]
    pub(crate) fn get_sums<const PARTS: usize>(self, parts: [&[[u16; 8]]; PARTS], found: &mut [[u16; 8]]) {
        let last = self.values.len().saturating_sub(1).min(usize::from(u16::MAX)) as u16;
        for (at, sums) in found.iter_mut().enumerate() {
            let mut eight = [0u16; 8];
            for part in parts {
                for (sum, place) in eight.iter_mut().zip(part[at]) {
                    *sum = sum.wrapping_add(place);
                }
            }
            *sums = eight.map(|sum| sum.min(last));
        }
        // This loop is separate, so that eight sums go to memory at once and come back one by one, without shuffles.
        for place in found.as_flattened_mut() {
            // SAFETY: no place is beyond the last, and a table has a value.
            *place = unsafe { *self.values.get_unchecked(usize::from(*place)) };
        }
    }
}

/// Value for each word up to a largest one, in pages; equal pages are stored once.
///
/// For example, let the words from 300 to 65,536 have one value and those below different ones. Four of 257 pages are
/// then stored: two below 512, one that serves for the full pages behind, and the last one, which is not full.
#[derive(Debug)]
pub(crate) struct Pages {
    /// Start of a page's values, by the upper bits of a word.
    starts: Table,
    values: Box<[u16]>,
}

/// Number of values of a page.
const PAGE: usize = 256;

impl Pages {
    /// Builds the pages of the values of all words, from 0 to the largest one.
    ///
    /// Returns `None` if there are no values, or more different pages than places of 16 bits can name.
    pub(crate) fn new(values: &[u16]) -> Option<Self> {
        let (mut starts, mut known, mut all) = (Vec::new(), HashMap::new(), Vec::new());
        // Most pages are like the one before, which is found without a hash.
        for alike in values.chunks(PAGE).collect::<Vec<_>>().chunk_by(|a, b| a == b) {
            let next = u16::try_from(all.len()).ok()?;
            let start = *known.entry(alike[0]).or_insert_with(|| {
                all.extend_from_slice(alike[0]);
                all.resize(usize::from(next) + PAGE, 0);
                next
            });
            starts.resize(starts.len() + alike.len(), start);
        }
        let pages = u32::try_from(starts.len()).ok()?.next_power_of_two();
        let starts = Table::new((pages - 1) * PAGE as u32, starts);
        (!all.is_empty()).then(|| Self { starts, values: all.into() })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.starts.bytes() + size_of_val(&self.values[..])
    }

    /// Returns the parts that lookups read, as [`Table::view`].
    #[inline(always)]
    pub(crate) fn view(&self) -> PagesView<'_> {
        PagesView { starts: self.starts.view(), values: &self.values }
    }
}

/// [`Pages`] for lookups.
#[derive(Clone, Copy)]
pub(crate) struct PagesView<'a> {
    starts: TableView<'a>,
    values: &'a [u16],
}

impl PagesView<'_> {
    #[inline(always)]
    pub(crate) fn get<I: Gather>(self, isa: I, word: u32) -> u16 {
        let place = usize::from(self.starts.get(isa, word)) + word as usize % PAGE;
        // SAFETY: a page of values begins at each start. A missing start is 0, where a page begins, too.
        unsafe { *self.values.get_unchecked(place) }
    }
}

/// Number of bounds of a node.
const BOUNDS: usize = 8;
/// Number of children of a node.
const WAYS: usize = BOUNDS + 1;
/// Bound that no word exceeds.
const PADDING: i32 = i32::MAX;
/// Number of bytes of the unit of places; the place of a node is its offset in this unit.
const UNIT: usize = 8;

/// Node of a [`Tree`]: one cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C, align(64))]
pub(super) struct Node {
    /// One less than the first word of each child but the first.
    ///
    /// They are compared as signed numbers, because all words that reach one node share the leading bit.
    pub(super) bounds: [i32; BOUNDS],
    /// For each child its value on the last level, or else the place of its node. The rest is never reached.
    pub(super) next: [u16; 2 * BOUNDS],
}

/// Search tree with a value for each interval of words.
///
/// Some leading bits of a word choose a node, from which `depth` levels of nodes lead to a value. All paths are
/// equally long, so that no search branches. For example, one level is enough if at most 8 intervals begin among the
/// words with the same leading bits, and two levels are enough for 80.
#[derive(Debug)]
pub(crate) struct Tree {
    /// Places of nodes by leading bits; values if there is no level.
    index: Table,
    nodes: Box<[Node]>,
    depth: usize,
}

/// Largest number of levels of nodes.
pub(crate) const MOST_LEVELS: usize = 5;
/// Largest number of bits that choose a node.
const MOST_BITS: u32 = 12;

impl Tree {
    /// Builds the tree of the intervals that begin at 0 and at `starts`, up to the word `most`.
    ///
    /// The starts must ascend. Returns `None` if they are too many for [`MOST_LEVELS`] or for places of 16 bits.
    ///
    /// # Panics
    /// Unless there is one value more than there are starts.
    pub(crate) fn new(starts: &[u32], values: &[u16], most: u32) -> Option<Self> {
        assert_eq!(starts.len() + 1, values.len(), "a value an interval");
        let bits = (u32::BITS - most.leading_zeros()).max(1);
        // The leading bit is always among the choosing bits, so that the words of a node compare as signed numbers.
        let depth_of = |width: u32| {
            let same_bucket = |a: &u32, b: &u32| a >> (bits - width) == b >> (bits - width);
            let is_inside = |start: &&u32| start.trailing_zeros() < bits - width;
            let longest = starts.chunk_by(same_bucket).map(|starts| starts.iter().filter(is_inside).count()).max();
            (0..=MOST_LEVELS).find(|&depth| WAYS.pow(depth as u32) > longest.unwrap_or(0))
        };
        let widths = (1..=MOST_BITS.min(bits)).filter_map(|width| Some((depth_of(width)?, width)));
        let (depth, width) = widths.min()?;
        let mut growing = Growing { starts, values, depth, nodes: Vec::new(), known: HashMap::new() };
        // Most buckets lie in the same interval as the bucket before.
        let mut before = None;
        let of_bucket = |bucket: u32| {
            let first = bucket << (bits - width);
            let last = first + ((1u64 << (bits - width)) - 1) as u32;
            let intervals = [first, last].map(|word| starts.partition_point(|&start| start <= word));
            let [first, last] = intervals;
            match before {
                Some((alike, place)) if alike == intervals => Some(place),
                _ => growing.grow(first, last, 0).inspect(|&place| before = Some((intervals, place))),
            }
        };
        let index = (0..1 << width).map(of_bucket).collect::<Option<Vec<u16>>>()?;
        let mask = ((1 << width) - 1) << (bits - width);
        Some(Self { index: Table::new(mask, index), nodes: growing.nodes.into(), depth })
    }

    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    pub(crate) fn bytes(&self) -> usize {
        self.index.bytes() + size_of_val(&self.nodes[..])
    }

    /// Returns the parts that lookups read, as [`Table::view`].
    ///
    /// # Panics
    /// If the tree has another depth.
    #[inline(always)]
    pub(crate) fn view<const DEPTH: usize>(&self) -> TreeView<'_, DEPTH> {
        assert!(self.depth == DEPTH, "a search is as deep as its tree");
        TreeView { index: self.index.view(), nodes: &self.nodes }
    }
}

/// [`Tree`] of a known depth, for lookups.
#[derive(Clone, Copy)]
pub(crate) struct TreeView<'a, const DEPTH: usize> {
    index: TableView<'a>,
    nodes: &'a [Node],
}

impl<const DEPTH: usize> TreeView<'_, DEPTH> {
    /// Returns the place where the search for a word begins; after `DEPTH` nodes it is a value.
    #[inline(always)]
    pub(super) fn root<I: Gather>(&self, isa: I, word: u32) -> u16 {
        self.index.get(isa, word)
    }

    /// Returns the node at a place.
    ///
    /// # Safety
    /// The place must come from [`TreeView::root`] or from a node, after fewer than `DEPTH` nodes.
    #[inline(always)]
    pub(super) unsafe fn node(&self, place: u16) -> &Node {
        // SAFETY: each such place is the place of a node.
        unsafe { &*self.nodes.as_ptr().byte_add(usize::from(place) * UNIT) }
    }
}

/// Tree under construction.
struct Growing<'a> {
    starts: &'a [u32],
    values: &'a [u16],
    depth: usize,
    nodes: Vec<Node>,
    /// Place of each node; equal nodes are stored once.
    known: HashMap<Node, u16>,
}

impl Growing<'_> {
    /// Returns the place of the node for the intervals `first..=last` on `level`.
    ///
    /// Behind the last level it returns the value of the only interval.
    fn grow(&mut self, first: usize, last: usize, level: usize) -> Option<u16> {
        let Some(below) = (self.depth - level).checked_sub(1) else { return Some(self.values[first]) };
        let way = WAYS.pow(below as u32);
        let bound = |i: usize| first + (i + 1) * way;
        let bounds = std::array::from_fn(|i| match bound(i) {
            interval if interval <= last => self.starts[interval - 1].wrapping_sub(1) as i32,
            _ => PADDING,
        });
        let mut node = Node { bounds, next: [0; 2 * BOUNDS] };
        for (first, next) in (first..=last).step_by(way).zip(&mut node.next) {
            *next = self.grow(first, last.min(first + way - 1), level + 1)?;
        }
        if let Some(&place) = self.known.get(&node) {
            return Some(place);
        }
        let place = u16::try_from(size_of_val(&self.nodes[..]) / UNIT).ok()?;
        self.known.insert(node, place);
        self.nodes.push(node);
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::{Isa, Kernel, Level, dispatch};

    fn found<I: Isa>(isa: I, tree: &Tree, word: u32) -> u16 {
        match tree.depth() {
            0 => isa.find(tree.view::<0>(), [word], [&word])[0],
            1 => isa.find(tree.view::<1>(), [word], [&word])[0],
            2 => isa.find(tree.view::<2>(), [word], [&word])[0],
            3 => isa.find(tree.view::<3>(), [word], [&word])[0],
            _ => isa.find(tree.view::<4>(), [word], [&word])[0],
        }
    }

    /// Kernel that finds values around all starts, in trees of every depth up to four.
    struct Search;

    impl Kernel for Search {
        fn run<I: Isa>(self, isa: I) {
            let mut depths = [0; 5];
            for count in [0usize, 1, 7, 8, 9, 79, 80, 81, 700, 728, 729, 2000] {
                for (step, most) in [(1, 2000), (1, u32::MAX), (3, 6000), (u32::MAX / 2500, u32::MAX)] {
                    // Around the middle the leading bit changes.
                    for first in [1, (1u32 << 31) - 20 * step].into_iter().take(if most == u32::MAX { 2 } else { 1 }) {
                        let starts: Vec<u32> =
                            (0..count as u32).map_while(|i| first.checked_add(i.checked_mul(step)?)).collect();
                        let values: Vec<u16> = (0..=starts.len() as u16).map(|i| i * 7 + 1).collect();
                        let tree = Tree::new(&starts, &values, most).expect("few enough");
                        depths[tree.depth()] += 1;
                        let words = starts.iter().flat_map(|&s| [s - 1, s, s + 1]).chain([0, most / 2, most]);
                        for word in words.filter(|&word| word <= most) {
                            let want = values[starts.partition_point(|&start| start <= word)];
                            assert_eq!(found(isa, &tree, word), want, "{word} among {count} by {step} from {first}");
                        }
                    }
                }
            }
            assert!(depths.iter().all(|&trees| trees > 0), "{depths:?}");
        }
    }

    #[test]
    fn a_search_finds_the_interval() {
        Level::available().for_each(|level| dispatch(level, Search));
    }

    #[test]
    fn words_beyond_the_most_find_something() {
        struct Beyond;
        impl Kernel for Beyond {
            fn run<I: Isa>(self, isa: I) {
                let tree = Tree::new(&[5, 9], &[1, 2, 3], 11).expect("few enough");
                assert!([12, 13, 16, 1 << 31, u32::MAX].iter().all(|&word| (1..=3).contains(&found(isa, &tree, word))));
            }
        }
        Level::available().for_each(|level| dispatch(level, Beyond));
    }

    #[test]
    fn places_are_of_16_bits() {
        let build = |count: u32, step: u32| {
            let starts: Vec<u32> = (1..=count).map(|i| i * step).collect();
            let values: Vec<u16> = (0..=count).map(|i| i as u16).collect();
            Tree::new(&starts, &values, u32::MAX).map(|tree| tree.depth())
        };
        // Full nodes, all behind one place of the index.
        assert_eq!((build(9 * 6000, 3), build(9 * 7000, 3)), (Some(5), None));
        // One node behind each place of the index; two or three nodes behind each, which are too many.
        assert_eq!((build(9 * 2000, u32::MAX / 18000), build(65_000, u32::MAX / 65_000)), (Some(1), None));
    }

    #[test]
    fn equal_pages_are_one() {
        struct Paged;
        impl Kernel for Paged {
            fn run<I: Isa>(self, isa: I) {
                let values: Vec<u16> = (0..=1 << 16).map(|word| if word < 300 { word as u16 } else { 7 }).collect();
                let pages = Pages::new(&values).expect("few pages");
                assert!(values.iter().enumerate().all(|(word, &value)| pages.view().get(isa, word as u32) == value));
                // Two pages up to 300, one that has only 7, and the last one, which is not full; 257 starts.
                assert_eq!((pages.values.len(), pages.bytes()), (4 * PAGE, 2 * (512 + 4 * PAGE)));
                assert!([1 << 17, u32::MAX].iter().all(|&word| pages.view().get(isa, word) < 300));
            }
        }
        Level::available().for_each(|level| dispatch(level, Paged));
        let different: Vec<u16> = (0..1 << 17).map(|word| (word / PAGE) as u16).collect();
        assert!(Pages::new(&different).is_none() && Pages::new(&different[..256 * PAGE]).is_some());
    }

    #[test]
    fn equal_nodes_are_one() {
        let tree = Tree::new(&[1 << 30, 1 << 31, (1 << 31) + 1], &[1, 2, 1, 2], u32::MAX).expect("few enough");
        assert!(tree.nodes.len() <= 3, "{tree:?}");
    }
}
