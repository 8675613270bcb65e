//! Where and when: for the head of a record.

use std::fs;
use std::process::Command;

/// This machine, this moment, this code.
pub(crate) struct Machine {
    /// As `AMD EPYC (family 26)`.
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    /// The commit of the working folder, with a `+` where files are changed.
    pub(crate) commit: String,
    /// As `2026-11-21`, in UTC.
    pub(crate) date: String,
}

impl Machine {
    pub(crate) fn here() -> Self {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let of = |name: &str| {
            let line = info.lines().find(|line| line.split(':').next().map(str::trim) == Some(name));
            line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
        };
        let model = of("model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
        let cpu = of("cpu family").map_or(model.clone(), |family| format!("{model} (family {family})"));
        let commit = match git(&["rev-parse", "--short", "HEAD"]) {
            Some(commit) if git(&["status", "--porcelain", "-uno"]).is_some_and(|changed| changed.is_empty()) => commit,
            Some(commit) => format!("{commit}+"),
            None => "unknown".to_owned(),
        };
        let now = jiff::Timestamp::now().to_string();
        let date = now.split('T').next().unwrap_or_default().to_owned();
        Self { cpu, cores: std::thread::available_parallelism().map_or(1, Into::into), commit, date }
    }

    /// The processor as the name of a folder.
    pub(crate) fn folder(&self) -> String {
        let words = self.cpu.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        words.collect::<Vec<_>>().join("-").to_lowercase()
    }
}

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
