//! Network namespaces: each test runs again as a process of its own in a new one.

use std::env;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use firstmatch_live::Interface;
use firstmatch_live::packet::{Ring, RingConfig};
use firstmatch_testkit::skip;

/// Variable that the process in the namespace has.
const INSIDE: &str = "FIRSTMATCH_LIVE_INSIDE";

/// Runs `test` in a namespace with a veth pair va–vb that is up; `name` is the path of the test.
///
/// Where there are no namespaces, the test is skipped, or fails with `REQUIRE_LIVE=1`.
pub(crate) fn inside(name: &str, test: impl FnOnce()) {
    if env::var_os(INSIDE).is_some() {
        if let Err(reason) = set_up() {
            return skipped(name, &reason);
        }
        return test();
    }
    let flags = if is_root() { "-n" } else { "-Urn" };
    let can = Command::new("unshare").args([flags, "true"]).stdin(Stdio::null()).output();
    match can {
        Ok(output) if output.status.success() => {}
        Ok(output) => return skipped(name, String::from_utf8_lossy(&output.stderr).trim()),
        Err(error) => return skipped(name, &format!("unshare: {error}")),
    }
    let mut again = Command::new("unshare");
    again.arg(flags).arg(env::current_exe().unwrap()).args(["--exact", name, "--nocapture", "--test-threads", "1"]);
    let output = again.env(INSIDE, "1").stdin(Stdio::null()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // A wrong name would run no test.
    assert!(output.status.success() && out.contains("1 passed"), "{out}\n{err}");
    // The line of a test that was skipped.
    err.lines().filter(|line| line.contains("SKIP")).for_each(raw);
}

/// Skips a test, or fails it with `REQUIRE_LIVE=1`.
pub(crate) fn skipped(name: &str, reason: &str) {
    assert!(env::var_os("REQUIRE_LIVE").is_none_or(|value| value != "1"), "{name}: {reason}");
    skip(&format!("SKIP {name}: {reason}"));
}

/// Writes to standard error itself, because the harness holds back what tests print.
fn raw(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Makes the pair, and opens what the tests open.
fn set_up() -> Result<(), String> {
    Command::new("ethtool").arg("--version").output().map_err(|error| format!("ethtool: {error}"))?;
    ip(&["link", "set", "lo", "up"])?;
    ip(&["link", "add", "va", "type", "veth", "peer", "name", "vb"])?;
    for name in ["va", "vb"] {
        // No address, so that the host itself sends nothing.
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
        ip(&["link", "set", name, "up"])?;
    }
    let interface = Interface::of_name("vb").map_err(|error| error.to_string())?;
    Ring::open(&interface, &RingConfig::default()).map(drop).map_err(|error| error.to_string())
}

/// Runs `ip`; the result is what it complains of.
pub(crate) fn ip(line: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(line).output().map_err(|error| format!("ip: {error}"))?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()) }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|about| about.uid() == 0)
}

/// Whether the process is root outside of user namespaces, too.
pub(crate) fn is_root_everywhere() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    is_root() && map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// Folder of one test, removed at its end.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let folder = env::temp_dir().join(format!("firstmatch-live-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    /// Writes a file in one step, as editors do, and returns its path.
    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let (path, new) = (self.0.join(name), self.0.join(format!("{name}.new")));
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, &path).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
