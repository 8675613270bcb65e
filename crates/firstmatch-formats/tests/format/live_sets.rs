//! Live sets: their members, the rules that test them, and the text that is written.

use firstmatch_core::rule::{ConditionRef, Priority, RuleSet, SetId, Test};
use firstmatch_core::schema::Family;
use firstmatch_formats::{Format, Options, ParseError, RuleFile, parse_rule, parse_with, write};

fn read(text: &str) -> Result<RuleFile, ParseError> {
    let load = |name: &str| match name {
        "bad.txt" => Ok("# hosts\n192.0.2.1\n2001:db8::/32 # a network\n\n".to_owned()),
        "ports" => Ok("192.0.2.1\n80\n".to_owned()),
        "empty" => Ok("# nothing\n".to_owned()),
        _ => Err("no such file".to_owned()),
    };
    parse_with(text, &Options::default(), &load)
}

fn faults(text: &str) -> Vec<String> {
    read(text).expect_err("it has faults").faults().iter().map(ToString::to_string).collect()
}

fn members(rules: &RuleSet, name: &str) -> Vec<String> {
    let sets = rules.live_sets();
    let set = sets.find(name).and_then(|id| sets.get(id)).expect("a live set");
    set.members().map(|member| member.to_string()).collect()
}

const TEXT: &str = "set inside = { 10.0.0.0/8, 172.16.0.0/12 }\n\
    live set bad = { include \"bad.txt\",\n    198.51.100.0/24 except 198.51.100.7, $inside, 10.0.0.0/8 }\n\
    live set none = { }\n\
    live set list = { include \"empty\" }\n\
    deny src $bad dport 23\n\
    deny dst not { $none, 203.0.113.9 } family ipv4\n\
    permit src { $inside, $list }\n";

#[test]
fn rules_test_live_sets_by_name() {
    let file = read(TEXT).expect("no faults");
    let bad = ["10.0.0.0/8", "172.16.0.0/12", "192.0.2.1", "198.51.100.0-198.51.100.6", "198.51.100.8-198.51.100.255"];
    assert_eq!(members(&file.rules, "bad"), [&bad[..], &["2001:db8::/32"]].concat());
    assert_eq!((members(&file.rules, "none").len(), members(&file.rules, "list").len()), (0, 0));
    let rules: Vec<_> = file.rules.iter().collect();
    let tests = |rule: usize, field: usize| -> Vec<_> {
        rules[rule].conditions.on(field).expect("a condition").tests().collect()
    };
    assert_eq!(tests(0, 0), [(None, Test::Set(SetId::new(0)))]);
    let host = (Some(Family::Ipv4), Test::Value(0xCB00_7109));
    assert_eq!(tests(1, 1), [(None, Test::Set(SetId::new(1))), host]);
    assert_eq!(tests(2, 0).last(), Some(&(None, Test::Set(SetId::new(2)))));
    assert!(file.warnings.is_empty() && file.unused_sets.is_empty(), "{:?}", file.warnings);
}

/// What is written reads back as the same sets and rules, also with many members.
#[test]
fn live_sets_survive_being_written_and_read() {
    let hosts: Vec<String> = (0..100).map(|host| format!("192.0.2.{host}")).collect();
    let text = format!("{TEXT}live set many = {{ {} }}\ndeny dst $many\n", hosts.join(", "));
    let file = read(&text).expect("no faults");
    let mut written = String::new();
    write::write(&file, Format::Native, &mut written).expect("the format holds them");
    let back = read(&written).expect("no faults");
    for name in ["bad", "none", "list", "many"] {
        assert_eq!(members(&back.rules, name), members(&file.rules, name), "{written}");
    }
    let conditions = |file: &RuleFile| file.rules.iter().map(|rule| rule.conditions.clone()).collect::<Vec<_>>();
    assert_eq!(conditions(&back), conditions(&file));
    assert!(written.contains("\ndeny src $bad dport 23\n"), "{written}");
    let error = write::write(&file, Format::ClassBench, &mut String::new()).expect_err("it has no sets").to_string();
    assert!(error.contains("ClassBench has no live sets: `bad` cannot be written"), "{error}");
}

#[test]
fn faults_of_live_sets_name_line_and_column() {
    let mut other = Vec::new();
    for (text, fault) in [
        ("live bad = { 192.0.2.1 }\n", "1:6: `bad` after live; expected `live set NAME = { … }`"),
        ("live\n", "1:5: nothing after live; expected `live set NAME = { … }`"),
        (
            "live set bad = { 192.0.2.1, 80 }\n",
            "1:29: a live set takes no number (80); expected an address, a prefix or a range of addresses",
        ),
        (
            "live set bad = { 10.0.0.1/255.0.0.1 }\n",
            "1:18: a live set takes no address under a mask; expected an address, a prefix or a range of addresses",
        ),
        (
            "live set bad = { include \"ports\" }\n",
            "1:18: `ports`, line 2, column 1: a live set takes no number (80); expected an address, a prefix or a \
             range of addresses",
        ),
        (
            "live set bad = { 192.0.2.1 }\nset all = { $bad, 192.0.2.2 }\n",
            "2:13: `$bad` (line 1) is a live set, which no other set can hold; expected both sets in the rule: \
             `src { $a, $b }`",
        ),
        (
            "live set bad = { 192.0.2.1 }\ndeny dport $bad\n",
            "2:12: dport takes no live set, which holds IP addresses; expected",
        ),
        ("live set bad = { }\nset bad = { 192.0.2.1 }\n", "2:5: the set `bad` is already defined on line 1"),
        (
            "live set bad = { }\ndeny src { $bad, 10.0.0.1/255.0.0.1 }\n",
            "2:1: the rule does not fit the schema: a value under a mask stands beside a live set",
        ),
        (
            "schema openflow\nlive set bad = { }\ndeny ipv4_src $bad\n",
            "3:15: ipv4_src takes no live set, which holds IP addresses",
        ),
    ] {
        let all = faults(text);
        if !all[0].starts_with(fault) {
            other.push((text, all));
        }
    }
    assert!(other.is_empty(), "{other:#?}");
}

/// One rule for existing rules names their live sets; unknown ones are refused.
#[test]
fn a_single_rule_names_live_sets_of_the_rules() {
    let file = read(TEXT).expect("no faults");
    let rule = |text: &str| parse_rule(&file.rules, Priority(1), text, &Options::default());
    let parsed = rule("deny dst { $bad, 192.0.2.9 }").expect("it knows the set");
    assert_eq!(parsed.spec.conditions.on(1).map(ConditionRef::count), Some(2));
    for text in ["deny src $inside", "deny src $worse"] {
        let error = rule(text).expect_err("no live set").to_string();
        assert!(error.contains("there is no set"), "{error}");
    }
}
