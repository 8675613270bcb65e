//! Yardsticks that engines are compared with: `limit`, `linear`, and DPDK's `rte_acl`.

mod limit;
#[cfg(feature = "rte-acl")]
pub(crate) mod rte_acl;

use std::collections::HashMap;

use firstmatch_core::rule::{Lowered, Priority};
use firstmatch_core::{Classifier, KeyBuf, Match, RuleId};

use limit::Limit;

/// Exact-match table with the keys that are looked up in it.
pub(crate) struct LimitRun {
    pub(crate) table: Box<dyn Classifier>,
    /// For each key of the trace, the entry of the rule it matches.
    pub(crate) keys: KeyBuf,
    pub(crate) answers: Vec<Option<Match>>,
}

/// Makes the table of a rule set, and its keys from a trace with right answers.
///
/// A packet that no rule matches is replaced by the entry of some rule. The result is `None` if keys have more words
/// than the table supports.
pub(crate) fn limit(rules: &Lowered, right: &[Option<Match>]) -> Option<LimitRun> {
    let keys = corners(rules);
    let table = table(rules, &keys)?;
    let mut first = HashMap::new();
    for index in (0..keys.len()).rev() {
        first.insert(keys.keys().row(index), index);
    }
    let place: HashMap<RuleId, usize> =
        rules.by_rule().zip(0..).map(|((found, _), index)| (found.rule, index)).collect();
    let mut run = LimitRun { table, keys: KeyBuf::new(rules.schema()), answers: Vec::with_capacity(right.len()) };
    run.keys.reserve(right.len().max(1));
    for (row, answer) in right.iter().enumerate() {
        let index = answer.and_then(|found| place.get(&found.rule)).copied().unwrap_or(row % keys.len());
        let key = keys.keys().row(index);
        run.keys.push().copy_from_slice(key);
        let number = first[key] as u32;
        run.answers.push(Some(Match { rule: RuleId::new(number, 0), priority: Priority(u64::from(number)) }));
    }
    Some(run)
}

/// Returns a key at a corner of each rule, all different if the rules have enough corners.
fn corners(rules: &Lowered) -> KeyBuf {
    let mut keys = KeyBuf::new(rules.schema());
    let key_words = rules.schema().words().len();
    let mut taken = std::collections::HashSet::new();
    for (_, regions) in rules.by_rule() {
        let region = rules.regions().get(regions.start);
        let corner = |which: usize| -> Vec<u32> {
            (0..key_words).map(|word| if which >> word & 1 == 0 { region.lo[word] } else { region.hi[word] }).collect()
        };
        let fresh = (0..1 << key_words.min(10)).map(corner).find(|key| !taken.contains(key));
        let key = fresh.unwrap_or_else(|| corner(0));
        keys.push()[..key_words].copy_from_slice(&key);
        taken.insert(key);
    }
    keys
}

/// Builds the table, compiled for the number of words.
fn table(rules: &Lowered, keys: &KeyBuf) -> Option<Box<dyn Classifier>> {
    macro_rules! by_key_words {
        ($($key_words:literal $words:literal),*) => {
            match rules.schema().words().len() {
                $($key_words => Some(Box::new(Limit::<$key_words, $words>::build(rules.schema(), keys.keys()))),)*
                _ => None,
            }
        };
    }
    by_key_words!(
        1 8, 2 8, 3 8, 4 8, 5 8, 6 8, 7 8, 8 16, 9 16, 10 16, 11 16, 12 16, 13 16, 14 16, 15 16, 16 32, 17 32, 18 32,
        19 32, 20 32, 21 32, 22 32, 23 32, 24 32
    )
}

/// Returns the yardsticks that this build lacks.
pub(crate) fn missing() -> Option<String> {
    let without = "rte_acl: this program is built without it (DPDK 22.11 or later, --features rte-acl)";
    (!cfg!(feature = "rte-acl")).then(|| without.to_owned())
}

#[cfg(test)]
mod tests {
    use firstmatch_core::rule::{ExpansionLimits, lower};
    use sha2::{Digest, Sha256};

    use super::*;

    /// A change of `limit.rs` makes all earlier figures incomparable.
    #[test]
    fn the_limit_is_frozen() {
        let digest = Sha256::digest(include_bytes!("limit.rs"));
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digest, include_str!("limit.sha256").trim());
    }

    #[test]
    fn the_limit_finds_the_entry_of_every_rule() {
        for (family, address) in [("ipv4", "10.0.0."), ("ipv6", "2001:db8::")] {
            let mut text = format!("family {family}\n");
            for rule in 0..100 {
                text += &format!("permit tcp src {address}{rule} dport {}-{}\n", rule % 7, 100 + rule);
            }
            text += "permit tcp src 10.0.0.3 dport 3-103\npermit\n".replace("10.0.0.", address).as_str();
            let file = firstmatch_formats::parse(&text, &firstmatch_formats::Options::default()).expect("good rules");
            let lowered =
                lower(&file.rules, &file.rules.schemas()[0], &ExpansionLimits::default()).expect("within the caps");
            let mut right: Vec<Option<Match>> = lowered.by_rule().map(|(found, _)| Some(found)).collect();
            right.push(None);
            let run = limit(&lowered, &right).expect("few words");
            assert_eq!((run.table.stats().rules, run.answers.len()), (102, 103));
            for length in [1, 7, 32, 33, 103] {
                let mut answers = vec![None; length];
                run.table.classify_batch(&mut run.table.scratch(), run.keys.keys().slice(0, length), &mut answers);
                assert_eq!(answers, run.answers[..length], "{family}");
            }
            let distinct: std::collections::HashSet<_> = run.answers[..102].iter().collect();
            assert_eq!(distinct.len(), 102, "the rule that stands twice has two corners");
            let mut other = KeyBuf::new(lowered.schema());
            other.push()[..2].fill(77);
            assert_eq!(run.table.classify(&mut run.table.scratch(), other.keys()), None);
        }
    }
}
