//! Fuzz target that compares the fast way for common frames with the way through their headers.

use std::cell::RefCell;

use firstmatch_core::policy::Fragments;
use firstmatch_net::wire::{Config, LinkType};

use crate::ways::{Ways, schemas};

/// Most frames of an input: more than are sorted at once.
const MOST_FRAMES: usize = 40;

thread_local! {
    static WAYS: RefCell<Option<Vec<Ways>>> = const { RefCell::new(None) };
}

/// Returns the batches of every list of schemas, under four configurations each.
fn all_ways() -> Vec<Ways> {
    let plain = Config::default();
    let configs = [
        plain,
        Config { fragments: Fragments::Layer3, ..plain },
        Config { max_vlan_tags: 0, ..plain },
        Config { max_vlan_tags: 1, metadata: u64::MAX, ..plain },
    ];
    schemas().iter().flat_map(|schemas| configs.map(|config| Ways::new(&config, schemas))).collect()
}

/// Reads a byte as schemas and configuration, and the rest as Ethernet frames, each behind a byte with its length.
///
/// The frames must get the same outcomes, records and rows alone, together and through their headers. The last frame is
/// cut at every byte, too.
pub fn frames(data: &[u8]) {
    let Some((&which, mut rest)) = data.split_first() else { return };
    let mut all = Vec::new();
    while let Some((&len, behind)) = rest.split_first()
        && all.len() < MOST_FRAMES
    {
        let (frame, behind) = behind.split_at(behind.len().min(len.into()));
        all.push(frame);
        rest = behind;
    }
    WAYS.with_borrow_mut(|ways| {
        let ways = ways.get_or_insert_with(all_ways);
        let count = ways.len();
        let ways = &mut ways[usize::from(which) % count];
        ways.compare_many(LinkType::Ethernet, &all);
        if let Some(last) = all.last() {
            (0..last.len()).for_each(|cut| ways.compare(LinkType::Ethernet, &last[..cut]));
        }
    });
}
