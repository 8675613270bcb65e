//! Inputs that end early, by a signal or by a fault, and outputs that are whole or not there.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::io::ioctl_fionread;
use serde_json::Value;

use crate::fixture::{CLASSBENCH, Fixture, RULES, capture, packets, result};

/// Waits until `holds` returns true, for 30 seconds at most.
fn wait(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(30), "{what}");
        sleep(Duration::from_millis(2));
    }
}

fn spawn(mut command: Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until the program handles SIGINT itself.
fn wait_for_handler(child: &Child) {
    let status = format!("/proc/{}/status", child.id());
    wait("it takes care of signals", || {
        let status = fs::read_to_string(&status).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() & 1 << (2 - 1) != 0
    });
}

fn send(child: &Child, signal: &str) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

/// Feeds bytes to the program, and ends it by a signal once it has read them.
fn interrupted(command: Command, bytes: &[u8], signal: &str) -> (i32, String, String) {
    let mut child = spawn(command);
    let mut stdin = child.stdin.take().unwrap();
    wait_for_handler(&child);
    stdin.write_all(bytes).unwrap();
    wait("it has read all", || ioctl_fionread(&stdin).unwrap() == 0);
    send(&child, signal);
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    result(&output)
}

fn many(count: usize) -> Vec<u8> {
    let some = packets();
    capture(&(0..count).map(|i| some[i % some.len()].clone()).collect::<Vec<_>>())
}

#[test]
fn the_first_signal_ends_the_input_and_the_answer_is_whole() {
    let fixture = Fixture::new("signal");
    let bytes = many(10_007);
    for (signal, code, name) in [("-INT", 130, "SIGINT"), ("-TERM", 143, "SIGTERM")] {
        // The last packet is cut off, and the program waits for the rest of it.
        let command = fixture.command(&["classify", "x.rules", "-", "--csv", "out.csv", "--check", "100"]);
        let (status, out, err) = interrupted(command, &bytes[..bytes.len() - 1], signal);
        assert_eq!((status, &*err), (code, ""), "{out}");
        assert!(out.starts_with("standard input: 10,006 packets"), "{out}");
        assert!(out.contains(&format!("standard input: {name} ended the input; what follows was not read")), "{out}");
        let lines = fixture.read("out.csv");
        assert!(lines.lines().count() == 10_007 && lines.ends_with('\n'), "{}", lines.lines().count());
        assert!(lines.lines().last().unwrap().starts_with("10005,"));
        assert_eq!(fs::read_dir(&fixture.folder).unwrap().count(), 5);
        fs::remove_file(fixture.folder.join("out.csv")).unwrap();
    }
    // Half a line is no packet, and neither is half of a compressed stream.
    let trace = b"1\t2\t3\t4\t6\t1\n1\t2\t3\t4\t6\t1";
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(trace).unwrap();
    let gzip = gzip.finish().unwrap();
    for (bytes, packets) in [(&trace[..], 1), (&gzip[..gzip.len() - 1], 1)] {
        let command = fixture.command(&["classify", "cb.rules", "-", "--json"]);
        let (status, out, err) = interrupted(command, bytes, "-INT");
        assert_eq!(status, 130, "{err}");
        let value: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((&value["packets"], value["warnings"].as_array().unwrap().len()), (&packets.into(), 1));
        assert!(err.contains("SIGINT ended the input"), "{err}");
    }
    let (status, out, err) = interrupted(fixture.command(&["classify", "x.rules", "-", "--csv", "x.csv"]), b"", "-INT");
    assert_eq!((status, &*out), (130, ""));
    assert!(err.contains("standard input: SIGINT ended the input before the first packet"), "{err}");
    assert!(!fixture.folder.join("x.csv").exists());
}

#[test]
fn a_signal_wakes_a_reader_of_a_pipe_with_a_name() {
    let fixture = Fixture::new("signal-fifo");
    let fifo = fixture.fifo("in");
    let child = spawn(fixture.command(&["classify", "x.rules", "in"]));
    // Opening the pipe waits for the program.
    let mut writer = File::options().write(true).open(fifo).unwrap();
    wait_for_handler(&child);
    writer.write_all(&many(30)).unwrap();
    wait("it has read all", || ioctl_fionread(&writer).unwrap() == 0);
    send(&child, "-INT");
    let (code, out, _) = result(&child.wait_with_output().unwrap());
    assert!(code == 130 && out.starts_with("in: 30 packets"), "{out}");
}

#[test]
fn a_signal_ends_the_passes_over_packets_held() {
    let fixture = Fixture::new("signal-repeat");
    let child = spawn(fixture.command(&["classify", "x.rules", "x.pcap", "--repeat", "1000000", "--json"]));
    wait_for_handler(&child);
    sleep(Duration::from_millis(50));
    send(&child, "-INT");
    let (code, out, err) = result(&child.wait_with_output().unwrap());
    assert_eq!((code, &*err), (130, ""));
    let value: Value = serde_json::from_str(&out).unwrap();
    let passes = value["timing"]["passes"].as_u64().unwrap();
    assert!((1..1_000_000).contains(&passes) && value["ns_per_packet"].as_f64().unwrap() > 0.0, "{out}");
}

#[test]
fn the_second_signal_ends_the_program() {
    let fixture = Fixture::new("signal-twice");
    fixture.write("many.pcap", many(40_000));
    // The lines are not read, so that the run cannot end.
    let mut child = spawn(fixture.command(&["classify", "x.rules", "many.pcap", "--csv", "-"]));
    wait_for_handler(&child);
    let stdout = child.stdout.take().unwrap();
    wait("it writes", || ioctl_fionread(&stdout).unwrap() > 0);
    send(&child, "-INT");
    sleep(Duration::from_millis(100));
    assert!(child.try_wait().unwrap().is_none(), "the first signal does not end the program");
    send(&child, "-TERM");
    assert_eq!(child.wait().unwrap().signal(), Some(15));
}

/// Checks that every packet before the fault is counted and written, and the exit code is 2.
fn check_fault(fixture: &Fixture, line: &[&str], packets: usize, fault: &str) {
    let line = [&["classify"], line, &["--csv", "out.csv"]].concat();
    for options in [&["--check", "all"][..], &["--check", "10"], &["--repeat", "2"], &[]] {
        let (code, out, err) = fixture.run(&[&line[..], options, &["--json"]].concat());
        assert_eq!(code, 2, "{line:?}: {out} {err}");
        assert!(err.contains(fault), "{line:?}: {err}");
        let value: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(value["packets"], packets, "{line:?}");
        assert!(value["error"].as_str().unwrap().contains(fault), "{line:?}: {out}");
        assert_eq!(value["check"]["differences"].as_u64().unwrap_or(0), 0);
        assert_eq!(fixture.read("out.csv").lines().count(), packets + 1, "{line:?}");
        fs::remove_file(fixture.folder.join("out.csv")).unwrap();
    }
    let (code, out, err) = fixture.run(&line);
    assert!(code == 2 && out.contains("verdict") && err.contains(fault), "{line:?}: {out} {err}");
}

#[test]
fn a_fault_in_mid_file_comes_behind_every_packet_before_it() {
    let fixture = Fixture::new("fault");
    for count in [1, 4096, 10_000] {
        let good = many(count);
        let record = [&[0; 8][..], &[0xff; 8], &[0; 100]].concat();
        fixture.write("bad.pcap", [&good[..], &record].concat());
        let fault = format!("packet {} at byte {}", count + 1, good.len());
        check_fault(&fixture, &["x.rules", "bad.pcap"], count, &fault);

        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&good).unwrap();
        let mut gzip = gzip.finish().unwrap();
        let at = gzip.len() - 8;
        gzip[at] ^= 0x10;
        fixture.write("sum.pcap.gz", gzip);
        check_fault(&fixture, &["x.rules", "sum.pcap.gz"], count, "the gzip stream is damaged");

        let lines = "1\t2\t3\t4\t6\t1\n".repeat(count);
        fixture.write("bad.trace", format!("{lines}1\t2\t3\t4\t666\t1\n{lines}"));
        check_fault(&fixture, &["cb.rules", "bad.trace"], count, "666 is too large");
    }
    // A stream that only ends early is no fault.
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&many(100)).unwrap();
    let gzip = gzip.finish().unwrap();
    fixture.write("cut.pcap.gz", &gzip[..gzip.len() - 4]);
    let (code, out, err) = fixture.run(&["classify", "x.rules", "cut.pcap.gz"]);
    assert_eq!((code, &*err), (0, ""));
    assert!(out.contains("100 packets") && out.contains("the gzip stream ends before its end mark"), "{out}");
}

#[test]
fn an_output_that_is_an_input_is_refused() {
    let fixture = Fixture::new("same-file");
    let pcap = fs::read(fixture.folder.join("x.pcap")).unwrap();
    fs::hard_link(fixture.folder.join("x.rules"), fixture.folder.join("hard")).unwrap();
    std::os::unix::fs::symlink("./x.pcap", fixture.folder.join("soft")).unwrap();
    for (line, from) in [
        (&["classify", "x.rules", "x.pcap", "--csv", "x.rules"][..], "rules"),
        (&["classify", "x.rules", "x.pcap", "--csv", "./x.rules"], "rules"),
        (&["classify", "x.rules", "x.pcap", "--csv", "hard"], "rules"),
        (&["classify", "x.rules", "x.pcap", "--csv", "soft"], "packets"),
        (&["classify", "x.rules", "soft", "--csv", "../same-file/x.pcap"], "packets"),
        (&["convert", "x.rules", "-o", "hard"], "rules"),
        (&["convert", "x.rules", "-o", "x.rules", "--to", "json"], "rules"),
    ] {
        let (code, out, err) = fixture.run(line);
        assert_eq!((code, &*out), (2, ""), "{line:?}");
        assert!(err.contains(&format!("this is also where the {from} come from")), "{line:?}: {err}");
    }
    let input = File::open(fixture.folder.join("x.pcap")).unwrap();
    let output = fixture.command(&["classify", "x.rules", "-", "--csv", "x.pcap"]).stdin(input).output().unwrap();
    assert_eq!(result(&output).0, 2);
    let append = File::options().append(true).open(fixture.folder.join("x.pcap")).unwrap();
    let output = fixture.command(&["classify", "x.rules", "x.pcap", "--csv", "-"]).stdout(append).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!((fixture.read("x.rules"), fs::read(fixture.folder.join("x.pcap")).unwrap()), (RULES.to_owned(), pcap));
    assert_eq!(fixture.read("cb.rules"), CLASSBENCH);
}

#[test]
fn a_file_of_lines_keeps_what_it_had_until_the_new_ones_are_whole() {
    let fixture = Fixture::new("csv-whole");
    fixture.write("bad.rules", "permit tpc\n");
    fixture.write("empty.pcap", "");
    fixture.write("bad.pcap", [&capture(&[])[..], &[0xff; 100]].concat());
    for line in
        [&["bad.rules", "x.pcap"], &["x.rules", "missing"], &["x.rules", "empty.pcap"], &["x.rules", "bad.pcap"]]
    {
        fixture.write("out.csv", "as it was\n");
        let (code, _, _) = fixture.run(&[&["classify"], &line[..], &["--csv", "out.csv"]].concat());
        assert_eq!((code, fixture.read("out.csv")), (2, "as it was\n".to_owned()), "{line:?}");
        assert!(
            fs::read_dir(&fixture.folder).unwrap().all(|entry| entry.unwrap().path().extension().unwrap() != "new")
        );
    }
    let line = ["classify", "x.rules", "x.pcap", "--csv"];
    assert_eq!(fixture.run(&[&line[..], &["out.csv"]].concat()).0, 0);
    let lines = fixture.read("out.csv");
    assert_eq!(lines.lines().count(), 11);
    // A file that cannot be half-written is not renamed.
    assert_eq!(fixture.run(&[&line[..], &["/dev/null"]].concat()).0, 0);
    let fifo = fixture.fifo("pipe");
    let child = spawn(fixture.command(&[&line[..], &["pipe"]].concat()));
    let mut read = String::new();
    File::open(&fifo).unwrap().read_to_string(&mut read).unwrap();
    assert_eq!((result(&child.wait_with_output().unwrap()).0, &read), (0, &lines));
    // Another name of standard output is standard output.
    let (code, out, err) = fixture.run(&[&line[..], &["/dev/stdout"]].concat());
    assert!((code, &out) == (0, &lines) && err.contains("top rules"), "{err}");
    let into = File::create(fixture.folder.join("into")).unwrap();
    let output = fixture.command(&[&line[..], &["/dev/stdout"]].concat()).stdout(into).output().unwrap();
    assert_eq!((output.status.code(), fixture.read("into")), (Some(0), lines));
}

/// A reader that closes the pipe has seen enough, so that this is no error.
#[test]
fn a_closed_pipe_is_no_error() {
    let fixture = Fixture::new("closed");
    for line in [&["classify", "x.rules", "x.pcap"][..], &["explain", "x.rules", "x.pcap#0"], &["convert", "x.rules"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let (code, _, error) = result(&fixture.command(line).stdout(writer).output().unwrap());
        assert_eq!((code, error.as_str()), (0, ""), "{line:?}");
    }
}
