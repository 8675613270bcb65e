//! `rte_acl` over frames in memory, read in place.
//!
//! As in DPDK's `l3fwd-acl`, a frame is checked and then looked up by a pointer to the protocol of its IPv4 header.
//! Checks and lookups are timed.

use anyhow::ensure;
use firstmatch_core::Match;

use super::RteAcl;
use super::layout::Form;
use crate::measure::replay::Replay;
use crate::workload::FRAME;

/// Offset of the protocol of an IPv4 header in an Ethernet frame.
const PROTOCOL: usize = 23;

/// Returns whether the fields of a frame are at fixed offsets.
///
/// They are for IPv4 without options, unless the frame is a fragment behind the first.
#[inline(always)]
fn is_plain(frame: &[u8; FRAME]) -> bool {
    frame[12..14] == [0x08, 0x00] && frame[14] == 0x45 && u16::from_be_bytes([frame[20], frame[21]]) & 0x1fff == 0
}

/// Frames and results of one thread.
pub(crate) struct AclFrames<'a> {
    acl: &'a RteAcl,
    frames: &'a [[u8; FRAME]],
    /// Pointers to the protocols of a batch's looked-up frames; `places` has their indices.
    pointers: Vec<*const u8>,
    places: Vec<u32>,
    /// Results of a batch, if not all of its frames are looked up.
    partial: Vec<u32>,
    results: Vec<u32>,
}

impl RteAcl {
    /// Creates a thread's replay over frames.
    ///
    /// # Errors
    /// If the table is not one for frames.
    pub(crate) fn replay_frames<'a>(&'a self, frames: &'a [[u8; FRAME]]) -> anyhow::Result<AclFrames<'a>> {
        ensure!(self.table.layout.form == Form::Frames, "its table is not one for frames");
        Ok(AclFrames {
            acl: self,
            frames,
            pointers: vec![std::ptr::null(); frames.len()],
            places: vec![0; frames.len()],
            partial: vec![0; frames.len()],
            results: vec![u32::MAX; frames.len()],
        })
    }
}

impl AclFrames<'_> {
    pub(crate) fn answers(self) -> Vec<Option<Match>> {
        let answer = |&result: &u32| if result == u32::MAX { None } else { self.acl.table.found(result) };
        self.results.iter().map(answer).collect()
    }
}

impl Replay for AclFrames<'_> {
    #[inline(always)]
    fn classify(&mut self, from: usize, to: usize) {
        let (frames, results) = (&self.frames[from..to], &mut self.results[from..to]);
        let (pointers, places) = (&mut self.pointers[..frames.len()], &mut self.places[..frames.len()]);
        let mut count = 0;
        for (place, frame) in (0..).zip(frames) {
            if is_plain(frame) {
                pointers[count] = frame[PROTOCOL..].as_ptr();
                places[count] = place;
                count += 1;
            } else {
                // The frame has no answer, because a program would leave it to a slow path.
                results[place as usize] = 0;
            }
        }
        let (table, algorithm) = (&self.acl.table, self.acl.algorithm);
        if count == frames.len() {
            // SAFETY: the pointers lead to the protocols of frames, and a key takes 15 bytes from there.
            unsafe { table.classify(algorithm, pointers, results) };
        } else {
            let partial = &mut self.partial[..count];
            // SAFETY: as above.
            unsafe { table.classify(algorithm, &pointers[..count], partial) };
            places.iter().zip(partial).for_each(|(&place, result)| results[place as usize] = *result);
        }
    }

    #[inline(always)]
    fn bit(&self, at: usize) -> usize {
        self.acl.table.found(self.results[at]).map_or(0, |found| found.rule.slot() & 1)
    }
}
