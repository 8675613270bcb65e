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
    // A wrong template would be our own fault, and the default bar serves as well.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use firstmatch_net::source::Input;

    use super::*;

    /// The bar has the size of the file and the bytes read so far, and appears on a terminal after a second.
    #[test]
    fn the_bar_follows_the_bytes_of_the_file() {
        let path = std::env::temp_dir().join(format!("firstmatch-progress-{}", std::process::id()));
        std::fs::write(&path, "1 2 3 4 5 6\n".repeat(50_000)).expect("a file of 600,000 bytes");
        let mut trace = source::open(&path).and_then(Input::into_trace).expect("a trace");
        std::fs::remove_file(&path).expect("it is there");
        let progress = trace.progress();
        let shown = |on_terminal, waited: Duration| {
            let start = Instant::now().checked_sub(waited).expect("the clock runs for longer");
            let mut shown = Progress { source: progress.clone(), start, on_terminal, bar: None };
            shown.show(7);
            shown.bar.map(|bar| (bar.position(), bar.length(), bar.message()))
        };
        for _ in 0..20_000 {
            assert!(trace.next().expect("good").is_some());
        }
        let read = progress.read();
        assert!((240_000..600_000).contains(&read), "{read} bytes");
        assert_eq!(shown(true, 2 * PATIENCE), Some((read, Some(600_000), "7 packets".to_owned())));
        assert_eq!((shown(false, 2 * PATIENCE), shown(true, Duration::ZERO)), (None, None));
    }
}
