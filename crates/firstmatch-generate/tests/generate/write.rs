//! Tests that generated rules, once written, parse back to the same rules.

use super::common::{generate, lowered, profiles, text};
use firstmatch_core::rule::Action;
use firstmatch_core::{Diagnostic, Policy, RuleSet};
use firstmatch_formats::{Format, Options};
use firstmatch_generate::rules::{Actions, Config, Families};

fn parse(text: &str) -> RuleSet {
    let file = firstmatch_formats::parse(text, &Options::default()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    // Profiles have ICMP among the protocols of IPv6, too.
    let is_odd = |warning: &&Diagnostic| !warning.message.starts_with("this rule matches no regular packet");
    assert_eq!(file.warnings.iter().find(is_odd), None);
    file.rules
}

fn native(set: &RuleSet) -> String {
    let mut text = String::new();
    firstmatch_formats::write::native(set, &Policy::default(), &mut text).expect("it fits");
    text
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
            assert_eq!(firstmatch_formats::sniff(&written), Format::ClassBench);
            let read = parse(&written);
            assert!(set.iter().map(|rule| &rule.spec).eq(read.iter().map(|rule| &rule.spec)));
        }
        for families in [Families::Ipv4, Families::Ipv6, Families::Both { ipv6: 0.4 }] {
            let stated = Actions::Stated { deny: 0.3, mark: 0.3 };
            let base = Config { rules: 2000, profile: profile.clone(), families, actions: stated, ..Config::default() };
            let set = generate(&base);
            let read = parse(&native(&set));
            assert_eq!((lowered(&set), actions(&set)), (lowered(&read), actions(&read)));
            if let Families::Both { .. } = families {
                // Only the lines differ, because directives come first.
                let said = |set: &RuleSet| -> Vec<_> {
                    set.iter().map(|rule| (rule.conditions.clone(), rule.family)).collect()
                };
                assert_eq!(said(&set), said(&read));
            }
        }
    }
}
