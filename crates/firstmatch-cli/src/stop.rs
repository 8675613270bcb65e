//! SIGINT and SIGTERM: the first ends the input as an end of file would, the second ends the program.

use std::fs::File;
use std::io::{self, PipeReader, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::Context;
use firstmatch_net::source::{self, Input, Limits, Stopped};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

/// Whether a signal ended the input. Clones share the answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicUsize>);

impl Stop {
    /// The signal that came, if one did.
    pub(crate) fn signal(&self) -> Option<Signal> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            number => Some(Signal(number as u8)),
        }
    }

    /// Opens the packets, or standard input for `-`. From then on a signal ends them; before, it ends the program,
    /// because there is nothing to lose yet and the opening of a pipe may wait for ever.
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

    /// The file, until a signal comes.
    fn read_from(&self, file: File) -> io::Result<Box<dyn Read + Send>> {
        let (wake, to_wake) = io::pipe()?;
        let again = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: what the second signal does must not be done by the first.
            flag::register_conditional_default(signal, Arc::clone(&again))?;
            flag::register(signal, Arc::clone(&again))?;
            flag::register_usize(signal, Arc::clone(&self.0), signal as usize)?;
            low_level::pipe::register(signal, to_wake.try_clone()?)?;
        }
        Ok(Box::new(UntilSignal { file, stop: self.clone(), wake }))
    }
}

/// The signal that ended the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signal(u8);

impl Signal {
    /// As a shell states a program that a signal ended: 130 for SIGINT, 143 for SIGTERM.
    pub(crate) fn exit_code(self) -> u8 {
        128 + self.0
    }

    pub(crate) fn name(self) -> &'static str {
        if i32::from(self.0) == SIGINT { "SIGINT" } else { "SIGTERM" }
    }
}

/// Reads a file that may keep its reader waiting. A signal alone does not end the wait: the system takes the read up
/// again, so the wait is for the file or for the pipe that the signal writes to.
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
