//! What the roots select.

use super::BitSelect;

impl BitSelect {
    /// The bits that each tree's root selects: masks over two lanes, the first in the upper half, and the lanes. Each region
    /// fixes all but a few of those of some tree, unless nothing parts it from the others.
    pub(crate) fn roots(&self) -> impl Iterator<Item = (u64, [usize; 2])> {
        let roots = self.trees.iter().map(|tree| tree.root);
        roots.map(|node| (node.mask, node.lanes.map(usize::from)))
    }
}
