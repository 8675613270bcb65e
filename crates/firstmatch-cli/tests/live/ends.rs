//! How the program begins and ends: errors, signals, interfaces that go down or away.

use std::fs;
use std::process::Command;

use crate::namespace::{Folder, inside, ip, is_root_everywhere};
use crate::traffic::{Sender, beside_frames, frame, rules};
use crate::watch::{Watch, command, program};

/// A signal ends the counting while frames flow: what the ring has received is decided or counted as lost.
#[test]
fn a_signal_ends_the_counting_and_no_frame_is_missing() {
    inside("ends::a_signal_ends_the_counting_and_no_frame_is_missing", || {
        let folder = Folder::new("signal");
        let rules = folder.write("x.rules", rules());
        for (signal, code, workers) in [("-TERM", 143, "1"), ("-INT", 130, "1"), ("-TERM", 143, "2")] {
            let watch = Watch::start(&rules, "vb", &["--workers", workers]);
            let (sent, answer) = beside_frames("va", |flow| {
                flow.wait(5_000);
                watch.send(signal);
                watch.answer()
            });
            answer.assert_exact();
            assert_eq!(answer.code, code, "{}", answer.rest);
            assert!((4_999..=u64::from(sent)).contains(&answer.loss("received")), "{}", answer.json);
        }
    });
}

/// Wrong rules are found before any socket is opened, and each refusal names what is missing.
#[test]
fn what_cannot_be_watched_is_refused_by_name() {
    inside("ends::what_cannot_be_watched_is_refused_by_name", || {
        let folder = Folder::new("refused");
        let good = folder.write("x.rules", rules());
        let bad = folder.write("bad.rules", "permit udp\npermit tpc\n");
        let refused = |command: &mut Command| {
            let output = command.output().unwrap();
            assert_eq!((output.status.code(), &*output.stdout), (Some(2), &b""[..]));
            String::from_utf8(output.stderr).unwrap()
        };
        // There is no such interface either, but the rules come first.
        let err = refused(&mut command(&["watch", bad.to_str().unwrap(), "no-such"]));
        assert!(err.contains("bad.rules:2:8") && !err.contains("no-such"), "{err}");
        let good = good.to_str().unwrap();
        let err = refused(&mut command(&["watch", good, "no-such"]));
        assert!(err.contains("there is no interface no-such"), "{err}");
        let err = refused(&mut command(&["watch", good, "vb", "--user", "no such user"]));
        assert!(err.contains("--user no such user: there is no such user"), "{err}");
        let err = refused(&mut command(&["watch", "-", "vb"]));
        assert!(err.contains("standard input"), "{err}");
        if ip(&["tuntap", "add", "dev", "t0", "mode", "tun"]).is_ok() {
            let err = refused(&mut command(&["watch", good, "t0"]));
            assert!(err.contains("t0: this interface has no Ethernet frames"), "{err}");
        }
        let mut without = Command::new("setpriv");
        without.args(["--inh-caps=-net_raw", "--bounding-set=-net_raw"]).arg(program());
        let err = refused(without.args(["watch", good, "vb"]).env("NO_COLOR", "1"));
        assert!(err.contains("needs CAP_NET_RAW"), "{err}");
    });
}

/// The program waits for an interface that is down, and goes on with one that was down meanwhile.
#[test]
fn an_interface_that_is_down_is_waited_for() {
    inside("ends::an_interface_that_is_down_is_waited_for", || {
        let folder = Folder::new("down");
        let rules = folder.write("x.rules", rules());
        ip(&["link", "set", "vb", "down"]).unwrap();
        let mut watch = Watch::start_early(&rules, "vb", &[]);
        let lines = watch.wait_for("ready: ");
        assert!(lines.contains("vb is down") && lines.contains("ip link set vb up"), "{lines}");
        let sender = Sender::new("va");
        for _ in 0..2 {
            ip(&["link", "set", "vb", "up"]).unwrap();
            watch.wait_for("vb is up");
            (0..100).for_each(|number| sender.send(&frame(number)));
            ip(&["link", "set", "vb", "down"]).unwrap();
            watch.wait_for("vb is down");
        }
        let answer = watch.finish();
        answer.assert_exact();
        assert_eq!((answer.code, answer.count("packets")), (143, 200), "{}", answer.json);
    });
}

/// An interface that is deleted ends the program, with the answer for the frames before.
#[test]
fn an_interface_that_is_gone_ends_the_program() {
    inside("ends::an_interface_that_is_gone_ends_the_program", || {
        let folder = Folder::new("gone");
        let rules = folder.write("x.rules", rules());
        let watch = Watch::start(&rules, "vb", &[]);
        let sender = Sender::new("va");
        (0..100).for_each(|number| sender.send(&frame(number)));
        ip(&["link", "delete", "vb"]).unwrap();
        let answer = watch.answer();
        answer.assert_exact();
        assert_eq!((answer.code, answer.count("packets")), (69, 100), "{}", answer.rest);
        assert!(answer.rest.contains("vb is gone"), "{}", answer.rest);
    });
}

/// Another user goes on without any capability, in all threads; it is told which file it cannot read.
#[test]
fn another_user_goes_on_without_capabilities() {
    inside("ends::another_user_goes_on_without_capabilities", || {
        if !is_root_everywhere() {
            return; // In this namespace of users there is no other one.
        }
        let folder = Folder::new("user");
        let rules = folder.write("x.rules", rules());
        let closed = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(&rules, closed).unwrap();
        let mut watch = Watch::start_early(&rules, "vb", &["--user", "nobody", "--workers", "2"]);
        let lines = watch.wait_for("ready: ");
        assert!(lines.contains("x.rules: Permission denied") && lines.contains("this user cannot read it"), "{lines}");
        let threads: Vec<String> = fs::read_dir(format!("/proc/{}/task", watch.id()))
            .unwrap()
            .map(|thread| fs::read_to_string(thread.unwrap().path().join("status")).unwrap())
            .collect();
        assert!(threads.len() >= 3, "{}", threads.len());
        for status in threads {
            let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
            assert!(!field("Uid:").split_whitespace().any(|user| user == "0"), "{status}");
            assert_eq!(
                (field("CapEff:"), field("CapPrm:"), field("Groups:")),
                ("0".repeat(16), "0".repeat(16), String::new())
            );
        }
        let sender = Sender::new("va");
        (0..100).for_each(|number| sender.send(&frame(number)));
        watch.send("-HUP");
        let lines = watch.wait_for("the old rules stay");
        assert!(lines.contains("ermission denied"), "{lines}");
        let answer = watch.finish();
        answer.assert_exact();
        assert_eq!(answer.count("packets"), 100);
        assert_eq!(answer.json["reloads"]["refused"], 1);
    });
}
