//! Progress bar on a terminal, for runs of more than a second.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use firstmatch_net::source;
use indicatif::{ProgressBar, ProgressStyle};

use crate::format::counted;

/// Time before the bar appears.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) struct Progress {
    source: source::Progress,
    start: Instant,
    on_terminal: bool,
    bar: Option<ProgressBar>,
}

impl Progress {
    pub(super) fn new(source: &source::Progress) -> Self {
        let on_terminal = io::stderr().is_terminal();
        Self { source: source.clone(), start: Instant::now(), on_terminal, bar: None }
    }

    /// Shows the number of packets; called after each stretch.
    pub(super) fn show(&mut self, packets: u64) {
        if !self.on_terminal || self.start.elapsed() < PATIENCE {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| match self.source.total() {
            Some(total) => ProgressBar::new(total).with_style(style("{wide_bar} {percent:>3} %  {msg}  {eta} left")),
            None => ProgressBar::new_spinner().with_style(style("{spinner} {msg}  {bytes}  {elapsed}")),
        });
        bar.set_position(self.source.read());
        bar.set_message(counted(packets, "packet"));
    }

    pub(super) fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    // A wrong template would be a fault of ours, and the default bar serves as well.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
