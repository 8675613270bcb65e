//! Gathers some keys of a batch, so that they can be looked up by themselves.
//!
//! For example, if 3 of 64 answers are dead, their 3 keys are copied into a batch, looked up again, and the new answers
//! are written back.

use super::filter::{CHUNK, Lists};
use crate::engine::{Match, Scratch};
use crate::key::{KeyBuf, Keys};
use crate::schema::Schema;

/// Working memory for a chunk of keys.
#[derive(Debug)]
pub(super) struct Gather {
    /// Scratch of the front, if there is one.
    pub(super) front: Option<Scratch>,
    /// Matches to beat, as they were before the base was asked.
    pub(super) before: [Option<Match>; CHUNK],
    pub(super) lists: Lists,
    pub(super) few: Few,
}

/// Working memory for the gathered keys.
#[derive(Debug)]
pub(super) struct Few {
    rows: KeyBuf,
    best: [Option<Match>; CHUNK],
}

impl Gather {
    pub(super) fn new(schema: &Schema, front: Option<Scratch>) -> Self {
        let mut rows = KeyBuf::new(schema);
        rows.reserve(CHUNK);
        let few = Few { rows, best: [None; CHUNK] };
        Self { front, before: [None; CHUNK], lists: Lists::new(), few }
    }
}

impl Few {
    /// Improves the listed keys of a chunk with one call of `improve`.
    ///
    /// If more than three quarters of the chunk are listed, the whole chunk is improved, because gathering would save
    /// little.
    pub(super) fn improve(
        &mut self,
        list: &[u8],
        keys: &Keys<'_>,
        best: &mut [Option<Match>],
        improve: impl FnOnce(&Keys<'_>, &mut [Option<Match>]),
    ) {
        if list.is_empty() {
            return;
        }
        if list.len() * 4 > best.len() * 3 {
            return improve(keys, best);
        }
        self.rows.clear();
        for (own, &i) in self.best.iter_mut().zip(list) {
            self.rows.push().copy_from_slice(keys.row(usize::from(i)));
            *own = best[usize::from(i)];
        }
        let own = &mut self.best[..list.len()];
        improve(&self.rows.keys(), own);
        for (own, &i) in own.iter().zip(list) {
            best[usize::from(i)] = *own;
        }
    }
}
