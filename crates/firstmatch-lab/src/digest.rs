//! Digest of a set: of its rules, its keys and the right answers.
//!
//! It is taken over lines of text, so that it depends neither on the engines' form of keys nor on how rules are
//! lowered. `benchmarks/README.md` documents the lines. The test `the_lines_are_as_documented` has an example of each;
//! for example, `key ipv4 a000001 1 5 16 6 = 2` is a key that the rule on line 2 matches.

use std::fmt::{self, Write};

use firstmatch_core::rule::{Condition, FieldValues, Rule, Test};
use firstmatch_core::schema::{Family, Schema};
use firstmatch_core::{Match, RuleSet};
use sha2::{Digest, Sha256};

use crate::workload::{Loaded, Workload, field_values};

/// Number of bytes of text collected before they are hashed.
const BUFFER: usize = 1 << 16;

/// Returns the digest of a set and its right answers, one list for each workload.
///
/// It is the first 16 bytes of the SHA-256 of the set's lines, in hexadecimal.
pub(crate) fn digest(loaded: &Loaded, answers: &[Vec<Option<Match>>]) -> String {
    let mut out = Hasher::default();
    // Writing to a hasher cannot fail.
    let _never = lines(loaded, answers, &mut out);
    out.finish()
}

/// Digest of several sets, one after another.
#[derive(Default)]
pub(crate) struct Running(Hasher);

impl Running {
    /// Adds the schemas and the rules of a set.
    pub(crate) fn add_rules(&mut self, rules: &RuleSet) {
        // Writing to a hasher cannot fail.
        let _never = write_rules(rules, &mut self.0);
    }

    /// Adds the keys of a workload with their answers.
    pub(crate) fn add_answers(&mut self, rules: &RuleSet, work: &Workload, answers: &[Option<Match>]) {
        let _never = write_answers(rules, work, answers, &mut self.0);
    }

    /// Returns the first 16 bytes of the SHA-256 in hexadecimal.
    pub(crate) fn finish(self) -> String {
        self.0.finish()
    }
}

/// Returns the first 16 bytes of a digest in hexadecimal.
pub(crate) fn short(hash: Sha256) -> String {
    hash.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Hashes text, a buffer at a time.
#[derive(Default)]
struct Hasher {
    hash: Sha256,
    buffer: String,
}

impl Hasher {
    fn finish(mut self) -> String {
        self.hash.update(&self.buffer);
        short(self.hash)
    }
}

impl Write for Hasher {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.buffer.push_str(text);
        if self.buffer.len() >= BUFFER {
            self.hash.update(&self.buffer);
            self.buffer.clear();
        }
        Ok(())
    }
}

/// Writes every line of a set.
///
/// These are its schemas, its rules in order, then the keys of each workload with their answers.
fn lines(loaded: &Loaded, answers: &[Vec<Option<Match>>], out: &mut dyn Write) -> fmt::Result {
    write_rules(&loaded.rules, out)?;
    let mut all = loaded.workloads.iter().zip(answers);
    all.try_for_each(|(work, answers)| write_answers(&loaded.rules, work, answers, out))
}

fn write_rules(rules: &RuleSet, out: &mut dyn Write) -> fmt::Result {
    rules.schemas().iter().try_for_each(|schema| write_schema(schema, out))?;
    rules.iter().try_for_each(|rule| write_rule(rules, rule, out))
}

fn write_answers(rules: &RuleSet, work: &Workload, answers: &[Option<Match>], out: &mut dyn Write) -> fmt::Result {
    for (row, answer) in (0..work.keys.len()).zip(answers) {
        write_key(&field_values(work.schema(), work.keys.keys().row(row)), out)?;
        let rule = answer.and_then(|found| rules.get(found.rule));
        writeln!(out, " = {}", rule.and_then(|rule| rule.line).map_or(0, u32::from))?;
    }
    Ok(())
}

fn name(family: Option<Family>) -> &'static str {
    family.map_or("any", Family::name)
}

fn write_schema(schema: &Schema, out: &mut dyn Write) -> fmt::Result {
    write!(out, "schema {}", name(schema.family()))?;
    schema.fields().iter().try_for_each(|field| write!(out, " {}:{}", field.name(), field.width()))?;
    writeln!(out)
}

fn write_rule(rules: &RuleSet, rule: &Rule, out: &mut dyn Write) -> fmt::Result {
    let line = rule.line.map_or(0, u32::from);
    write!(out, "rule {line} priority {:x} {} {}", rule.priority.0, rule.action, name(rule.family))?;
    let mut conditions: Vec<Condition> = rule.conditions.to_vec();
    conditions.sort_by_key(|condition| condition.field);
    for Condition { field, negated, tests } in conditions {
        write!(out, " {}{}", rules.schemas()[0].fields()[field].name(), if negated { " not" } else { "" })?;
        for (family, test) in tests {
            write!(out, " {}:", name(family))?;
            match test {
                Test::Value(value) => write!(out, "{value:x}")?,
                Test::Prefix { value, len } => write!(out, "{value:x}/{len}")?,
                Test::Range { lo, hi } => write!(out, "{lo:x}-{hi:x}")?,
                Test::Mask { value, mask } => write!(out, "{value:x}&{mask:x}")?,
                Test::Absent => write!(out, "absent")?,
                Test::Set(id) => write!(out, "set {}", id.index())?,
            }
        }
    }
    writeln!(out)
}

fn write_key(values: &FieldValues, out: &mut dyn Write) -> fmt::Result {
    write!(out, "key {}", name(values.family))?;
    values.values.iter().try_for_each(|value| match value {
        Some(value) => write!(out, " {value:x}"),
        None => write!(out, " -"),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use firstmatch_core::Policy;
    use firstmatch_core::rule::Action;
    use firstmatch_generate::{rules, trace};

    use super::*;
    use crate::definition::Definition;
    use crate::workload;

    const RULES: &str = "family ipv4\n\
        permit tcp src 10.0.0.0/8 dport 20-25\n\
        deny udp dst not 192.0.2.7 sport { 53, 123 }\n\
        mark 7\n";
    const TRACE: &str = "167772161\t1\t5\t22\t6\t0\n1\t2\t53\t9\t17\t0\n1\t3221225991\t53\t9\t17\t0\n";

    /// Loads every set of a definition whose engines do not matter.
    fn loaded(folder: &str, sets: &str) -> Vec<(Loaded, Vec<Vec<Option<Match>>>)> {
        let path = Path::new(folder).join("digest.toml");
        fs::write(&path, format!("shows = \"a test\"\n{sets}[[engines]]\nengine = \"linear\"\n")).expect("a file");
        let definition = Definition::read(&path).expect("a good definition");
        let of_set = |set| {
            let origin = definition.origin(set, None).expect("it says where it comes from");
            let loaded = workload::load(set, &origin, definition.frames()).expect("a good set");
            let answers = loaded.workloads.iter().map(|work| work.answers(&loaded.rules).expect("as the oracle's"));
            let answers = answers.collect();
            (loaded, answers)
        };
        definition.sets.iter().map(of_set).collect()
    }

    /// Loads one set from the text of its rules and of its trace.
    fn of_texts(test: &str, rules: &str, trace: &str) -> (Loaded, Vec<Vec<Option<Match>>>) {
        let folder = std::env::temp_dir().join(format!("firstmatch-digest-{test}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("of.rules"), rules).expect("a file");
        fs::write(folder.join("of.trace"), trace).expect("a file");
        let set = "[[sets]]\nname = \"of\"\nrules = \"of.rules\"\ntrace = \"of.trace\"\n";
        let loaded = loaded(&folder.to_string_lossy(), set).pop().expect("one set");
        fs::remove_dir_all(&folder).expect("it goes");
        loaded
    }

    #[test]
    fn the_lines_are_as_documented() {
        let (loaded, answers) = of_texts("lines", RULES, TRACE);
        let mut text = String::new();
        lines(&loaded, &answers, &mut text).expect("a text takes everything");
        assert_eq!(
            text,
            "schema ipv4 src:32 dst:32 sport:16 dport:16 proto:8\n\
             rule 2 priority 200000000 permit any src any:a000000/8 dport any:14-19 proto any:6\n\
             rule 3 priority 300000000 deny any dst not any:c0000207 sport any:35 any:7b proto any:11\n\
             rule 4 priority 400000000 mark 7 any\n\
             key ipv4 a000001 1 5 16 6 = 2\n\
             key ipv4 1 2 35 9 11 = 3\n\
             key ipv4 1 c0000207 35 9 11 = 4\n"
        );
        assert_eq!(digest(&loaded, &answers), short(Sha256::new_with_prefix(&text)));
        let mut running = Running::default();
        running.add_rules(&loaded.rules);
        running.add_answers(&loaded.rules, &loaded.workloads[0], &answers[0]);
        assert_eq!(running.finish(), digest(&loaded, &answers));
    }

    /// Each of these changes leaves every answer as it was: the line of the first match.
    #[test]
    fn every_part_of_a_rule_and_of_a_key_counts() {
        let of = |rules: &str, trace: &str| {
            let (loaded, answers) = of_texts("parts", rules, trace);
            let lines: Vec<u32> = answers
                .iter()
                .flatten()
                .map(|answer| answer.and_then(|found| loaded.rules.get(found.rule)?.line).map_or(0, u32::from))
                .collect();
            assert_eq!(lines, [2, 3, 4], "{rules}{trace}");
            digest(&loaded, &answers)
        };
        let mut digests = vec![of(RULES, TRACE)];
        for (from, to) in [
            ("permit", "deny"),
            ("mark 7", "mark 8"),
            ("20-25", "20-26"),
            ("10.0.0.0/8", "10.0.0.0/9"),
            ("192.0.2.7", "192.0.2.0/24"),
            ("53, 123", "53, 124"),
            ("deny udp", "deny"),
        ] {
            assert!(RULES.contains(from), "{from}");
            digests.push(of(&RULES.replacen(from, to, 1), TRACE));
        }
        digests.push(of(RULES, &TRACE.replacen("167772161", "167772162", 1)));
        digests.push(of(RULES, &TRACE.replacen("\t9\t", "\t10\t", 1)));
        let all = digests.len();
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), all);
    }

    #[test]
    fn a_priority_counts() {
        let (mut loaded, answers) = of_texts("priority", RULES, TRACE);
        let before = digest(&loaded, &answers);
        let mut rules = RuleSet::new(loaded.rules.schemas()[0].clone());
        for rule in loaded.rules.iter() {
            let mut spec = rule.spec.clone();
            spec.priority.0 += u64::from(rule.action == Action::Mark(7));
            rules.insert_as(rule.id, spec).expect("its place is free");
        }
        loaded.rules = rules;
        assert_ne!(digest(&loaded, &answers), before);
    }

    #[test]
    fn reference_sets_are_those_that_are_recorded() {
        let recorded = include_str!("../../../benchmarks/reference.toml");
        let recorded: toml::Table = toml::from_str(recorded).expect("digests");
        for (name, profile, families) in [
            ("acl1_1k", "acl1", rules::Families::Ipv4),
            ("ipc2_1k", "ipc2", rules::Families::Ipv4),
            ("fw1_v6_1k", "fw1", rules::Families::Ipv6),
        ] {
            let profile = profile.parse().expect("a profile");
            let set = rules::generate(&rules::Config { rules: 1000, seed: 1, profile, families, ..Default::default() });
            let set = set.expect("rules");
            let config = trace::Config { headers: 100_000, seed: 1, ..Default::default() };
            let (mut rules, mut headers) = (String::new(), Vec::new());
            firstmatch_formats::write::classbench(&set, &Policy::default(), &mut rules).expect("five fields");
            trace::generate(&set, &config).expect("headers").write(&mut headers).expect("it is a vector");
            let digests = [rules.as_bytes(), &headers].map(|bytes| short(Sha256::new_with_prefix(bytes)));
            assert_eq!(recorded["profiles"][name].as_array(), Some(&digests.map(toml::Value::from).to_vec()), "{name}");
        }
    }

    /// The traces hit rule after rule in one order, so the answers of the sets are equal.
    #[test]
    fn sets_of_one_size_have_digests_of_their_own() {
        let folder = std::env::temp_dir().join(format!("firstmatch-digest-sizes-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let set = |profile: &str, seed: u32| {
            let generate = format!("{{ profile = \"{profile}\", rules = 100, seed = {seed}, headers = 1000 }}");
            format!("[[sets]]\nname = \"{profile}{seed}\"\ngenerate = {generate}\n")
        };
        let sets = [("acl", 1), ("fw", 1), ("ipc", 1), ("acl", 2)].map(|(profile, seed)| set(profile, seed)).concat();
        let all = loaded(&folder.to_string_lossy(), &sets);
        fs::remove_dir_all(&folder).expect("it goes");
        let lines = |(loaded, answers): &(Loaded, Vec<Vec<Option<Match>>>)| -> Vec<u32> {
            let line = |found: Match| loaded.rules.get(found.rule)?.line.map(u32::from);
            answers.iter().flatten().map(|answer| answer.and_then(line).unwrap_or(0)).collect()
        };
        assert!(all[1..].iter().any(|other| lines(other) == lines(&all[0])), "answers alone tell them apart");
        let mut digests: Vec<String> = all.iter().map(|(loaded, answers)| digest(loaded, answers)).collect();
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), 4);
    }
}
