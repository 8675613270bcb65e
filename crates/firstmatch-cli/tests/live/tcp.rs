//! TCP between two hosts, each in a network namespace of its own, whose senders leave work to their network cards.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use firstmatch_testkit::skip;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::namespace::{Folder, inside, ip};
use crate::ports::{bridge, offloads, ports};

/// Number of bytes that are sent.
const BYTES: usize = 3_000_000;

/// Namespace of a host, for as long as a process is in it.
struct Host(Child);

impl Host {
    /// Makes a host with one interface, which has the address 192.0.2.`number`.
    fn new(interface: &str, number: u8) -> Self {
        let mut child = Command::new("unshare");
        child.args(["-n", "sh", "-c", "ip link set lo up; echo; cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = child.spawn().unwrap();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
        let host = Self(child);
        ip(&["link", "set", interface, "netns", &host.0.id().to_string()]).unwrap();
        host.run(|| {
            ip(&["address", "add", &format!("192.0.2.{number}/24"), "dev", interface]).unwrap();
            ip(&["link", "set", interface, "up"]).unwrap();
            offloads(interface, true);
        });
        host
    }

    /// Runs `work` on a thread in the host.
    fn run<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        let namespace = File::open(format!("/proc/{}/ns/net", self.0.id())).unwrap();
        thread::scope(|scope| {
            let thread = scope.spawn(move || {
                use std::os::fd::AsFd;
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                work()
            });
            thread.join().unwrap()
        })
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Merged frames and unfinished checksums pass as they are where they are kept, also in a VLAN; elsewhere the alert names
/// the interface and the remedy.
#[test]
fn offloads_are_kept_whole_or_named() {
    inside("tcp::offloads_are_kept_whole_or_named", || {
        ports(false);
        let folder = Folder::new("tcp");
        let path = folder.write("x.rules", "default deny\nunknown permit\npermit tcp\n");
        let hosts = [Host::new("va", 1), Host::new("vd", 2)];
        let (listener, client) = (
            hosts[1].run(|| TcpListener::bind("192.0.2.2:7").unwrap()),
            // A connection is tried in both ways of treating offloads.
            |address: &str| TcpStream::connect_timeout(&address.parse().unwrap(), Duration::from_secs(60)),
        );
        let keep = bridge(&path, &["--offloads", "keep"]);
        let transfer = |address: &'static str, listener: TcpListener| {
            thread::scope(|scope| {
                let server = scope.spawn(move || {
                    let mut bytes = Vec::new();
                    listener.accept().unwrap().0.read_to_end(&mut bytes).unwrap();
                    bytes
                });
                let data: Vec<u8> = (0..BYTES).map(|at| (at % 251) as u8).collect();
                hosts[0].run(|| client(address).unwrap().write_all(&data).unwrap());
                assert!(server.join().unwrap() == data);
            });
        };
        transfer("192.0.2.2:7", listener);
        let tagged = |host: &Host, interface, address| {
            host.run(|| {
                ip(&["link", "add", "link", interface, "name", "v7", "type", "vlan", "id", "7"])?;
                ip(&["address", "add", address, "dev", "v7"])?;
                ip(&["link", "set", "v7", "up"])
            })
        };
        match tagged(&hosts[0], "va", "198.51.100.1/24").and(tagged(&hosts[1], "vd", "198.51.100.2/24")) {
            Ok(()) => transfer("198.51.100.2:7", hosts[1].run(|| TcpListener::bind("198.51.100.2:7").unwrap())),
            Err(reason) => skip(&format!("SKIP tcp in a VLAN: {reason}")),
        }
        let answer = keep.finish();
        answer.assert_exact();
        // Merged frames: far fewer than there would be of 1,500 bytes.
        assert!(answer.loss("unfinished_checksums") > 0 && answer.loss("unsent") == 0, "{}", answer.json);
        let mut refuse = bridge(&path, &[]);
        hosts[0].run(|| {
            let socket = std::net::UdpSocket::bind("192.0.2.1:9").unwrap();
            socket.send_to(b"a checksum for the card", "192.0.2.2:9").unwrap();
        });
        let lines = refuse.wait_for("without a finished checksum");
        assert!(lines.contains("vb: ") && lines.contains("ethtool -K"), "{lines}");
        assert!(refuse.finish().loss("unfinished_checksums") > 0);
    });
}
