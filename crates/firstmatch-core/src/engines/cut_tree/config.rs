//! Configuration of a build.

use crate::engine::budget::Budget;
use crate::engine::options::{Knob, Set};
pub use crate::engines::shared::Layout;
use crate::raw::Level;

/// Bytes of a node.
pub(super) const NODE_BYTES: usize = 16;
/// Largest number of trees.
pub(super) const MOST_TREES: usize = 4;
/// Largest limit of a leaf, of factors and of the bytes of a page that options take.
const MOST_LEAF: usize = 1 << 24;
const MOST_FACTOR: u32 = 1 << 20;
const MOST_PAGE: usize = 1 << 30;

/// Configuration of a [`CutTree`](super::CutTree) build.
#[derive(Clone, Debug)]
pub struct Config {
    /// Memory that the built engine may take.
    pub budget: Budget,
    /// Instruction set; `None` takes the best of the machine.
    pub simd: Option<Level>,
    /// Choice of the words that a node cuts.
    pub method: Method,
    /// Largest number of regions in the list of a leaf, unless no cut can reach it.
    pub binth: usize,
    /// Factor that limits the cells of a node.
    ///
    /// HiCuts cuts while references and cells are at most this factor times the regions, HyperCuts while cells are at
    /// most this factor times the square root of the regions.
    pub space_factor: f64,
    /// Largest number of references that HyperCuts makes per region of a node.
    pub growth: f64,
    /// Word that HiCuts cuts.
    pub dimension: Dimension,
    /// Whether regions that fill all cut words of a node are kept there instead of in every cell.
    pub push: bool,
    /// Minimum number of such regions for which the node keeps them.
    pub min_push: usize,
    /// Whether cells with equal subtrees share them.
    pub merge: bool,
    /// Whether a node cuts the smallest box around its regions instead of its whole cell.
    pub compact: bool,
    /// Whether a region is left out of a cell where an earlier region covers it.
    pub remove_covered: bool,
    /// Whether a word is cut down to the part where regions differ, if no other cut helps.
    pub zoom: bool,
    /// Largest number of trees, 1 to 4; with more than one, regions are separated by their wide words where one tree
    /// would copy them often.
    pub trees: usize,
    /// Order of the steps of a batch.
    pub walk: Walk,
    /// Order of the nodes in memory.
    pub layout: Layout,
    /// Bytes of a page, for the layouts and for the counts of lookups.
    pub page_bytes: usize,
    /// Bytes that nodes and lists may take per region of an IPv4 5-tuple; in other schemas, in proportion to blocks.
    pub region_bytes: usize,
    /// Bytes that nodes and lists may take beyond that.
    pub extra_bytes: usize,
    /// Largest number of region visits per region of a build, after which cutting ends.
    pub visits: usize,
    /// Cuts of the nodes that are cut first, each of a key word into 2<sup>bits</sup> parts; further cuts are chosen.
    ///
    /// The node with the longest list is cut first, and of equal ones the first that was made. They are for worked
    /// examples, such as the tree of the dissertation's Table 3.1.
    pub cuts: Vec<Vec<(usize, u32)>>,
}

/// Choice of the words that a node cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// One word per node.
    HiCuts,
    /// Up to four words per node.
    HyperCuts,
}

/// Word that HiCuts cuts; the dissertation has both rules (section 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dimension {
    /// Word whose longest list of a cell is shortest.
    ShortestList,
    /// Word with the most different intervals.
    MostUnique,
}

/// Order of the steps of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Walk {
    /// Interleaved where the tree is larger than a cache, else key by key.
    BySize,
    /// Key by key.
    OneByOne,
    /// Sixteen keys side by side.
    Interleaved,
}

impl Default for Config {
    /// Returns HyperCuts with everything that makes it faster and smaller.
    fn default() -> Self {
        Self {
            budget: Budget::default(),
            simd: None,
            method: Method::HyperCuts,
            binth: 16,
            space_factor: 4.0,
            growth: 4.0,
            dimension: Dimension::ShortestList,
            push: false,
            min_push: 8,
            merge: true,
            compact: true,
            remove_covered: false,
            zoom: true,
            trees: 4,
            walk: Walk::BySize,
            layout: Layout::DepthFirst,
            page_bytes: 4096,
            region_bytes: 100,
            extra_bytes: 1 << 20,
            visits: 5000,
            cuts: Vec::new(),
        }
    }
}

impl Config {
    /// Bytes of a node while the trees grow, including the bytes that layouts in blocks leave unused.
    ///
    /// On generated rule sets pages left less than 1 % unused, and pages with lines about 10 %.
    pub(super) fn layout_bytes(&self) -> usize {
        match self.layout {
            Layout::Pages => NODE_BYTES + NODE_BYTES / 16,
            Layout::PagesAndLines => NODE_BYTES + NODE_BYTES / 4,
            _ => NODE_BYTES,
        }
    }

    /// Returns the algorithms of the dissertation: one tree, covered regions left out, and nodes in blocks of 2 MiB.
    ///
    /// It does not state the limit of a leaf and the space factor. These are 16 and 4 here.
    pub fn paper(method: Method) -> Self {
        let is_hyper = method == Method::HyperCuts;
        Self {
            method,
            growth: f64::INFINITY,
            push: is_hyper,
            min_push: 1,
            compact: is_hyper,
            remove_covered: true,
            zoom: false,
            trees: 1,
            walk: Walk::OneByOne,
            layout: Layout::PagesAndLines,
            page_bytes: 2 << 20,
            ..Self::default()
        }
    }
}

/// Options by name.
pub(super) const OPTIONS: &[Knob<Config>] = &[
    Knob {
        name: "paper",
        summary: "whether to start from the dissertation's own values",
        set: Set::Switch(|config, is_paper| {
            if is_paper {
                *config = Config::paper(config.method);
            }
        }),
    },
    Knob {
        name: "binth",
        summary: "largest number of regions in a leaf, where cuts can keep it",
        set: Set::Within([1, MOST_LEAF, 1], |config, binth| config.binth = binth),
    },
    Knob {
        name: "space_factor",
        summary: "factor that limits the cells of a node",
        set: Set::Number([1, MOST_FACTOR], |config, factor| config.space_factor = factor),
    },
    Knob {
        name: "growth",
        summary: "largest number of references per region of a node that HyperCuts makes",
        set: Set::Number([1, MOST_FACTOR], |config, growth| config.growth = growth),
    },
    Knob {
        name: "dimension",
        summary: "word that HiCuts cuts",
        set: Set::OneOf(&["shortest_list", "most_unique"], |config, at| {
            config.dimension = [Dimension::ShortestList, Dimension::MostUnique][at];
        }),
    },
    Knob {
        name: "push",
        summary: "whether regions that fill all cut words are kept at the node",
        set: Set::Switch(|config, push| config.push = push),
    },
    Knob {
        name: "min_push",
        summary: "number of such regions from which they are kept there",
        set: Set::Count(|config, regions| config.min_push = regions),
    },
    Knob {
        name: "merge",
        summary: "whether cells with equal subtrees share them",
        set: Set::Switch(|config, merge| config.merge = merge),
    },
    Knob {
        name: "compact",
        summary: "whether nodes cut the smallest box around their regions",
        set: Set::Switch(|config, compact| config.compact = compact),
    },
    Knob {
        name: "remove_covered",
        summary: "whether regions that earlier ones cover are left out",
        set: Set::Switch(|config, remove| config.remove_covered = remove),
    },
    Knob {
        name: "zoom",
        summary: "whether a word is cut down to the part where regions differ, if no other cut helps",
        set: Set::Switch(|config, zoom| config.zoom = zoom),
    },
    Knob {
        name: "trees",
        summary: "largest number of trees, 1 to 4",
        set: Set::Within([1, MOST_TREES, 1], |config, trees| config.trees = trees),
    },
    Knob {
        name: "walk",
        summary: "order of the steps of a batch",
        set: Set::OneOf(&["by_size", "one_by_one", "interleaved"], |config, at| {
            config.walk = [Walk::BySize, Walk::OneByOne, Walk::Interleaved][at];
        }),
    },
    Knob {
        name: "layout",
        summary: "order of the nodes in memory",
        set: Set::OneOf(
            &["as_built", "breadth_first", "depth_first", "van_emde_boas", "pages", "pages_and_lines"],
            |config, at| {
                config.layout = [
                    Layout::AsBuilt,
                    Layout::BreadthFirst,
                    Layout::DepthFirst,
                    Layout::VanEmdeBoas,
                    Layout::Pages,
                    Layout::PagesAndLines,
                ][at];
            },
        ),
    },
    Knob {
        name: "page_bytes",
        summary: "bytes of a page",
        set: Set::Within([NODE_BYTES, MOST_PAGE, 1], |config, bytes| config.page_bytes = bytes),
    },
    Knob {
        name: "region_bytes",
        summary: "bytes of nodes and lists per region",
        set: Set::Count(|config, bytes| config.region_bytes = bytes),
    },
    Knob {
        name: "extra_bytes",
        summary: "bytes of nodes and lists beyond that",
        set: Set::Count(|config, bytes| config.extra_bytes = bytes),
    },
    Knob {
        name: "visits",
        summary: "most region visits of a build per region, after which cutting ends",
        set: Set::Count(|config, visits| config.visits = visits),
    },
    Knob {
        name: "cuts",
        summary: "cuts of the nodes that are cut first, each as WORD:BITS; for worked examples",
        set: Set::Text("cuts by node, such as 0:2+1:1,0:1", |config, text| {
            let cut = |text: &str| {
                let (word, bits) = text.split_once(':')?;
                Some((word.parse().ok()?, bits.parse().ok()?))
            };
            let node = |text: &str| text.split('+').map(cut).collect();
            let cuts: Option<Vec<Vec<(usize, u32)>>> = text.split(',').map(node).collect();
            cuts.map(|cuts| config.cuts = cuts).is_some()
        }),
    },
];
