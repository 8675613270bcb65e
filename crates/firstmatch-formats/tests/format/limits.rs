//! Texts that limits refuse: many faults, long lines, sets that explode, rules that multiply.

use std::net::Ipv4Addr;

use firstmatch_core::rule::{ExpansionLimits, lower};
use firstmatch_formats::Options;

#[test]
fn faults_are_capped_and_the_rest_is_counted() {
    let text = "permit dport 99999\n".repeat(50);
    let error = firstmatch_formats::parse(&text, &Options::default()).unwrap_err();
    assert_eq!((error.faults().len(), error.more(), error.line()), (20, 30, 1));
    let error = firstmatch_formats::parse(&text, &Options { max_faults: 0, ..Options::default() }).unwrap_err();
    assert_eq!((error.faults().len(), error.more()), (1, 49));
    let text = "permit dport not any\n".repeat(50);
    let file = firstmatch_formats::parse(&text, &Options::default()).unwrap();
    assert_eq!((file.warnings.len(), file.more_warnings), (20, 30));
}

#[test]
fn a_very_long_line_is_shown_in_part() {
    let long = format!("permit dport {{ {}99999 }}\n", "80, ".repeat(100_000));
    let error = firstmatch_formats::parse(&long, &Options::default()).unwrap_err();
    let fault = &error.faults()[0];
    assert_eq!((fault.column, fault.width, fault.text.chars().count()), (400_016, 5, 4097));
    let word = format!("permit {}\n", "x".repeat(1_000_000));
    let error = firstmatch_formats::parse(&word, &Options::default()).unwrap_err();
    assert!(error.to_string().len() < 200, "{error}");
}

#[test]
fn sets_that_explode_are_refused() {
    let options = Options { max_expanded: 1000, ..Options::default() };
    let items: Vec<_> = (0..400).map(|i| i.to_string()).collect();
    let text = format!("set a = {{ {} }}\npermit sport $a\npermit dport $a\n", items.join(","));
    let error = firstmatch_formats::parse(&text, &options).unwrap_err();
    let message = "3:14: with this the sets of the file come to more than 1000 values";
    assert_eq!(error.to_string(), message);
    // The definition and each use count.
    let exact = |max_expanded| firstmatch_formats::parse(&text, &Options { max_expanded, ..Options::default() });
    assert!(exact(1200).is_ok() && exact(1199).is_err());
    // Each set is the one before, twice: the union is no larger.
    let mut text = "set s0 = { 1, 2 }\n".to_owned();
    for i in 1..100 {
        text.push_str(&format!("set s{i} = {{ $s{0}, $s{0} }}\n", i - 1));
    }
    text.push_str("permit dport $s99\n");
    assert!(firstmatch_formats::parse(&text, &Options::default()).is_ok());
}

#[test]
fn rules_of_too_many_regions_say_which_fields_multiply_and_which_limit_it_was() {
    let text = "permit src 0.0.0.0/1.1.1.1 dst not { 0.0.0.1/0.0.0.1, 0.0.2.0/0.0.2.0, 3.0.0.0/3.0.0.0 } \
        sport not { 1-2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28 } \
        dport not { 1-2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28 } proto not { 1, 3, 5, 7, 9, 11, 13, 15, 17 }\n";
    let options = |regions_per_rule| Options {
        expansion: ExpansionLimits { regions_per_rule, ..ExpansionLimits::default() },
        ..Options::default()
    };
    let lowered = |text: &str, cap| {
        let rules = firstmatch_formats::parse(text, &options(cap)).expect("each condition is within the limits").rules;
        lower(&rules, &rules.schemas()[0], &options(cap).expansion).map(|all| all.region_count())
    };
    assert_eq!(lowered(text, 4500), Ok(4500));
    let limit = "max-regions-per-rule is 4096: split the rule or raise the limit";
    let product = "the rule needs 4500 regions (dst 2 × sport 15 × dport 15 × proto 10), and";
    let refused = format!("{product} {limit}");
    let error = |text: &str, cap| lowered(text, cap).expect_err("too many");
    let found = error(text, 4096);
    assert!(found.line() == Some(1) && found.to_string().contains(&refused), "{found}");
    let limit = "max-regions-per-rule is 14: split the rule or raise the limit";
    let found = firstmatch_formats::parse(text, &options(14)).unwrap_err().to_string();
    assert_eq!(found, format!("1:1: the condition on sport needs more than 14 regions, and {limit}"));
    // The family of a rule does not matter.
    let of_family = text.replace("permit ", "permit family ipv4 ");
    assert_eq!(lowered(&of_family, 4500), Ok(4500));
    assert!(error(&of_family, 4096).to_string().contains(&refused));
}

/// A range of addresses is as many prefixes as it needs, seven for the four words of IPv6, and no fewer are allowed.
#[test]
fn a_range_of_addresses_needs_as_many_regions_as_words_ask_for() {
    let range = "permit src 1:1:1:1:1:1:1:1-fff0:fff0:fff0:fff0:fff0:fff0:fff0:fff0\n";
    for (text, regions) in
        [(range.to_owned(), 7), (range.replace("src", "dst"), 7), (range.replace("src", "tcp src"), 7)]
    {
        for (regions_per_rule, fits) in [(regions - 2, false), (regions - 1, false), (regions, true)] {
            let expansion = ExpansionLimits { regions_per_rule, ..ExpansionLimits::default() };
            let parsed = firstmatch_formats::parse(&text, &Options { expansion, ..Options::default() });
            assert_eq!(parsed.is_ok(), fits, "{text} within {regions_per_rule}");
        }
    }
}

/// The default limits have room for lists that operators have.
///
/// These are 5,000 addresses, and two groups of 70 hosts with two ports.
#[test]
fn lists_of_thousands_are_within_the_default_limits() {
    let addresses: Vec<_> = (0..5000u32).map(|i| Ipv4Addr::from(0x0A00_0000 + i * 7919)).collect();
    let hosts = |net: u32| (0..70).map(|i| Ipv4Addr::from(net + 2 * i).to_string()).collect::<Vec<_>>().join(",");
    let list = addresses.iter().map(Ipv4Addr::to_string).collect::<Vec<_>>().join(",\n");
    let text = format!(
        "family ipv4\nset listed = {{ {list} }}\ndeny src $listed\ndeny dst not $listed\n\
         permit tcp src {{ {} }} dst {{ {} }} dport {{ 80, 443 }}\n",
        hosts(0xC000_0200),
        hosts(0xC633_6400)
    );
    let file = firstmatch_formats::parse(&text, &Options::default()).expect("real lists");
    let lowered = lower(&file.rules, &file.rules.schemas()[0], &ExpansionLimits::default()).expect("real lists");
    let counts: Vec<_> = lowered.by_rule().map(|(_, regions)| regions.len()).collect();
    assert_eq!(counts, [5000, 5001, 70 * 70 * 2]);
}

/// Comparisons of masks are bounded, because all pairs of differing masks are compared.
///
/// Different values under one mask cannot overlap, so that a list of them takes no comparisons. Unbounded, the second
/// line would take very long.
#[test]
fn masks_take_a_bounded_number_of_comparisons() {
    let masks: Vec<_> = (0..5000u32).map(|i| format!("{}/0xBFFF", i | (i & 0x4000) << 1)).collect();
    assert!(firstmatch_formats::parse(&format!("permit dport {{ {} }}", masks.join(",")), &Options::default()).is_ok());
    let mut state = 1u64;
    let mut random = move || {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (state >> 32) as u32
    };
    let mut masks = || {
        let mut one = || {
            let mask = random();
            format!("{}/{}", Ipv4Addr::from(random() & mask), Ipv4Addr::from(mask))
        };
        (0..800).map(|_| one()).collect::<Vec<_>>().join(",")
    };
    for negated in ["", "not "] {
        let text = format!("permit src {negated}{{ {} }} dst {{ {} }}\n", masks(), masks());
        let error = firstmatch_formats::parse(&text, &Options::default()).expect_err("too much").to_string();
        assert!(error.contains("of src take more than 1048576 comparisons, which is max-mask-comparisons"), "{error}");
    }
}
