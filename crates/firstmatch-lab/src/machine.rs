//! Description of the machine, the code and the date, for the head of a record.

use std::fs;
use std::process::Command;

/// Machine, commit and date of a run.
pub(crate) struct Machine {
    /// Processor, such as `AMD EPYC (family 25, model 17)`.
    ///
    /// Family and model are included, because virtual machines hide the name of the processor.
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    /// Commit of the working folder, with a `+` if code is changed.
    pub(crate) commit: String,
    /// Date in UTC, such as `2026-11-21`.
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
        let cpu = match (of("cpu family"), of("model")) {
            (Some(family), Some(number)) => format!("{model} (family {family}, model {number})"),
            _ => model,
        };
        let commit = match git(&["rev-parse", "--short", "HEAD"]) {
            Some(commit) => {
                let changed = git(&["diff", "--name-only", "--no-relative", "HEAD"]);
                let code = changed.is_none_or(|changed| changed.lines().any(is_code));
                format!("{commit}{}", if code { "+" } else { "" })
            }
            None => "unknown".to_owned(),
        };
        let now = jiff::Timestamp::now().to_string();
        let date = now.split('T').next().unwrap_or_default().to_owned();
        Self { cpu, cores: std::thread::available_parallelism().map_or(1, Into::into), commit, date }
    }

    /// Returns the processor as the name of a folder.
    pub(crate) fn folder(&self) -> String {
        let words = self.cpu.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        words.collect::<Vec<_>>().join("-").to_lowercase()
    }
}

/// Returns whether figures may depend on a file: all but records and documents count.
fn is_code(path: &str) -> bool {
    let record = path.starts_with("benchmarks/record/") || path.ends_with("/record.csv");
    !(record || path.starts_with("docs/") || path.ends_with(".md"))
}

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_and_documents_are_no_code() {
        for path in
            ["benchmarks/record/some-cpu/2026-11-23-x.csv", "papers/storm/record.csv", "README.md", "docs/a.svg"]
        {
            assert!(!is_code(path), "{path}");
        }
        for path in
            ["crates/firstmatch-core/src/lib.rs", "Cargo.lock", "benchmarks/definitions/x.toml", "examples/edge.rules"]
        {
            assert!(is_code(path), "{path}");
        }
    }

    #[test]
    fn a_folder_tells_models_apart() {
        let machine = |cpu: &str| Machine { cpu: cpu.to_owned(), cores: 2, commit: String::new(), date: String::new() };
        assert_eq!(machine("AMD EPYC (family 25, model 17)").folder(), "amd-epyc-family-25-model-17");
        assert_ne!(
            machine("AMD EPYC (family 25, model 1)").folder(),
            machine("AMD EPYC (family 25, model 17)").folder()
        );
        let here = Machine::here();
        if fs::read_to_string("/proc/cpuinfo").is_ok_and(|info| info.contains("model\t")) {
            assert!(here.cpu.contains("model "), "{}", here.cpu);
        }
    }
}
