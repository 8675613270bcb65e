//! The grammar of the manual and the program agree.
//!
//! Sentences drawn from the grammar are rule files. A sentence changed by a slip is one only if the grammar says so.

mod draw;
mod ebnf;

use draw::{Drawer, Head, Token};
use ebnf::Grammar;
use firstmatch_core::schema::Family;
use firstmatch_formats::native::{icmp_code_numbers, icmp_type_number, protocol_name, service_names};
use firstmatch_formats::{Format, Options};
use firstmatch_testkit::rng::Rng;

fn grammar() -> Grammar {
    let manual = include_str!("../../../../../docs/rules.md");
    let (_, text) = manual.split_once("## Grammar").expect("the manual has a grammar");
    let text = text.split("```").nth(1).expect("it stands in a block");
    Grammar::parse(text.strip_prefix("text\n").expect("of plain text"))
}

fn written(tokens: &[Token]) -> String {
    let mut text = String::new();
    for token in tokens {
        text.push_str(token);
        text.push_str(if token == "\n" { "" } else { " " });
    }
    text
}

fn faults(text: &str) -> Option<String> {
    let options = Options { format: Some(Format::Native), max_warnings: 0, ..Options::default() };
    let load = |name: &str| match name {
        "addresses" => Ok("10.0.0.0/8\n".to_owned()),
        "numbers" => Ok("1\n2-3\n".to_owned()),
        _ => Err("no such file".to_owned()),
    };
    firstmatch_formats::parse_with(text, &options, &load).err().map(|error| error.to_string())
}

#[test]
fn every_sentence_of_the_grammar_is_a_rule_file() {
    let grammar = grammar();
    let mut used = vec![false; grammar.alternatives()];
    for seed in 0..1800 {
        let head = [Head::Inet, Head::Openflow, Head::Own][seed as usize % 3];
        let tokens = Drawer::new(&grammar, head, Rng::new(seed), &mut used).file();
        let text = written(&tokens);
        assert_eq!(faults(&text), None, "{text}");
        assert!(grammar.has(&tokens, &head.fields()), "the grammar has what was drawn from it: {text}");
    }
    let unused: Vec<_> = used.iter().enumerate().filter(|(_, used)| !**used).map(|(at, _)| grammar.show(at)).collect();
    assert!(unused.is_empty(), "never drawn: {unused:#?}");
}

#[test]
fn what_the_grammar_has_not_is_refused() {
    let grammar = grammar();
    let mut ignored = vec![false; grammar.alternatives()];
    let (mut outside, mut refused) = (0, 0);
    for seed in 0..2400 {
        let head = [Head::Inet, Head::Openflow, Head::Own][seed as usize % 3];
        let mut tokens = Drawer::new(&grammar, head, Rng::new(seed), &mut ignored).file();
        let random = &mut Rng::new(seed ^ 0x5EED);
        for _ in 0..1 + random.below(2) {
            slip(&mut tokens, random);
        }
        let text = written(&tokens);
        // The end of the text ends its last line too.
        tokens.push("\n".to_owned());
        let is_refused = faults(&text).is_some();
        refused += usize::from(is_refused);
        if !grammar.has(&tokens, &head.fields()) {
            outside += 1;
            assert!(is_refused, "the program takes what the grammar has not: {text}");
        }
    }
    assert!(outside > 800 && refused > outside, "{outside} of 2400 are outside, {refused} refused");
}

/// The manual's list of words is the program's.
#[test]
fn the_words_of_the_manual_are_those_of_the_program() {
    let manual = include_str!("../../../../../docs/rules.md");
    let (_, line) = manual.split_once("**Protocols**: ").expect("a list of protocols");
    let line = line.split(". ").next().unwrap_or(line);
    let listed: Vec<String> = line.split(", ").map(str::to_owned).collect();
    let known = (0..=u8::MAX).filter_map(|number| Some(format!("{} {number}", protocol_name(number)?)));
    assert_eq!(listed, known.collect::<Vec<_>>());
    for (head, is_first) in [("holds for TCP and UDP. ", true), ("Second names: ", false)] {
        let (_, line) = manual.split_once(head).expect("a list of services");
        let listed: Vec<String> = line.split(". ").next().unwrap_or(line).split(", ").map(str::to_owned).collect();
        let known = (0..=u16::MAX).flat_map(|port| {
            let names = service_names(port).enumerate().filter(move |(at, _)| (*at == 0) == is_first);
            names.map(move |(_, name)| format!("{name} {port}"))
        });
        assert_eq!(listed, known.collect::<Vec<_>>());
    }
    let rows = manual.split_once("| type | code | ICMP | ICMPv6 |").expect("a table of codes").1;
    let rows = rows.lines().skip(2).take_while(|row| row.starts_with('|'));
    let mut codes = 0;
    for row in rows {
        let cells: Vec<_> = row.split('|').map(str::trim).skip(1).collect();
        for code in cells.chunks_exact(4).filter(|code| !code[1].is_empty()) {
            for (family, number) in [(Family::Ipv4, code[2]), (Family::Ipv6, code[3])] {
                let expected = icmp_type_number(family, code[0]).zip(number.parse::<u8>().ok());
                assert_eq!(icmp_code_numbers(family, code[1]), expected, "{row}");
            }
            codes += 1;
        }
    }
    assert_eq!(codes, 28);
    let (_, row) = manual.split_once("| `FIELD` | ").expect("the fields");
    for word in row.lines().next().unwrap_or("").split('`').skip(1).step_by(2) {
        assert!(Head::Inet.fields().contains(&word.to_owned()), "{word}");
    }
    for (number, is_one) in
        [("0x1f", true), ("0X1F", true), ("0", true), ("00", false), ("0x", false), ("1_0", false), ("+1", false)]
    {
        assert_eq!(faults(&format!("mark {number}\n")).is_none(), is_one, "{number}");
        assert_eq!(ebnf::is_number(number), is_one, "{number}");
    }
}

fn slip(tokens: &mut Vec<Token>, random: &mut Rng) {
    let words = [
        "any",
        "not",
        "family",
        "ipv4",
        "{",
        "}",
        ",",
        "-",
        "/",
        "=",
        "\n",
        "set",
        "tcp",
        "dport",
        "7",
        "$s0",
        "from",
        "optional",
        "::1",
        "tcp_flags",
        "!",
        "<=",
        "syn",
        "established",
        "absent",
        "except",
        "include",
        "label",
        "audit",
        "\"numbers\"",
    ];
    let at = random.below(tokens.len());
    let other = random.below(tokens.len());
    match random.below(5) {
        0 => drop(tokens.remove(at)),
        1 => tokens.insert(at, tokens[other].clone()),
        2 => tokens.swap(at, other),
        3 => tokens[at] = words[random.below(words.len())].to_owned(),
        _ => tokens.insert(at, words[random.below(words.len())].to_owned()),
    }
}
