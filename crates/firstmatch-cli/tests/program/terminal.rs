//! Tests of colours.

use crate::fixture::{Fixture, result};

#[test]
fn colours_only_where_they_are_wanted() {
    let fixture = Fixture::new("colours");
    fixture.write("bad.rules", "permit tpc\n");
    let lines: [&[&str]; 4] = [
        &["classify", "x.rules", "x.pcap"],
        &["explain", "x.rules", "x.pcap#0"],
        &["classify", "bad.rules", "x.pcap"],
        &["--help"],
    ];
    for line in lines {
        let with = |name: &str, value: &str| {
            let (_, out, err) = result(&fixture.command(line).env(name, value).output().unwrap());
            format!("{out}{err}").contains('\u{1b}')
        };
        assert!(!with("TERM", "xterm"), "{line:?}: a pipe is no terminal");
        assert!(with("CLICOLOR_FORCE", "1"), "{line:?}");
        assert!(!with("NO_COLOR", "1"), "{line:?}");
    }
}

/// Runs the program on a terminal, which `script` provides where it is installed.
#[test]
fn no_color_is_kept_on_a_terminal() {
    let fixture = Fixture::new("terminal");
    let program = env!("CARGO_BIN_EXE_firstmatch");
    let run = |no_color: &str| {
        let mut command = std::process::Command::new("script");
        command.args(["-qec", &format!("{program} classify x.rules x.pcap"), "/dev/null"]);
        command.current_dir(&fixture.folder).env("TERM", "xterm").env_remove("NO_COLOR").env_remove("CLICOLOR");
        if !no_color.is_empty() {
            command.env("NO_COLOR", no_color);
        }
        command.output().ok().filter(|output| output.status.success()).map(|output| result(&output).1)
    };
    let (Some(plain), Some(coloured)) = (run("1"), run("")) else { return };
    assert!(coloured.contains('\u{1b}') && coloured.contains("top rules"), "{coloured}");
    assert!(!plain.contains('\u{1b}') && plain.contains("top rules"), "{plain}");
}

/// Rules change no terminal, neither where they are refused nor where they are shown.
#[test]
fn hidden_characters_of_rules_are_not_printed() {
    let fixture = Fixture::new("hidden");
    let hidden = ['\0', '\u{1b}', '\u{9b}', '\u{200b}', '\u{202e}'];
    for c in hidden {
        fixture.write("bad.rules", format!("permit tcp src 10.0.0.0{c}/8 # a comment\n"));
        let (code, _, err) = fixture.run(&["classify", "bad.rules", "x.pcap"]);
        let name = format!("the character U+{:04X}", u32::from(c));
        assert!(code == 2 && err.contains(&name) && err.contains(":1:24") && !err.contains(c), "{err}");
        fixture.write("good.rules", format!("permit tcp # {c}[31m\n"));
        let (code, out, _) = fixture.run(&["explain", "good.rules", "tcp 10.0.0.1:1 > 10.0.0.2:2"]);
        assert!(code == 0 && out.contains("[31m") && !out.contains(c), "{out}");
    }
}
