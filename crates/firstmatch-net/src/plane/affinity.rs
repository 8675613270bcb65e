//! Pinning of workers to cores.

/// Cores that workers run on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pinning {
    /// The system places and moves threads.
    #[default]
    Free,
    /// Each worker, in order of stages, has the next of the cores that the process may use.
    Spread,
    /// Each worker, in order of stages, has the next of these cores, starting over if they are too few.
    Cores(Vec<usize>),
}

impl Pinning {
    /// Returns the cores to pin workers to, none with [`Pinning::Free`], or the reason why they are unknown.
    pub(super) fn cores(&self) -> Result<Vec<usize>, String> {
        match self {
            Self::Free => Ok(Vec::new()),
            Self::Spread => allowed(),
            Self::Cores(cores) => Ok(cores.clone()),
        }
    }
}

/// Returns the cores that this thread may use.
#[cfg(target_os = "linux")]
fn allowed() -> Result<Vec<usize>, String> {
    use rustix::thread::{CpuSet, sched_getaffinity};
    let set = sched_getaffinity(None).map_err(|error| error.to_string())?;
    Ok((0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect())
}

/// Pins this thread to a core.
#[cfg(target_os = "linux")]
pub(super) fn pin(core: usize) -> Result<(), String> {
    use rustix::thread::{CpuSet, sched_setaffinity};
    if core >= CpuSet::MAX_CPU {
        return Err(format!("core numbers are below {}", CpuSet::MAX_CPU));
    }
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).map_err(|error| error.to_string())
}

#[cfg(not(target_os = "linux"))]
fn allowed() -> Result<Vec<usize>, String> {
    Err("threads are pinned on Linux alone".to_owned())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn pin(_core: usize) -> Result<(), String> {
    allowed().map(drop)
}
