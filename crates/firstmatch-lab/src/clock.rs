//! Clocks.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Returns the CPU time of this thread.
pub(crate) fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

/// Time that a run took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    /// CPU time of the thread that ran it.
    pub(crate) cpu: Duration,
    pub(crate) wall: Duration,
}

/// Runs `run` and measures its time.
pub(crate) fn timed<T>(run: impl FnOnce() -> T) -> (T, Taken) {
    let (wall, cpu) = (Instant::now(), cpu_time());
    let out = run();
    let cpu = cpu_time().saturating_sub(cpu);
    (out, Taken { cpu, wall: wall.elapsed() })
}
