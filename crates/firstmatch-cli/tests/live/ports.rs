//! The ports of a bridge, and what comes out behind them.

use std::path::Path as FilePath;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, thread};

use firstmatch_live::Interface;
use firstmatch_live::packet::{Ring, RingConfig};
use firstmatch_live::path::Path;
use firstmatch_live::xdp::{Forwarder, XdpConfig};
use firstmatch_testkit::skip;

use crate::namespace::{ip, is_root_everywhere};
use crate::watch::{Watch, command, run};

/// Makes a second pair, vc–vd, and sets the offloads of all four ends.
pub(crate) fn ports(has_offloads: bool) {
    if Interface::of_name("vc").is_err() {
        ip(&["link", "add", "vc", "type", "veth", "peer", "name", "vd"]).unwrap();
    }
    for name in ["va", "vb", "vc", "vd"] {
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
        ip(&["link", "set", name, "up"]).unwrap();
        offloads(name, has_offloads);
    }
}

pub(crate) fn offloads(name: &str, are_on: bool) {
    let state = if are_on { "on" } else { "off" };
    let line = ["gro", "gso", "tso", "tx", "rx", "txvlan", "rxvlan"].iter().flat_map(|feature| [*feature, state]);
    let output = Command::new("ethtool").args(["-K", name]).args(line).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Whether sockets of AF_XDP can be opened, which root in a namespace of users may not.
pub(crate) fn can_xdp() -> bool {
    let [first, second] = ["vb", "vc"].map(|name| Interface::of_name(name).unwrap());
    let opened = Forwarder::open_pair(&first, &second, &XdpConfig::default()).map(drop);
    if let Err(error) = &opened {
        assert!(!is_root_everywhere() || env::var_os("REQUIRE_LIVE").is_none(), "{error}");
        skip(&format!("SKIP AF_XDP: {error}"));
    }
    opened.is_ok()
}

/// Starts a bridge between `vb` and `vc`, and waits until frames pass.
pub(crate) fn bridge(rules: &FilePath, options: &[&str]) -> Watch {
    let line = [&["bridge", rules.to_str().unwrap(), "vb", "vc", "--json"], options].concat();
    let mut bridge = run(command(&line));
    bridge.wait_for("ready: ");
    bridge
}

/// Returns the number that a frame carries.
pub(crate) fn number_of(frame: &[u8]) -> u32 {
    let at = if frame[12..14] == [0x81, 0] { 46 } else { 42 };
    u32::from_be_bytes(frame[at..at + 4].try_into().unwrap())
}

/// Frames that come out of an interface.
pub(crate) struct Receiver {
    ring: Ring,
    taken: u64,
}

impl Receiver {
    pub(crate) fn new(interface: &str) -> Self {
        let interface = Interface::of_name(interface).unwrap();
        let mut config = RingConfig::default();
        config.mib = 64;
        let ring = Ring::open(&interface, &config).unwrap().remove(0);
        ring.start().unwrap();
        Self { ring, taken: 0 }
    }

    /// Waits for `count` more frames, and returns all that have come since the last call.
    pub(crate) fn frames(&mut self, count: u64) -> Vec<Vec<u8>> {
        let (mut all, until) = (Vec::new(), Instant::now() + Duration::from_secs(60));
        let meter = self.ring.meter();
        loop {
            while self.ring.take() {
                all.extend(self.ring.frames().iter().map(|frame| self.ring.bytes(frame).to_vec()));
                self.ring.finish(|_, _| false);
            }
            let received = meter.statistics().unwrap();
            assert_eq!(received.lost, 0, "the test itself has lost frames");
            let came = self.taken + all.len() as u64;
            if came >= self.taken + count && came == received.received {
                self.taken = came;
                return all;
            }
            assert!(Instant::now() < until, "{} of {count} frames have come", all.len());
            thread::yield_now();
        }
    }
}
