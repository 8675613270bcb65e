//! Facts that the page, the JSON interface and the metrics show.
//!
//! The thread of control writes them; the web thread reads them, and counts that lanes have published.

use std::fmt;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use firstmatch::Firewall;
use firstmatch::core::live::Count;
use tokio::sync::oneshot;

use super::history::History;
use super::rules::{Rates, RuleList};
use crate::path::Statistics;
use crate::samples::Denied;
use crate::{Counts, LaneState};

/// Names and settings of the program, which stay.
#[derive(Clone, Debug)]
pub struct About {
    /// Name of the command: `watch` or `bridge`.
    pub command: &'static str,
    /// Name of the rule file, as it was given.
    pub rules_file: String,
    /// Name of the engine.
    pub engine: String,
    /// Name of the arrangement of threads.
    pub system: String,
    /// Version of the program.
    pub version: &'static str,
    /// Number of rules with metrics of their own.
    pub metric_rules: usize,
    /// Whether the page may have the rules read anew.
    pub allow_reload: bool,
}

/// Interface, and whether frames can come from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// It is up.
    Up,
    /// It is down, and may come up again.
    Down,
    /// It was deleted.
    Gone,
}

/// Result of reading the rules anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reload {
    /// They are in service.
    Done {
        /// Number of rules that are as they were.
        kept: usize,
        /// Number of new rules.
        inserted: usize,
        /// Number of rules that are gone.
        removed: usize,
    },
    /// They have a fault, and the old ones stay.
    Refused {
        /// The first fault.
        text: String,
        /// Line and column of the fault in the rule file, if it has a place there, from 1.
        place: Option<(u32, u32)>,
    },
}

/// Function that explains a packet described by a text, or says what is wrong with the text.
pub type Explain = Box<dyn Fn(&str) -> Result<String, String> + Send + Sync>;

/// Facts of one command, shared by the thread of control and the web thread.
pub struct State {
    pub(super) about: About,
    pub(super) firewall: Firewall,
    pub(super) explain: Explain,
    pub(super) begin: Instant,
    lanes: Vec<LaneState>,
    control: Mutex<Control>,
    rates: Mutex<Rates>,
    /// Number of reloads that have begun, plus the number of those that have ended: odd during one.
    reloads: AtomicU64,
    /// Packets and bytes of removed rules, which never fall.
    removed: [AtomicU64; 2],
    requests: Mutex<Requests>,
    wake: (PipeReader, PipeWriter),
}

/// Requests for a reload, each as the place where its result goes.
#[derive(Debug, Default)]
struct Requests {
    waiting: Vec<oneshot::Sender<Reload>>,
    /// Requests that were there when the reload in progress began.
    taken: Vec<oneshot::Sender<Reload>>,
}

/// Facts that the thread of control writes.
#[derive(Clone, Debug)]
pub(super) struct Control {
    pub(super) rules: Arc<RuleList>,
    pub(super) links: Vec<(String, Link)>,
    pub(super) history: History,
    /// Number of reloads that were done, and that were refused.
    pub(super) reloads: [u64; 2],
    /// The last reload, and its time.
    pub(super) last: Option<(Reload, SystemTime)>,
    /// Time at which rules were last put in service.
    pub(super) success: SystemTime,
    /// Bytes of the engines.
    pub(super) memory: usize,
}

/// Counts of one lane at some time.
#[derive(Clone, Debug)]
pub(super) struct LaneReading {
    pub(super) interface: String,
    pub(super) worker: usize,
    pub(super) counts: Counts,
    pub(super) statistics: Statistics,
}

/// Counts of all lanes and rules at about the same time.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub(super) lanes: Vec<LaneReading>,
    pub(super) rules: Arc<RuleList>,
    /// By rule, in the order of `rules`.
    pub(super) by_rule: Vec<Count>,
    /// Of rules that are gone.
    pub(super) removed: Count,
}

impl State {
    /// Returns the state of a command whose lanes have started; `interfaces` are up.
    ///
    /// # Errors
    /// If there is no pipe left.
    pub fn new(
        about: About,
        firewall: Firewall,
        lanes: &[LaneState],
        interfaces: &[&str],
        explain: Explain,
    ) -> io::Result<Self> {
        let rules = Arc::new(RuleList::new(firewall.rules(), None, about.metric_rules));
        let links = interfaces.iter().map(|name| ((*name).to_owned(), Link::Up)).collect();
        let control = Control {
            rules: Arc::clone(&rules),
            links,
            history: History::default(),
            reloads: [0; 2],
            last: None,
            success: SystemTime::now(),
            memory: 0,
        };
        Ok(Self {
            about,
            firewall,
            explain,
            begin: Instant::now(),
            lanes: lanes.to_vec(),
            control: Mutex::new(control),
            rates: Mutex::new(Rates::new(rules)),
            reloads: AtomicU64::new(0),
            removed: Default::default(),
            requests: Mutex::default(),
            wake: io::pipe()?,
        })
    }

    /// Sets whether an interface is up.
    pub fn set_link(&self, interface: &str, link: Link) {
        let mut control = lock(&self.control);
        control.links.iter_mut().filter(|(name, _)| name == interface).for_each(|(_, of)| *of = link);
    }

    /// Sets the size of the engines in bytes.
    pub fn set_memory(&self, bytes: usize) {
        lock(&self.control).memory = bytes;
    }

    /// Adds a point to the history: the counts since the last call, about a second ago.
    pub fn record(&self) {
        let mut counts = Counts::default();
        let mut lost = 0;
        for lane in self.lanes() {
            counts.add_all(&lane.counts);
            lost += lane.statistics.lost + lane.counts.unsent;
        }
        lock(&self.control).history.add(Instant::now(), SystemTime::now(), &counts, lost);
    }

    /// Says that the rules are about to be read anew, before anything has changed.
    pub fn begin_reload(&self) {
        self.reloads.fetch_or(1, Ordering::SeqCst);
        let mut requests = lock(&self.requests);
        let Requests { waiting, taken } = &mut *requests;
        taken.append(waiting);
    }

    /// Stores the result of the reload that has begun, and answers the requests that were there before.
    pub fn end_reload(&self, result: &Reload) {
        let before = Arc::clone(&lock(&self.control).rules);
        let is_done = matches!(result, Reload::Done { .. });
        let rules =
            is_done.then(|| Arc::new(RuleList::new(self.firewall.rules(), Some(&before), self.about.metric_rules)));
        let mut control = lock(&self.control);
        let now = SystemTime::now();
        control.reloads[usize::from(!is_done)] += 1;
        control.last = Some((result.clone(), now));
        if let Some(rules) = rules {
            (control.rules, control.success) = (rules, now);
        }
        drop(control);
        self.reloads.fetch_add(1, Ordering::SeqCst);
        for request in lock(&self.requests).taken.drain(..) {
            // The request may have been given up.
            let _ignored = request.send(result.clone());
        }
    }

    /// Returns a file that is readable once somebody has asked for a reload.
    pub fn wake(&self) -> BorrowedFd<'_> {
        self.wake.0.as_fd()
    }

    /// Empties that file, before the reload that answers all who have asked.
    ///
    /// # Errors
    /// If the pipe cannot be read.
    pub fn clear_wake(&self) -> io::Result<()> {
        (&self.wake.0).read(&mut [0; 64]).map(drop)
    }

    /// Asks the thread of control for a reload.
    pub(super) fn request_reload(&self) -> io::Result<oneshot::Receiver<Reload>> {
        let (sender, receiver) = oneshot::channel();
        let mut requests = lock(&self.requests);
        requests.waiting.push(sender);
        // One byte for all that wait, so that the pipe is never full.
        if requests.waiting.len() == 1 {
            (&self.wake.1).write_all(&[0])?;
        }
        Ok(receiver)
    }

    /// Returns what the thread of control has written.
    pub(super) fn control(&self) -> Control {
        lock(&self.control).clone()
    }

    /// Returns the counts of each lane.
    pub(super) fn lanes(&self) -> Vec<LaneReading> {
        let read = |lane: &LaneState| LaneReading {
            interface: lane.interface.clone(),
            worker: lane.worker,
            counts: lane.counts(),
            // The socket cannot fail here, and old figures are better than no page.
            statistics: lane.statistics().unwrap_or_default(),
        };
        self.lanes.iter().map(read).collect()
    }

    /// Returns the counts of all lanes and rules.
    ///
    /// Lanes are read first. So rules may be ahead of them by the packets decided meanwhile, and never behind.
    pub(super) fn read(&self) -> Reading {
        let before = self.reloads.load(Ordering::SeqCst);
        let lanes = self.lanes();
        let rules = Arc::clone(&lock(&self.control).rules);
        let by_rule = rules.counts(&self.firewall);
        let is_settled = before.is_multiple_of(2) && self.reloads.load(Ordering::SeqCst) == before;
        let matched = sum(lanes.iter().map(|lane| lane.counts.matched));
        let live = sum(by_rule.iter().copied());
        // The rest is of removed rules, or less than theirs where rules are ahead.
        let rest = |matched: u64, live: u64| if is_settled { matched.saturating_sub(live) } else { 0 };
        let most = |at: usize, rest: u64| self.removed[at].fetch_max(rest, Ordering::Relaxed).max(rest);
        let packets = most(0, rest(matched.packets, live.packets));
        let removed = Count { packets, bytes: most(1, rest(matched.bytes, live.bytes)) };
        Reading { lanes, rules, by_rule, removed }
    }

    /// Returns the rates of rules over about the last second, and the counts of `reading` or, without it, of now.
    pub(super) fn rates(&self, reading: Option<&Reading>) -> MutexGuard<'_, Rates> {
        // Each count that a lane is changing costs a cache miss, so counts are read once per request.
        let (rules, counts) = match reading {
            Some(reading) => (Arc::clone(&reading.rules), reading.by_rule.clone()),
            None => {
                let rules = Arc::clone(&lock(&self.control).rules);
                let counts = rules.counts(&self.firewall);
                (rules, counts)
            }
        };
        let mut rates = lock(&self.rates);
        rates.refresh(&rules, counts);
        rates
    }

    /// Returns the last denied packets of all lanes, each with its interface, the newest first.
    pub(super) fn denied(&self) -> Vec<(&str, Denied)> {
        let of_lane = |lane: &'_ LaneState| lane.denied();
        let mut all: Vec<(&str, Denied)> = Vec::new();
        for lane in &self.lanes {
            all.extend(of_lane(lane).into_iter().map(|denied| (&*lane.interface, denied)));
        }
        all.sort_by_key(|(_, denied)| std::cmp::Reverse(denied.sample.time()));
        all
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("about", &self.about).field("lanes", &self.lanes).finish_non_exhaustive()
    }
}

/// Locks facts, even after a panic of a thread that had them locked: they are shown, and decide nothing.
fn lock<T>(facts: &Mutex<T>) -> MutexGuard<'_, T> {
    facts.lock().unwrap_or_else(PoisonError::into_inner)
}

fn sum(counts: impl Iterator<Item = Count>) -> Count {
    counts.fold(Count::default(), |all, more| Count {
        packets: all.packets + more.packets,
        bytes: all.bytes + more.bytes,
    })
}
