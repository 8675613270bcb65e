//! Frames through `firstmatch bridge`: the permitted ones come out, whole, once and in order, and no other.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::thread;

use crate::namespace::{Folder, inside, ip};
use crate::ports::{Receiver, bridge, can_xdp, number_of, ports};
use crate::traffic::{RULES, Sender, beside_frames, frame, in_flow, rules, tagged};
use crate::watch::{Answer, command, run};

/// Sends frames through a bridge from `va` to `vd`, and returns what came out, with the answer.
fn through(rules: &str, options: &[&str], frames: &[Vec<u8>]) -> (Vec<Vec<u8>>, Answer) {
    let folder = Folder::new("through");
    let path = folder.write("x.rules", rules);
    let (mut out, sender) = (Receiver::new("vd"), Sender::new("va"));
    let bridge = bridge(&path, options);
    frames.iter().for_each(|frame| sender.send(frame));
    let answer = bridge.finish();
    answer.assert_exact();
    (out.frames(answer.loss("sent")), answer)
}

fn numbers(frames: &[Vec<u8>]) -> Vec<u32> {
    frames.iter().map(|frame| number_of(frame)).collect()
}

/// Every second rule permits: these frames come out as they went in, with a VLAN tag or without, once and in order.
#[test]
fn permitted_frames_come_out_whole_and_in_order() {
    inside("bridge::permitted_frames_come_out_whole_and_in_order", || {
        ports(false);
        for options in [&[][..], &["--offloads", "keep"], &["--io", "xdp"]] {
            if options.contains(&"xdp") && !can_xdp() {
                continue;
            }
            for kind in [frame, |number| tagged(number, 42)] {
                let frames: Vec<_> = (0..2_000).map(kind).collect();
                let (out, answer) = through(&rules(), options, &frames);
                let permitted: Vec<_> = frames.iter().step_by(2).cloned().collect();
                assert_eq!(numbers(&out), numbers(&permitted), "{}", answer.json);
                assert!(out == permitted, "a frame has changed");
                let losses = ["received", "decided", "lost", "sent", "unsent"].map(|name| answer.loss(name));
                assert_eq!((losses, answer.code), ([2_000, 2_000, 0, 1_000, 0], 143));
            }
        }
    });
}

/// Without the program nothing comes out, and with rules that deny all neither.
#[test]
fn nothing_comes_out_beside_the_rules() {
    inside("bridge::nothing_comes_out_beside_the_rules", || {
        ports(false);
        let frames: Vec<_> = (0..500).map(frame).collect();
        let (mut out, sender) = (Receiver::new("vd"), Sender::new("va"));
        frames.iter().for_each(|frame| sender.send(frame));
        let (denied, answer) = through("default deny\ndeny tcp dport 9\n", &[], &frames);
        assert_eq!((denied.len(), answer.loss("decided"), answer.loss("sent")), (0, 500, 0));
        assert!(out.frames(0).is_empty());
    });
}

/// Both directions at once, with two threads each: both sets are whole, and frames of a flow are in order.
#[test]
fn both_directions_keep_their_flows_in_order() {
    inside("bridge::both_directions_keep_their_flows_in_order", || {
        ports(false);
        let folder = Folder::new("both");
        let path = folder.write("x.rules", rules());
        let mut outs = [Receiver::new("vd"), Receiver::new("va")];
        let bridge = bridge(&path, &["--workers", "2"]);
        thread::scope(|scope| {
            for name in ["va", "vd"] {
                scope.spawn(move || {
                    let sender = Sender::new(name);
                    (0..4_000).for_each(|number| sender.send(&in_flow(number, number % 16)));
                });
            }
        });
        let answer = bridge.finish();
        answer.assert_exact();
        assert_eq!(["received", "lost", "sent", "unsent"].map(|name| answer.loss(name)), [8_000, 0, 4_000, 0]);
        for (out, name) in outs.iter_mut().zip(["vb", "vc"]) {
            let of = answer.interface(name);
            assert_eq!((&of["received"], &of["sent"], &of["denied"]), (&4_000.into(), &2_000.into(), &2_000.into()));
            let mut flows: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
            for number in numbers(&out.frames(2_000)) {
                flows.entry(number % 16).or_default().push(number);
            }
            for (flow, numbers) in flows {
                let sent: Vec<u32> = (0..4_000).filter(|number| number % 16 == flow && number % 2 == 0).collect();
                assert_eq!(numbers, sent, "flow {flow}");
            }
        }
    });
}

/// The samples of denied packets, read as a capture, are all denied by the same rules.
#[test]
fn samples_are_denied_by_classify_too() {
    inside("bridge::samples_are_denied_by_classify_too", || {
        ports(false);
        let folder = Folder::new("samples");
        let (path, samples) = (folder.write("x.rules", rules()), folder.0.join("denied.pcap"));
        let (sender, mut out) = (Sender::new("va"), Receiver::new("vd"));
        let bridge = bridge(&path, &["--write", samples.to_str().unwrap()]);
        for number in 0..40 {
            // The first of them is a sample, and each that comes 20 ms later; a hundred rules have their turn.
            (0..u32::from(RULES)).for_each(|rule| sender.send(&frame(number * u32::from(RULES) + rule)));
        }
        let answer = bridge.finish();
        answer.assert_exact();
        assert_eq!(out.frames(2_000).len(), 2_000);
        let line = ["classify", path.to_str().unwrap(), samples.to_str().unwrap(), "--json"];
        let again: serde_json::Value = serde_json::from_slice(&command(&line).output().unwrap().stdout).unwrap();
        let (packets, denied) = (again["packets"].as_u64().unwrap(), &again["verdicts"]["deny"]);
        assert!(packets >= 1 && *denied == packets, "{again}");
        let of_denied =
            again["rule_hits"].as_array().unwrap().iter().all(|hits| hits["line"].as_u64().unwrap() % 2 == 0);
        assert!(of_denied, "{again}");
    });
}

/// Reloads beside frames lose none, and change the verdict of no frame but those of the rules that differ.
#[test]
fn reloads_beside_frames_change_what_differs() {
    inside("bridge::reloads_beside_frames_change_what_differs", || {
        ports(false);
        let folder = Folder::new("reloads");
        let text = rules();
        let path = folder.write("x.rules", &text);
        let mut out = Receiver::new("vd");
        let mut bridge = bridge(&path, &["--no-watch-file", "--ring-mib", "32"]);
        let (sent, ()) = beside_frames("va", |flow| {
            for round in 0..6 {
                // Rule 10 denies and permits in turn; each third file is wrong.
                let other = text.replace("permit udp dport 1010\n", "deny udp dport 1010\n");
                let file = [other, text.clone(), "permit upd\n".to_owned()][round % 3].clone();
                fs::write(&path, file).unwrap();
                bridge.send("-HUP");
                bridge.wait_for(if round % 3 == 2 { "the old rules stay" } else { " kept" });
                flow.wait(2_000);
            }
        });
        let answer = bridge.finish();
        answer.assert_exact();
        assert_eq!(answer.loss("received"), u64::from(sent));
        let out = numbers(&out.frames(answer.loss("sent")));
        assert!(out.is_sorted_by(|one, other| one < other));
        let is_even = |number: &u32| number.is_multiple_of(2);
        let missing = |number: &u32| out.binary_search(number).is_err();
        assert!(out.iter().all(is_even));
        if answer.loss("lost") + answer.loss("unsent") == 0 {
            let missing: Vec<_> = (0..sent).filter(|number| is_even(number) && missing(number)).collect();
            assert!(!missing.is_empty() && missing.iter().all(|number| number % u32::from(RULES) == 10), "{missing:?}");
        }
        assert_eq!((&answer.json["reloads"]["done"], &answer.json["reloads"]["refused"]), (&4.into(), &2.into()));
    });
}

/// A signal lets no more frames in; those received are decided, and what was permitted was sent or is counted.
#[test]
fn a_signal_leaves_no_frame_behind() {
    inside("bridge::a_signal_leaves_no_frame_behind", || {
        ports(false);
        let folder = Folder::new("signal");
        let path = folder.write("x.rules", "permit udp\n");
        for workers in ["1", "2"] {
            let mut out = Receiver::new("vd");
            let bridge = bridge(&path, &["--workers", workers]);
            let (_, answer) = beside_frames("va", |flow| {
                flow.wait(5_000);
                bridge.send("-TERM");
                bridge.answer()
            });
            answer.assert_exact();
            assert_eq!(answer.loss("decided"), answer.loss("sent") + answer.loss("unsent"), "{}", answer.json);
            assert_eq!(out.frames(answer.loss("sent")).len() as u64, answer.loss("sent"));
        }
    });
}

/// Frames of ARP are denied as unknown packets, and pass where that is asked for, with a tag or without.
#[test]
fn arp_passes_if_asked_for() {
    inside("bridge::arp_passes_if_asked_for", || {
        ports(false);
        let arp = |tag: &[u8]| [&[0xFF; 6][..], &[2, 0, 0, 0, 0, 2], tag, &[8, 6], &[0; 46]].concat();
        // Another type that is no IP stays denied.
        let other = [&[0xFF; 6][..], &[2, 0, 0, 0, 0, 2], &[0x88, 0xCC], &[0; 46]].concat();
        let frames = [arp(&[]), other, arp(&[0x81, 0, 0, 7]), frame(0)];
        let passed = [frames[0].clone(), frames[2].clone(), frames[3].clone()];
        let (out, answer) = through(&rules(), &["--pass-arp"], &frames);
        assert_eq!((out, answer.json["verdicts"]["permit"].as_u64()), (passed.to_vec(), Some(3)), "{}", answer.json);
        assert_eq!(answer.json["outcomes"]["not-ip"], 3);
        let (out, answer) = through(&rules(), &[], &frames);
        assert_eq!(out, [frames[3].clone()], "{}", answer.json);
        let (out, _) = through(&format!("unknown permit\n{}", rules()), &[], &frames);
        assert_eq!(out, frames);
    });
}

/// Interfaces that would let frames pass beside the rules, or lose them, are refused, and the reason has the remedy.
#[test]
fn ports_that_cannot_be_bridged_are_refused() {
    inside("bridge::ports_that_cannot_be_bridged_are_refused", || {
        ports(true);
        let folder = Folder::new("ports");
        let path = folder.write("x.rules", rules());
        let refused = |options: &[&str]| {
            let line = [&["bridge", path.to_str().unwrap()], options].concat();
            let output = command(&line).output().unwrap();
            assert_eq!((output.status.code(), &*output.stdout), (Some(2), &b""[..]));
            String::from_utf8(output.stderr).unwrap()
        };
        let pair = ["vb", "vc"];
        assert!(refused(&["vb", "vb"]).contains("vb is given twice"));
        assert!(
            refused(&["vb", "vc", "--io", "xdp", "--workers", "2"]).contains("--io xdp does not go with --workers")
        );
        let error = refused(&pair);
        assert!(error.contains("vb merges frames") && error.contains("ethtool -K vb gro off"), "{error}");
        assert!(error.contains("warning: ARP is no IP"), "{error}");
        ports(false);
        assert!(refused(&["vb", "lo"]).contains("lo is the loopback"));
        assert!(refused(&["vb", "no-such"]).contains("there is no interface no-such"));
        ip(&["address", "add", "192.0.2.1/24", "dev", "vc"]).unwrap();
        assert!(refused(&pair).contains("ip address flush dev vc"));
        ip(&["address", "flush", "dev", "vc"]).unwrap();
        ip(&["link", "set", "vc", "down"]).unwrap();
        assert!(refused(&pair).contains("vc is down: ip link set vc up"));
        if ip(&["link", "add", "br0", "type", "bridge"]).is_ok() {
            ip(&["link", "set", "vb", "master", "br0"]).unwrap();
            let error = refused(&pair);
            assert!(error.contains("vb is a port of br0") && error.contains("ip link set vb nomaster"), "{error}");
            ip(&["link", "set", "vb", "nomaster"]).unwrap();
        }
        // An interface that is down is waited for, and one that goes ends the program.
        let mut bridge = bridge(&path, &["--wait"]);
        ip(&["link", "set", "vc", "up"]).unwrap();
        bridge.wait_for("vc is up");
        let (sender, mut out) = (Sender::new("va"), Receiver::new("vd"));
        (0..100).for_each(|number| sender.send(&frame(number)));
        assert_eq!(out.frames(50).len(), 50);
        ip(&["link", "delete", "vc"]).unwrap();
        let answer = bridge.answer();
        answer.assert_exact();
        assert!(answer.code == 69 && answer.rest.contains("vc is gone"), "{}", answer.rest);
    });
}

/// The service manager is told when frames pass, and when the end begins.
#[test]
fn the_service_manager_is_told() {
    inside("bridge::the_service_manager_is_told", || {
        ports(false);
        let folder = Folder::new("manager");
        let (path, name) = (folder.write("x.rules", rules()), folder.0.join("notify"));
        let socket = UnixDatagram::bind(&name).unwrap();
        let mut told = command(&["bridge", path.to_str().unwrap(), "vb", "vc", "--json"]);
        told.env("NOTIFY_SOCKET", &name);
        let mut bridge = run(told);
        bridge.wait_for("ready: vb and vc is bridged");
        let next = || {
            let mut text = [0; 64];
            let length = socket.recv(&mut text).unwrap();
            String::from_utf8(text[..length].to_vec()).unwrap()
        };
        assert_eq!(next(), "READY=1");
        assert_eq!(bridge.finish().code, 143);
        assert_eq!(next(), "STOPPING=1");
    });
}
