//! Rates of the last minutes, one point a second.

use std::collections::VecDeque;
use std::time::{Instant, SystemTime};

use firstmatch::Verdict;

use super::text::unix;
use crate::Counts;

/// Maximum number of points.
const POINTS: usize = 300;

/// Packets a second between two calls of [`History::add`].
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub(super) struct Point {
    /// Seconds since 1970.
    pub(super) time: f64,
    /// Packets with another verdict than `deny`.
    pub(super) passed: f64,
    pub(super) denied: f64,
    /// Frames that found a ring or a queue full.
    pub(super) lost: f64,
}

/// Points of the last 300 seconds, the oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    points: VecDeque<Point>,
    /// Time and sums of the last call: passed, denied, lost.
    last: Option<(Instant, [u64; 3])>,
}

impl History {
    pub(super) fn add(&mut self, at: Instant, time: SystemTime, counts: &Counts, lost: u64) {
        let denied = counts.of(Verdict::Deny).packets;
        let now = [counts.all().packets - denied, denied, lost];
        let Some((before, last)) = self.last.replace((at, now)) else { return };
        let seconds = at.duration_since(before).as_secs_f64();
        if seconds == 0.0 {
            return;
        }
        // One digit behind the point is all that is shown.
        let rate = |of: usize| (now[of].saturating_sub(last[of]) as f64 / seconds * 10.0).round() / 10.0;
        let [passed, denied, lost] = [0, 1, 2].map(rate);
        if self.points.len() == POINTS {
            self.points.pop_front();
        }
        self.points.push_back(Point { time: (unix(time) * 1e3).round() / 1e3, passed, denied, lost });
    }

    pub(super) fn points(&self) -> &VecDeque<Point> {
        &self.points
    }
}
