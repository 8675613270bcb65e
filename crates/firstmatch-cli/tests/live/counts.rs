//! Counts are those of the frames that were sent, and those of `classify`.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use firstmatch_net::source::{self, Input};
use serde_json::Value;

use crate::namespace::{Folder, inside, ip};
use crate::traffic::{RULES, Sender, frame, rules, tagged};
use crate::watch::{Watch, command};

/// Every rule has decided the frames for it, nothing has come back, and frames of this host are not counted.
#[test]
fn rules_count_their_frames_and_nothing_is_sent() {
    inside("counts::rules_count_their_frames_and_nothing_is_sent", || {
        let folder = Folder::new("rules");
        let rules = folder.write("x.rules", rules());
        for workers in ["1", "2"] {
            // What is sent from vb comes in at va.
            let other = Watch::start(&rules, "va", &[]);
            let watch = Watch::start(&rules, "vb", &["--workers", workers]);
            let (there, back) = (Sender::new("va"), Sender::new("vb"));
            (0..2_000).for_each(|number| there.send(&frame(number)));
            (0..10).for_each(|number| back.send(&frame(number)));
            let answer = watch.finish();
            answer.assert_exact();
            assert_eq!((answer.code, answer.loss("received"), answer.loss("lost")), (143, 2_000, 0), "{}", answer.json);
            let expected: Vec<(u64, u64)> = (1..=RULES.into()).map(|line| (line, 20)).collect();
            assert_eq!(answer.by_line(), expected);
            assert_eq!(
                (&answer.json["verdicts"]["permit"], &answer.json["verdicts"]["deny"]),
                (&1_000.into(), &1_000.into())
            );
            assert_eq!(other.finish().count("packets"), 10);
        }
        let watch = Watch::start(&rules, "vb", &["--direction", "both"]);
        let (there, back) = (Sender::new("va"), Sender::new("vb"));
        (0..10).for_each(|number| there.send(&frame(number)));
        (0..20).for_each(|number| back.send(&frame(number)));
        let answer = watch.finish();
        answer.assert_exact();
        assert_eq!(answer.count("packets"), 30);
    });
}

/// The kernel takes tags out of frames; they are there again, so that rules see them and lengths are right.
#[test]
fn tags_stay_in_frames() {
    inside("counts::tags_stay_in_frames", || {
        let folder = Folder::new("tags");
        let rules = folder.write("x.rules", "deny vlan_vid 42\npermit\n");
        let pcap = folder.0.join("denied.pcap");
        let watch = Watch::start(&rules, "vb", &["--write", pcap.to_str().unwrap()]);
        let sender = Sender::new("va");
        for number in 0..100 {
            sender.send(&tagged(number, 42));
            sender.send(&tagged(number, 43));
            sender.send(&frame(number));
        }
        let answer = watch.finish();
        answer.assert_exact();
        assert_eq!(answer.by_line(), [(1, 100), (2, 200)]);
        assert_eq!(answer.count("bytes"), 100 * (64 + 64 + 60));
        assert_eq!(frames_of(&pcap)[0], tagged(0, 42), "the first denied frame, with its tag");
    });
}

/// A capture sent into an interface is counted as `classify` counts it, by rule and outcome, whatever the workers.
#[test]
fn a_replayed_capture_has_the_counts_of_classify() {
    inside("counts::a_replayed_capture_has_the_counts_of_classify", || {
        let examples = env::var_os("FIRSTMATCH_EXAMPLES")
            .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples"), PathBuf::from);
        let rules = examples.join("edge.rules");
        // Frames of fewer bytes than an address pair cannot be sent.
        let frames = frames_of(&examples.join("edge.pcapng"));
        let frames: Vec<Vec<u8>> = frames.into_iter().filter(|frame| (14..=9_000).contains(&frame.len())).collect();
        assert!(frames.len() > 100, "{}", frames.len());
        for name in ["va", "vb"] {
            ip(&["link", "set", name, "mtu", "9000"]).unwrap();
        }
        let folder = Folder::new("replay");
        let sent = folder.write("sent.pcap", capture(&frames));
        let expected = classified(&rules, &sent);
        for workers in ["1", "3"] {
            let watch = Watch::start(&rules, "vb", &["--workers", workers]);
            let sender = Sender::new("va");
            frames.iter().for_each(|frame| sender.send(frame));
            let answer = watch.finish();
            answer.assert_exact();
            for part in
                ["packets", "bytes", "matched", "unmatched", "unknown", "outcomes", "verdicts", "actions", "rule_hits"]
            {
                assert_eq!(answer.json[part], expected[part], "{part}, {workers} workers");
            }
        }
    });
}

/// What `--write` keeps is denied by `classify`, too, by the same rules.
#[test]
fn samples_are_denied_packets() {
    inside("counts::samples_are_denied_packets", || {
        let folder = Folder::new("samples");
        let rules = folder.write("x.rules", rules());
        let pcap = folder.0.join("denied.pcap");
        let watch = Watch::start(&rules, "vb", &["--write", pcap.to_str().unwrap()]);
        let sender = Sender::new("va");
        (0..2_000).for_each(|number| sender.send(&frame(number)));
        let answer = watch.finish();
        answer.assert_exact();
        let json = classified(&rules, &pcap);
        let packets = json["packets"].as_u64().unwrap();
        assert!(packets > 0 && json["verdicts"]["deny"].as_u64() == Some(packets), "{json}");
        assert!(answer.rest.contains("denied.pcap: "), "{}", answer.rest);
        // The rules themselves are not written over.
        let (rules, text) = (rules.to_str().unwrap(), std::fs::read(&rules).unwrap());
        let refused = command(&["watch", rules, "vb", "--write", rules]).output().unwrap();
        assert_eq!((refused.status.code(), std::fs::read(rules).unwrap()), (Some(2), text));
    });
}

/// Frames that find a ring full are counted, and none is counted twice.
#[test]
fn a_full_ring_loses_frames_and_counts_them() {
    inside("counts::a_full_ring_loses_frames_and_counts_them", || {
        let folder = Folder::new("full");
        let rules = folder.write("x.rules", rules());
        let watch = Watch::start(&rules, "vb", &["--ring-mib", "1"]);
        let sender = Sender::new("va");
        (0..1_000).for_each(|number| sender.send(&frame(number)));
        watch.send("-STOP");
        (0..20_000).for_each(|number| sender.send(&frame(number)));
        watch.send("-CONT");
        let answer = watch.finish();
        answer.assert_exact();
        assert_eq!(answer.loss("received"), 21_000, "{}", answer.json);
        assert!(answer.loss("lost") > 1_000 && answer.loss("decided") > 1_000, "{}", answer.json);
    });
}

/// Returns the answer of `classify` about a capture.
fn classified(rules: &Path, capture: &Path) -> Value {
    let line = ["classify", rules.to_str().unwrap(), capture.to_str().unwrap(), "--json"];
    let output = command(&line).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the frames of a capture.
pub(crate) fn frames_of(path: &Path) -> Vec<Vec<u8>> {
    let Input::Capture(mut capture) = source::open(path).unwrap() else { panic!("a capture") };
    let mut frames = Vec::new();
    while let Some(packet) = capture.next().unwrap() {
        frames.push(packet.data.to_vec());
    }
    frames
}

fn capture(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut writer = pcap_file::pcap::PcapWriter::new(Vec::new()).unwrap();
    for data in frames {
        let packet = pcap_file::pcap::PcapPacket::new(std::time::Duration::ZERO, data.len() as u32, data);
        writer.write_packet(&packet).unwrap();
    }
    writer.into_writer()
}
