//! Rule files of iptables against the kernel that runs them, packet by packet.
//!
//! Frames go into the hook INPUT of an interface with these rules, and raw sockets behind the hook see those that it
//! permits. Each packet has its number in the identification of its IP header.

use std::collections::HashSet;
use std::io::Write;
use std::num::NonZeroU32;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::Duration;

use firstmatch_testkit::rng::Rng;
use firstmatch_testkit::skip;
use pcap_file::pcap::{PcapPacket, PcapWriter};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SocketType, recv, socket};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};

use crate::namespace::{Folder, inside, ip, is_root_everywhere, skipped};
use crate::traffic::Sender;

/// Protocols of the packets.
const PROTOCOLS: [u8; 4] = [1, 6, 17, 50];
/// Protocol of the packet behind each batch, which all rules permit.
const LAST: u8 = 253;
/// Number of packets before such a packet, so that they fit the buffers of the sockets.
const BATCH: usize = 50;
const POLICIES: usize = 200;
const PACKETS: usize = 150;

/// Rules of every construct, a set for each line of text that stands between blank ones.
const WRITTEN: &str = "\
-A INPUT -j web
-A INPUT -p tcp -m tcp --dport 3 -j ACCEPT
-A web -s 10.0.0.0/30 -p tcp -m tcp --dport 3 -j RETURN
-A web -p tcp -j DROP
-A web -j ACCEPT

-A INPUT -p udp -m multiport ! --ports 1,3 -j ACCEPT
-A INPUT -p udp -m multiport --ports 1 -j ACCEPT

-A INPUT -p tcp -j web
-A INPUT -p tcp -m tcp --dport 2 -j ACCEPT
-A web -p tcp -m tcp --dport 2:3 -g more
-A web -j ACCEPT
-A more -p tcp -m tcp --sport 1 -j DROP

-A INPUT -s 10.0.0.2/31 -j RETURN
-A INPUT -p icmp -m icmp ! --icmp-type 8/0 -j ACCEPT
-A INPUT ! -p tcp -j DROP
-A INPUT -p tcp -m tcp --tcp-flags FIN,SYN FIN,SYN -j REJECT --reject-with tcp-reset
-A INPUT -j ACCEPT

-A INPUT -i lo -j ACCEPT
-A INPUT ! -i v+ -j ACCEPT
-A INPUT -i va -p icmp -j ACCEPT
-A INPUT -i v+ -p udp -m conntrack --ctstate NEW -j ACCEPT
-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT

-A INPUT -m iprange --src-range 10.0.0.1-10.0.0.2 -j ACCEPT
-A INPUT -m ttl --ttl-lt 2 -j ACCEPT
-A INPUT -m ttl --ttl-gt 200 -m dscp ! --dscp 3 -j ACCEPT
-A INPUT -m length --length 44:50 -m dscp --dscp-class CS1 -j ACCEPT
-A INPUT -s 10.0.0.1/255.255.0.3 -p esp -m mark --mark 0x0 -j ACCEPT

-A INPUT -p tcp -m tcp ! --tcp-flags FIN,SYN,RST,ACK SYN -m comment --comment \"no \\\"opening\\\"\" -j web
-A INPUT -p icmp -m icmp --icmp-type any -j ACCEPT
-A INPUT -p udp -m udp -j ACCEPT
-A web -p tcp -m tcp --tcp-flags FIN,SYN,RST,PSH,ACK,URG NONE -j DROP
-A web -j LOG --log-prefix \"a b\"
-A web -p tcp -m multiport ! --dports 1:2 -j ACCEPT
";

#[test]
fn lists_decide_as_the_kernel_does() {
    inside("iptables::lists_decide_as_the_kernel_does", || {
        const NAME: &str = "iptables::lists_decide_as_the_kernel_does";
        if !is_root_everywhere() {
            return skip(&format!("SKIP {NAME}: only root may load the kernel's parts of iptables"));
        }
        if let Err(error) = Command::new("iptables-restore").arg("--version").output() {
            return skipped(NAME, &format!("iptables-restore: {error}"));
        }
        let kernel = Kernel::new();
        let mut rng = Rng::new(7);
        let written = WRITTEN.split("\n\n").map(|rules| format!("{}{rules}\nCOMMIT\n", head("DROP")));
        let drawn: Vec<String> = (0..POLICIES).map(|_| policy(&mut rng)).collect();
        let (mut permitted, mut denied) = (0, 0);
        for text in written.chain(drawn) {
            let frames: Vec<Vec<u8>> = (0..PACKETS).map(|number| frame(number as u16, &mut rng)).collect();
            let saved = kernel.load(&text);
            let passed = kernel.passed(&frames);
            let verdicts = verdicts(&saved, &frames);
            for (number, verdict) in verdicts.iter().enumerate() {
                let is_passed = passed.contains(&(number as u16));
                (permitted, denied) = (permitted + usize::from(is_passed), denied + usize::from(!is_passed));
                assert_eq!(verdict == "permit", is_passed, "packet {number} {:x?}\n{saved}", &frames[number][14..]);
            }
        }
        assert!(permitted > 2000 && denied > 2000, "{permitted} permitted, {denied} denied");
    });
}

/// Returns the beginning of a file: the packet behind each batch is permitted, and the host itself is silent.
fn head(policy: &str) -> String {
    format!(
        "*filter\n:INPUT {policy} [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT DROP [0:0]\n:web - [0:0]\n:more - [0:0]\n\
         -A INPUT -p {LAST} -j ACCEPT\n"
    )
}

/// Returns random rules with jumps, gotos and returns.
fn policy(rng: &mut Rng) -> String {
    let mut text = head(["ACCEPT", "DROP"][rng.below(2)]);
    for (at, chain) in ["INPUT", "web", "more"].into_iter().enumerate() {
        for _ in 0..2 + rng.below(6) {
            let later = &["web", "more"][at.min(2)..];
            let target = match rng.below(8) {
                0 | 1 => "-j ACCEPT".to_owned(),
                2 => "-j DROP".to_owned(),
                3 => "-j RETURN".to_owned(),
                4 if !later.is_empty() => format!("-g {}", later[rng.below(later.len())]),
                _ if !later.is_empty() => format!("-j {}", later[rng.below(later.len())]),
                _ => "-j REJECT".to_owned(),
            };
            text.push_str(&format!("-A {chain}{} {target}\n", condition(rng)));
        }
    }
    text + "COMMIT\n"
}

fn condition(rng: &mut Rng) -> String {
    let not = if rng.below(3) == 0 { "! " } else { "" };
    let (port, more) = (rng.below(4), rng.below(3));
    match rng.below(16) {
        0 => format!(" {not}-s 10.0.0.{}/31", 2 * rng.below(2)),
        1 => format!(" {not}-d 192.0.2.7 -p udp"),
        2 => format!(" {not}-p {}", ["tcp", "udp", "icmp", "esp"][port]),
        3 => format!(" -p tcp -m tcp {not}--dport {port}"),
        4 => format!(" -p udp -m udp {not}--sport {port}:{} --dport :2", port + more),
        5 => format!(" -p tcp -m tcp {not}--syn"),
        6 => format!(" -p tcp -m tcp {not}--tcp-flags SYN,FIN,ACK SYN,ACK"),
        7 => format!(" -p udp -m multiport {not}--ports {port},3"),
        8 => format!(" -p tcp -m multiport {not}--sports {port}:4"),
        9 => format!(" -p icmp -m icmp {not}--icmp-type {}/{more}", [0, 3, 8, 8][port]),
        10 => format!(" -p icmp -m icmp {not}--icmp-type {}", [0, 3, 8, 11][port]),
        11 => format!(" -m ttl {not}--ttl-eq {}", [1, 2, 64, 255][port]),
        12 => format!(" -m dscp {not}--dscp {}", [0, 3, 8, 46][port]),
        13 => format!(" -m length {not}--length {}:47", 40 + more),
        14 => format!(" -m iprange {not}--src-range 10.0.0.{port}-10.0.0.{}", port + more),
        _ => String::new(),
    }
}

/// Returns a frame of few values in each field, with its number.
fn frame(number: u16, rng: &mut Rng) -> Vec<u8> {
    let protocol = PROTOCOLS[rng.below(PROTOCOLS.len())];
    let (from, to) = (rng.below(4) as u16, rng.below(4) as u16);
    let flags = [0, 0x02, 0x03, 0x10, 0x12, 0x42, 0x14, 0x29][rng.below(8)];
    let mut body = match protocol {
        1 => vec![[0, 3, 8, 11][rng.below(4)], rng.below(3) as u8, 0, 0, 0, 1, 0, 2],
        6 => [&from.to_be_bytes()[..], &to.to_be_bytes(), &[0; 8], &[0x50, flags, 4, 0, 0, 0, 0, 0]].concat(),
        _ => [from.to_be_bytes(), to.to_be_bytes()].concat(),
    };
    body.resize(20 + rng.below(12), 0);
    if protocol == 17 {
        let len = body.len() as u16;
        body[4..6].copy_from_slice(&len.to_be_bytes());
    }
    let ttl = [1, 2, 64, 255][rng.below(4)];
    built(number, protocol, [rng.below(4) as u8, ttl, [0, 3, 8, 46][rng.below(4)], [7, 9][rng.below(2)]], &body)
}

/// Returns an Ethernet frame; the numbers are the last byte of the source, TTL, DSCP, and the last byte of the
/// destination.
fn built(number: u16, protocol: u8, [src, ttl, dscp, dst]: [u8; 4], body: &[u8]) -> Vec<u8> {
    let total = (20 + body.len()) as u16;
    let mut header = [0x45, dscp << 2, 0, 0, 0, 0, 0, 0, ttl, protocol, 0, 0, 10, 0, 0, src, 192, 0, 2, dst];
    header[2..4].copy_from_slice(&total.to_be_bytes());
    header[4..6].copy_from_slice(&number.to_be_bytes());
    let words = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xFFFF) + (sum >> 16);
    header[10..12].copy_from_slice(&(!folded as u16).to_be_bytes());
    [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0][..], &header, body].concat()
}

/// Interface with rules, and the sockets behind them.
struct Kernel {
    sender: Sender,
    sockets: Vec<OwnedFd>,
    last: OwnedFd,
}

impl Kernel {
    fn new() -> Self {
        for (name, address) in [("va", "02:00:00:00:00:01"), ("vb", "02:00:00:00:00:02")] {
            ip(&["link", "set", name, "address", address]).unwrap();
            let _ = std::fs::write(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"), "0");
        }
        let _ = std::fs::write("/proc/sys/net/ipv4/conf/all/rp_filter", "0");
        for address in ["192.0.2.7/24", "192.0.2.9/24"] {
            ip(&["address", "add", address, "dev", "vb"]).unwrap();
        }
        // Packets stay in order on one CPU.
        let mut cpus = CpuSet::new();
        cpus.set(sched_getcpu());
        sched_setaffinity(None, &cpus).unwrap();
        let last = raw(LAST);
        set_socket_timeout(&last, Timeout::Recv, Some(Duration::from_secs(60))).unwrap();
        Self { sender: Sender::new("va"), sockets: PROTOCOLS.map(raw).into(), last }
    }

    /// Loads rules, and returns them as iptables-save prints them.
    fn load(&self, text: &str) -> String {
        let mut restore =
            Command::new("iptables-restore").stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        restore.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = restore.wait_with_output().unwrap();
        assert!(output.status.success(), "{}\n{text}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(Command::new("iptables-save").output().unwrap().stdout).unwrap()
    }

    /// Returns the numbers of the frames that the rules permit.
    fn passed(&self, frames: &[Vec<u8>]) -> HashSet<u16> {
        let mut passed = HashSet::new();
        let mut buffer = [0; 2048];
        for batch in frames.chunks(BATCH) {
            batch.iter().for_each(|frame| self.sender.send(frame));
            self.sender.send(&built(0, LAST, [1, 64, 0, 7], &[0; 20]));
            recv(&self.last, &mut buffer, RecvFlags::empty()).expect("the packet behind the batch");
            for socket in &self.sockets {
                while let Ok((count, _)) = recv(socket, &mut buffer, RecvFlags::DONTWAIT) {
                    assert!(count >= 20);
                    passed.insert(u16::from_be_bytes([buffer[4], buffer[5]]));
                }
            }
        }
        passed
    }
}

/// Returns a socket for all packets of a protocol that the hook INPUT permits.
fn raw(protocol: u8) -> OwnedFd {
    let protocol = Protocol::from_raw(NonZeroU32::new(protocol.into()).unwrap());
    socket(AddressFamily::INET, SocketType::RAW, Some(protocol)).unwrap()
}

/// Returns the verdict of the program on each frame.
fn verdicts(saved: &str, frames: &[Vec<u8>]) -> Vec<String> {
    let folder = Folder::new("iptables");
    let rules = folder.write("saved", saved);
    let mut writer = PcapWriter::new(Vec::new()).unwrap();
    for frame in frames {
        writer.write_packet(&PcapPacket::new(Duration::ZERO, frame.len() as u32, frame)).unwrap();
    }
    let capture = folder.write("frames.pcap", writer.into_writer());
    let mut classify = Command::new(env!("CARGO_BIN_EXE_firstmatch"));
    classify.arg("classify").args([&rules, &capture]).args(["--hook", "input", "--in", "vb", "--csv", "-"]);
    let output = classify.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}\n{saved}");
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines();
    let place = lines.next().unwrap().split(',').position(|name| name == "verdict").unwrap();
    lines.map(|line| line.split(',').nth(place).unwrap().to_owned()).collect()
}
