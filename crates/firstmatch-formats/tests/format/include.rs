//! Sets that include files.

use firstmatch_core::rule::RuleSpec;
use firstmatch_formats::{Format, Options, ParseError, RuleFile, parse_with, write};

/// Reads rules beside a few files.
fn read(text: &str, options: &Options) -> Result<RuleFile, ParseError> {
    let load = |name: &str| match name {
        "bad.txt" => Ok("# bad hosts\n192.0.2.1\n\n  198.51.100.0/24   # a network\r\n2001:db8::/32".to_owned()),
        "ports" => Ok("\u{feff}80\n8000-8099\nssh\n".to_owned()),
        "empty" => Ok("# nothing\n".to_owned()),
        "faulty" => Ok("192.0.2.1\n192.0.2.1/8\n1.2.3.4, 5.6.7.8\n\u{200b}\ninclude \"bad.txt\"\n{\n".to_owned()),
        "large" => Ok(" ".repeat(100 << 20)),
        _ => Err("no such file".to_owned()),
    };
    parse_with(text, options, &load)
}

fn faults(text: &str) -> Vec<String> {
    let error = read(text, &Options::default()).expect_err("it has faults");
    error.faults().iter().map(ToString::to_string).collect()
}

#[test]
fn values_of_a_file_are_those_of_the_set() {
    let text = "set bad = { include \"bad.txt\", 203.0.113.9 }\n\
                set web = {\n  443,\n  include \"ports\", # the others\n}\n\
                set all = { $bad, 10.0.0.0/8 }\n\
                deny src $all dport not $web\n";
    let file = read(text, &Options::default()).unwrap();
    let plain = "\n\n\n\n\n\n\
        deny src { 192.0.2.1, 198.51.100.0/24, 2001:db8::/32, 203.0.113.9, 10.0.0.0/8 } \
        dport not { 443, 80, 8000-8099, 22 }\n";
    let specs = |file: &RuleFile| file.rules.iter().map(|rule| rule.spec.clone()).collect::<Vec<RuleSpec>>();
    let same = firstmatch_formats::parse(plain, &Options::default()).unwrap();
    assert_eq!(specs(&file), specs(&same));
    // What is written needs no file.
    let mut written = String::new();
    write::write(&file, Format::Native, &mut written).unwrap();
    assert!(firstmatch_formats::parse(&written, &Options::default()).is_ok(), "{written}");
}

#[test]
fn faults_of_included_files_are_named_by_file_line_and_column() {
    assert_eq!(
        faults("permit tcp\nset bad = { include \"faulty\" }\ndeny src $bad\ndeny dport 99999\n"),
        [
            "2:13: `faulty`, line 2, column 1: `192.0.2.1/8` has bits outside its prefix; expected `192.0.0.0/8`",
            "2:13: `faulty`, line 3, column 8: `,` behind a value; expected a value a line",
            "2:13: `faulty`, line 4, column 1: the character U+200B, an invisible character where a value should be; \
             expected a value, a name or `$` and the name of a set",
            "2:13: `faulty`, line 5, column 1: a file that is included includes no other; expected a value",
            "2:13: `faulty`, line 6, column 1: `{` where a value should be; expected a value, a name or `$` and the \
             name of a set",
            "4:12: 99999 is too large for dport; expected a number up to 65535",
        ]
        .map(|fault| fault.replace("`192.0.2.1/8` has", "`192.0.2.1` has"))
    );
    for (text, fault) in [
        ("set a = { include \"none\" }\npermit src $a\n", "1:11: `none` is not included: no such file"),
        ("set a = { include bad.txt }\n", "1:19: `bad.txt` after include; expected the name of a file in quotes"),
        ("set a = { include }\n", "1:19: `}` after include; expected the name of a file in quotes"),
        (
            "set a = { include \"bad.txt }\n",
            "1:19: the character `\"` after include; expected the name of a file in quotes",
        ),
        (
            "permit src { include \"bad.txt\" }\n",
            "1:14: unknown name `include`; expected an address, a prefix or a range of addresses",
        ),
        (
            "set a = { include \"large\", include \"large\", include \"large\" }\n",
            "1:45: with `large` the files of all sets have more than 268435456 bytes",
        ),
    ] {
        assert_eq!(faults(text)[0], fault, "{text}");
    }
    let error = firstmatch_formats::parse("set a = { include \"bad.txt\" }\n", &Options::default()).unwrap_err();
    assert_eq!(error.faults()[0].message, "`bad.txt` is not included: no file can be read here");
}

#[test]
fn values_of_files_count_for_the_limit() {
    let text = "set bad = { include \"bad.txt\", include \"empty\" }\ndeny src $bad\n";
    let of = |max_expanded| read(text, &Options { max_expanded, ..Options::default() });
    assert!(of(6).is_ok());
    for max_expanded in [2, 5] {
        let error = of(max_expanded).expect_err("too many");
        assert!(error.to_string().contains(&format!("come to more than {max_expanded} values")), "{error}");
    }
}
