//! Time limit of tests of threads, and a guard that stops their readers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use std::{panic, thread};

/// Runs a test on a thread of its own, and fails where it takes longer than `seconds`.
pub fn within(seconds: u64, test: impl FnOnce() + Send + 'static) {
    let (done, is_done) = mpsc::channel::<()>();
    let running = thread::spawn(move || {
        // It is dropped at the end, even at that of a panic.
        let _done = done;
        test();
    });
    let ended = is_done.recv_timeout(Duration::from_secs(seconds));
    assert!(ended != Err(RecvTimeoutError::Timeout), "it is not done after {seconds} seconds");
    if let Err(panicked) = running.join() {
        panic::resume_unwind(panicked);
    }
}

/// Sets a flag when it is dropped, so that readers stop even after a panic beside them.
pub struct Stop<'f>(pub &'f AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
