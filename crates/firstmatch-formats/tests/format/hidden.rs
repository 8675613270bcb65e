//! Control characters and invisible ones in rules.

use firstmatch_formats::Options;

use crate::faults::diagnose;

/// A character that cannot be seen is named by its code point, and stands in no report as itself.
#[test]
fn hidden_characters_are_named_and_never_shown() {
    for (c, sort) in [
        ('\0', "a control character"),
        ('\u{1b}', "a control character"),
        ('\u{85}', "a control character"),
        ('\u{a0}', "an invisible character"),
        ('\u{200b}', "an invisible character"),
        ('\u{202e}', "an invisible character"),
        ('\u{2066}', "an invisible character"),
        ('\u{feff}', "an invisible character"),
        ('\u{e0020}', "an invisible character"),
    ] {
        let name = format!("the character U+{:04X}, {sort}", u32::from(c));
        let start = format!("1:1+1 a line cannot start with {name}; expected a rule");
        let columns = "0.0.0.0/0\t0 : 65535\t0 : 65535\t0x06/0xFF\n";
        for (text, place) in [
            (format!("permit{c}tcp\n"), "1:7+1"),
            (format!("permit src {c}10.0.0.0/8\n"), "1:12+1"),
            (format!("permit src 10.0.0.0{c}/8\n"), "1:20+1"),
            (format!("permit dport {{ 80,{c}81 }}\n"), "1:19+1"),
            (format!("# one\nset s{c} = {{ 1 }}\npermit dport $s\n"), "2:6+1"),
            (format!("permit tcp\n{c}deny udp\n"), "2:1+1"),
            (format!("@10.0.0.0{c}/8\t{columns}"), "1:10+1"),
            (format!("@10.0.0.0/8{c}{columns}"), "1:12+1"),
        ] {
            let faults = diagnose(&text);
            let is_named = |fault: &&String| fault.starts_with(place) && fault.contains(&name);
            assert!(faults.iter().any(|fault| is_named(&fault)), "{text:?}: {faults:?}");
            let Err(error) = firstmatch_formats::parse(&text, &Options::default()) else { panic!("{text:?} is read") };
            assert!(!error.to_string().contains(c), "{text:?}");
            assert!(error.faults().iter().all(|fault| !fault.text.contains(c)), "{text:?}");
        }
        if c != '\u{feff}' {
            assert!(diagnose(&format!("{c}permit tcp\n"))[0].starts_with(&start), "{c:?}");
        }
        // Comments may hold any text.
        assert_eq!(diagnose(&format!("permit tcp # {c}\n# {c}\n")), [""; 0]);
        assert_eq!(diagnose(&format!("# {c}\n@10.0.0.0/8\t{columns}")), [""; 0]);
    }
}
