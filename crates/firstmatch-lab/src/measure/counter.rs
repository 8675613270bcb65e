//! Hardware counter of instructions, if the machine provides one.

use anyhow::Context;

#[cfg(target_os = "linux")]
pub(crate) struct Instructions(perf_event::Counter);

#[cfg(target_os = "linux")]
impl Instructions {
    /// Opens the counter for this thread.
    pub(crate) fn open() -> anyhow::Result<Self> {
        let counter = perf_event::Builder::new().kind(perf_event::events::Hardware::INSTRUCTIONS).build();
        counter.map(Self).context("this machine counts no instructions for us")
    }

    /// Returns the number of user-mode instructions that `run` takes.
    pub(crate) fn count<T>(&mut self, run: impl FnOnce() -> T) -> Option<u64> {
        self.0.reset().ok()?;
        self.0.enable().ok()?;
        run();
        self.0.disable().ok()?;
        self.0.read().ok()
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) struct Instructions;

#[cfg(not(target_os = "linux"))]
impl Instructions {
    pub(crate) fn open() -> anyhow::Result<Self> {
        Err(std::io::Error::from(std::io::ErrorKind::Unsupported)).context("this machine counts no instructions for us")
    }

    pub(crate) fn count<T>(&mut self, _run: impl FnOnce() -> T) -> Option<u64> {
        None
    }
}
