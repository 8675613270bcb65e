//! A bridge over AF_XDP between veth pairs: what comes out, what is counted, and what it refuses.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "tests")]

mod namespace;
mod traffic;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;

use firstmatch_live::path::{BATCH, Path, Sent, Statistics};
use firstmatch_live::xdp::{Forwarder, Mode, XdpConfig};

use namespace::{inside, interface, ip, open, open_between, part, say};
use traffic::{LAST, Running, Sender, Sink, Totals, frame, number, send_all, step, tagged, wait};

/// Chunks of a direction with 1 MiB.
const CHUNKS: u32 = 512;

/// Runs a test that starts no other processes.
fn alone(name: &str, test: impl FnOnce()) {
    inside(name, test, |part| unreachable!("{part}"));
}

#[test]
fn both_directions_forward_what_is_kept() {
    alone("both_directions_forward_what_is_kept", || {
        const FRAMES: u32 = 2000;
        let [there, back] = open(8).unwrap();
        assert_eq!(there.mode(), Mode::Native);
        let lanes = [Running::start(there), Running::start(back)];
        let ends = [("va", "vd"), ("vd", "va")];
        thread::scope(|scope| {
            let arrived = ends.map(|(from, to)| {
                let sink = Sink::open(to);
                scope.spawn(move || send_all(from, (0..FRAMES).chain([LAST]).map(|k| frame(k, 60))));
                scope.spawn(|| sink.frames())
            });
            for arrived in arrived {
                let expected: Vec<Vec<u8>> = (0..FRAMES).step_by(2).map(|k| frame(k, 60)).collect();
                assert_eq!(arrived.join().unwrap(), expected);
            }
        });
        for lane in lanes {
            let (forwarder, totals) = lane.finish();
            assert_eq!(totals, Totals { sent: 1001, denied: 1000, lost: 0 });
            let statistics = forwarder.meter().statistics().unwrap();
            assert_eq!((statistics.received, statistics.lost, forwarder.waiting()), (2001, 0, 0));
        }
    });
}

#[test]
fn tags_and_long_frames_keep_every_byte() {
    alone("tags_and_long_frames_keep_every_byte", || {
        let [there, _back] = open(8).unwrap();
        let lane = Running::start(there);
        let sink = Sink::open("vd");
        let mut frames: Vec<Vec<u8>> = (0..100).map(|k| tagged(2 * k)).collect();
        frames.extend((18..=1514).step_by(17).map(|bytes| frame(2, bytes)));
        send_all("va", frames.iter().cloned().chain([frame(LAST, 1514)]));
        assert_eq!(sink.frames(), frames);
        lane.finish();
    });
}

/// Interfaces that take tags out of frames are refused, because the tags would be lost. Those of veth do so.
#[test]
fn tag_offload_is_refused() {
    alone("tag_offload_is_refused", || {
        assert!(interface("vb").takes_tags_out().unwrap());
        assert!(!interface("lo").takes_tags_out().unwrap());
        let refused = Forwarder::open_pair(&interface("vb"), &interface("vc"), &XdpConfig::default()).unwrap_err();
        assert!(refused.to_string().contains("ethtool -K vb rxvlan off"), "{refused}");
    });
}

/// All chunks come back: after many frames, as many as there are chunks still come in, and not one more.
#[test]
fn chunks_come_back() {
    alone("chunks_come_back", || {
        let [mut there, _back] = open(1).unwrap();
        let meter = there.meter();
        let (mut received, mut lost) = (0, 0);
        for _ in 0..10 {
            let sink = Sink::open("vd");
            let lane = Running::start(there);
            send_all("va", (0..3 * CHUNKS / 2).map(|k| frame(k, 60)));
            let (forwarder, mut totals) = lane.finish();
            there = forwarder;
            received += u64::from(3 * CHUNKS / 2);
            let statistics = meter.statistics().unwrap();
            assert_eq!(statistics.received, received);
            assert_eq!(totals.sent + totals.denied + statistics.lost - lost, u64::from(3 * CHUNKS / 2));
            assert_eq!((totals.lost, there.waiting()), (0, 0));
            lost = statistics.lost;

            there.start().unwrap();
            send_all("va", (0..CHUNKS).map(|k| frame(k, 60)));
            assert_eq!(meter.statistics().unwrap().lost, lost, "a chunk has not come back");
            send_all("va", (0..3).map(|k| frame(k, 60)));
            assert_eq!(meter.statistics().unwrap().lost, lost + 3);
            while step(&mut there, &mut totals) {}
            send_all("va", [frame(LAST, 60)]);
            assert!(step(&mut there, &mut totals));
            assert_eq!(sink.frames().len() as u64, totals.sent - 1);
            there.stop().unwrap();
            (received, lost) = (received + u64::from(CHUNKS) + 4, lost + 3);
        }
        assert!(lost > 0);
    });
}

/// Frames that are taken and kept are not taken again, and without any chunk the next ones are lost.
#[test]
fn taken_frames_stay_until_forwarded() {
    alone("taken_frames_stay_until_forwarded", || {
        let [mut there, _back] = open(1).unwrap();
        there.start().unwrap();
        let sink = Sink::open("vd");
        send_all("va", (0..CHUNKS).map(|k| frame(k, 60)));
        for _ in 0..2 {
            assert!(there.take());
            assert_eq!(there.frames().len(), BATCH);
        }
        assert_eq!(there.finish(|place, _| place == 7), Sent { sent: 1, lost: 0 });
        let old = there.frames().first().cloned();
        assert_eq!(old, None);
        assert!(there.take());
        let numbers: Vec<u32> = there.frames().iter().map(|frame| number(there.bytes(frame))).collect();
        assert_eq!(numbers, (BATCH as u32..CHUNKS).collect::<Vec<_>>());
        let frame_of_kernel = there.frames()[0].clone();
        assert_eq!(there.finish(|_, _| false), Sent::default());
        assert!(std::panic::catch_unwind(|| there.bytes(&frame_of_kernel).len()).is_err());
        send_all("va", [frame(LAST, 60)]);
        assert!(there.take());
        there.finish(|_, _| true);
        assert_eq!(sink.frames(), [frame(7, 60)]);
    });
}

/// After the stop, the frames in the ring are all that still come; before the start and after the stop nobody gets any.
#[test]
fn frames_before_start_and_after_stop_reach_nobody() {
    alone("frames_before_start_and_after_stop_reach_nobody", || {
        let (host, far) = (Sink::open("vb"), Sink::open("vd"));
        let [mut there, back] = open(1).unwrap();
        let mut totals = Totals::default();
        send_all("va", (0..50).map(|k| frame(k, 60)));
        assert!(!step(&mut there, &mut totals));
        there.start().unwrap();
        send_all("va", (100..150).map(|k| frame(k, 60)));
        there.stop().unwrap();
        there.stop().unwrap();
        send_all("va", (200..250).map(|k| frame(k, 60)));
        assert!(wait(there.ready(), None));
        while step(&mut there, &mut totals) {}
        assert_eq!(totals, Totals { sent: 25, denied: 25, lost: 0 });
        there.start().unwrap();
        send_all("va", [frame(LAST, 60)]);
        assert!(step(&mut there, &mut totals));
        let arrived: Vec<u32> = far.frames().iter().map(|frame| number(frame)).collect();
        assert_eq!(arrived, (100..150).step_by(2).collect::<Vec<_>>());
        // Without the bridge the host receives frames again, and has received none before.
        drop((there, back));
        send_all("va", [frame(LAST, 60)]);
        assert_eq!(host.frames(), Vec::<Vec<u8>>::new());
    });
}

/// A stop while frames come in is exact: once the ring is empty, none comes any more.
#[test]
fn stop_beside_traffic_is_exact() {
    alone("stop_beside_traffic_is_exact", || {
        let [mut there, _back] = open(1).unwrap();
        let (meter, mut counted) = (there.meter(), 0);
        for _ in 0..20 {
            let lane = Running::start(there);
            let before = meter.statistics().unwrap().received;
            let sender = thread::spawn(|| send_all("va", (0..3000).map(|k| frame(k, 60))));
            while meter.statistics().unwrap().received < before + 200 {
                thread::yield_now();
            }
            let (forwarder, totals) = lane.finish();
            there = forwarder;
            let statistics = meter.statistics().unwrap();
            counted += totals.sent + totals.denied + totals.lost;
            assert_eq!(statistics.received - statistics.lost, counted);
            sender.join().unwrap();
            assert_eq!((there.take(), meter.statistics().unwrap()), (false, statistics));
        }
    });
}

/// A frame that the other side refuses is lost; while the interface is down frames wait, and few of them.
#[test]
fn frames_that_cannot_go_out_are_counted() {
    alone("frames_that_cannot_go_out_are_counted", || {
        let [mut there, mut back] = open(1).unwrap();
        there.start().unwrap();
        let mut totals = Totals::default();
        ip("link set vd down");
        send_all("va", (0..100).map(|k| frame(2 * k, 60)));
        assert!(step(&mut there, &mut totals));
        assert_eq!((totals, there.waiting()), (Totals { sent: 0, denied: 0, lost: 100 }, 0));
        ip("link set vd up");
        ip("link set vc down");
        for _ in 0..2 {
            send_all("va", (0..100).map(|k| frame(2 * k, 60)));
            assert!(step(&mut there, &mut totals));
        }
        assert_eq!((totals, there.waiting()), (Totals { sent: 0, denied: 0, lost: 200 }, 100));
        assert!(there.is_congested());
        let sink = Sink::open("vd");
        ip("link set vc up");
        while there.is_congested() {
            step(&mut there, &mut totals);
        }
        send_all("va", [frame(LAST, 60)]);
        assert!(step(&mut there, &mut totals));
        assert_eq!(totals.sent, 101);
        assert_eq!(sink.frames().len(), 100);
        // The chunks of lost frames have come back.
        send_all("va", (0..CHUNKS).map(|k| frame(k, 60)));
        assert_eq!(there.meter().statistics().unwrap(), Statistics { received: 301, lost: 0 });
        assert!(there.take() && there.frames().len() == BATCH);
        there.finish(|_, _| false);
        assert!(there.take() && there.frames().len() == CHUNKS as usize - BATCH);
        // After its interface is gone nothing goes out, and the other direction is silent.
        ip("link del vc");
        let lost = there.finish(|place, _| place < 10).lost + there.waiting();
        assert_eq!((lost, back.take(), back.finish(|_, _| true)), (10, false, Sent::default()));
        send_all("va", [frame(0, 60), frame(1, 60)]);
        assert_eq!((there.take(), there.finish(|_, _| true)), (true, Sent { sent: 0, lost: 2 }));
    });
}

/// A bridge needs its capabilities only until it is open.
#[test]
fn bridge_runs_without_root() {
    alone("bridge_runs_without_root", || {
        let [there, _back] = open(1).unwrap();
        let sink = Sink::open("vd");
        let sender = Sender::open("va");
        firstmatch_live::become_user("nobody").unwrap();
        assert!(open(1).is_err());
        let lane = Running::start(there);
        sender.send((0..100).chain([LAST]).map(|k| frame(k, 60)));
        assert_eq!(sink.frames().len(), 50);
        assert_eq!(lane.finish().1, Totals { sent: 51, denied: 50, lost: 0 });
    });
}

/// An interface whose driver cannot run the program has it in the kernel. Frames longer than a chunk are lost.
#[test]
fn long_frames_are_lost_and_counted() {
    alone("long_frames_are_lost_and_counted", || {
        for name in ["va", "vb", "vc", "vd"] {
            ip(&format!("link set {name} mtu 9000"));
        }
        let [there, _back] = open(1).unwrap();
        assert_eq!(there.mode(), Mode::Generic);
        let lane = Running::start(there);
        let sink = Sink::open("vd");
        let frames = [60, 1792, 1793, 4000, 9000].map(|bytes| frame(2, bytes));
        send_all("va", frames.iter().cloned().chain([frame(LAST, 60)]));
        assert_eq!(sink.frames(), frames[..2]);
        let (forwarder, totals) = lane.finish();
        assert_eq!(totals, Totals { sent: 3, denied: 0, lost: 0 });
        let statistics = forwarder.meter().statistics().unwrap();
        assert_eq!((statistics.received, statistics.lost), (6, 3));
    });
}

#[test]
fn others_and_several_queues_are_refused() {
    alone("others_and_several_queues_are_refused", || {
        let pair = open(1).unwrap();
        let error = open(1).unwrap_err().to_string();
        assert!(error.contains("vb") && error.contains("another program"), "{error}");
        drop(pair);
        drop(open(1).unwrap());
        ip("link add ve numrxqueues 2 numtxqueues 2 type veth peer name vg numrxqueues 2 numtxqueues 2");
        ip("link set ve up");
        ip("link set vg up");
        let error = open_between("vb", "vg", 1).unwrap_err();
        assert!(error.to_string().contains("ethtool -L vg combined 1"), "{error}");
        drop(open(1).unwrap());
    });
}

#[test]
fn errors_name_missing_capabilities() {
    const NAME: &str = "errors_name_missing_capabilities";
    let names = ["net_raw", "net_admin", "bpf", "ipc_lock"];
    let test = || {
        for name in names {
            let others = names.iter().filter(|other| **other != name).map(|other| format!(",+{other}"));
            let kept = format!("-all{}", others.collect::<String>());
            let mut command = Command::new("prlimit");
            // The memory is more than a process may lock.
            command.args(["--memlock=65536:65536", "setpriv", "--bounding-set", &kept, "--inh-caps", &kept]);
            let output = part(&mut command, NAME, "open").output().unwrap();
            let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            let expected = format!("missing: CAP_{}", name.to_uppercase());
            assert!(out.lines().any(|line| line.contains("vb: ") && line.ends_with(&expected)), "{name}: {out}{err}");
        }
    };
    inside(NAME, test, |_| say(&open(1).map_or_else(|error| error.to_string(), |_| "opened".to_owned())));
}

#[test]
fn killed_bridge_leaves_no_program() {
    const NAME: &str = "killed_bridge_leaves_no_program";
    let has_program = |name| ip(&format!("link show {name}")).contains("xdp");
    let test = || {
        let mut command = Command::new("env");
        let mut child = part(&mut command, NAME, "bridge").stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("ready")));
        assert!(has_program("vb") && has_program("vc"));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!has_program("vb") && !has_program("vc"));
    };
    inside(NAME, test, |_| {
        let [there, _back] = open(1).unwrap();
        there.start().unwrap();
        say("ready");
        wait(there.ready(), None);
    });
}
