//! Comparison with etherparse, packet by packet, on real captures.
//!
//! They come with pcap-parser's source, and from `tests/captures.sh`, which fetches others.

use std::io::Write;
use std::path::{Path, PathBuf};

use firstmatch_net::source::{self, Capture, Input};
use firstmatch_net::wire::{LinkType, Outcome};
use firstmatch_testkit::frames::Frame;
use firstmatch_testkit::reference::{Notes, compare};
use firstmatch_testkit::skip;

#[derive(Debug, Default)]
struct Tally {
    files: usize,
    packets: usize,
    /// Packets of a link type that is read.
    read: usize,
    /// Packets whose fields are all known.
    complete: usize,
    /// Files that end early or contradict themselves; the packets before are compared.
    cut: usize,
    contradictory: usize,
    notes: Notes,
}

impl Tally {
    fn capture(&mut self, path: &Path, mut capture: Capture) {
        self.files += 1;
        let before = self.packets;
        loop {
            let packet = match capture.next() {
                Ok(Some(packet)) => packet,
                Ok(None) => break,
                Err(error) => {
                    say(&error.to_string());
                    self.contradictory += 1;
                    break;
                }
            };
            self.packets += 1;
            self.read += usize::from(!matches!(packet.link, LinkType::Other(_)));
            let (frame, number) = (Frame { link: packet.link, bytes: packet.data.to_vec() }, self.packets - before);
            let _here = Here(path, number);
            let headers = compare(&frame, &mut self.notes);
            self.complete += usize::from(headers.reason() == Outcome::Complete);
        }
        self.cut += usize::from(capture.cut().is_some());
    }
}

/// Guard that says which packet it was when a comparison fails.
struct Here<'a>(&'a Path, usize);

impl Drop for Here<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            say(&format!("packet {} of {}", self.1, self.0.display()));
        }
    }
}

/// Prints past the test runner's capturing, so that everyone who runs the tests sees it.
fn say(what: &str) {
    let _ignored = writeln!(std::io::stderr(), "{what}");
}

/// These captures come with a dependency, so that continuous integration always has them.
#[test]
fn captures_beside_pcap_parser_agree() {
    let captures = firstmatch_testkit::frames::captures();
    if captures.is_empty() {
        let is_ci = std::env::var_os("CI").is_some_and(|ci| !ci.is_empty());
        assert!(!is_ci, "pcap-parser's captures are not in cargo's registry folder");
        return skip("pcap-parser's captures are not in cargo's registry folder");
    }
    let mut tally = Tally::default();
    for path in captures {
        tally.capture(&path, source::open(&path).and_then(Input::into_capture).expect("a capture"));
    }
    println!("{tally:?}");
    assert!(tally.read > 1000 && tally.complete > 1000, "{tally:?}");
}

/// A folder for each source has captures at any depth.
///
/// Even continuous integration may skip them, because they are data of others that the repository does not have.
#[test]
fn fetched_captures_agree() {
    let folder = std::env::var_os("FIRSTMATCH_CAPTURES").map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/captures"));
    let sources = entries(&folder);
    if sources.is_empty() {
        return skip("no captures in target/captures; ./ci.sh captures fetches them");
    }
    let mut seen = 0;
    for of in sources {
        let (mut tally, mut files) = (Tally::default(), Vec::new());
        walk(&of, &mut files);
        for path in files {
            match source::open(&path).and_then(Input::into_capture) {
                Ok(capture) => tally.capture(&path, capture),
                // The file is no capture, and the error says so.
                Err(error) => say(&error.to_string()),
            }
        }
        say(&format!("{}: {tally:?}", of.file_name().unwrap_or_default().display()));
        assert!(tally.files > 0, "no captures in {}", of.display());
        seen += tally.read;
    }
    assert!(seen > 1000, "{seen} packets");
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn walk(path: &Path, files: &mut Vec<PathBuf>) {
    if path.is_dir() {
        entries(path).iter().for_each(|inner| walk(inner, files));
    } else {
        files.push(path.to_owned());
    }
}
