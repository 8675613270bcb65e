//! Rules that are read anew while frames come.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::namespace::{Folder, inside};
use crate::traffic::{Sender, beside_frames, frame, rules};
use crate::watch::Watch;

/// Rules that stay keep their ids and counts while others come and go beside frames, by the file and by SIGHUP.
#[test]
fn rules_that_stay_keep_id_and_count() {
    inside("reload::rules_that_stay_keep_id_and_count", || {
        let folder = Folder::new("kept");
        let text = rules();
        let path = folder.write("x.rules", &text);
        let mut watch = Watch::start(&path, "vb", &["--no-watch-file"]);
        let (sent, ()) = beside_frames("va", |flow| {
            for round in 0..4 {
                // Ten rules are other ones, or the first ones again; two lines more stand before them.
                let other = text.replace("permit udp dport 100", "permit udp sport 9 dport 100");
                fs::write(&path, if round % 2 == 0 { format!("# one\n\n{other}") } else { text.clone() }).unwrap();
                watch.send("-HUP");
                let line = watch.wait_for(" kept");
                assert!(line.contains("95 rules kept, 5 new, 5 removed"), "{line}");
                flow.wait(1_000);
            }
        });
        let answer = watch.finish();
        answer.assert_exact();
        assert_eq!((answer.loss("received"), answer.json["reloads"]["done"].as_u64()), (sent.into(), Some(4)));
        if answer.loss("lost") == 0 {
            // Frame k is for rule k modulo 100: rules that stayed have each of theirs.
            let each = u64::from(sent / 100);
            let of_kept = answer.by_line().into_iter().filter(|(line, _)| line % 2 == 0 || *line > 10);
            assert!(
                of_kept.clone().count() == 95 && of_kept.clone().all(|(_, packets)| packets == each),
                "{}",
                answer.json
            );
        }
        assert!(answer.count("removed_rules_packets") + answer.count("unmatched") > 0, "{}", answer.json);
    });
}

/// Whatever happens to the file, the old rules stay until there is a whole new one.
#[test]
fn a_bad_file_leaves_the_old_rules() {
    inside("reload::a_bad_file_leaves_the_old_rules", || {
        let folder = Folder::new("bad");
        let at = |name: &str| folder.0.join(name);
        for (name, text) in [("one/x.rules", "deny udp\n"), ("two/x.rules", "permit tcp\npermit udp\n")] {
            fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            fs::write(at(name), text).unwrap();
        }
        symlink("one", at("now")).unwrap();
        let path = at("now/x.rules");
        let mut watch = Watch::start(&path, "vb", &[]);
        // Each change is one system call, so that the program sees nothing in between. First half of a line.
        let change = || fs::File::options().append(true).open(at("one/x.rules")).unwrap();
        change().write_all(b"permit u").unwrap();
        let lines = watch.wait_for("the old rules stay");
        assert!(lines.contains("x.rules:2:8"), "{lines}");
        change().set_len(0).unwrap();
        let lines = watch.wait_for("the old rules stay");
        assert!(lines.contains("there is nothing in it"), "{lines}");
        change().write_all(b"# to be continued\n").unwrap();
        let lines = watch.wait_for("the old rules stay");
        assert!(lines.contains("there is no rule"), "{lines}");
        fs::remove_file(at("one/x.rules")).unwrap();
        let lines = watch.wait_for("the old rules stay");
        assert!(lines.contains("o such file"), "{lines}");
        // An editor renames the new file.
        folder.write("one/x.rules", "permit udp\n");
        watch.wait_for("1 new, 1 removed");
        fs::rename(at("one"), at("three")).unwrap();
        watch.wait_for("the old rules stay");
        fs::rename(at("three"), at("one")).unwrap();
        watch.wait_for("1 rule kept, 0 new, 0 removed");
        symlink("two", at("new")).unwrap();
        fs::rename(at("new"), at("now")).unwrap();
        watch.wait_for("1 rule kept, 1 new, 0 removed");
        let mut refused = 5;
        if !can_read_all(&folder) {
            fs::set_permissions(at("two/x.rules"), PermissionsExt::from_mode(0o000)).unwrap();
            watch.wait_for("the old rules stay");
            refused += 1;
        }
        let sender = Sender::new("va");
        (0..100).for_each(|number| sender.send(&frame(number)));
        let answer = watch.finish();
        answer.assert_exact();
        assert_eq!(answer.by_line(), [(2, 100)], "{}", answer.json);
        assert_eq!((&answer.json["reloads"]["done"], &answer.json["reloads"]["refused"]), (&3.into(), &refused.into()));
    });
}

/// Whether permissions hold nobody back, as for root.
fn can_read_all(folder: &Folder) -> bool {
    let path = folder.write("closed", "");
    fs::set_permissions(&path, PermissionsExt::from_mode(0o000)).unwrap();
    fs::read(path).is_ok()
}

/// A file that a set includes is watched, too, also one that was missing.
#[test]
fn included_files_are_watched() {
    inside("reload::included_files_are_watched", || {
        let folder = Folder::new("included");
        folder.write("ports.txt", "1000\n");
        let text = "set ports = { include \"ports.txt\" }\ndeny udp dport $ports\npermit\n";
        let path = folder.write("x.rules", text);
        let mut watch = Watch::start(&path, "vb", &[]);
        folder.write("ports.txt", "1000\n1001\n");
        watch.wait_for("1 new, 1 removed");
        // The text names a file that comes later.
        folder.write("x.rules", text.replace("ports.txt", "later.txt"));
        let lines = watch.wait_for("the old rules stay");
        assert!(lines.contains("later.txt"), "{lines}");
        folder.write("later.txt", "1002\n");
        watch.wait_for("1 new, 1 removed");
        let sender = Sender::new("va");
        (0..100).for_each(|number| sender.send(&frame(number)));
        let answer = watch.finish();
        answer.assert_exact();
        assert_eq!(answer.by_line(), [(2, 1), (3, 99)], "{}", answer.json);
    });
}

/// Other fields and another policy are taken up, too, and the counts still add up.
#[test]
fn other_fields_and_another_policy_are_taken_up() {
    inside("reload::other_fields_and_another_policy_are_taken_up", || {
        let folder = Folder::new("fields");
        let path = folder.write("x.rules", "default deny\npermit udp dport 1000\n");
        let mut watch = Watch::start(&path, "vb", &["--engine", "hypercuts", "--workers", "2"]);
        let sender = Sender::new("va");
        (0..1_000).for_each(|number| sender.send(&frame(number)));
        folder.write("x.rules", "default permit\ndeny vlan_vid 9\npermit udp dport 1000\n");
        watch.wait_for("other fields or another policy");
        (0..1_000).for_each(|number| sender.send(&frame(number)));
        let answer = watch.finish();
        answer.assert_exact();
        assert_eq!((answer.loss("received"), answer.by_line()), (2_000, vec![(3, 20)]), "{}", answer.json);
        assert_eq!(answer.json["engine"], "hypercuts");
    });
}
