//! Table I of the paper: values, vectors and answers, worked out by hand.

use std::collections::BTreeSet;

use super::super::build::{From, Making, Slot};
use super::*;
use crate::engines::shared::{Classes, Room, pairs};

/// Table I: four rules over the fifteen fields of OpenFlow.
fn table_1(rules: Range<usize>) -> Lowered {
    let exact = |pairs: &[(usize, u128)]| pairs.iter().map(|&(field, value)| (field, Test::Value(value))).collect();
    let prefix = |field, value: u128, len| (field, Test::Prefix { value, len });
    let mut all: [Vec<(usize, Test)>; 4] = [
        exact(&[(0, 5), (2, 0x13), (3, 0x06), (4, 0x800), (6, 5), (7, 0), (11, 6), (12, 0)]),
        exact(&[(2, 0x07), (3, 0xFF), (4, 0x800), (5, 100), (6, 7), (7, 16_000), (8, 0), (11, 17)]),
        exact(&[(3, 0), (4, 0x8100), (5, 4095), (6, 7), (13, 2), (14, 5)]),
        exact(&[(0, 1), (2, 0xFF), (5, 4095), (12, 0), (14, 5)]),
    ];
    all[0].push(prefix(9, 0x2000_0000, 3));
    all[1].extend([prefix(9, 0, 2), prefix(10, 0xB000_0000, 4)]);
    all[2].extend([prefix(9, 0x8000_0000, 1), prefix(10, 0xB000_0000, 4)]);
    all[3].extend([prefix(9, 0x8000_0000, 1), prefix(10, 0x8000_0000, 1), (13, Test::Range { lo: 0, hi: 124 })]);
    set(&Schema::openflow(), all[rules].to_vec())
}

/// Returns the key of a value in each field.
fn key_of(values: [u128; 15]) -> KeyBuf {
    let schema = Schema::openflow();
    let mut keys = KeyBuf::new(&schema);
    let key = keys.push();
    for (word, of) in schema.words().iter().enumerate() {
        key[word] = of.part(values[of.field]);
    }
    keys
}

/// Returns the vector of a class, with the first rule first.
fn text(classes: &Classes, class: u32) -> String {
    let mut bits = [0];
    bits_of(classes.row(class as usize), &mut bits);
    (0..4).map(|rule| if bits[0] >> rule & 1 == 1 { '1' } else { '0' }).collect()
}

/// Searches of each field by itself, with their vectors as text.
struct Searched(Vec<Slot>);

impl Searched {
    fn of(set: &Lowered) -> Self {
        let products = Products::of(set, &Visits::default()).expect("no limit");
        let cells = Cells::new(set.schema(), &products);
        let visits = Visits::default();
        let room = Room { allowed: usize::MAX, visits: &visits };
        let config = Config::plain();
        let all = columns(set.schema(), &cells, &config).into_iter();
        let making = Making { room, shape: Shape::new(Form::Flat, products.len()), config: &config };
        Self(all.map(|column| making.slot(column, &cells, &products).expect("no limit")).collect())
    }

    fn words(slot: &Slot) -> &[usize] {
        match &slot.from {
            From::Tree { words, .. } | From::Hash { words, .. } => words,
            _ => panic!("no mask and no join"),
        }
    }

    /// Returns the search of a field.
    fn field(&self, name: &str) -> &Slot {
        let schema = Schema::openflow();
        let first = schema.words_of(schema.index_of(name).expect("a field")).start;
        self.0.iter().find(|slot| Self::words(slot)[0] == first).expect("the rules say something about it")
    }

    /// Returns the values of a hash table with their vectors, and the vector of other values.
    fn hashed(&self, name: &str) -> (Vec<(u32, String)>, String) {
        let slot = self.field(name);
        let From::Hash { keys, .. } = &slot.from else { panic!("{name} is not hashed") };
        let (other, values) = slot.values.split_last().expect("other values");
        let own = keys.iter().zip(values).map(|(&key, &class)| (key, text(&slot.classes, class)));
        (own.collect(), text(&slot.classes, *other))
    }

    /// Returns the starts of the intervals of a tree but the first, the vectors of all, and how many of them differ.
    fn searched(&self, name: &str) -> (Vec<u64>, Vec<String>, usize) {
        let slot = self.field(name);
        let From::Tree { starts, .. } = &slot.from else { panic!("{name} is hashed") };
        let vectors = slot.values.iter().map(|&class| text(&slot.classes, class)).collect();
        (starts.clone(), vectors, slot.classes.len())
    }

    /// Returns the vector that a search has for a key.
    fn vector(slot: &Slot, key: &[u32]) -> u64 {
        let schema = Schema::openflow();
        let class = match &slot.from {
            From::Tree { words, starts } => {
                let value = |value, &word: &usize| value << width(&schema.words()[word]) | u64::from(key[word]);
                let value = words.iter().fold(0, value);
                slot.values[starts.partition_point(|&start| start <= value)]
            }
            From::Hash { words, keys } => {
                let own: Vec<u32> = words.iter().map(|&word| key[word]).collect();
                let at = keys.chunks(words.len()).position(|value| value == own);
                slot.values[at.unwrap_or(slot.values.len() - 1)]
            }
            _ => panic!("no mask and no join"),
        };
        let mut bits = [0];
        bits_of(slot.classes.row(class as usize), &mut bits);
        bits[0]
    }
}

/// Returns the number of different values of some fields in the rules; an open field counts as one value.
fn distinct(set: &Lowered, fields: &[usize]) -> usize {
    let words: Vec<usize> = fields.iter().flat_map(|&field| set.schema().words_of(field)).collect();
    let value = |region: crate::rule::Region<'_>| -> Vec<[u32; 2]> {
        words.iter().map(|&word| [region.lo[word], region.hi[word]]).collect()
    };
    set.regions().iter().map(value).collect::<BTreeSet<_>>().len()
}

#[test]
fn table_1_has_the_distinct_values_of_the_paper() {
    let set = table_1(0..4);
    assert_eq!(
        (0..15).map(|field| distinct(&set, &[field])).collect::<Vec<_>>(),
        [3, 1, 4, 4, 3, 3, 3, 3, 2, 3, 3, 3, 2, 3, 2]
    );
    let widths: Vec<u32> = set.schema().fields().iter().map(Field::width).collect();
    assert_eq!(widths, [32, 64, 48, 48, 16, 12, 3, 20, 3, 32, 32, 8, 6, 16, 16]);
}

/// Vectors are in the order of the rules, the first rule first.
#[test]
fn vectors_of_table_1() {
    let of = Searched::of(&table_1(0..4));
    let hashed = |values: &[(u32, &str)], other: &str| {
        (values.iter().map(|&(value, vector)| (value, vector.to_owned())).collect::<Vec<_>>(), other.to_owned())
    };
    assert_eq!(of.hashed("vlan_vid"), hashed(&[(100, "1100"), (4095, "1011")], "1000"));
    assert_eq!(of.hashed("vlan_pcp"), hashed(&[(5, "1001"), (7, "0111")], "0001"));
    assert_eq!(of.hashed("mpls_tc"), hashed(&[(0, "1111")], "1011"));
    assert_eq!(of.hashed("tp_dst"), hashed(&[(5, "1111")], "1100"));
    // Absent addresses are one interval more, behind all others. An absent port is in the last one.
    const ABSENT: u64 = 1 << 32;
    let searched = |starts: &[u64], vectors: &[&str], classes: usize| {
        (starts.to_vec(), vectors.iter().map(|&vector| vector.to_owned()).collect::<Vec<_>>(), classes)
    };
    let src = searched(&[0x2000_0000, 0x4000_0000, 0x8000_0000, ABSENT], &["0100", "1100", "0000", "0011", "0000"], 4);
    assert_eq!(of.searched("ipv4_src"), src);
    let dst = searched(&[0x8000_0000, 0xB000_0000, 0xC000_0000, ABSENT], &["1000", "1001", "1111", "1001", "1000"], 3);
    assert_eq!(of.searched("ipv4_dst"), dst);
    assert_eq!(of.searched("tp_src"), searched(&[2, 3, 125], &["1101", "1111", "1101", "1100"], 3));
}

/// Two short fields make six pairs of values, four of which occur in rules, and four joined vectors.
#[test]
fn short_fields_of_table_1_are_joined() {
    let set = table_1(0..4);
    let of = Searched::of(&set);
    let (priority, traffic) = (of.field("vlan_pcp"), of.field("mpls_tc"));
    let visits = Visits::default();
    let room = Room { allowed: usize::MAX, visits: &visits };
    let (numbers, classes) = pairs(&priority.classes, &traffic.classes, common, &room).expect("no limit");
    assert_eq!((numbers.len(), classes.len()), (6, 4));
    assert_eq!(distinct(&set, &[6]) * distinct(&set, &[8]), 6);
    assert_eq!(distinct(&set, &[6, 8]), 4);
    let all: BTreeSet<String> = numbers.iter().map(|&class| text(&classes, class)).collect();
    assert!(all.iter().eq(["0001", "0011", "0111", "1001"]), "{all:?}");
    // Priority 7 and another traffic class than 0, the value behind all others.
    let at = |slot: &Slot, value: usize| slot.values[value] as usize;
    let pair = numbers[at(priority, 1) * traffic.classes.len() + at(traffic, 1)];
    assert_eq!(text(&classes, pair), "0011");
}

/// A header that two rules hold, and its answer without the first of them, and without both.
#[test]
fn a_header_of_table_1() {
    let key = key_of([1, 9, 0xFF, 0, 0x8100, 4095, 7, 3, 1, 0x9000_0000, 0xB000_0000, 17, 0, 2, 5]);
    let of = Searched::of(&table_1(0..4));
    let row = key.keys().row(0);
    assert_eq!(of.0.iter().fold(0b1111, |all, slot| all & Searched::vector(slot, row)), 0b1100);
    for config in configs() {
        let set = table_1(0..4);
        let engine = build(&set, &config);
        assert_eq!(engine.classify(&mut engine.scratch(), key.keys()), Some(set.rules()[2]), "{config:?}");
        // Without the rule at 2, the next one holds it.
        let mut rules = Lowered::empty(set.schema());
        [0, 1, 3].into_iter().for_each(|at| rules.push(set.rules()[at], set.regions().get(at)));
        let engine = build(&rules, &config);
        assert_eq!(engine.classify(&mut engine.scratch(), key.keys()), Some(set.rules()[3]), "{config:?}");
        let engine = build(&table_1(0..2), &config);
        assert_eq!(engine.classify(&mut engine.scratch(), key.keys()), None, "{config:?}");
    }
}

/// Both groups of the paper have an open leading field in some rule, so that all fields but the open one are searched.
#[test]
fn groups_of_table_1_are_searched_field_by_field() {
    let set = table_1(0..4);
    let engine = build(&set, &Config { seed: Some(5), ..Config::paper() });
    assert_eq!((engine.searches.len(), engine.joins.len(), engine.read.len()), (14, 0, 14));
    // By default, fields that the same rules leave open are hashed together, and tables join all to one vector. So are
    // the input port and the ToS, three fields of Ethernet, and the label and the protocol.
    let engine = build(&set, &Config { seed: Some(5), ..Config::default() });
    assert_eq!((engine.searches.len(), engine.joins.len(), engine.read.len()), (10, 9, 1));
}
