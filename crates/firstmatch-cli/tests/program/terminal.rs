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
