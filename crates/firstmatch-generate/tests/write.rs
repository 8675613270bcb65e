//! What is written parses back to the same rules; what a format cannot hold is named.

mod common;

use common::{generate, lowered, profiles, text};
use firstmatch::RuleSet;
use firstmatch::format::{self, Format, Options};
use firstmatch::rule::{Action, Condition, Priority, RuleSpec, Test};
use firstmatch::schema::{Family, Field, Kind, Schema};
use firstmatch_generate::rules::{Actions, Config, Families};
use firstmatch_generate::write;

fn parse(text: &str) -> RuleSet {
    let file = format::parse(text, &Options::default()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert!(file.warnings.is_empty(), "{:?}", file.warnings);
    file.rules
}

fn native(set: &RuleSet) -> Result<String, String> {
    let mut text = Vec::new();
    write::native(set, &mut text).map_err(|error| error.to_string())?;
    Ok(String::from_utf8(text).expect("text"))
}

fn classbench(set: &RuleSet) -> Result<String, String> {
    let mut text = Vec::new();
    write::classbench(set, &mut text).map_err(|error| error.to_string())?;
    Ok(String::from_utf8(text).expect("text"))
}

fn actions(set: &RuleSet) -> Vec<Action> {
    set.iter().map(|rule| rule.action).collect()
}

#[test]
fn generated_sets_come_back_rule_by_rule() {
    for profile in profiles() {
        for families in [Families::Ipv4, Families::Ipv6] {
            let base = Config { rules: 3000, profile: profile.clone(), families, catch_all: true, ..Config::default() };
            let set = generate(&base);
            let written = text(&set);
            assert_eq!(format::sniff(&written), Format::ClassBench);
            let read = parse(&written);
            assert!(set.iter().map(|rule| &rule.spec).eq(read.iter().map(|rule| &rule.spec)));
        }
        for families in [Families::Ipv4, Families::Ipv6, Families::Both { ipv6: 0.4 }] {
            let stated = Actions::Stated { deny: 0.3, mark: 0.3 };
            let base = Config { rules: 2000, profile: profile.clone(), families, actions: stated, ..Config::default() };
            let set = generate(&base);
            let read = parse(&native(&set).expect("it fits"));
            assert_eq!((lowered(&set), actions(&set)), (lowered(&read), actions(&read)));
            if let Families::Both { .. } = families {
                assert!(set.iter().map(|rule| &rule.spec).eq(read.iter().map(|rule| &rule.spec)));
            }
        }
    }
}

/// Everything the native format has, but tests of ICMP types by name, which are for one family each.
const NATIVE: &str = "permit src { 10.0.0.0/8, 2001:db8::/32 } dport not { 22, 80-90, 0x1/0x3 }
deny src not 192.0.2.1 tcp
mark 7 dst 192.0.2.1-192.0.2.77 sport any
mark 4294967295 dst 10.0.0.7/255.0.0.255 tcp_flags 0x02/0x12
permit icmp icmp_type 8 icmp_code not 3
deny dst ::1/::ffff proto { 6, 17, 50-60 } vlan_vid 0-4095
permit
";

#[test]
fn everything_native_comes_back() {
    for only in ["", "family ipv4\n", "family ipv6\n"] {
        let of = |line: &&str| match only {
            "family ipv4\n" => !line.contains("::"),
            "family ipv6\n" => !line.contains('.'),
            _ => true,
        };
        let lines: Vec<&str> = NATIVE.lines().filter(of).collect();
        let set = parse(&format!("{only}{}", lines.join("\n")));
        let written = native(&set).expect("it fits");
        let read = parse(&written);
        assert_eq!((lowered(&set), actions(&set)), (lowered(&read), actions(&read)), "{written}");
        assert_eq!(native(&read).as_deref(), Ok(&*written));
    }
}

#[test]
fn flags_of_classbench_come_back() {
    let text = "@10.0.0.0/8\t0.0.0.0/0\t0 : 65535\t80 : 80\t0x06/0xFF\t0x0002/0x0012\n\
                @0.0.0.0/0\t1.2.3.4/32\t0 : 1023\t0 : 65535\t0x10/0xF0\t0x0000/0x0000\n";
    let options = Options { flags: true, ..Options::default() };
    let set = format::parse(text, &options).expect("it parses").rules;
    assert_eq!(classbench(&set).as_deref(), Ok(text));
}

fn one(schema: Schema, action: Action, field: usize, negated: bool, tests: &[Test]) -> RuleSet {
    let conditions = match tests {
        [] => vec![],
        tests => vec![Condition { field, negated, tests: tests.iter().map(|&test| (None, test)).collect() }],
    };
    let mut set = RuleSet::new(schema);
    set.insert(RuleSpec { priority: Priority(1), action, conditions, family: None, line: None }).expect("it fits");
    set
}

#[test]
fn what_classbench_cannot_hold_is_named() {
    let one = |field, negated, tests: &[Test]| one(Schema::ipv4(), Action::Match, field, negated, tests);
    let range = |lo, hi| Test::Range { lo, hi };
    let named = [
        (one(0, true, &[Test::Value(1)]), "it has no negation, of src or any field"),
        (one(3, false, &[Test::Value(1), Test::Value(2)]), "it has no lists, and dport has one of 2"),
        (one(1, false, &[range(1, 2)]), "dst is a prefix there, the rule has Range { lo: 1, hi: 2 }"),
        (one(2, false, &[range(0, 65535)]), "it cannot demand that sport be there"),
        (one(2, false, &[Test::Mask { value: 1, mask: 5 }]), "sport is a range there, the rule has Mask"),
        (one(4, false, &[range(6, 7)]), "proto is a value under a mask there, the rule has Range"),
        (super_set(), "it has no field icmp_type"),
        (parse("permit src 10.0.0.0/8\n"), "it holds one address family, the set has two"),
        (parse("family ipv4\npermit src 10.0.0.0/8\n"), "it states no action, the rule says permit"),
    ];
    for (set, what) in named {
        let error = classbench(&set).expect_err(what);
        assert!(error.starts_with("rule 1 cannot be written as ClassBench: ") && error.contains(what), "{error}");
    }
    // What is a prefix or a range by another name is none the less.
    let same = [
        (one(0, false, &[range(8, 11)]), "@0.0.0.8/30\t"),
        (one(0, false, &[Test::Value(1)]), "@0.0.0.1/32\t"),
        (one(2, false, &[Test::Prefix { value: 1024, len: 6 }]), "\t1024 : 2047\t"),
        (one(4, false, &[Test::Prefix { value: 16, len: 4 }]), "\t0x10/0xF0"),
    ];
    for (set, part) in same {
        assert!(classbench(&set).expect("it fits").contains(part));
    }
}

fn super_set() -> RuleSet {
    RuleSet::new(Schema::five_tuple(Family::Ipv4, &[firstmatch::schema::Source::IcmpType]))
}

#[test]
fn what_the_native_format_cannot_hold_is_named() {
    let error = native(&one(Schema::ipv4(), Action::Match, 0, false, &[])).expect_err("no action");
    assert_eq!(error, "rule 1 cannot be written as native rules: every rule states an action, this one states none");
    let toy = Schema::new(None, vec![Field::new("in_port", 32, Kind::Exact, None)]);
    assert!(native(&RuleSet::new(toy)).expect_err("no field").contains("there is no field in_port"));
    let of_none = Schema::new(None, vec![Field::new("proto", 8, Kind::Exact, None)]);
    assert!(native(&RuleSet::new(of_none)).expect_err("no family").contains("the set has no family"));

    let dual = |conditions: Vec<Condition>, family| {
        let mut set = RuleSet::dual(Schema::ipv4(), Schema::ipv6());
        let spec = RuleSpec { priority: Priority(1), action: Action::Permit, conditions, family, line: None };
        set.insert(spec).expect("it fits");
        native(&set)
    };
    let on = |field, family, test| Condition { field, negated: false, tests: vec![(family, test)] };
    let error = dual(vec![on(0, None, Test::Value(7))], None).expect_err("of both");
    assert!(error.contains("an address of src is of one family"), "{error}");
    let error = dual(vec![on(3, Some(Family::Ipv4), Test::Value(7))], None).expect_err("of one");
    assert!(error.contains("a test of dport is for both families"), "{error}");
    assert_eq!(dual(vec![], Some(Family::Ipv6)).as_deref(), Ok("permit dst ::/0\n"));
    let prefix = Test::Prefix { value: 0, len: 8 };
    let said = dual(vec![on(0, Some(Family::Ipv4), prefix)], Some(Family::Ipv4));
    assert_eq!(said.as_deref(), Ok("permit src 0.0.0.0/8\n"));
    let both = |field| Condition {
        field,
        negated: false,
        tests: vec![(Some(Family::Ipv4), prefix), (Some(Family::Ipv6), prefix)],
    };
    let error = dual(vec![both(0), both(1)], Some(Family::Ipv4)).expect_err("nowhere to say so");
    assert!(error.contains("do not say that it is for ipv4 alone"), "{error}");
}

#[test]
fn a_writer_that_fails_is_an_error() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let set = generate(&Config { rules: 10, ..Config::default() });
    let error = write::classbench(&set, Full).expect_err("full");
    assert!(error.rule().is_none() && std::error::Error::source(&error).is_some());
}
