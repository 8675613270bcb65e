//! Frames, and the interface that they are sent into.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use etherparse::{PacketBuilder, VlanId};
use firstmatch_live::Interface;
use firstmatch_live::packet::Socket;
use rustix::io::Errno;

/// Number of rules of [`rules`].
pub(crate) const RULES: u16 = 100;

/// Returns rules of which number i decides UDP to port 1000 + i: the even ones permit, the odd ones deny.
pub(crate) fn rules() -> String {
    (0..RULES)
        .map(|rule| format!("{} udp dport {}\n", ["permit", "deny"][usize::from(rule % 2)], 1000 + rule))
        .collect()
}

/// Returns a frame that carries `number`, for the rule `number` modulo [`RULES`].
pub(crate) fn frame(number: u32) -> Vec<u8> {
    built(number, None)
}

/// Returns the same frame with a VLAN tag.
pub(crate) fn tagged(number: u32, vlan: u16) -> Vec<u8> {
    built(number, Some(vlan))
}

/// Returns a frame that carries `number`, of one of few flows.
pub(crate) fn in_flow(number: u32, flow: u32) -> Vec<u8> {
    // The port is that of the rule, which a flow has one of.
    built_from(number, flow, flow, None)
}

fn built(number: u32, vlan: Option<u16>) -> Vec<u8> {
    built_from(number, number, number, vlan)
}

/// Returns a frame that carries `number`, from the source `source`, for the rule `rule` modulo [`RULES`].
fn built_from(number: u32, source: u32, rule: u32, vlan: Option<u16>) -> Vec<u8> {
    let (mut out, port) = (Vec::new(), 1000 + (rule % u32::from(RULES)) as u16);
    let ethernet = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let source = [10, (source >> 16) as u8, (source >> 8) as u8, source as u8];
    let payload = [&number.to_be_bytes()[..], &[0; 14]].concat();
    match vlan {
        None => ethernet.ipv4(source, [192, 0, 2, 7], 64).udp(5000, port).write(&mut out, &payload),
        Some(vlan) => {
            let tagged = ethernet.single_vlan(VlanId::try_new(vlan).unwrap());
            tagged.ipv4(source, [192, 0, 2, 7], 64).udp(5000, port).write(&mut out, &payload)
        }
    }
    .unwrap();
    out
}

/// Interface that frames are sent out of.
pub(crate) struct Sender(Socket);

impl Sender {
    pub(crate) fn new(interface: &str) -> Self {
        let socket = Socket::open().unwrap();
        socket.bind(Interface::of_name(interface).unwrap().index(), false).unwrap();
        Self(socket)
    }

    /// Sends a frame; where a queue of the kernel is full, again.
    pub(crate) fn send(&self, frame: &[u8]) {
        loop {
            match rustix::net::send(&self.0, frame, rustix::net::SendFlags::empty()) {
                Ok(sent) => return assert_eq!(sent, frame.len()),
                Err(Errno::NOBUFS | Errno::AGAIN) => thread::yield_now(),
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// Frames that a thread sends while something else is done.
pub(crate) struct Flow(AtomicU32);

impl Flow {
    /// Waits until so many frames more have been sent.
    pub(crate) fn wait(&self, more: u32) {
        let before = self.0.load(Ordering::Relaxed);
        while self.0.load(Ordering::Relaxed) < before + more {
            thread::yield_now();
        }
    }
}

/// Sends frames in turn from an interface while `work` runs, whole rounds of [`RULES`]; returns their number, and what
/// `work` returns. The sending ends with a panic of `work`, too.
pub(crate) fn beside_frames<R>(interface: &str, work: impl FnOnce(&Flow) -> R) -> (u32, R) {
    struct End<'b>(&'b AtomicBool);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let (flow, is_over, sender) = (Flow(AtomicU32::new(0)), AtomicBool::new(false), Sender::new(interface));
    let result = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) || flow.0.load(Ordering::Relaxed) % u32::from(RULES) != 0 {
                sender.send(&frame(flow.0.fetch_add(1, Ordering::Relaxed)));
            }
        });
        let _end = End(&is_over);
        work(&flow)
    });
    (flow.0.into_inner(), result)
}
