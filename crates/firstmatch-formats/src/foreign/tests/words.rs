//! Every word of a valid file dropped or garbled: the answer is a fault, unless the word has no such meaning.

use super::super::options::{Hook, Import, RateLimit};
use super::native;
use crate::{Format, Options, RuleFile, parse};

const FILE: &str = "*filter
:INPUT DROP [0:0]
:FORWARD ACCEPT [0:0]
:web - [0:0]
-A INPUT -s 10.0.0.0/8 ! -d 10.1.0.0/16 -i eth0 -p tcp -m tcp --sport 1024:65535 --dport 443 --syn -j web
-A INPUT -p tcp -m tcp ! --tcp-flags SYN,ACK SYN -m multiport --dports 80,443 -j ACCEPT
-A INPUT -p icmp -m icmp --icmp-type 8/0 -m limit --limit 3/min --limit-burst 5 -j ACCEPT
-A INPUT -m conntrack --ctstate NEW -m iprange --src-range 10.0.0.1-10.0.0.9 -m ttl --ttl-gt 5 -j REJECT --reject-with icmp-port-unreachable
-A INPUT -f -m dscp --dscp 0x2e -m length --length 40:60 -m mark --mark 0x0 -j LOG --log-prefix \"a b\" --log-level 4
-A INPUT -m addrtype --dst-type MULTICAST -m comment --comment \"a comment\" -g web
-A web -p udp -m udp --dport 53 -j RETURN
-A web -j DROP
COMMIT
";

fn read(text: &str) -> Result<RuleFile, crate::ParseError> {
    let input = Some("eth0".to_owned());
    let import = Import { hook: Some(Hook::Input), input, limit: Some(RateLimit::Within), ..Import::default() };
    parse(text, &Options { import, format: Some(Format::Iptables), ..Options::default() })
}

/// Returns the words of a line, quoted texts whole.
fn split(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for part in line.split(' ') {
        match words.last_mut() {
            Some(last) if last.starts_with('"') && !(last.len() > 1 && last.ends_with('"')) => {
                last.push(' ');
                last.push_str(part);
            }
            _ => words.push(part.to_owned()),
        }
    }
    words
}

/// Whether a file without or with another such word is a valid one, of another meaning.
fn is_free(words: &[String], at: usize, is_dropped: bool) -> bool {
    let (word, before) = (&words[at][..], at.checked_sub(1).map_or("", |before| &words[before]));
    match is_dropped {
        // A condition in the affirmative, a flag without a value, a table or chain without counters.
        true => matches!(word, "!" | "--syn" | "-f") || word.starts_with('['),
        // Names and texts of the user.
        false => matches!(
            before,
            "-i" | "--comment" | "--log-prefix" | "--log-level" | "--limit" | "--limit-burst" | "--reject-with"
        ),
    }
}

#[test]
fn no_word_is_passed_over() {
    let whole = native(&read(FILE).expect("a file without faults"));
    let lines: Vec<&str> = FILE.lines().collect();
    let (mut faults, mut free) = (0, 0);
    for (number, line) in lines.iter().enumerate() {
        let words = split(line);
        for at in 0..words.len() {
            let dropped: Vec<String> =
                words.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, w)| w.clone()).collect();
            let garbled = |change: &dyn Fn(&str) -> String| {
                let mut words = words.clone();
                words[at] = change(&words[at]);
                words
            };
            let changed = [
                (true, dropped),
                (false, garbled(&|word| format!("{word}~"))),
                (false, garbled(&|word| format!("~{word}"))),
                (false, garbled(&|word| word.chars().rev().collect::<String>() + "?")),
            ];
            for (is_dropped, words_of_line) in changed {
                let mut of_file = lines.clone();
                let line_now = words_of_line.join(" ");
                of_file[number] = &line_now;
                let text = of_file.join("\n") + "\n";
                match read(&text) {
                    Err(_) => faults += 1,
                    // A line without words is one rule fewer.
                    Ok(_) if line_now.trim().is_empty() => free += 1,
                    Ok(file) if is_free(&words, at, is_dropped) => {
                        free += 1;
                        // A word that is a condition changes the list.
                        let is_condition = matches!(&words[at][..], "!" | "--syn");
                        assert!(!is_condition || native(&file) != whole, "{line_now}");
                    }
                    Ok(file) => panic!("`{line_now}` is read as {:?}", native(&file)),
                }
            }
        }
    }
    assert!(faults > 300 && free < 40, "{faults} faults, {free} valid changes");
}
