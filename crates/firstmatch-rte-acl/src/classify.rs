//! Lookups: chunks of keys are gathered, looked up in the engines of the asked categories, and answered by user data.
//!
//! Any number of threads may look up in one context without a handle of their own. Each thread keeps a *session* for
//! each table that it used: a reference to the table, rows, and what the engines write to. A context has the version of
//! its table, which a thread compares once a call. So a build beside lookups is safe: the thread takes the new table at
//! its next call, and the old one is freed with its last session.

use std::sync::atomic::Ordering;

use firstmatch_core::Match;

use crate::abi::{Code, MAX_CATEGORIES};
use crate::context::Context;
use crate::gather::CHUNK;
use crate::session::{self, Session};

/// Arguments of a call, as C gave them.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    pub(crate) data: *const *const u8,
    pub(crate) results: *mut u32,
    pub(crate) num: usize,
    pub(crate) categories: usize,
}

impl Call {
    /// Checks the arguments that do not depend on a context.
    ///
    /// # Errors
    /// If the number of categories is neither 1 nor a multiple of 4 up to 16.
    pub(crate) fn check(&self) -> Result<(), Code> {
        let is_known = self.categories == 1 || self.categories.is_multiple_of(4);
        if is_known && self.categories <= MAX_CATEGORIES as usize { Ok(()) } else { Err(Code::Invalid) }
    }

    /// Looks every key up.
    ///
    /// # Errors
    /// If there is no table, a pointer is null, or there is no memory for the thread's state; no result is written then.
    ///
    /// # Safety
    /// `data` must be null or lead to `num` pointers, each null or to a whole key of the context's fields. `results`
    /// must be null or have room for `num * categories` results.
    pub(crate) unsafe fn run(self, context: &Context) -> Result<(), Code> {
        if self.num == 0 {
            return Ok(());
        }
        let version = context.version.load(Ordering::Acquire);
        if version == 0 || self.data.is_null() {
            return Err(Code::Invalid);
        }
        if self.results.is_null() && self.categories > 0 {
            return Err(Code::Invalid);
        }
        // The pointers of a single chunk are checked when they are copied, before any result is written.
        // SAFETY: the caller's promise: `num` pointers, which may be unaligned.
        let is_null = |at: usize| unsafe { self.data.add(at).read_unaligned() }.is_null();
        if self.num > CHUNK && (0..self.num).fold(false, |any, at| any | is_null(at)) {
            return Err(Code::Invalid);
        }
        // SAFETY: the caller's promise.
        let answered = session::with(context, version, |session| unsafe { self.answer(session) })?;
        if let Some(result) = answered {
            return result;
        }
        // The thread is ending, or a signal came during a lookup: a session for this call alone.
        let mut session = Session::new(context.table().ok_or(Code::Invalid)?)?;
        // SAFETY: as above.
        unsafe { self.answer(&mut session) }
    }

    /// Answers every key of a call.
    ///
    /// # Errors
    /// If a pointer of the first chunk is null; others have been checked.
    ///
    /// # Safety
    /// As [`Call::run`].
    unsafe fn answer(self, session: &mut Session) -> Result<(), Code> {
        let Session { table, rows, scratches, matches, keys, .. } = session;
        let of_category = &table.of_category[..self.categories];
        let asked = of_category.iter().fold(0, |all, of| all | of);
        for start in (0..self.num).step_by(CHUNK) {
            let count = CHUNK.min(self.num - start);
            let keys = &mut keys[..count];
            // SAFETY: the caller's promise: `num` pointers. As bytes they may be unaligned.
            unsafe {
                let from = self.data.add(start).cast::<u8>();
                keys.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(from, size_of_val(keys));
            }
            if keys.iter().fold(false, |any, key| any | key.is_null()) {
                return Err(Code::Invalid);
            }
            // SAFETY: each pointer leads to a whole key, so to the span of the plan.
            unsafe { table.gather.gather(keys, rows.words_mut()) };
            let keys = rows.keys().slice(0, count);
            let lanes = table.engines.iter().zip(scratches.iter_mut()).zip(matches.chunks_exact_mut(CHUNK));
            for (number, ((engine, scratch), matches)) in lanes.enumerate() {
                if asked >> number & 1 == 1 {
                    engine.classify_batch(scratch, keys, &mut matches[..count]);
                }
            }
            // SAFETY: the caller's promise: room for the results of all keys.
            let results = unsafe { self.results.add(start * self.categories) };
            if !table.counts.is_empty() {
                let of_keys = (0..count).flat_map(|key| of_category.iter().map(move |&of| (key, of)));
                of_keys.for_each(|(key, of)| table.count(best(matches, of, key)));
            }
            match of_category {
                // SAFETY: `count` results are within the room.
                [of] if of.count_ones() == 1 => unsafe {
                    let matches = &matches[of.trailing_zeros() as usize * CHUNK..][..count];
                    for (at, found) in matches.iter().enumerate() {
                        results.add(at).write_unaligned(userdata(*found));
                    }
                },
                _ => {
                    for key in 0..count {
                        for (category, &of) in of_category.iter().enumerate() {
                            let result = userdata(best(matches, of, key));
                            // SAFETY: `count * categories` results are within the room.
                            unsafe { results.add(key * self.categories + category).write_unaligned(result) };
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// Returns the user data of a rule, which its id holds; 0 without a match.
#[inline(always)]
fn userdata(found: Option<Match>) -> u32 {
    found.map_or(0, |found| found.rule.reuse())
}

/// Returns the best answer for a key among the engines `of`.
fn best(matches: &[Option<Match>], mut of: u16, key: usize) -> Option<Match> {
    let mut best = None;
    while of != 0 {
        let found = matches[of.trailing_zeros() as usize * CHUNK + key];
        if let Some(found) = found.filter(|found| Match::wins(found.priority, &best)) {
            best = Some(found);
        }
        of &= of - 1;
    }
    best
}
