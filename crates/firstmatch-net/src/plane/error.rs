//! Faults of a plane, and notices about circumstances that are not faults.

use std::fmt;

use super::counters::PlaneCounters;

/// Reason why a plane cannot start, or was ended before all its packets came out.
#[derive(Clone, Debug)]
pub struct PlaneError(pub(super) Box<Fault>);

#[derive(Clone, Debug)]
pub(super) struct Fault {
    kind: Kind,
    /// Counters at the end, if the plane had started.
    pub(super) counters: Option<PlaneCounters>,
}

#[derive(Clone, Debug)]
enum Kind {
    /// The stages or links cannot work.
    Plan(String),
    /// The system refused a thread.
    Thread {
        stage: String,
        worker: usize,
        reason: String,
    },
    Panic {
        stage: String,
        worker: usize,
        text: String,
    },
    /// A worker of an ordered plane did not send on exactly one message for each that it took.
    Order {
        stage: String,
        worker: usize,
        messages: u64,
    },
}

impl PlaneError {
    fn new(kind: Kind) -> Self {
        Self(Box::new(Fault { kind, counters: None }))
    }

    pub(super) fn plan(text: impl Into<String>) -> Self {
        Self::new(Kind::Plan(text.into()))
    }

    pub(super) fn thread(stage: &str, worker: usize, reason: impl fmt::Display) -> Self {
        Self::new(Kind::Thread { stage: stage.into(), worker, reason: reason.to_string() })
    }

    pub(super) fn panic(stage: &str, worker: usize, payload: &(dyn std::any::Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        let text = text.unwrap_or_else(|| "a payload that is no text".to_owned());
        Self::new(Kind::Panic { stage: stage.into(), worker, text })
    }

    pub(super) fn order(stage: &str, worker: usize, messages: u64) -> Self {
        Self::new(Kind::Order { stage: stage.into(), worker, messages })
    }

    /// Returns the name of the stage and the index of the worker that failed, if one did.
    pub fn worker(&self) -> Option<(&str, usize)> {
        match &self.0.kind {
            Kind::Plan(_) => None,
            Kind::Thread { stage, worker, .. }
            | Kind::Panic { stage, worker, .. }
            | Kind::Order { stage, worker, .. } => Some((stage, *worker)),
        }
    }

    /// Returns the text of the panic, if a panic ended the plane.
    pub fn panic_text(&self) -> Option<&str> {
        match &self.0.kind {
            Kind::Panic { text, .. } => Some(text),
            _ => None,
        }
    }

    /// Returns the counters at the end, if the plane had started; [`PlaneCounters::lost`] has the packets in flight.
    pub fn counters(&self) -> Option<&PlaneCounters> {
        self.0.counters.as_ref()
    }
}

impl fmt::Display for PlaneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.kind {
            Kind::Plan(text) => f.write_str(text)?,
            Kind::Thread { stage, worker, reason } => {
                write!(f, "stage {stage}, worker {worker}: the system gives no thread: {reason}")?;
            }
            Kind::Panic { stage, worker, text } => write!(f, "stage {stage}, worker {worker} panicked: {text}")?,
            Kind::Order { stage, worker, messages } => {
                write!(
                    f,
                    "stage {stage}, worker {worker} handed on {messages} messages for one; \
                     a plane in order of arrival needs exactly one"
                )?;
            }
        }
        match &self.0.counters {
            Some(counters) => write!(f, "; packets lost: {}", counters.lost),
            None => Ok(()),
        }
    }
}

impl std::error::Error for PlaneError {}

/// Circumstance that makes a plane slower than it could be, though its results are right.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// There are more threads than cores, so waiting threads yield and threads take turns.
    FewCores {
        /// Number of threads: all workers and the caller.
        threads: usize,
        /// Number of cores that this process may use.
        cores: usize,
    },
    /// A worker could not be pinned to its core and runs on any.
    NotPinned {
        /// Name of the stage.
        stage: String,
        /// Index of the worker in its stage.
        worker: usize,
        /// Number of the core.
        core: usize,
        /// Reason that the system gave.
        reason: String,
    },
    /// The cores that the process may use are unknown, so no worker is pinned.
    UnknownCores {
        /// Reason that the system gave.
        reason: String,
    },
    /// Several workers are pinned to one core.
    SharedCores {
        /// Number of workers.
        workers: usize,
        /// Number of cores to pin them to.
        cores: usize,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FewCores { threads, cores } => {
                write!(f, "{threads} threads share {cores} cores, so they take turns and wait by yielding")
            }
            Self::NotPinned { stage, worker, core, reason } => {
                write!(f, "stage {stage}, worker {worker} is not pinned to core {core}: {reason}")
            }
            Self::UnknownCores { reason } => write!(f, "no worker is pinned: {reason}"),
            Self::SharedCores { workers, cores } => {
                write!(f, "{workers} workers are pinned to {cores} cores, so some share one")
            }
        }
    }
}
