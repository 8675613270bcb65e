//! The program while it watches: its lines on standard error, and its answer.

use std::env;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use serde_json::Value;

/// Starts a command on live traffic.
pub(crate) fn run(mut command: Command) -> Watch {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap());
    Watch { child, lines }
}

/// Program on live traffic. It is killed at the end of a test that failed.
pub(crate) struct Watch {
    child: Child,
    lines: BufReader<ChildStderr>,
}

/// Answer of the program.
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) json: Value,
    /// Lines on standard error that were not read before.
    pub(crate) rest: String,
}

/// Returns the path of the program; another one where the checkout cannot be entered.
pub(crate) fn program() -> OsString {
    env::var_os("FIRSTMATCH_PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_firstmatch").into())
}

pub(crate) fn command(line: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(line).stdin(Stdio::null()).env("NO_COLOR", "1");
    command
}

impl Watch {
    /// Starts the program, and waits until frames are counted.
    pub(crate) fn start(rules: &Path, interface: &str, options: &[&str]) -> Self {
        let mut watch = Self::start_early(rules, interface, options);
        watch.wait_for("ready: ");
        watch
    }

    /// Starts the program with a page on a free port of the loopback; returns the address, too.
    pub(crate) fn listen(rules: &Path, interface: &str, options: &[&str]) -> (Self, SocketAddr) {
        Self::listen_at("127.0.0.1:0", rules, interface, options)
    }

    pub(crate) fn listen_at(at: &str, rules: &Path, interface: &str, options: &[&str]) -> (Self, SocketAddr) {
        let mut watch = Self::start_early(rules, interface, &[&["--listen", at], options].concat());
        let address = watch.wait_for_address();
        (watch, address)
    }

    /// Waits until frames are counted; returns the address of the page.
    pub(crate) fn wait_for_address(&mut self) -> SocketAddr {
        let lines = self.wait_for("ready: ");
        let (_, address) = lines.rsplit_once("http://").unwrap();
        address.trim_end().trim_end_matches('/').parse().unwrap()
    }

    pub(crate) fn start_early(rules: &Path, interface: &str, options: &[&str]) -> Self {
        run(command(&[&["watch", rules.to_str().unwrap(), interface, "--json"], options].concat()))
    }

    /// Reads lines until one has this text; returns all of them.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        let mut all = String::new();
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "the program has ended before `{text}`: {all}");
            all.push_str(&line);
            if line.contains(text) {
                return all;
            }
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn send(&self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    /// Ends the program by SIGTERM, and returns its answer.
    pub(crate) fn finish(self) -> Answer {
        self.send("-TERM");
        self.answer()
    }

    /// Waits for the end of the program.
    pub(crate) fn answer(mut self) -> Answer {
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.lines, &mut rest).unwrap();
        let mut out = String::new();
        std::io::Read::read_to_string(self.child.stdout.as_mut().unwrap(), &mut out).unwrap();
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        let json = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}\n{rest}"));
        Answer { code, json, rest }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Answer {
    pub(crate) fn count(&self, name: &str) -> u64 {
        self.json[name].as_u64().unwrap_or_else(|| panic!("{name}: {}", self.json))
    }

    pub(crate) fn loss(&self, name: &str) -> u64 {
        self.json["losses"][name].as_u64().unwrap_or_else(|| panic!("{name}: {}", self.json))
    }

    /// Returns the counts of the frames that came from an interface.
    pub(crate) fn interface(&self, name: &str) -> &Value {
        let all = self.json["interfaces"].as_array().unwrap();
        all.iter().find(|of| of["name"] == name).unwrap_or_else(|| panic!("{name}: {}", self.json))
    }

    /// Returns the packets of each rule by its line.
    pub(crate) fn by_line(&self) -> Vec<(u64, u64)> {
        let hits = self.json["rule_hits"].as_array().unwrap();
        hits.iter().map(|hits| (hits["line"].as_u64().unwrap(), hits["packets"].as_u64().unwrap())).collect()
    }

    /// Asserts that each frame was decided or counted as lost.
    pub(crate) fn assert_exact(&self) {
        assert_eq!(self.loss("received"), self.loss("decided") + self.loss("lost"), "{}", self.json);
        assert_eq!(self.count("packets"), self.loss("decided"));
        let sum = |of: &Value| of.as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum::<u64>();
        assert_eq!([sum(&self.json["verdicts"]), sum(&self.json["outcomes"])], [self.count("packets"); 2]);
        let of_rules: u64 = self.by_line().iter().map(|(_, packets)| packets).sum();
        assert_eq!(of_rules + self.count("removed_rules_packets"), self.count("matched"), "{}", self.json);
    }
}
