//! Sessions: state of one thread for one table, found in a constant number of steps.
//!
//! Each context has a *slot*, a small number of its own. A thread keeps its sessions by slot, so that a lookup finds
//! its session by an index and one comparison of versions, however many contexts the thread uses.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use firstmatch_core::{KeyBuf, Match, Scratch};

use crate::abi::Code;
use crate::context::Context;
use crate::gather::CHUNK;
use crate::retired;
use crate::table::{Table, reserve_small};

/// State of one thread for one table.
pub(crate) struct Session {
    version: u64,
    pub(crate) table: Arc<Table>,
    pub(crate) rows: KeyBuf,
    pub(crate) scratches: Vec<Scratch>,
    /// Answers of a chunk, engine after engine.
    pub(crate) matches: Vec<Option<Match>>,
    /// Pointers of a chunk, kept here because clearing them for each call would take time.
    pub(crate) keys: [*const u8; CHUNK],
}

/// Sessions of one thread.
pub(crate) struct Sessions {
    /// Session of each context by its slot.
    by_slot: Vec<Option<Box<Session>>>,
    /// Number of replaced tables that this thread has seen.
    seen: u64,
    /// Number of sessions looked at outside the shortest way.
    #[cfg(test)]
    steps: usize,
}

thread_local! {
    static SESSIONS: RefCell<Sessions> = const { RefCell::new(Sessions::new()) };
}

impl Session {
    /// Builds the state for a table.
    ///
    /// # Errors
    /// If there is no memory.
    pub(crate) fn new(table: Arc<Table>) -> Result<Self, Code> {
        reserve_small()?;
        let mut rows = KeyBuf::new(&table.schema);
        let _zeros = rows.push_rows(CHUNK);
        let scratches = table.engines.iter().map(|engine| engine.scratch()).collect();
        let matches = vec![None; table.engines.len() * CHUNK];
        Ok(Self { version: table.version, table, rows, scratches, matches, keys: [std::ptr::null(); CHUNK] })
    }
}

impl Sessions {
    const fn new() -> Self {
        Self {
            by_slot: Vec::new(),
            seen: 0,
            #[cfg(test)]
            steps: 0,
        }
    }

    /// Returns the session of a context whose table has this version; `None` if there is no table any more.
    ///
    /// # Errors
    /// If there is no memory for a new session.
    #[inline]
    fn of(&mut self, context: &Context, version: u64) -> Result<Option<&mut Session>, Code> {
        if self.seen != retired::count() || !self.has(context.slot, version) {
            self.renew(context, version)?;
        }
        Ok(self.by_slot.get_mut(context.slot).and_then(Option::as_deref_mut))
    }

    #[inline]
    fn has(&self, slot: usize, version: u64) -> bool {
        matches!(self.by_slot.get(slot), Some(Some(session)) if session.version == version)
    }

    /// Drops the sessions of retired tables, and makes the session of this version unless it is there.
    #[cold]
    fn renew(&mut self, context: &Context, version: u64) -> Result<(), Code> {
        let (now, slots) = retired::since(self.seen);
        self.seen = now;
        match slots {
            Some(slots) => slots.into_iter().for_each(|slot| self.drop_retired(slot)),
            None => (0..self.by_slot.len()).for_each(|slot| self.drop_retired(slot)),
        }
        if !self.has(context.slot, version)
            && let Some(table) = context.table()
        {
            let session = Session::new(table)?;
            if let Some(more) = (context.slot + 1).checked_sub(self.by_slot.len()) {
                self.by_slot.try_reserve(more).map_err(|_| Code::NoMemory)?;
                self.by_slot.resize_with(context.slot + 1, || None);
            }
            self.by_slot[context.slot] = Some(Box::new(session));
        }
        Ok(())
    }

    /// Drops the session of a slot if its table is retired.
    fn drop_retired(&mut self, slot: usize) {
        #[cfg(test)]
        (self.steps += 1);
        if let Some(session) = self.by_slot.get_mut(slot)
            && session.as_ref().is_some_and(|session| session.table.is_retired.load(Ordering::Relaxed))
        {
            *session = None;
        }
    }
}

/// Runs a body with this thread's session for a context.
///
/// Returns `None` if there is no table any more, the thread is ending, or a signal came during a lookup.
///
/// # Errors
/// If there is no memory for a new session.
#[inline]
pub(crate) fn with<R>(
    context: &Context,
    version: u64,
    body: impl FnOnce(&mut Session) -> R,
) -> Result<Option<R>, Code> {
    let found = SESSIONS.try_with(|sessions| match sessions.try_borrow_mut() {
        Ok(mut sessions) => sessions.of(context, version).map(|session| session.map(body)),
        Err(_) => Ok(None),
    });
    found.unwrap_or(Ok(None))
}

/// Returns the number of this thread's sessions, and of those looked at so far outside the shortest way.
#[cfg(test)]
pub(crate) fn sessions_and_steps() -> (usize, usize) {
    SESSIONS.with(|sessions| {
        let sessions = sessions.borrow();
        (sessions.by_slot.iter().flatten().count(), sessions.steps)
    })
}
