//! Handling of SIGINT and SIGTERM.
//!
//! The first signal ends the input as an end of file would; the second ends the program.

use std::fs::File;
use std::io::{self, PipeReader, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use anyhow::Context;
use firstmatch_net::source::{self, Input, Limits, Stopped};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

/// Record of the signal that ended the input, if one did. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop {
    signal: Arc<AtomicUsize>,
    /// Pipe that a signal writes to, once an input was opened. It is never read, so that it stays ready.
    wake: Arc<OnceLock<PipeReader>>,
}

impl Stop {
    /// Returns the signal that came, if one did.
    pub(crate) fn signal(&self) -> Option<Signal> {
        match self.signal.load(Ordering::Relaxed) {
            0 => None,
            number => Some(Signal(number as u8)),
        }
    }

    /// Opens the packets, or standard input for `-`.
    ///
    /// From then on a signal ends the input. Before, it ends the program, because there is nothing to lose yet and
    /// opening a pipe may wait forever.
    pub(crate) fn open(&self, path: &Path) -> anyhow::Result<Input> {
        let limits = Limits::default();
        if path != Path::new("-") {
            return Ok(source::open_through(path, &limits, |file| self.read_from(file))?);
        }
        let name = "standard input";
        let reader = io::stdin().as_fd().try_clone_to_owned().and_then(|stdin| self.read_from(File::from(stdin)));
        let reader = reader.with_context(|| format!("{name}: cannot be read"))?;
        Ok(source::from_reader(name, reader, &limits)?)
    }

    /// Returns a file that becomes readable when a signal comes. From then on signals are taken care of.
    #[cfg(all(feature = "live", target_os = "linux"))]
    pub(crate) fn wake(&self) -> io::Result<PipeReader> {
        self.register()
    }

    /// Returns a reader of the file that ends when a signal comes.
    fn read_from(&self, file: File) -> io::Result<Box<dyn Read + Send>> {
        let wake = match self.wake.get() {
            Some(wake) => wake.try_clone()?,
            None => self.register()?,
        };
        Ok(Box::new(UntilSignal { file, stop: self.clone(), wake }))
    }

    /// Registers the effects of signals from now on and returns the pipe that they write to.
    fn register(&self) -> io::Result<PipeReader> {
        let (wake, to_wake) = io::pipe()?;
        let again = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // The order matters, because otherwise the first signal would already end the program.
            flag::register_conditional_default(signal, Arc::clone(&again))?;
            flag::register(signal, Arc::clone(&again))?;
            flag::register_usize(signal, Arc::clone(&self.signal), signal as usize)?;
            low_level::pipe::register(signal, to_wake.try_clone()?)?;
        }
        self.wake.get_or_init(|| wake).try_clone()
    }
}

/// Signal that ended the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signal(u8);

impl Signal {
    /// Returns the exit code that a shell gives a program ended by this signal.
    ///
    /// It is 130 for SIGINT and 143 for SIGTERM.
    pub(crate) fn exit_code(self) -> u8 {
        128 + self.0
    }

    pub(crate) fn name(self) -> &'static str {
        if i32::from(self.0) == SIGINT { "SIGINT" } else { "SIGTERM" }
    }
}

/// Reader of a file that may keep it waiting, until a signal comes.
///
/// A signal alone does not end the wait, because the system resumes the read. The reader therefore waits for the file
/// or for the pipe that the signal writes to.
struct UntilSignal {
    file: File,
    stop: Stop,
    wake: PipeReader,
}

impl Read for UntilSignal {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.stop.signal().is_some() {
                return Err(Stopped.into());
            }
            let mut ready = [PollFd::new(&self.file, PollFlags::IN), PollFd::new(&self.wake, PollFlags::IN)];
            match poll(&mut ready, None) {
                Ok(_) if ready[0].revents().is_empty() => {}
                Ok(_) => return self.file.read(into),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
