//! The built engine: intervals and sets of each word.

use super::config::{Config, SetForm};
use super::sets::{BLOCK, Sets};
use super::shape::{Node, cap, halvings};
use crate::engine::Match;
use crate::raw::{LINE_WORDS, Level};
use crate::schema::Schema;

/// Classifier that searches each word in a tree that turns with the traffic, and intersects the sets found.
#[derive(Debug)]
pub struct Npf {
    pub(super) schema: Schema,
    pub(super) level: Level,
    /// Number of this engine; no other engine of this process has the same.
    pub(super) number: u64,
    pub(super) words: Box<[Word]>,
    /// Words that some product constrains.
    pub(super) read: Box<[usize]>,
    /// Sets of these words, in the same order.
    pub(super) sets: Sets,
    /// Rule and priority of each product, by rank.
    pub(super) matches: Box<[Match]>,
    /// 1 + the place of each product's masks, or 0 if it has none; empty if no product has masks.
    pub(super) mask_places: Box<[u32]>,
    /// Value and mask of each word, for each product that has masks.
    pub(super) masks: Box<[(u32, u32)]>,
    pub(super) rules: usize,
    pub(super) regions: usize,
    pub(super) config: Config,
}

/// Intervals of a word.
#[derive(Debug)]
pub(super) struct Word {
    /// First value of each interval, ascending from 0.
    pub(super) starts: Box<[u32]>,
    /// Set of each interval: the place of its row, or the number of its list; 0 if the word is open.
    pub(super) sets: Box<[u32]>,
    /// Whether all products leave the word open.
    pub(super) is_open: bool,
}

impl Npf {
    /// Whether a key passes the masks of a product.
    #[inline(always)]
    pub(super) fn passes(&self, product: usize, key: &[u32]) -> bool {
        let Some(place) = self.mask_places.get(product).and_then(|place| place.checked_sub(1)) else { return true };
        let words = self.words.len();
        let masks = &self.masks[place as usize * words..][..words];
        masks.iter().zip(key).all(|(&(value, mask), key)| key & mask == value)
    }

    /// Returns the largest number of steps that the search of a word takes, whatever the traffic was.
    ///
    /// These are the nodes up to the cap, one more, and the steps of halving. Without a cap, a walk may visit all
    /// nodes. A reconstruction is not included. For a word of *n* intervals it happens at most once in *n* ×
    /// [`Config::reconstruct`] lookups.
    ///
    /// ```
    /// use firstmatch_core::Schema;
    /// use firstmatch_core::engines::interval_tree::{Config, Npf};
    /// use firstmatch_core::rule::Lowered;
    ///
    /// let engine = Npf::build(&Lowered::empty(&Schema::ipv4()), &Config::default())?;
    /// assert_eq!(engine.worst_steps(0), 1);
    /// # Ok::<(), firstmatch_core::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// If the schema has no such word.
    pub fn worst_steps(&self, word: usize) -> usize {
        let count = self.words[word].starts.len();
        cap(count, &self.config) as usize + 1 + halvings(count) as usize
    }

    /// Number of elementary intervals of a word, which are the nodes of its tree.
    ///
    /// # Panics
    /// If the schema has no such word.
    pub fn intervals(&self, word: usize) -> usize {
        self.words[word].starts.len()
    }

    /// Returns the bytes that a scratch takes on the heap.
    ///
    /// They belong to each worker, so neither statistics nor the budget count them.
    pub fn scratch_bytes(&self) -> usize {
        super::scratch::bytes(self)
    }

    /// Number of cache lines that a lookup reads at most.
    pub(super) fn worst_lines(&self) -> usize {
        let blocks = self.matches.len().div_ceil(BLOCK);
        let search = |word: &Word| {
            let walk = cap(word.starts.len(), &self.config) as usize + 1;
            2 * walk + halvings(word.starts.len()) as usize + 1
        };
        let of_sets: usize = match &self.sets {
            Sets::Vectors(all) => all.iter().map(|one| one.summary.div_ceil(LINE_WORDS / 2) + 2 + 2 * blocks).sum(),
            Sets::Lists(all) => {
                all.iter().map(|one| one.longest() / LINE_WORDS + one.open.len() / LINE_WORDS + 5).sum()
            }
        };
        let masks = if self.masks.is_empty() { 0 } else { self.matches.len() * (2 + self.words.len() / 8) };
        self.words.iter().map(search).sum::<usize>() + of_sets + 1 + masks
    }

    /// Returns the bytes on the heap by part.
    pub(super) fn bytes(&self) -> Vec<(&'static str, usize)> {
        let intervals: usize = self.words.iter().map(|word| 2 * size_of_val(&word.starts[..])).sum();
        let intervals = intervals + size_of_val(&self.words[..]) + size_of_val(&self.read[..]);
        vec![
            ("intervals", intervals),
            ("sets", self.sets.bytes()),
            ("matches", size_of_val(&self.matches[..])),
            ("masks", size_of_val(&self.mask_places[..]) + size_of_val(&self.masks[..])),
        ]
    }

    /// Number of products of the longest set, over all words that some product constrains.
    pub(super) fn longest(&self) -> usize {
        self.sets.longest()
    }

    /// Number of blocks that an intersection holds at most.
    pub(super) fn pairs(&self) -> usize {
        match self.config.sets {
            SetForm::Vectors => self.matches.len().div_ceil(BLOCK),
            SetForm::Lists => 0,
        }
    }

    /// Writes the intervals of each word, each with the numbers of its products from 1 on.
    ///
    /// For example, a rule for port 80 gives `word 0: 0-79 {} 80 {1} 81-65535 {}`.
    pub(super) fn describe(&self) -> String {
        let mut text = String::new();
        for (at, (word, of_schema)) in self.words.iter().zip(self.schema.words()).enumerate() {
            text += &format!("word {at}:");
            let ends = word.starts.iter().skip(1).map(|next| next - 1).chain([of_schema.max]);
            let read = self.read.iter().position(|&read| read == at);
            let all = || (0..self.matches.len() as u32).collect();
            for ((start, end), &set) in word.starts.iter().zip(ends).zip(&word.sets) {
                let products = read.map_or_else(all, |read| self.sets.products(read, set));
                let products: Vec<String> = products.iter().map(|rank| (rank + 1).to_string()).collect();
                let range = if *start == end { start.to_string() } else { format!("{start}-{end}") };
                text += &format!(" {range} {{{}}}", products.join(" "));
            }
            text.push('\n');
        }
        text
    }
}

/// Number of bytes of a node.
pub(super) const NODE_BYTES: usize = size_of::<Node>();
