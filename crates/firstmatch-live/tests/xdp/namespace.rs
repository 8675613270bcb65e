//! Network namespaces: each test runs again as a process of its own in a new one.

use std::env;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};

use firstmatch_live::Interface;
use firstmatch_live::xdp::{Forwarder, XdpConfig};
use firstmatch_testkit::skip;

/// Variable of the process in the namespace: the part of the test that it runs.
const PART: &str = "FIRSTMATCH_XDP_PART";
/// Part that is the test itself.
const WHOLE: &str = "whole";
/// Beginning of the line that says why AF_XDP cannot be opened.
const CANNOT: &str = "cannot open AF_XDP: ";

/// Makes the veth pairs, without addresses, so that the host itself sends nothing; then runs what follows.
const SET_UP: &str = "ip link set lo up
    ip link add va type veth peer name vb
    ip link add vc type veth peer name vd
    for name in va vb vc vd; do
        echo 1 > /proc/sys/net/ipv6/conf/$name/disable_ipv6 || true
        ip link set $name up
    done
    exec \"$@\"";

/// Runs `test` in a namespace with the veth pairs va–vb and vc–vd, which are up; `name` is the test's.
///
/// Where AF_XDP cannot be opened, the test is skipped, or fails with `REQUIRE_LIVE=1`. As a user it never can be, so the
/// test is skipped there. The processes that the test starts by [`part`] run `other` with the name of the part.
pub(crate) fn inside(name: &str, test: impl FnOnce(), other: impl FnOnce(&str)) {
    match env::var(PART) {
        Ok(part) if part != WHOLE => return other(&part),
        Ok(_) => return open(1).map(drop).map_or_else(|error| say(&format!("{CANNOT}{error}")), |()| test()),
        Err(_) => {}
    }
    let flags = if is_root() { "-n" } else { "-Urn" };
    let mut command = Command::new("unshare");
    let output = part(command.args([flags, "sh", "-ec", SET_UP, "sh"]), name, WHOLE).output();
    let cannot = match &output {
        Ok(output) => {
            let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            let reason = out.lines().find_map(|line| line.split_once(CANNOT)).map(|(_, reason)| reason.to_owned());
            // A wrong name would run no test, and without namespaces none runs, either.
            let has_run = output.status.success() && out.contains("1 passed");
            let is_unable = !out.contains("running 1 test");
            assert!(has_run || is_unable, "{out}\n{err}");
            reason.or_else(|| is_unable.then(|| err.trim().to_owned()))
        }
        Err(error) => Some(format!("unshare: {error}")),
    };
    if let Some(reason) = cannot {
        let must = is_root_everywhere() && env::var_os("REQUIRE_LIVE").is_some_and(|value| value == "1");
        assert!(!must, "{name}: {reason}");
        skip(&format!("{name}: {reason}"));
    }
}

/// Adds the arguments that run a part of a test in a process of its own.
pub(crate) fn part<'c>(command: &'c mut Command, name: &str, part: &str) -> &'c mut Command {
    command.arg(env::current_exe().unwrap()).args(["--exact", name, "--nocapture", "--test-threads", "1"]);
    command.env(PART, part).stdin(Stdio::null())
}

/// Writes a line for the process outside.
pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "{line}").unwrap();
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|about| about.uid() == 0)
}

/// Whether the process is root outside of namespaces of users, too.
fn is_root_everywhere() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    is_root() && map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// Runs `ip`, and returns what it prints.
pub(crate) fn ip(line: &str) -> String {
    let output = Command::new("ip").args(line.split(' ')).output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the interface of a name.
pub(crate) fn interface(name: &str) -> Interface {
    Interface::of_name(name).unwrap()
}

/// Opens the bridge vb–vc with `mib` of memory for each direction.
pub(crate) fn open(mib: usize) -> std::io::Result<[Forwarder; 2]> {
    open_between("vb", "vc", mib)
}

/// Opens the bridge between two interfaces.
pub(crate) fn open_between(a: &str, b: &str, mib: usize) -> std::io::Result<[Forwarder; 2]> {
    let mut config = XdpConfig::default();
    config.mib = mib;
    // The tags of these tests are in the frames, which veth leaves as they are.
    config.allow_tag_offload = true;
    Forwarder::open_pair(&interface(a), &interface(b), &config)
}
