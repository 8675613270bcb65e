//! Rebuilds on a thread of the handle's own.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use firstmatch_core::live::Writer;

use crate::Error;

/// Writer of a firewall, and the turn of whoever rebuilds.
///
/// A rebuild that another one overtakes cannot be installed. So rebuilds run one after another, each for the rules at
/// its begin, while the writer is locked only at both ends of them.
#[derive(Debug)]
pub(crate) struct Rebuilt {
    writer: Mutex<Writer>,
    turn: Mutex<()>,
}

impl Rebuilt {
    pub(crate) fn new(writer: Writer) -> Self {
        Self { writer: Mutex::new(writer), turn: Mutex::new(()) }
    }

    /// Locks the writer. A transaction that panicked has left nothing behind, because the next one undoes it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the writer unless another thread has locked it.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Writer>> {
        self.writer.try_lock().ok()
    }

    /// Rebuilds on this thread, once the rebuilds of other threads are done.
    pub(crate) fn rebuild(&self) -> Result<u64, Error> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let job = self.lock().begin_rebuild();
            let rebuilt = job.run()?;
            match self.lock().install(rebuilt) {
                Ok(retired) => return Ok(retired.epoch()),
                // New priorities, or a commit of many rules, came with engines of their own.
                Err(error) if error.is_overtaken() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Handle to a thread that rebuilds when a rebuild is due. The thread ends when the handle is dropped.
#[derive(Debug)]
pub(crate) struct Rebuilder(Arc<Signal>);

#[derive(Debug, Default)]
struct Signal {
    wanted: Mutex<Wanted>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Wanted {
    #[default]
    Nothing,
    Rebuild,
    End,
}

impl Rebuilder {
    /// Starts the thread, which keeps the writer alive only while it rebuilds.
    pub(crate) fn start(writer: &Arc<Rebuilt>) -> Self {
        let signal = Arc::new(Signal::default());
        let (own, writer) = (Arc::clone(&signal), Arc::downgrade(writer));
        let work = move || {
            while own.wait() {
                let Some(writer) = writer.upgrade() else { break };
                // If no engine fits any more, the old one stays in service; the next commit that makes a rebuild due
                // tries again.
                let _: Result<u64, Error> = writer.rebuild();
            }
        };
        // Without a thread nothing is rebuilt: once the overlay is full, changes are refused with an error that names
        // the remedy.
        let _: std::io::Result<_> = thread::Builder::new().name("firstmatch-rebuild".to_owned()).spawn(work);
        Self(signal)
    }

    /// Makes the thread rebuild.
    pub(crate) fn wake(&self) {
        self.0.set(Wanted::Rebuild);
    }
}

impl Drop for Rebuilder {
    fn drop(&mut self) {
        self.0.set(Wanted::End);
    }
}

impl Signal {
    fn lock(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, wanted: Wanted) {
        *self.lock() = wanted;
        self.changed.notify_one();
    }

    /// Waits for work; returns false when the thread is to end.
    fn wait(&self) -> bool {
        let mut wanted = self.lock();
        while *wanted == Wanted::Nothing {
            wanted = self.changed.wait(wanted).unwrap_or_else(PoisonError::into_inner);
        }
        let goes_on = *wanted == Wanted::Rebuild;
        if goes_on {
            *wanted = Wanted::Nothing;
        }
        goes_on
    }
}
