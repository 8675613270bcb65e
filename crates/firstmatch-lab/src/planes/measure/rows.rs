//! Messages of planes: ranges of packets in memory, with buffers that come back.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use firstmatch_core::Match;
use firstmatch_net::plane::Message;

/// Packets of a range, with their answers so far.
///
/// Its buffers return to their pool when it is dropped, wherever that is, also in a full ring.
#[derive(Debug)]
pub(crate) struct Rows {
    /// Number of the message, from 0. Workers take turns by it.
    pub(super) number: u64,
    pub(super) rows: Range<usize>,
    pub(super) buffers: Buffers,
    pool: Arc<Pool>,
}

/// Buffers of a message.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    /// Best match of each packet so far.
    pub(super) best: Vec<Option<Match>>,
    /// Bits of the regions that match each packet so far, if lookups go field by field.
    pub(super) bits: Vec<u64>,
}

/// Buffers that no message uses.
#[derive(Debug, Default)]
pub(super) struct Pool(Mutex<Vec<Buffers>>);

impl Pool {
    fn free(&self) -> MutexGuard<'_, Vec<Buffers>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rows {
    /// Makes a message without answers; `width` is the number of 64-bit words of a packet's bits.
    pub(super) fn new(pool: &Arc<Pool>, number: u64, rows: Range<usize>, width: usize) -> Self {
        let mut buffers = pool.free().pop().unwrap_or_default();
        buffers.best.clear();
        buffers.best.resize(rows.len(), None);
        buffers.bits.clear();
        buffers.bits.resize(rows.len() * width, u64::MAX);
        Self { number, rows, buffers, pool: Arc::clone(pool) }
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        self.pool.free().push(std::mem::take(&mut self.buffers));
    }
}

impl Message for Rows {
    fn packets(&self) -> usize {
        self.rows.len()
    }

    fn flow(&self) -> u64 {
        self.number
    }
}
