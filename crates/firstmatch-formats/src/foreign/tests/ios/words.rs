//! Every word of a valid configuration dropped or garbled: the answer is a fault, unless the word has no such meaning.

use super::super::native;
use crate::{Format, Options, RuleFile, parse};

const FILE: &str = "hostname r1
object-group network SERVERS
 description the pool
 host 192.0.2.7
 range 192.0.2.20 192.0.2.29
 10.1.0.0 255.255.0.0
 group-object MORE
object-group network MORE
 host 192.0.2.9
object-group service WEB
 tcp eq 80 443
 udp source gt 1023 range 5 9
 icmp echo
object-group ip port HIGH
 10 eq 7
 20 gt 60000
no ip access-list extended EDGE
ip access-list extended EDGE
 remark web servers
 10 permit object-group WEB any object-group SERVERS
 20 permit tcp 10.0.0.0 0.255.255.255 gt 1023 host 192.0.2.7 eq 22 23 log
 30 deny udp host 10.0.0.9 portgroup HIGH any range 5 9 dscp ef
 40 permit tcp any any established ttl gt 5
 50 permit tcp 10.2.0.0/16 any match-all +syn -ack
 60 permit icmp any any unreachable precedence critical log-input
 70 deny icmp any any 5 1
 80 permit ip any any fragments
interface Gi0
 ip access-group EDGE in
";

fn read(text: &str) -> Result<RuleFile, crate::ParseError> {
    parse(text, &Options { format: Some(Format::Ios), ..Options::default() })
}

/// Whether a file without or with another such word is a valid one, of another meaning.
fn is_free(words: &[&str], at: usize, is_dropped: bool) -> bool {
    let (word, before) = (words[at], at.checked_sub(1).map_or("", |before| words[before]));
    // Texts of the user, and parts of the configuration that are passed over.
    if matches!(words[0], "hostname" | "interface" | "description" | "no") || words.contains(&"access-group") {
        return true;
    }
    if words[0] == "remark" && at > 0 || (words[0], word) == ("ip", "EDGE") && !is_dropped {
        return true;
    }
    match is_dropped {
        // Numbers of entries and members, conditions, one of several values, the kind that NX-OS does not write.
        true => {
            at == 0 && word.bytes().all(|b| b.is_ascii_digit())
                || matches!(
                    word,
                    "established" | "log" | "log-input" | "fragments" | "unreachable" | "extended" | "echo"
                )
                || (words[0], word) == ("object-group", "ip")
                || matches!(word, "80" | "443" | "22" | "23" | "1" | "5" | "+syn" | "-ack")
                // A port alone is equal to that one.
                || before == "source" && word == "gt"
        }
        false => before == "remark",
    }
}

#[test]
fn no_word_is_passed_over() {
    let whole = native(&read(FILE).expect("a file without faults"));
    let lines: Vec<&str> = FILE.lines().collect();
    let (mut faults, mut free) = (0, 0);
    for (number, line) in lines.iter().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let indent = if line.starts_with(' ') { " " } else { "" };
        for at in 0..words.len() {
            let with = |word: Option<String>| {
                let mut all: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
                match word {
                    Some(word) => all[at] = word,
                    None => _ = all.remove(at),
                }
                format!("{indent}{}", all.join(" "))
            };
            let word = words[at];
            let changed = [
                (true, with(None)),
                (false, with(Some(format!("{word}~")))),
                (false, with(Some(format!("~{word}")))),
                (false, with(Some(word.chars().rev().collect::<String>() + "?"))),
            ];
            for (is_dropped, line_now) in changed {
                let mut of_file = lines.clone();
                of_file[number] = &line_now;
                match read(&(of_file.join("\n") + "\n")) {
                    Err(_) => faults += 1,
                    Ok(_) if line_now.trim().is_empty() => free += 1,
                    Ok(file) if is_free(&words, at, is_dropped) => {
                        free += 1;
                        // A word that is a condition changes the list.
                        let is_condition =
                            is_dropped && matches!(word, "established" | "fragments" | "unreachable" | "echo");
                        assert!(!is_condition || native(&file) != whole, "{line_now}");
                    }
                    Ok(file) => panic!("`{line_now}` is read as {:?}", native(&file)),
                }
            }
        }
    }
    assert!(faults > 400 && free < 100, "{faults} faults, {free} valid changes");
}
