//! Folder with rules and packets for each test, and the program run in it.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use etherparse::{PacketBuilder, VlanId};
use pcap_file::pcap::{PcapPacket, PcapWriter};

pub(crate) const RULES: &str = "\
# A rule file for tests.
default deny
set web = { 80, 443 }
deny tcp dport 22
permit tcp dst { 192.0.2.0/24, 2001:db8::/32 } dport $web   # the servers
mark 7 udp dport 53
permit icmp icmp_type echo-request
permit vlan_vid 7
permit tcp
";

pub(crate) const CLASSBENCH: &str = "\
@10.0.0.0/8\t192.0.2.0/24\t0 : 65535\t80 : 80\t0x06/0xFF\t0x0000/0x0200
@10.0.0.0/8\t0.0.0.0/0\t0 : 65535\t0 : 65535\t0x00/0x00\t0x0000/0x0000
";

pub(crate) const TRACE: &str = "\
167772161\t3221225991\t1024\t80\t6\t0
167772161\t1\t0\t0\t17\t1
1\t2\t3\t4\t6\t1
";

/// Names of all folders so far.
static NAMES: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Folder of one test, removed at its end.
pub(crate) struct Fixture {
    pub(crate) folder: PathBuf,
}

impl Fixture {
    /// Returns a folder with `x.rules`, `x.pcap`, `cb.rules` and `cb.trace`.
    pub(crate) fn new(name: &str) -> Self {
        let is_new = NAMES.lock().expect("no test panics with it").insert(name.to_owned());
        assert!(is_new, "two tests have a folder `{name}`, which one would remove beside the other");
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        // A run that was stopped may have left the folder.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let fixture = Self { folder };
        fixture.write("x.rules", RULES);
        fixture.write("x.pcap", capture(&packets()));
        fixture.write("cb.rules", CLASSBENCH);
        fixture.write("cb.trace", TRACE);
        fixture
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.folder.join(name), content).unwrap();
    }

    /// Makes a named pipe and returns its path.
    pub(crate) fn fifo(&self, name: &str) -> PathBuf {
        let path = self.folder.join(name);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(name)).unwrap()
    }

    pub(crate) fn command(&self, line: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_firstmatch"));
        command.args(line).current_dir(&self.folder).stdin(Stdio::null());
        for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR"] {
            command.env_remove(name);
        }
        command
    }

    /// Runs the program and returns its exit code, standard output and standard error.
    pub(crate) fn run(&self, line: &[&str]) -> (i32, String, String) {
        result(&self.command(line).output().unwrap())
    }

    /// Returns exit code and both outputs for a snapshot, without figures of time and memory.
    pub(crate) fn shown(&self, line: &[&str]) -> String {
        let (code, out, err) = self.run(line);
        let mut shown = format!("$ firstmatch {}\nexit code {code}\n", line.join(" "));
        for (name, text) in [("stdout", out), ("stderr", err)] {
            if !text.is_empty() {
                shown.push_str(&format!("--- {name}\n{}", redact(&text)));
            }
        }
        shown
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

pub(crate) fn result(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

fn redact(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let line = match line.split_once("  ") {
            Some((head @ ("classifier" | "end to end"), _)) => format!("{head}  [time]"),
            _ => match line.split_once("; meta in ").or_else(|| line.split_once("; linear in ")) {
                Some((head, _)) => format!("{head}; [engine] in [memory]"),
                None => line.to_owned(),
            },
        };
        out.push_str(&line);
        out.push('\n');
    }
    out
}

/// Returns a packet of each sort that the rules distinguish.
pub(crate) fn packets() -> Vec<Vec<u8>> {
    let ethernet = || PacketBuilder::ethernet2([1; 6], [2; 6]);
    let v4 = || ethernet().ipv4([10, 0, 0, 1], [192, 0, 2, 7], 64);
    let servers = [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let v6 = || ethernet().ipv6([0x20; 16], servers, 64);
    let mut packets = vec![
        built(|out| v4().tcp(4040, 443, 1, 1000).syn().write(out, b"hello").unwrap()),
        built(|out| v6().tcp(4040, 80, 1, 1000).write(out, b"hello").unwrap()),
        built(|out| v4().tcp(4040, 22, 1, 1000).write(out, b"").unwrap()),
        built(|out| v6().udp(5353, 53).write(out, b"who?").unwrap()),
        built(|out| v4().icmpv4_echo_request(1, 2).write(out, b"ping").unwrap()),
        built(|out| v4().icmpv4_echo_reply(1, 2).write(out, b"ping").unwrap()),
        built(|out| {
            ethernet()
                .single_vlan(VlanId::try_new(7).unwrap())
                .ipv4([10, 0, 0, 1], [1, 1, 1, 1], 64)
                .udp(1, 2)
                .write(out, b"")
                .unwrap();
        }),
        // An ARP frame.
        [&[0xff; 12][..], &[0x08, 0x06], &[0; 28]].concat(),
    ];
    // This is a fragment other than the first.
    let mut fragment = packets[0].clone();
    fragment[20..22].copy_from_slice(&[0x00, 0x10]);
    packets.push(fragment);
    let mut cut = packets[0].clone();
    cut.truncate(20);
    packets.push(cut);
    packets
}

fn built(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

/// Time of every packet: 2023-11-14 22:13:20.000123 UTC.
const TIME: Duration = Duration::new(1_700_000_000, 123_000);

pub(crate) fn capture(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut writer = PcapWriter::new(Vec::new()).unwrap();
    for data in packets {
        let packet = PcapPacket::new(TIME, data.len() as u32, data);
        writer.write_packet(&packet).unwrap();
    }
    writer.into_writer()
}
