//! Live sets in service: members beside workers, in reloads and explanations.

use firstmatch::{Decision, Firewall, LinkType, Verdict, Worker, doc_frame};

/// Source of every frame here.
const HOST: &str = "10.0.0.1";

fn decide(worker: &mut Worker) -> Decision {
    worker.push(LinkType::Ethernet, &doc_frame(443));
    worker.classify()[0]
}

fn members(firewall: &Firewall, set: &str) -> Vec<String> {
    firewall.set(set).expect("a live set").members().iter().map(ToString::to_string).collect()
}

const TEXT: &str = "live set bad = { 192.0.2.0/24 }\n\
    deny tcp dport 22\n\
    deny src $bad tcp label \"bad hosts\"\n\
    permit dst 192.0.2.0/24\n";

/// A member that comes decides the next batch, and neither ids nor counts of rules change.
#[test]
fn members_come_and_go_beside_a_worker() {
    let firewall = Firewall::builder().counters(true).build(TEXT).expect("no faults");
    let mut worker = firewall.worker();
    let rules = firewall.rules();
    assert_eq!(decide(&mut worker).rule, Some(rules[2].id));
    for round in 1..=5u64 {
        let mut update = firewall.update();
        let bad = update.set("bad").expect("a live set");
        assert!(update.insert_member(bad, "10.0.0.0/8").expect("a member"));
        assert!(update.insert_member(bad, HOST).expect("a member"));
        assert_eq!(decide(&mut worker).rule, Some(rules[2].id), "before the commit");
        update.commit().expect("no limit");
        let denied = decide(&mut worker);
        assert_eq!(
            (denied.rule, denied.verdict, denied.line.map(u32::from)),
            (Some(rules[1].id), Verdict::Deny, Some(3))
        );
        let mut update = firewall.update();
        assert!(update.remove_member(bad, "10.0.0.0/8").expect("a member"));
        update.commit().expect("no limit");
        assert_eq!(decide(&mut worker).rule, Some(rules[1].id), "the host is still a member");
        let mut update = firewall.update();
        assert!(update.remove_member(bad, HOST).expect("a member"));
        update.commit().expect("no limit");
        assert_eq!(firewall.count(rules[1].id).map(|count| count.packets), Some(2 * round));
    }
    assert_eq!((firewall.rules(), firewall.generation()), (rules, 15));
    // An update that is dropped changes nothing.
    let mut update = firewall.update();
    let bad = update.set("bad").expect("a live set");
    update.insert_member(bad, HOST).expect("a member");
    drop(update);
    assert_eq!(members(&firewall, "bad"), ["192.0.2.0/24"]);
}

/// Members and rules of one update are one generation.
#[test]
fn members_and_rules_change_together() {
    let firewall = Firewall::from_text("permit\n").expect("no faults");
    let mut worker = firewall.worker();
    let mut update = firewall.update();
    let bad = update.add_set("bad").expect("a new name");
    update.insert_member(bad, HOST).expect("a member");
    let rule = update.prepend("deny src $bad").expect("it knows the set");
    assert_eq!(update.commit().expect("no limit"), 1);
    assert_eq!(decide(&mut worker).rule, Some(rule));
    assert_eq!(firewall.rule(rule).as_deref(), Some("deny src $bad"));
    let mut update = firewall.update();
    assert!(update.set("worse").is_err_and(|error| error.to_string().contains("expected one of: bad")));
    update.remove(rule).expect("it is live");
    let rule = update.prepend("deny dst { $bad, 192.0.2.7 }").expect("it knows the set");
    update.commit().expect("no limit");
    assert_eq!(decide(&mut worker).rule, Some(rule));
}

#[test]
fn an_explanation_names_the_member() {
    let firewall = Firewall::from_text(TEXT).expect("no faults");
    let mut update = firewall.update();
    let bad = update.set("bad").expect("a live set");
    update.replace_members(bad, ["10.0.0.0-10.0.0.9", "10.0.0.0/8"]).expect("members");
    update.commit().expect("no limit");
    let explained = firewall.explain(LinkType::Ethernet, &doc_frame(443));
    assert_eq!(explained.members.len(), 1);
    let text = explained.to_string();
    assert!(text.starts_with("deny: rule 2 of line 3, `deny src $bad tcp`\n10.0.0.0-10.0.0.9 is in $bad\n"), "{text}");
}

/// A file that is read again changes members alone where only they differ; other fields keep sets and their ids.
#[test]
fn a_reload_changes_the_members_that_differ() {
    let firewall = Firewall::from_text(TEXT).expect("no faults");
    let mut worker = firewall.worker();
    let ids: Vec<_> = firewall.rules().iter().map(|rule| rule.id).collect();
    let bad = firewall.set("bad").expect("a live set").id();
    let other = TEXT.replace("192.0.2.0/24 }", "192.0.2.0/24, 10.0.0.0/24 }");
    let done = firewall.reload(&other).expect("no faults");
    assert_eq!((done.generation, done.kept, done.inserted, done.removed), (1, 3, 0, 0));
    assert_eq!(decide(&mut worker).rule, Some(ids[1]));
    assert_eq!(firewall.reload(&other).expect("no faults").generation, 1, "nothing differs");
    // Another set comes first in the text, and the rules test another field.
    let other = format!("live set new = {{ {HOST} }}\n{TEXT}deny src $new vlan_vid 7\n");
    let done = firewall.reload(&other).expect("no faults");
    assert!(done.is_rebuilt && firewall.set("bad").is_some_and(|set| set.id() == bad));
    assert_eq!(
        (members(&firewall, "bad"), members(&firewall, "new")),
        (vec!["192.0.2.0/24".into()], vec![HOST.into()])
    );
    assert_eq!(decide(&mut worker).rule, Some(ids[2]));
    let mut update = firewall.update();
    update.insert_member(bad, HOST).expect("a member");
    update.commit().expect("no limit");
    assert_eq!(decide(&mut worker).rule, Some(ids[1]));
    // A set that the text lacks has no members.
    firewall.reload("permit\n").expect("no faults");
    assert!(members(&firewall, "bad").is_empty());
}
