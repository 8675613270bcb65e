//! Rules that are put before, behind and between others: they are where they belong, and no place is ever full.

use super::changing::{check, commit, forms, keys, ports, spec};
use super::*;
use crate::engines::shared::wide::Random;
use crate::select::Strategy;

/// Index in the order at which step `step` puts a rule; `len` is the number of rules.
type Pattern = fn(step: usize, len: usize, random: &mut Random) -> usize;

const PATTERNS: [(&str, Pattern); 5] = [
    ("before the same rule", |_, len, _| len - 20),
    ("behind the same rule", |_, _, _| 20),
    ("between the last two", |step, _, _| 20 + step.div_ceil(2)),
    ("among few", |_, _, random| 18 + random.below(4)),
    ("at both ends", |step, len, _| step % 2 * len),
];

fn order_of(rules: &RuleSet) -> Vec<RuleId> {
    rules.iter().map(|rule| rule.id).collect()
}

/// Puts a rule at an index of `order`, in the transaction and there.
fn put(transaction: &mut Transaction<'_>, order: &mut Vec<RuleId>, at: usize, random: &mut Random) -> RuleId {
    let rule = spec(0, &[2 * random.below(48) as u32]);
    let id = match at {
        0 => transaction.prepend(rule),
        at if at == order.len() => transaction.append(rule),
        at if random.below(2) == 0 => transaction.insert_before(order[at], rule),
        at => transaction.insert_after(order[at - 1], rule),
    };
    order.insert(at, id.expect("there is room"));
    order[at]
}

fn rebuild(writer: &mut Writer) {
    let rebuilt = writer.begin_rebuild().run().expect("no budget");
    writer.install(rebuilt).expect("it is the last");
}

/// 10,000 rules come to one place, one by one or all at once.
#[test]
fn no_place_is_ever_full() {
    const COUNT: usize = 10_000;
    let (keys, config) = (keys(&Schema::ipv4()), Config { strategy: Strategy::FirstFit, ..Config::default() });
    for (name, pattern) in PATTERNS {
        for at_once in [COUNT, 1] {
            let mut random = Random(1);
            let (engines, mut writer) = open(ports(40), &config).expect("no budget");
            let mut order = order_of(writer.rules());
            for step in (0..COUNT).step_by(at_once) {
                let done = commit(&mut writer, |transaction| {
                    for step in step..step + at_once {
                        let at = pattern(step, order.len(), &mut random);
                        put(transaction, &mut order, at, &mut random);
                    }
                });
                assert_eq!(done, Ok((step / at_once) as u64 + 1), "{name}");
                if writer.rebuild_is_due() {
                    rebuild(&mut writer);
                }
                if step % 1_000 == 0 {
                    check(&engines[0], &writer, &keys, name);
                }
            }
            assert_eq!((order_of(writer.rules()), order.len()), (order, COUNT + 40), "{name}, {at_once} at once");
            check(&engines[0], &writer, &keys, name);
        }
    }
}

/// Rules that move to make room answer as before, over every base and front, also if they are removed, if a transaction
/// is dropped or a rule refused, and beside a rebuild.
#[test]
fn rules_that_move_stay_right() {
    let keys = keys(&Schema::ipv4());
    for (seed, form) in (1..).zip(forms()) {
        let what = format!("{:?}, front {:?}, in place {:?}", form.strategy, form.front, form.in_place);
        let mut random = Random(seed);
        let mut set = RuleSet::new(Schema::ipv4());
        // Without any room between them.
        for at in 0..40u32 {
            set.insert(spec(u64::from(at), &[2 * at])).expect("it fits");
        }
        let expansion = ExpansionLimits { regions_per_rule: 3, ..ExpansionLimits::default() };
        let (engines, mut writer) = open(set, &Config { expansion, ..form }).expect("no budget");
        let (mut order, mut job) = (order_of(writer.rules()), None);
        let mut moved = 0;
        for step in 0..120 {
            let before: Vec<_> = writer.rules().iter().map(|rule| (rule.id, rule.priority)).collect();
            let mut next = order.clone();
            let mut transaction = writer.begin();
            for _ in 0..1 + random.below(3) {
                match random.below(4) {
                    0 => transaction.remove(next.remove(random.below(next.len()))).expect("it is live"),
                    1 => {
                        let old = random.below(next.len());
                        let spec = transaction.rules().get(next[old]).expect("it is live").spec.clone();
                        next[old] = transaction.replace(next[old], spec).expect("it fits");
                    }
                    2 => _ = put(&mut transaction, &mut next, 1 + random.below(5), &mut random),
                    _ => {
                        let wide = spec(0, &[0, 2, 4, 6]);
                        assert!(transaction.insert_after(next[random.below(4)], wide).is_err(), "it is too wide");
                    }
                }
                assert_eq!(order_of(transaction.rules()), next, "{what}");
            }
            if random.below(5) == 0 {
                drop(transaction);
                assert!(writer.rules().iter().map(|rule| (rule.id, rule.priority)).eq(before), "{what}");
                continue;
            }
            transaction.commit().expect("there is room");
            moved +=
                before.iter().filter(|(id, at)| writer.rules().get(*id).is_some_and(|of| of.priority != *at)).count();
            order = next;
            check(&engines[0], &writer, &keys, &format!("{what}, step {step}"));
            match job.take() {
                None if random.below(8) == 0 => job = Some(writer.begin_rebuild()),
                Some(begun) if random.below(3) == 0 => {
                    let rebuilt = RebuildJob::run(begun).expect("no budget");
                    writer.install(rebuilt).expect("it is the last");
                    check(&engines[0], &writer, &keys, &format!("{what}, rebuilt at step {step}"));
                }
                begun => job = begun,
            }
        }
        assert!(moved > 20, "{what}: {moved} moved");
    }
}
