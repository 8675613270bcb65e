//! Rebuilds on a thread of the handle's own.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use firstmatch_core::live::Writer;

use crate::Error;

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
    pub(crate) fn start(writer: &Arc<Mutex<Writer>>) -> Self {
        let signal = Arc::new(Signal::default());
        let (own, writer) = (Arc::clone(&signal), Arc::downgrade(writer));
        let work = move || {
            while own.wait() {
                let Some(writer) = writer.upgrade() else { break };
                // If no engine fits any more, the old one stays in service; the next commit that makes a rebuild due
                // tries again.
                let _: Result<u64, Error> = run(&writer);
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

/// Rebuilds on this thread; the writer is locked only to begin and to install.
pub(crate) fn run(writer: &Mutex<Writer>) -> Result<u64, Error> {
    let lock = || writer.lock().unwrap_or_else(PoisonError::into_inner);
    let job = lock().begin_rebuild();
    let rebuilt = job.run()?;
    let retired = lock().install(rebuilt)?;
    Ok(retired.epoch())
}
