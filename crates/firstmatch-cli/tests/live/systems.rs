//! The arrangements of threads of the papers on lanes: the same frames come out, and the same counts, as by copies.

use std::collections::BTreeSet;
use std::fs;

use crate::namespace::{Folder, inside};
use crate::ports::{Receiver, bridge, number_of, ports};
use crate::traffic::{RULES, Sender, beside_frames, frame, rules};
use crate::watch::{Answer, Watch, command, run};

/// Systems with threads of their stages, and whether they keep the order of a lane's frames.
const SYSTEMS: [(&str, &str, bool); 6] = [
    ("copies", "1", true),
    ("shared", "1-1", true),
    ("storm", "1-1-1", false),
    ("rfc", "1-1", true),
    ("pnpf", "1-1-1", true),
    ("rfc", "1-1-1", true),
];

fn options<'a>(system: &'a str, threads: &'a str) -> [&'a str; 4] {
    // Copies take no threads but those of lanes.
    if system == "copies" {
        ["--system", system, "--workers", threads]
    } else {
        ["--system", system, "--threads", threads]
    }
}

/// Asserts that counts by rule are those of `packets` frames in turn.
fn assert_counts(answer: &Answer, packets: u64) {
    answer.assert_exact();
    let expected: Vec<_> = (1..=u64::from(RULES)).map(|line| (line, packets / u64::from(RULES))).collect();
    assert_eq!(answer.by_line(), expected);
}

/// Every system lets through exactly the permitted frames, those of unknown packets by the policy.
#[test]
fn systems_let_through_what_copies_do() {
    inside("systems::systems_let_through_what_copies_do", || {
        ports(false);
        let folder = Folder::new("systems");
        let path = folder.write("x.rules", rules());
        for (system, threads, is_ordered) in SYSTEMS {
            for more in [&[][..], &["--offloads", "keep"]] {
                let (mut out, sender) = (Receiver::new("vd"), Sender::new("va"));
                let bridge = bridge(&path, &[&options(system, threads)[..], more, &["--pass-arp"]].concat());
                let frames: Vec<_> = (0..2_000).map(frame).collect();
                frames.iter().for_each(|frame| sender.send(frame));
                let arp = [&[0xFF; 6][..], &[2, 0, 0, 0, 0, 2, 8, 6], &[0; 46]].concat();
                sender.send(&arp);
                let answer = bridge.finish();
                assert_counts(&answer, 2_000);
                assert_eq!((answer.code, answer.loss("sent"), answer.count("packets")), (143, 1_001, 2_001));
                let mut came = out.frames(1_001);
                came.retain(|frame| *frame != arp);
                assert_eq!(came.len(), 1_000, "{system}");
                if !is_ordered {
                    came.sort_by_key(|frame| number_of(frame));
                }
                assert!(came.iter().eq(frames.iter().step_by(2)), "{system}");
            }
        }
    });
}

/// Rules are read anew: planes of the new ones follow those of the old ones, and no frame is lost between.
#[test]
fn systems_follow_reloads() {
    inside("systems::systems_follow_reloads", || {
        ports(false);
        let folder = Folder::new("followed");
        let text = rules();
        for (system, threads, _) in SYSTEMS {
            let path = folder.write("x.rules", &text);
            let mut out = Receiver::new("vd");
            let options = [&options(system, threads)[..], &["--no-watch-file", "--ring-mib", "32"]].concat();
            let mut bridge = bridge(&path, &options);
            let (sent, ()) = beside_frames("va", |flow| {
                let with_field = text.replace("permit udp dport 1010\n", "deny udp dport 1010 vlan_vid absent\n");
                for file in [text.replace("permit udp dport 1010\n", "deny udp dport 1010\n"), text.clone(), with_field]
                {
                    fs::write(&path, file).unwrap();
                    bridge.send("-HUP");
                    let line = bridge.wait_for(" kept");
                    assert!(line.contains("99 rules kept, 1 new, 1 removed"), "{line}");
                    flow.wait(1_000);
                }
            });
            let answer = bridge.finish();
            answer.assert_exact();
            assert_eq!(answer.loss("received"), u64::from(sent), "{system}");
            let came: BTreeSet<u32> = out.frames(answer.loss("sent")).iter().map(|frame| number_of(frame)).collect();
            assert_eq!(came.len() as u64, answer.loss("sent"), "a frame came twice");
            assert!(came.iter().all(|number| number.is_multiple_of(2)));
            if answer.loss("lost") + answer.loss("unsent") == 0 {
                let missing = (0..sent).filter(|number| number.is_multiple_of(2) && !came.contains(number));
                let missing: Vec<_> = missing.collect();
                assert!(
                    !missing.is_empty() && missing.iter().all(|number| number % u32::from(RULES) == 10),
                    "{system} of {sent}: {missing:?} {}",
                    answer.json
                );
            }
        }
    });
}

/// Two families each have a plane, and a watched interface counts by them, with several lanes.
#[test]
fn systems_count_both_families() {
    inside("systems::systems_count_both_families", || {
        let folder = Folder::new("families");
        let path = folder.write("x.rules", "deny tcp dport 9\ndeny src fe80::/10\npermit udp dport 1000-1049\n");
        for (system, threads, _) in &SYSTEMS[1..] {
            let watch = Watch::start(&path, "vb", &[&options(system, threads)[..], &["--workers", "2"]].concat());
            let sender = Sender::new("va");
            (0..1_000).for_each(|number| sender.send(&frame(number)));
            let six = [&[2; 12][..], &[0x86, 0xDD, 0x60, 0, 0, 0, 0, 8, 17, 64, 0xFE, 0x80], &[0; 46]].concat();
            (0..50).for_each(|_| sender.send(&six));
            let answer = watch.finish();
            answer.assert_exact();
            assert_eq!(
                (answer.by_line(), answer.count("unmatched")),
                (vec![(2, 50), (3, 500)], 500),
                "{}",
                answer.json
            );
            assert_eq!(answer.json["engines"].as_array().unwrap().len(), 2);
        }
    });
}

/// A system refuses what it cannot do, at the start and at a reload, where the old rules stay.
#[test]
fn systems_refuse_what_they_cannot_do() {
    inside("systems::systems_refuse_what_they_cannot_do", || {
        ports(false);
        let folder = Folder::new("refused");
        let path = folder.write("x.rules", rules());
        let refused = |options: &[&str]| {
            let line = [&["bridge", path.to_str().unwrap(), "vb", "vc"], options].concat();
            let output = command(&line).output().unwrap();
            assert_eq!(output.status.code(), Some(2));
            String::from_utf8(output.stderr).unwrap()
        };
        assert!(refused(&["--system", "storm", "--fail", "open"]).contains("--fail open is of --system copies"));
        assert!(refused(&["--system", "pnpf", "--engine", "rfc"]).contains("is of the engine npf"));
        assert!(refused(&["--system", "storm", "--threads", "2"]).contains("--threads of the system storm are"));
        // The build for a hundred rules is short enough, and that for all the sources below is not.
        let line = ["bridge", path.to_str().unwrap(), "vb", "vc", "--json", "--system", "rfc"];
        let mut bridge = run(command(&[&line[..], &["--build-visits", "100000"]].concat()));
        bridge.wait_for("ready: ");
        let many: String =
            (0..20_000).map(|at| format!("permit udp src 10.{}.{}.0/24\n", at / 256, at % 256)).collect();
        folder.write("x.rules", many);
        let lines = bridge.wait_for("the old rules stay");
        assert!(lines.contains("region visits or more"), "{lines}");
        let (mut out, sender) = (Receiver::new("vd"), Sender::new("va"));
        (0..100).for_each(|number| sender.send(&frame(number)));
        let answer = bridge.finish();
        assert_counts(&answer, 100);
        assert_eq!((out.frames(50).len(), &answer.json["reloads"]["refused"]), (50, &1.into()));
    });
}
