//! The guide to the algorithms (`docs/algorithms.md`): its structures and counts are those of the engines.
//!
//! Rules and packet are read from the guide. A section must contain each line that its engine describes itself by, and
//! the counts of the packet.

use firstmatch_core::cache::rule::{Config, EvolvedBox, RuleCache};
use firstmatch_core::engines::interval_tree::{self, Npf};
use firstmatch_core::engines::linear::{self, Linear};
use firstmatch_core::engines::registry::{ENGINES, Settings};
use firstmatch_core::raw::Level;
use firstmatch_core::rule::{ExpansionLimits, Lowered, lower};
use firstmatch_core::{Classifier, Engine, KeyBuf};

const GUIDE: &str = include_str!("../../../../docs/algorithms.md");

/// The packet: address 11, port 9, kind 2.
const PACKET: [u32; 3] = [11, 9, 2];
/// Its rule, counted from 1.
const ANSWER: usize = 4;

/// Options of an engine, by name.
type Options = &'static [(&'static str, &'static str)];

/// Each section with the name of an engine and its options.
const SECTIONS: &[(&str, &str, Options)] = &[
    ("1. ", "linear", &[]),
    ("2. ", "tuplemerge", &[("paper", "true")]),
    ("3. ", "bit_select", &[]),
    ("4. ", "bit_vector", &[]),
    ("5. ", "hicuts", &[("paper", "true"), ("binth", "3")]),
    ("5. ", "hypercuts", &[("paper", "true"), ("binth", "3")]),
    ("6. ", "rfc", &[("leaves", "chunks")]),
    ("7. ", "decomposition", &[("plain", "true")]),
    ("8. ", "npf", &[]),
    ("9. ", "set_pairs", &[]),
];

/// Returns the section of the guide whose heading begins so.
fn section(heading: &str) -> &'static str {
    GUIDE.split("\n## ").find(|section| section.starts_with(heading)).expect("a section of this heading")
}

fn rules() -> Lowered {
    let text = GUIDE.split("```text\n").find(|block| block.starts_with("schema {")).expect("the rules");
    let text = text.split("```").next().expect("text before the fence");
    let rules =
        firstmatch_formats::parse(text, &firstmatch_formats::Options::default()).expect("the guide's rules").rules;
    lower(&rules, &rules.schemas()[0], &ExpansionLimits::default()).expect("seven regions")
}

fn packet(rules: &Lowered) -> KeyBuf {
    let mut keys = KeyBuf::new(rules.schema());
    keys.push()[..3].copy_from_slice(&PACKET);
    keys
}

#[test]
fn sections_show_the_structures_and_counts_of_the_engines() {
    let rules = rules();
    assert_eq!(rules.regions().len(), 7);
    for &(heading, name, options) in SECTIONS {
        let entry = ENGINES.iter().find(|entry| entry.name == name).expect("an engine of this name");
        let mut settings = Settings::default();
        (settings.seed, settings.simd) = (Some(1), Level::available().next());
        let settings = options.iter().fold(settings, |settings, (option, value)| settings.with_option(option, value));
        let engine = (entry.build)(&rules, &settings).expect("no budget");
        let mut best = [None];
        let counts = engine.count_batch(&mut engine.scratch(), &packet(&rules).keys(), &mut best);
        assert_eq!(best[0].map(|found| found.rule.slot() + 1), Some(ANSWER), "{name}");
        let lines = engine.structure().unwrap_or_default();
        let said = [format!("{name}: {counts}")];
        for line in lines.lines().chain(said.iter().map(String::as_str)).filter(|line| !line.is_empty()) {
            assert!(section(heading).lines().any(|said| said == line), "section {heading}lacks the line\n{line}");
        }
    }
}

/// Three bits select the lists that section 3 draws.
#[test]
fn bits_select_the_lists_of_the_drawing() {
    let rules = rules();
    for index in 0..8u32 {
        // Bit 3 of the address, bit 3 of the port, bit 1 of the kind.
        let bits = [(index >> 2, 3), (index >> 1 & 1, 3), (index & 1, 1)];
        let holds = |lo: u32, hi: u32, (bit, at): (u32, u32)| (lo..=hi).any(|value| value >> at & 1 == bit);
        let list = rules.regions().iter().enumerate().filter(|(_, region)| {
            bits.iter().enumerate().all(|(word, &bit)| holds(region.lo[word], region.hi[word], bit))
        });
        let list: Vec<String> = list.map(|(at, _)| format!("r{}", at + 1)).collect();
        let line = format!("{index:03b}  {{{}}}", list.join(" "));
        assert!(section("3. ").lines().any(|said| said.starts_with(&line)), "section 3 lacks {line}");
    }
}

/// The vectors of section 4 are the rules that hold each value.
#[test]
fn vectors_are_the_rules_of_each_value() {
    let rules = rules();
    for (word, value) in (0..3).zip(PACKET) {
        let bits = rules.regions().iter().map(|region| (region.lo[word]..=region.hi[word]).contains(&value));
        let bits: String = bits.map(|bit| if bit { '1' } else { '0' }).collect();
        let line = format!("{} {value} {bits}", ["addr", "port", "kind"][word]);
        let squeezed = |said: &str| said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(section("4. ").lines().any(|said| squeezed(said) == line), "section 4 lacks {line}");
    }
}

/// The trees of section 8: each node with the edges from its root.
#[test]
fn trees_of_npf_are_those_of_the_drawing() {
    let npf = Npf::build(&rules(), &interval_tree::Config::default()).expect("no budget");
    let scratch = npf.new_scratch();
    let depths = |word: usize| scratch.shape(word).expect("a tree").depths();
    assert_eq!(depths(0), [(0, 2), (8, 1), (10, 0), (11, 2), (12, 1)]);
    assert_eq!(depths(1), [(0, 3), (2, 2), (3, 1), (4, 2), (8, 0), (9, 2), (10, 1), (12, 2)]);
    assert_eq!(depths(2), [(0, 2), (1, 1), (2, 0), (3, 1)]);
}

/// The sample of section 10 makes this box, which answers the next packets.
#[test]
fn one_sample_makes_the_box_of_the_drawing() {
    let rules = rules();
    let mut config = Config::default();
    (config.sample, config.steps_aside) = ([100; 2], false);
    let linear = Linear::build(&rules, &linear::Config::default()).expect("no budget");
    let cache = RuleCache::over(linear, &rules, &config).expect("no budget");
    let (keys, mut scratch) = (packet(&rules), cache.scratch());
    for _ in 0..130 {
        let found = cache.classify(&mut scratch, keys.keys());
        assert_eq!(found.map(|found| found.rule.slot() + 1), Some(ANSWER));
    }
    let boxes = RuleCache::<Linear>::boxes(&scratch);
    let [EvolvedBox { lo, hi, .. }] = &boxes[..] else { panic!("{boxes:?}") };
    assert_eq!((&lo[..3], &hi[..3]), (&[11, 8, 2][..], &[15, 11, 2][..]));
    let counts = RuleCache::<Linear>::counts(&scratch).lookups;
    assert_eq!((counts.misses, counts.hits), (100, 30));
}
