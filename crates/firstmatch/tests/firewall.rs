//! The first tier as its users meet it: decisions equal the oracle's, beside updates and rebuilds too.

#[cfg(all(feature = "captures", feature = "json", feature = "plane", feature = "systems"))]
#[path = "firewall/guide.rs"]
mod guide;
#[path = "firewall/reload.rs"]
mod reload;
#[path = "firewall/sets.rs"]
mod sets;

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use firstmatch::core::engines::registry::ENGINES;
use firstmatch::core::live::{self, META, Strategy};
use firstmatch::core::rule::{ConditionRef, FieldValues, first_match};
use firstmatch::core::schema::{Family, Field, Kind, Schema};
use firstmatch::core::{Location, Policy, RecordLayout, RuleSet};
use firstmatch::{
    Action, Addresses, Basis, Error, Fields, Firewall, LinkType, OtherFieldsError, Outcome, Ports, Rebuilds, Rule,
    Verdict,
};

/// Returns a frame with a TCP segment from 10.0.0.1 to a port of 192.0.2.7.
fn frame(dport: u16) -> Vec<u8> {
    firstmatch::doc_frame(dport)
}

fn verdicts(firewall: &Firewall, ports: &[u16]) -> Vec<Verdict> {
    let mut worker = firewall.worker();
    for &port in ports {
        worker.push(LinkType::Ethernet, &frame(port));
    }
    worker.classify().iter().map(|decision| decision.verdict).collect()
}

#[test]
fn decisions_carry_all_that_the_rule_says() {
    let text = "default permit\nunknown deny\n\ndeny tcp dport 23\nmark 7 tcp dport 80\n";
    let firewall = Firewall::from_text(text).expect("good rules");
    let mut worker = firewall.worker();
    for port in [23, 80, 443] {
        assert_eq!(worker.push(LinkType::Ethernet, &frame(port)), Outcome::Complete);
    }
    worker.push(LinkType::Ethernet, &frame(23)[..20]);
    worker.push(LinkType::Raw, &frame(80)[14..]);
    let decisions = worker.classify();
    let told: Vec<_> = decisions.iter().map(|d| (d.verdict, d.action, d.line.map(u32::from), d.outcome)).collect();
    let want = [
        (Verdict::Deny, Some(Action::Deny), Some(4), Outcome::Complete),
        (Verdict::Mark(7), Some(Action::Mark(7)), Some(5), Outcome::Complete),
        (Verdict::Permit, None, None, Outcome::Complete),
        (Verdict::Deny, None, None, Outcome::Truncated),
        (Verdict::Mark(7), Some(Action::Mark(7)), Some(5), Outcome::Complete),
    ];
    assert_eq!(told[..3], want[..3]);
    assert_eq!((told[3].0, told[3].1, told[3].2), (Verdict::Deny, None, None));
    assert!(!told[3].3.is_classified());
    assert!(decisions.iter().all(|d| d.basis == if d.rule.is_some() { Basis::Rule } else { Basis::Policy }));
    assert_eq!(told[4], want[4]);
    assert_eq!(worker.count_of(Outcome::Complete), 4);
    assert!(worker.is_empty() && worker.classify().is_empty(), "every packet is decided once");
}

/// Text and the same text as a `Rule` become the same rule in rules of either family, or are both refused plainly.
#[test]
fn text_and_rule_agree_in_one_family() {
    let both = [
        "deny icmp_type echo-request",
        "deny icmp_type not echo-request",
        "deny tcp dport 22",
        "deny src any",
        "deny icmp",
        "deny icmpv6",
    ];
    let ipv4 = ["deny src 10.0.0.0/8", "deny src not 10.0.0.0/8", "deny family ipv4 dport 22"];
    let ipv6 = ["deny src 2001:db8::/32", "deny src not 2001:db8::/32", "deny family ipv6 dport 22"];
    for (family, own, other, name) in [("ipv4", ipv4, ipv6, "IPv6"), ("ipv6", ipv6, ipv4, "IPv4")] {
        let text = format!("family {family}\npermit\n");
        let firewall = Firewall::builder().fields(Fields::All).build(&text).expect("good rules");
        let insert = |text: &str| {
            let mut update = firewall.update();
            let ids = [update.append(text), update.append(text.parse::<Rule>().expect(text))];
            let spec = |id| {
                let rule = update.rules().find(|rule| rule.id == id).expect("it is inserted");
                // In rules of one family a test may name it or not.
                let tests = |of: ConditionRef<'_>| of.tests().map(|(_, test)| test).collect::<Vec<_>>();
                let conditions = rule.conditions.iter().map(|of| (of.field, of.negated, tests(of)));
                (rule.action, conditions.collect::<Vec<_>>(), rule.family)
            };
            ids.map(|id| id.map(spec))
        };
        for text in both.iter().chain(&own) {
            let [read, built] = insert(text);
            assert_eq!(read.expect(text), built.expect(text), "{text} in {family}");
        }
        for text in other {
            for told in insert(text) {
                let told = told.expect_err(text).to_string();
                assert!(told.contains(name) || told.contains("family"), "{text} in {family}: {told}");
                assert!(!told.contains("Some"), "{text} in {family}: {told}");
            }
        }
    }
}

#[test]
fn rules_come_go_and_are_undone() {
    let firewall = Firewall::from_text("permit tcp dport 80\npermit tcp dport 443\n").expect("good rules");
    let mut update = firewall.update();
    let second = update.rules().nth(1).expect("two rules").id;
    let before = update.insert_before(second, "deny tcp dport 443").expect("it fits");
    let behind = update.insert_after(second, Rule::permit().proto(6).dst_port(8080).value(5)).expect("it fits");
    let order: Vec<_> = update.rules().map(|rule| rule.id).collect();
    assert_eq!(order[1..], [before, second, behind]);
    assert_eq!(verdicts(&firewall, &[443]), [Verdict::Permit], "nothing is seen before the commit");
    assert_eq!(update.commit().expect("there is room"), 1);
    assert_eq!(verdicts(&firewall, &[80, 443, 8080]), [Verdict::Permit, Verdict::Deny, Verdict::Permit]);
    let mut worker = firewall.worker();
    worker.push(LinkType::Ethernet, &frame(8080));
    assert_eq!((worker.classify()[0].value, worker.generation()), (5, 1));

    let mut dropped = firewall.update();
    dropped.remove(before).expect("it is live");
    drop(dropped);
    assert_eq!((firewall.len(), firewall.generation()), (4, 1));
    let mut update = firewall.update();
    let new = update.replace(before, "permit tcp dport 443").expect("it fits");
    assert!(update.remove(before).is_err_and(|error| error.is_stale()));
    update.commit().expect("there is room");
    assert_eq!(firewall.rule(new).as_deref(), Some("permit tcp dport 443"));
    assert_eq!(firewall.rule(before), None);
    assert_eq!(verdicts(&firewall, &[443]), [Verdict::Permit]);
}

/// A fault leaves the update as it was, and names what is wrong.
#[test]
fn faults_change_nothing() {
    let firewall = Firewall::from_text("permit tcp dport 80\n").expect("good rules");
    let mut update = firewall.update();
    let error = update.append("deny tcp dport 70000").expect_err("no port");
    assert_eq!((error.faults().len(), error.line()), (1, Some(1)));
    let error = update.append("deny vlan_vid 20").expect_err("the schema has no such field");
    assert!(error.to_string().contains("no field `vlan_vid`"), "{error}");
    let error = update.append(Rule::deny().matches("vlan_vid", [])).expect_err("the schema has no such field");
    assert!(error.to_string().contains("vlan_vid"), "{error}");
    assert_eq!(update.rules().count(), 1);
    update.append("deny udp").expect("it fits");
    update.commit().expect("there is room");
    assert_eq!(firewall.len(), 2);
    let error = Firewall::from_text("permit src 10.0.0.1/8\npermit dport 65536\n").expect_err("two faults");
    assert_eq!(error.faults().len(), 2);
    assert!(std::error::Error::source(&error).is_some());
    let all = Firewall::builder().fields(Fields::All).build("permit tcp dport 80\n").expect("good rules");
    let mut update = all.update();
    update.append("deny vlan_vid 20").expect("all fields are there");
    update.commit().expect("there is room");
}

/// Rules that are put before the same rule are never refused, and renumbering keeps ids and decisions.
#[test]
fn renumbering_makes_room() {
    let firewall = Firewall::from_text("permit tcp dport 80\npermit tcp dport 81\n").expect("good rules");
    let mut update = firewall.update();
    let last = update.rules().next_back().expect("two rules").id;
    let mut ids = vec![update.rules().next().expect("two rules").id];
    ids.extend((0..100).map(|_| update.insert_before(last, "deny tcp dport 22").expect("there is room")));
    // Each between the last two.
    for step in 0..200 {
        let at = 1 + step / 2;
        let put = match step % 2 {
            0 => update.insert_after(ids[at - 1], "deny tcp dport 21"),
            _ => update.insert_before(ids[at], "deny tcp dport 20"),
        };
        ids.insert(at, put.expect("there is room"));
        assert!(update.insert_before(ids[at], "deny nothing").is_err());
    }
    ids.push(last);
    ids.insert(0, update.prepend("deny tcp dport 19").expect("there is room"));
    ids.push(update.append("permit tcp dport 443").expect("there is room"));
    update.commit().expect("there is room");
    assert!(firewall.update().rules().map(|rule| rule.id).eq(ids));
    firewall.renumber().expect("no limit");
    let mut update = firewall.update();
    update.insert_before(last, "deny tcp dport 81").expect("there is room again");
    update.commit().expect("there is room");
    let mut worker = firewall.worker();
    worker.push(LinkType::Ethernet, &frame(81));
    worker.push(LinkType::Ethernet, &frame(80));
    let told: Vec<_> = worker.classify().iter().map(|d| (d.verdict, d.line.map(u32::from))).collect();
    assert_eq!(told, [(Verdict::Deny, None), (Verdict::Permit, Some(1))]);
}

/// Workers beside a writer see one of two states, whole: verdict, line and value of the very rule that matched.
#[test]
fn decisions_are_of_one_generation() {
    for rebuilds in [Rebuilds::Thread, Rebuilds::Caller] {
        let builder = Firewall::builder().rebuilds(rebuilds).counters(true);
        let firewall = builder.build("permit tcp dport 23\npermit tcp dport 80\n").expect("good rules");
        let (done, frames) = (AtomicBool::new(false), [frame(23), frame(80)]);
        let removed = thread::scope(|scope| {
            let read = || {
                let mut worker = firewall.worker();
                let mut packets = 0;
                while !done.load(Ordering::Relaxed) || packets < 1000 {
                    frames.iter().cycle().take(32).for_each(|frame| _ = worker.push(LinkType::Ethernet, frame));
                    let decisions = worker.classify();
                    // The value is the port's and, in its upper half, the same for all rules of a commit.
                    let first = decisions[0].value >> 32;
                    for (decision, port) in decisions.iter().zip([23, 80].into_iter().cycle()) {
                        let value = if first == 0 { 0 } else { first << 32 | port };
                        assert_eq!(decision.value, value, "rules of two generations in a batch");
                        let verdict = if first % 2 == 0 { Verdict::Permit } else { Verdict::Deny };
                        assert_eq!((decision.verdict, decision.line.is_some()), (verdict, first == 0));
                    }
                    packets += 32;
                }
                packets
            };
            let readers = [scope.spawn(read), scope.spawn(read)];
            let mut ids: Vec<_> = firewall.update().rules().map(|rule| rule.id).collect();
            let mut removed = ids.clone();
            for round in 1..=2000u64 {
                let mut update = firewall.update();
                for (id, port) in ids.iter_mut().zip([23, 80]) {
                    let action = if round % 2 == 0 { Action::Permit } else { Action::Deny };
                    let rule = Rule::new(action).proto(6).dst_port(port).value(round << 32 | u64::from(port));
                    *id = update.replace(*id, rule).expect("it is live");
                }
                update.commit().expect("there is room");
                removed.extend(&ids);
                if round % 500 == 0 && rebuilds == Rebuilds::Caller {
                    firewall.rebuild().expect("no limit");
                }
            }
            done.store(true, Ordering::Relaxed);
            let packets: u64 = readers.map(|reader| reader.join().expect("no panic")).iter().sum();
            let live: u64 = ids.iter().map(|&id| firewall.count(id).map_or(0, |count| count.packets)).sum();
            assert!(live <= packets);
            removed.len()
        });
        assert_eq!(removed, 4002);
        assert_eq!(firewall.generation(), 2000);
    }
}

/// A schema of one's own, rows filled by hand: decisions are the oracle's.
#[test]
fn rows_of_ones_own_schema() {
    let fields = vec![Field::new("tenant", 16, Kind::Exact, None), Field::new("weight", 8, Kind::Range, None)];
    let text = "schema {\n tenant 16 exact\n weight 8 range\n}\ndeny tenant 7\npermit weight 10-20\n";
    let firewall = match Firewall::builder().values_only(true).build(text) {
        Ok(firewall) => firewall,
        Err(error) => panic!("{error}"),
    };
    let schema = Schema::new(None, fields);
    assert_eq!(firewall.len(), 2);
    let mut worker = firewall.worker();
    let rows: Vec<_> = [(7, 15), (8, 15), (8, 21)].map(|(tenant, weight)| vec![Some(tenant), Some(weight)]).into();
    for values in rows {
        worker.push_values(&FieldValues { family: schema.family(), values }, 60);
    }
    let told: Vec<_> = worker.classify().iter().map(|decision| decision.verdict).collect();
    assert_eq!(told, [Verdict::Deny, Verdict::Permit, Verdict::Deny]);
    // Without a header field to come from they need `values_only`.
    let refused = Firewall::from_text(text).expect_err("packets have no tenant");
    assert!(refused.to_string().contains("tenant"), "{refused}");
}

/// Packets by records of the caller's, of both families: decided as the same packets by the values of their fields.
#[test]
fn records_of_ones_own_are_decided_as_their_values() {
    let firewall =
        Firewall::from_text("deny tcp dport 23\npermit udp sport 1024-65535\ndeny icmp\npermit dst 2001:db8::/32\n")
            .expect("four rules");
    let widths = |schema: &Schema| schema.fields().iter().map(|field| field.width() as usize / 8).collect::<Vec<_>>();
    let layouts: Vec<RecordLayout> = firewall
        .schemas()
        .iter()
        .map(|schema| {
            let ends = widths(schema).into_iter().scan(0, |end, width| Some(std::mem::replace(end, *end + width)));
            let names = schema.fields().iter().map(Field::name);
            let fields: Vec<_> = names.zip(ends.map(Location::network)).collect();
            RecordLayout::new(schema, &fields).expect("it has all fields")
        })
        .collect();
    let [mut by_record, mut by_values] = [(); 2].map(|()| firewall.worker());
    for number in 0..400u128 {
        let (layout, proto) = (&layouts[number as usize % 2], [6, 17, 1, 58, 50][number as usize / 2 % 5]);
        let schema = layout.schema();
        let dst = if schema.family() == Some(Family::Ipv6) { 0x2001_0db8 << 96 | number } else { number };
        let values = [number * 7, dst, number * 511 % 65_536, 20 + number % 6, proto];
        let bytes = values.iter().zip(widths(schema));
        let record: Vec<u8> = bytes.flat_map(|(value, width)| value.to_be_bytes()[16 - width..].to_vec()).collect();
        let has_ports = [6, 17].contains(&proto);
        let there = values.iter().enumerate().map(|(at, &value)| (has_ports || ![2, 3].contains(&at)).then_some(value));
        let short = by_record.push_record(layout, &record[1..], 60).expect_err("it lacks a byte");
        assert_eq!((short.bytes + 1, short.least), (record.len(), record.len()));
        let outcome = by_record.push_record(layout, &record, 60).expect("it is whole");
        assert_eq!(
            outcome,
            by_values.push_values(&FieldValues { family: schema.family(), values: there.collect() }, 60)
        );
    }
    assert_eq!(by_record.classify(), by_values.classify());
    assert!(by_record.count_of(Outcome::NoPorts) == 240 && by_record.count_of(Outcome::Complete) == 160);
}

/// Typed rules, both families: decisions are the oracle's over the same rules.
#[test]
fn typed_rules_hold_as_the_oracle_says() {
    let address = |text: &str| text.parse::<IpAddr>().expect("an address");
    let firewall = Firewall::builder().fields(Fields::All).build("").expect("no rules");
    let mut update = firewall.update();
    let rules = [
        Rule::deny().src(address("10.0.0.1")).dst_port(Ports::from(1..=1023)),
        Rule::permit().dst(Addresses::prefix(address("192.0.2.0"), 24).expect("a prefix")),
        Rule::deny().src(Addresses::range(address("2001:db8::1"), address("2001:db8::9")).expect("a range")),
        Rule::permit().differs("proto", [firstmatch::core::rule::Test::Value(6)]),
    ];
    for rule in rules {
        assert_eq!(rule.to_string().parse::<Rule>().expect("it was written"), rule);
        update.append(rule).expect("it fits");
    }
    let mut set = RuleSet::dual(Schema::ipv4(), Schema::ipv6());
    for text in ["deny src 10.0.0.1 dport 1-1023", "permit dst 192.0.2.0/24"] {
        let priority = firstmatch::core::rule::Priority::of_line(set.len() as u32 + 1);
        let rule = firstmatch::formats::parse_rule(&set, priority, text, &Default::default()).expect("good rule");
        set.insert(rule.spec).expect("it fits");
    }
    update.commit().expect("there is room");
    for port in [22, 1023, 1024, 8080] {
        let family = set.schemas()[0].family();
        let values = [0x0A00_0001, 0xC000_0207, 50_000, u128::from(port), 6].map(Some).into();
        let oracle = first_match(&set, &FieldValues { family, values }).map(|rule| Verdict::from(rule.action));
        assert_eq!(Some(verdicts(&firewall, &[port])[0]), oracle, "port {port}");
    }
    for bad in [Addresses::prefix(address("10.0.0.1"), 8), Addresses::range(address("10.0.0.9"), address("10.0.0.1"))] {
        assert!(bad.is_err());
    }
}

#[test]
fn limits_are_refused_by_name() {
    let error = Firewall::builder().memory_limit(1000).build("permit tcp\n").expect_err("no room");
    assert!(error.budget_exceeded(), "{error}");
    let firewall = Firewall::builder().build_set(RuleSet::new(Schema::ipv4()), Policy::default()).expect("no rules");
    assert_eq!(verdicts(&firewall, &[80]), [Verdict::Deny]);
    assert!(firewall.explain(LinkType::Ethernet, &frame(80)).to_string().starts_with("deny: no rule matches"));
    let _: Result<(), Error> = Ok(());
}

/// Ranges are of one family and prefixes have no bits behind them, even those of length 0.
#[test]
fn addresses_that_are_none_are_refused() {
    let address = |text: &str| text.parse::<IpAddr>().expect("an address");
    let range = |first, last| Addresses::range(address(first), address(last));
    assert!(range("10.0.0.1", "2001:db8::1").is_err() && range("::1", "10.0.0.1").is_err());
    assert!(range("10.0.0.1", "10.0.0.1").is_ok());
    let prefix = |text, len| Addresses::prefix(address(text), len);
    for (zero, some) in [("0.0.0.0", "10.0.0.0"), ("::", "2001:db8::")] {
        assert!(prefix(zero, 0).is_ok() && prefix(some, 0).is_err(), "{some}");
    }
    assert!(prefix("10.0.0.1", 32).is_ok() && prefix("10.0.0.1", 33).is_err() && prefix("10.0.0.1", 31).is_err());
}

/// Counts are of packets as long as they were before the capture cut them.
#[test]
fn bytes_are_counted_as_they_were() {
    let firewall = Firewall::builder().counters(true).build("permit tcp dport 80\n").expect("good rules");
    let id = firewall.update().rules().next().expect("one").id;
    let mut worker = firewall.worker();
    worker.push(LinkType::Ethernet, &frame(80));
    worker.push_cut(LinkType::Ethernet, &frame(80), 1500);
    worker.push_cut(LinkType::Ethernet, &frame(81), 900);
    worker.classify();
    let count = firewall.count(id).expect("counters are on");
    assert_eq!((count.packets, count.bytes), (2, frame(80).len() as u64 + 1500));
}

/// Warnings about rules that come by an update are kept with it, inserted or in the place of others.
#[test]
fn warnings_of_an_update_are_kept() {
    let firewall = Firewall::builder().fields(Fields::All).build("permit tcp dport 80\n").expect("good rules");
    let mut update = firewall.update();
    let first = update.rules().next().expect("one").id;
    assert!(update.warnings().is_empty());
    update.append("deny udp tcp_flags 2").expect("it fits");
    assert_eq!(update.warnings().len(), 1);
    update.replace(first, "permit udp tcp_flags 2").expect("it fits");
    assert_eq!(update.warnings().len(), 2);
}

/// Each number of the worst case limits what it says, and limits on regions hold for texts and for updates.
#[test]
fn each_limit_is_of_its_own() {
    let text = "permit tcp dport 80\npermit tcp dport 81\n";
    let error = |lines, tests| {
        let built = Firewall::builder().worst_case(lines, tests).build(text);
        built.expect_err("nothing keeps a limit of 0").to_string()
    };
    assert!(error(0, usize::MAX).contains("cache lines, the limit is 0"), "{}", error(0, usize::MAX));
    assert!(error(usize::MAX, 0).contains("regions, the limit is 0"), "{}", error(usize::MAX, 0));
    let caps = firstmatch::core::rule::ExpansionLimits { regions_per_rule: 3, ..Default::default() };
    let builder = || Firewall::builder().expansion_limits(caps);
    let wide = "permit dport { 1, 3, 5, 7 }\n";
    let refused = builder().build(&format!("permit tcp\n{wide}")).expect_err("four regions");
    assert!(refused.faults().len() == 1 && refused.line() == Some(2), "{refused}");
    let firewall = builder().build(text).expect("good rules");
    assert!(firewall.update().append(wide).is_err_and(|error| error.to_string().contains("max-regions-per-rule is 3")));
}

/// A commit that makes a rebuild due wakes the thread, which rebuilds once.
#[test]
fn a_rebuild_that_is_due_runs_once() {
    let rules: String = (0..40).map(|port| format!("permit tcp dport {port}\n")).collect();
    let builder = Firewall::builder().engine("linear").expect("it is there");
    let firewall = builder.build(&rules).expect("good rules");
    let epoch = || firewall.engines().iter().map(|engine| engine.epoch).max().expect("an engine");
    let mut update = firewall.update();
    (0..200).for_each(|_| _ = update.append("deny udp").expect("it fits"));
    assert_eq!(epoch(), 0);
    update.commit().expect("there is room");
    let start = std::time::Instant::now();
    while epoch() == 0 {
        assert!(start.elapsed().as_secs() < 20, "no rebuild came");
        thread::sleep(std::time::Duration::from_millis(1));
    }
    thread::sleep(std::time::Duration::from_millis(50));
    assert_eq!(epoch(), 1, "nothing has made another due");
}

/// Rebuilds that several threads ask for, beside new priorities and the handle's own thread, come one after another.
#[test]
fn rebuilds_wait_for_each_other() {
    let rules: String = (0..40).map(|port| format!("permit tcp dport {port}\n")).collect();
    let firewall = Firewall::from_text(&rules).expect("good rules");
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..20).for_each(|_| _ = firewall.rebuild().expect("no limit")));
        }
        for _ in 0..20 {
            let mut update = firewall.update();
            (0..60).for_each(|_| _ = update.append("deny udp").expect("it fits"));
            if let Err(error) = update.commit() {
                assert!(error.needs_rebuild(), "{error}");
            }
            firewall.renumber().expect("no limit");
        }
    });
    let epoch = firewall.engines().iter().map(|engine| engine.epoch).max().expect("an engine");
    assert!(epoch >= 60, "{epoch}");
}

/// Every engine that has a name serves rules that change while another thread looks up: a batch has the answers of its
/// generation, before a rebuild and after.
#[test]
fn every_engine_by_name_serves_rules_that_change() {
    let rules: String = (0..60).map(|port| format!("permit tcp dport {port}-{}\n", port + 9)).collect();
    for name in [META].iter().chain(ENGINES).map(|entry| entry.name) {
        let builder = Firewall::builder().engine(name).expect("it is known").rebuilds(Rebuilds::Caller);
        let firewall = builder.build(&rules).unwrap_or_else(|error| panic!("{name}: {error}"));
        let of_name = |engine: &live::Explanation| {
            engine.kind.name() == name || engine.front.as_ref().is_some_and(|of| of.0 == name)
        };
        assert!(name == META.name || firewall.engines().iter().all(of_name), "{name}");
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut worker = firewall.worker().packets_per_lookup(7);
                let frames: Vec<_> = (0..64).map(frame).collect();
                while !is_done.load(Ordering::Relaxed) {
                    worker.push_all(LinkType::Ethernet, &frames);
                    let lines: Vec<_> = worker.classify().iter().map(|of| of.line.map_or(0, u32::from)).collect();
                    // Each commit removes the first rule that is left.
                    let first = worker.generation() as u32 + 1;
                    let wants = (0..64).map(|port: u32| (port.saturating_sub(8)).max(first)).enumerate();
                    let wants = wants.map(|(port, line)| if line > port as u32 + 1 || line > 60 { 0 } else { line });
                    assert!(lines.iter().copied().eq(wants), "{name}, generation {}: {lines:?}", first - 1);
                }
            });
            for removed in 0..40 {
                let mut update = firewall.update();
                let first = update.rules().next().expect("more rules").id;
                update.remove(first).expect("it is live");
                update.commit().expect("a removal is never refused");
                if removed % 16 == 15 {
                    firewall.rebuild().expect("no limit");
                }
            }
            is_done.store(true, Ordering::Relaxed);
        });
        assert_eq!((firewall.len(), firewall.generation()), (20, 40), "{name}");
    }
}

/// The engine that is named last is the only one.
#[test]
fn a_name_replaces_the_engine_before() {
    let engines = |names: [&str; 2]| {
        let named = names.iter().fold(Firewall::builder(), |builder, name| builder.engine(name).expect("it is known"));
        named.build("family ipv4\npermit tcp\n").expect("no limit").engines().remove(0)
    };
    let last = engines(["rfc", "tuplemerge"]);
    assert_eq!((last.kind, last.asked, last.front), (live::Kind::TupleMerge, Some(live::Kind::TupleMerge), None));
    let last = engines(["tuplemerge", "rfc"]);
    assert_eq!((last.asked, last.front.map(|(name, _)| name)), (None, Some("rfc")));
    let last = engines(["rfc", "meta"]);
    assert_eq!((last.asked, last.front), (None, None));
}

/// Rules for IPv6 may have another base than those for IPv4.
#[test]
fn families_have_bases_of_their_own() {
    let (strategy, ipv6) = (Strategy::Force(live::Kind::TupleMerge), Strategy::Force(live::Kind::Linear));
    let config = live::Config { strategy, ipv6_strategy: Some(ipv6), ..live::Config::default() };
    let firewall = Firewall::builder().live(config).build("permit tcp\n").expect("no limit");
    let kinds: Vec<_> = firewall.engines().iter().map(|engine| engine.kind).collect();
    assert_eq!(kinds, [live::Kind::TupleMerge, live::Kind::Linear]);
}

/// A batch that was filled elsewhere is decided as one's own; a batch of other schemas is refused.
#[test]
fn batches_are_filled_elsewhere() {
    let firewall = Firewall::from_text("deny tcp dport 23\npermit\n").expect("good rules");
    let mut batch = firewall.batch();
    [23, 80, 23].iter().for_each(|&port| _ = batch.push_frame(LinkType::Ethernet, &frame(port), 60));
    let mut worker = firewall.worker();
    for _ in 0..2 {
        let mut seen = Vec::new();
        let decided = worker.classify_batch(&batch, |record, decision| seen.push((record.bytes, decision.verdict)));
        decided.expect("the fields of the rules");
        assert_eq!(seen, [Verdict::Deny, Verdict::Permit, Verdict::Deny].map(|verdict| (60, verdict)));
    }
    assert!(worker.is_empty() && worker.front_scratches().all(|scratch| scratch.is_none()));
    let other = Firewall::from_text("family ipv4\npermit\n").expect("good rules").batch();
    assert_eq!(worker.classify_batch(&other, |_, _| unreachable!("it is refused")), Err(OtherFieldsError));
}

#[test]
fn no_file_imports_itself_through_others() {
    firstmatch_testkit::layers::check_circles(env!("CARGO_MANIFEST_DIR"), 10);
}
