//! Transactions.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use firstmatch::{Member, RuleId};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error::{RuleError, guarded, refused};
use crate::firewall::Firewall;

/// Number of changes after which the engine is built anew, beside a share of the rules.
const REBUILD: usize = 128;

/// Changes of rules that are made together, or not at all: at the end of a `with` block, or by `commit()`.
///
/// A rule that has a fault raises `RuleError` where it is given; an exception in the block leaves the rules as they were.
#[pyclass(frozen, module = "firstmatch")]
pub(crate) struct Update {
    firewall: Py<Firewall>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    changes: Vec<Change>,
    inserted: Vec<u64>,
    is_over: bool,
}

#[derive(Clone)]
enum Change {
    Append(String),
    Prepend(String),
    InsertBefore(RuleId, String),
    InsertAfter(RuleId, String),
    Replace(RuleId, String),
    Remove(RuleId),
    Members { set: String, how: How, members: Vec<Member> },
}

/// Ways to change the members of a live set.
#[derive(Clone, Copy)]
enum How {
    Insert,
    Remove,
    Replace,
}

impl Change {
    /// Makes the change in a transaction, and returns the id of a new rule.
    fn apply(&self, update: &mut firstmatch::Update<'_>) -> Result<Option<RuleId>, firstmatch::Error> {
        match self {
            Self::Append(rule) => update.append(rule).map(Some),
            Self::Prepend(rule) => update.prepend(rule).map(Some),
            Self::InsertBefore(next, rule) => update.insert_before(*next, rule).map(Some),
            Self::InsertAfter(previous, rule) => update.insert_after(*previous, rule).map(Some),
            Self::Replace(old, rule) => update.replace(*old, rule).map(Some),
            Self::Remove(rule) => update.remove(*rule).map(|()| None),
            Self::Members { set, how, members } => {
                let set = update.set(set)?;
                let mut members = members.iter().copied();
                match how {
                    How::Insert => members.try_for_each(|member| update.insert_member(set, member).map(|_| ()))?,
                    How::Remove => members.try_for_each(|member| update.remove_member(set, member).map(|_| ()))?,
                    How::Replace => _ = update.replace_members(set, members)?,
                }
                Ok(None)
            }
        }
    }

    /// Whether the rules change, and not the members of a set alone.
    fn is_of_rules(&self) -> bool {
        !matches!(self, Self::Members { .. })
    }
}

fn id(number: u64) -> PyResult<RuleId> {
    RuleId::from_u64(number).ok_or_else(|| PyValueError::new_err(format!("{number} is the number of no rule")))
}

impl Update {
    pub(crate) fn new(firewall: Py<Firewall>) -> Self {
        Self { firewall, state: Mutex::default() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a change that can be made to the rules as they are.
    fn add(&self, py: Python<'_>, change: Change) -> PyResult<()> {
        let firewall = &self.firewall.get().inner;
        py.detach(|| change.apply(&mut firewall.update()).map(|_| ())).map_err(|error| refused(&error))?;
        let mut state = self.lock();
        if state.is_over {
            return Err(RuleError::new_err("this update is over; begin another one: firewall.update()"));
        }
        state.changes.push(change);
        Ok(())
    }

    /// Adds a change of the members of a live set.
    fn add_members(&self, py: Python<'_>, set: String, how: How, members: Vec<String>) -> PyResult<()> {
        let parse =
            || members.iter().map(|member| member.parse()).collect::<Result<_, _>>().map_err(firstmatch::Error::from);
        let members = py.detach(parse).map_err(|error| refused(&error))?;
        self.add(py, Change::Members { set, how, members })
    }

    /// Makes all changes in one transaction.
    fn make(&self) -> PyResult<u64> {
        let firewall = self.firewall.get();
        let mut state = self.lock();
        if std::mem::replace(&mut state.is_over, true) {
            return Err(RuleError::new_err("this update is over; begin another one: firewall.update()"));
        }
        let attempt = || {
            let mut update = firewall.inner.update();
            let made: Result<Vec<_>, _> = state.changes.iter().map(|change| change.apply(&mut update)).collect();
            Ok((made?, update.commit()?))
        };
        let made = match attempt() {
            Err::<_, firstmatch::Error>(error) if error.needs_rebuild() => {
                firewall.inner.rebuild().and_then(|_| attempt())
            }
            made => made,
        };
        let (ids, generation) = made.map_err(|error| refused(&error))?;
        let of_rules = state.changes.iter().filter(|change| change.is_of_rules()).count();
        let changes = firewall.changes.fetch_add(of_rules, Ordering::Relaxed) + of_rules;
        if changes > REBUILD + firewall.inner.len() / 8 {
            // If no engine keeps the limits any more, the old one stays in service.
            let _: Result<u64, firstmatch::Error> = firewall.inner.rebuild();
            firewall.changes.fetch_sub(changes, Ordering::Relaxed);
        }
        state.inserted = ids.into_iter().flatten().map(RuleId::get).collect();
        Ok(generation)
    }
}

#[pymethods]
impl Update {
    /// Puts a rule behind all others.
    fn append(&self, py: Python<'_>, rule: String) -> PyResult<()> {
        self.add(py, Change::Append(rule))
    }

    /// Puts a rule before all others.
    fn prepend(&self, py: Python<'_>, rule: String) -> PyResult<()> {
        self.add(py, Change::Prepend(rule))
    }

    /// Puts a rule directly before the rule of a number.
    fn insert_before(&self, py: Python<'_>, next: u64, rule: String) -> PyResult<()> {
        self.add(py, Change::InsertBefore(id(next)?, rule))
    }

    /// Puts a rule directly behind the rule of a number.
    fn insert_after(&self, py: Python<'_>, previous: u64, rule: String) -> PyResult<()> {
        self.add(py, Change::InsertAfter(id(previous)?, rule))
    }

    /// Puts a rule in the place of the rule of a number.
    fn replace(&self, py: Python<'_>, old: u64, rule: String) -> PyResult<()> {
        self.add(py, Change::Replace(id(old)?, rule))
    }

    /// Removes the rule of a number.
    fn remove(&self, py: Python<'_>, rule: u64) -> PyResult<()> {
        self.add(py, Change::Remove(id(rule)?))
    }

    /// Adds members to a live set: addresses, prefixes and ranges, as text. A member that is there already stays.
    ///
    /// >>> import firstmatch
    /// >>> firewall = firstmatch.Firewall.from_text("live set bad = { 192.0.2.7 }\ndeny src $bad\npermit\n")
    /// >>> with firewall.update() as update:
    /// ...     update.insert_members("bad", ["198.51.100.0/24", "2001:db8::/32"])
    /// >>> firewall.members("bad")
    /// ['192.0.2.7', '198.51.100.0/24', '2001:db8::/32']
    fn insert_members(&self, py: Python<'_>, set: String, members: Vec<String>) -> PyResult<()> {
        self.add_members(py, set, How::Insert, members)
    }

    /// Removes members of a live set, each as it was added. What is no member is passed over.
    fn remove_members(&self, py: Python<'_>, set: String, members: Vec<String>) -> PyResult<()> {
        self.add_members(py, set, How::Remove, members)
    }

    /// Gives a live set these members and no others; only what differs changes.
    fn replace_members(&self, py: Python<'_>, set: String, members: Vec<String>) -> PyResult<()> {
        self.add_members(py, set, How::Replace, members)
    }

    /// Makes all changes at once, and returns how many times rules have changed.
    fn commit(&self, py: Python<'_>) -> PyResult<u64> {
        py.detach(|| guarded(|| self.make()))
    }

    /// Numbers of the inserted rules, in the order of the calls, once they are in force.
    #[getter]
    fn inserted(&self) -> Vec<u64> {
        self.lock().inserted.clone()
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (kind=None, error=None, traceback=None))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: Option<Bound<'_, PyAny>>,
        error: Option<Bound<'_, PyAny>>,
        traceback: Option<Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let _ = (error, traceback);
        if kind.is_some() {
            self.lock().is_over = true;
        } else if !self.lock().is_over {
            self.commit(py)?;
        }
        Ok(false)
    }
}
