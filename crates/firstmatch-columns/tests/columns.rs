//! Rows of keys are those of `Batch::push_values`, whatever the layout of columns.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use firstmatch::Firewall;
use firstmatch::core::rule::FieldValues;
use firstmatch::core::schema::{Family, Field, Schema};
use firstmatch_columns::{Bits, Bytes, Column, Content, Decoder, Input, Integers, Prepared, Status, Values};

/// Random numbers, the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (self.0 >> 33) % end
    }
}

/// Value of a field in a row, before a column has it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cell {
    Null,
    Ipv4(u32),
    Ipv6(u128),
    Number(u128),
    /// Something that no field has.
    Bad,
}

/// Memory of a column.
#[derive(Default)]
struct Owned {
    bits: Vec<u8>,
    bytes: Vec<u8>,
    small: Vec<i32>,
    large: Vec<i64>,
    views: Vec<[u8; 16]>,
    keys: Vec<i16>,
    values: Vec<u64>,
}

/// Layouts that [`Owned`] has.
const LAYOUTS: usize = 7;

/// Writes cells behind `offset` rows that mean nothing, in one of the layouts.
fn write(cells: &[Cell], layout: usize, offset: usize) -> Owned {
    let mut owned = Owned { small: vec![0], large: vec![0], ..Owned::default() };
    let all = std::iter::repeat_n(&Cell::Bad, offset).chain(cells);
    let has_bytes = layout % 2 == 1;
    for (row, cell) in all.enumerate() {
        owned.bits.resize(row / 8 + 1, 0);
        owned.bits[row / 8] |= u8::from(*cell != Cell::Null) << (row % 8);
        let text = match (*cell, has_bytes) {
            (Cell::Null | Cell::Bad, true) => vec![1; 17],
            (Cell::Null | Cell::Bad, false) => b"nonsense that no buffer of a view has room for".to_vec(),
            (Cell::Ipv4(address), true) => address.to_be_bytes().into(),
            (Cell::Ipv4(address), false) => Ipv4Addr::from(address).to_string().into(),
            (Cell::Ipv6(address), true) => address.to_be_bytes().into(),
            (Cell::Ipv6(address), false) => Ipv6Addr::from(address).to_string().into(),
            (Cell::Number(number), true) => number.to_be_bytes()[8..].into(),
            (Cell::Number(number), false) => number.to_string().into(),
        };
        let mut view = [0; 16];
        view[..4].copy_from_slice(&(text.len() as u32).to_ne_bytes());
        if text.len() <= 12 {
            view[4..4 + text.len()].copy_from_slice(&text);
        } else {
            view[4..8].copy_from_slice(&text[..4]);
            view[8..12].copy_from_slice(&1u32.to_ne_bytes());
            view[12..].copy_from_slice(&(owned.bytes.len() as u32).to_ne_bytes());
        }
        owned.views.push(view);
        owned.bytes.extend(text);
        owned.small.push(owned.bytes.len() as i32);
        owned.large.push(owned.bytes.len() as i64);
        owned.keys.push(row as i16);
        owned.values.push(match cell {
            Cell::Number(number) => *number as u64,
            Cell::Ipv4(address) => u64::from(*address),
            _ => u64::MAX,
        });
    }
    owned
}

impl Owned {
    /// Returns the column behind `offset` rows.
    fn column(&self, rows: usize, layout: usize, offset: usize) -> Column<'_> {
        let bits = Bits::new(&self.bits, offset);
        let strings = |bytes| if layout % 2 == 1 { Values::Binary(bytes) } else { Values::Text(bytes) };
        let values = match layout {
            0 | 1 => strings(Bytes::Small(&self.small[offset..], &self.bytes)),
            2 | 3 => strings(Bytes::Large(&self.large[offset..], &self.bytes)),
            4 | 5 => strings(Bytes::Views(&self.views[offset..], vec![&[], &self.bytes])),
            _ => {
                let values = Column::new(offset + rows, [], strings(Bytes::Small(&self.small, &self.bytes)));
                let keys = Integers::I16(&self.keys[offset..]);
                return Column::new(rows, [bits], Values::Dictionary(keys, Box::new(values)));
            }
        };
        Column::new(rows, [bits], values)
    }
}

/// Draws rows of cells for some fields.
fn draw(random: &mut Random, fields: &[Field], rows: usize, has_families: bool) -> Vec<Vec<Cell>> {
    let mut row = |_| {
        let is_wide = random.below(2) == 1;
        let cell = |field: &Field, random: &mut Random| match random.below(40) {
            0 => Cell::Null,
            1 => Cell::Bad,
            kind if has_families && matches!(field.name(), "src" | "dst") => {
                if is_wide == (kind > 2) {
                    Cell::Ipv6(u128::from(random.below(1 << 31)) << random.below(97))
                } else {
                    Cell::Ipv4(random.below(1 << 32) as u32)
                }
            }
            2 => Cell::Number(field.max().saturating_add(1).min(u64::MAX.into())),
            _ => {
                let number = u128::from(random.below(1 << 31)) << random.below(34) & field.max();
                if field.name() == "proto" {
                    Cell::Number([1, 6, 17, 58, number][random.below(5) as usize])
                } else {
                    Cell::Number(number)
                }
            }
        };
        fields.iter().map(|field| cell(field, random)).collect()
    };
    (0..rows).map(&mut row).collect()
}

/// Returns what a row is, by the words of the documentation: the status, and the values if it is a row of keys.
fn expected(schemas: &[Schema], fields: &[Field], row: &[Cell], by_protocol: bool) -> (Status, Option<FieldValues>) {
    let at = |name: &str| fields.iter().position(|field| field.name() == name);
    let mut status = Status::Keys;
    let schema = match [at("src"), at("dst")] {
        [Some(src), Some(dst)] => {
            let family = match (row[src], row[dst]) {
                (Cell::Bad | Cell::Number(_), _) | (_, Cell::Bad | Cell::Number(_)) => Err(Status::BadAddress),
                (Cell::Null, _) | (_, Cell::Null) => Err(Status::LacksField),
                (Cell::Ipv4(_), Cell::Ipv4(_)) => Ok(Family::Ipv4),
                (Cell::Ipv6(_), Cell::Ipv6(_)) => Ok(Family::Ipv6),
                _ => Err(Status::MixedFamilies),
            };
            let find = |family| schemas.iter().find(|schema| schema.family() == Some(family));
            match family.map(find) {
                Ok(Some(schema)) => Some(schema),
                Ok(None) => {
                    status = Status::OtherFamily;
                    None
                }
                Err(error) => {
                    status = error;
                    None
                }
            }
        }
        _ => schemas.first(),
    };
    let of_checks = schema.unwrap_or(&schemas[0]);
    let protocol = match at("proto").map(|at| row[at]) {
        Some(Cell::Number(number)) if number <= 255 => Some(number as u8),
        _ => None,
    };
    let mut values = vec![None; of_checks.fields().len()];
    for (index, field) in of_checks.fields().iter().enumerate() {
        let mut cell = row[at(field.name()).expect("a field of the union")];
        if let Some(source) = field.source().filter(|_| by_protocol)
            && let Some(protocols) = source.protocols(None)
        {
            let own = source.protocols(of_checks.family()).unwrap_or(protocols);
            if !protocol.is_some_and(|protocol| own.contains(&protocol)) {
                cell = Cell::Null;
            }
        }
        values[index] = match cell {
            Cell::Ipv4(address) => Some(address.into()),
            Cell::Ipv6(address) => Some(address),
            Cell::Number(number) if number <= field.max() => Some(number),
            Cell::Null if field.is_optional() => None,
            Cell::Null => {
                status = if status == Status::Keys { Status::LacksField } else { status };
                None
            }
            _ if matches!(field.name(), "src" | "dst") && of_checks.family().is_some() => None,
            _ => {
                let is_better = matches!(status, Status::Keys | Status::LacksField | Status::OtherFamily);
                status = if is_better { Status::BadNumber } else { status };
                None
            }
        };
    }
    let family = of_checks.family();
    (status, (status == Status::Keys).then_some(FieldValues { family, values }))
}

fn compare(rules: &str, seed: u64, by_protocol: bool) {
    let has_own = rules.starts_with("schema");
    let firewall = Firewall::builder().values_only(has_own).build(rules).expect("rules");
    let mut decoder = Decoder::new(&firewall.schemas(), None, by_protocol);
    let (fields, schemas) = (decoder.fields().to_vec(), firewall.schemas());
    let mut random = Random(seed);
    let rows = 300;
    let drawn = draw(&mut random, &fields, rows, !has_own);
    let (mut kept, mut seen) = (0, Vec::new());
    for layout in 0..LAYOUTS {
        for offset in 0..10 {
            let columns: Vec<Owned> = (0..fields.len())
                .map(|at| write(&drawn.iter().map(|row| row[at]).collect::<Vec<_>>(), layout, offset))
                .collect();
            let mut inputs = Vec::new();
            for (owned, field) in columns.iter().zip(&fields) {
                let column = owned.column(rows, layout, offset);
                inputs.push(Input::Columns(vec![Prepared::new(column, Content::of(field))]));
            }
            let (mut batch, mut wanted) = (firewall.batch(), firewall.batch());
            for block in blocks(rows, random.below(200) as usize + 1) {
                decoder.read(&inputs, block.clone(), &mut batch);
                let mut order = decoder.order().iter();
                wanted.clear();
                let mut pushed = Vec::new();
                // Rows of one schema come after those of another.
                for schema in &*schemas {
                    for (at, row) in drawn[block.clone()].iter().enumerate() {
                        let (status, values) = expected(&schemas, &fields, row, by_protocol);
                        assert_eq!(decoder.statuses()[at], status, "row {at} of {block:?}, layout {layout}: {row:?}");
                        let is_bad = matches!(status, Status::BadAddress | Status::BadNumber);
                        assert_eq!(decoder.fault_of(at).is_some() && is_bad, is_bad, "{row:?}");
                        seen.push(status as u8);
                        if let Some(values) = values.filter(|values| values.family == schema.family()) {
                            wanted.push_values(&values, 0);
                            pushed.push(at as u32);
                        }
                    }
                }
                kept += pushed.len();
                assert!(order.by_ref().eq(&pushed));
                assert_eq!(batch.records(), wanted.records());
                for schema in 0..batch.schemas() {
                    assert_eq!(batch.keys(schema).words(), wanted.keys(schema).words());
                }
            }
        }
    }
    assert!(kept > rows, "{kept} rows of keys");
    seen.sort_unstable();
    seen.dedup();
    assert!(seen.len() >= 3, "rows of every kind: {seen:?}");
}

fn blocks(rows: usize, of: usize) -> impl Iterator<Item = Range<usize>> {
    (0..rows).step_by(of).map(move |start| start..rows.min(start + of))
}

#[test]
fn keys_of_both_families_are_those_of_values() {
    for (seed, by_protocol) in [(1, false), (2, true)] {
        compare("deny tcp dport 23\npermit icmp icmp_type 8\npermit ttl 3 vlan_vid 7\npermit\n", seed, by_protocol);
    }
}

#[test]
fn keys_of_one_family_are_those_of_values() {
    compare("family ipv4\ndeny tcp dport 23\npermit tcp tcp_flags syn\n", 3, true);
    compare("family ipv6\ndeny tcp dport 23\npermit ext_headers routing\n", 4, true);
}

#[test]
fn keys_of_a_schema_of_ones_own_are_those_of_values() {
    let fields = "a 32 exact optional\n  b 33 exact\n  c 64 mask optional\n  d 1 exact\n  e 31 range optional";
    compare(&format!("schema {{\n  {fields}\n}}\ndeny a 7\npermit c 9\n"), 5, true);
}

#[test]
fn indices_and_offsets_that_lead_nowhere_are_bad_values() {
    let firewall = Firewall::from_text("permit\n").expect("rules");
    let mut decoder = Decoder::new(&firewall.schemas(), None, false);
    let text: &[u8] = b"10.0.0.1";
    let values = Column::new(1, [], Values::Text(Bytes::Small(&[0, 8], text)));
    let far = |start: u32| {
        let mut view = [0; 16];
        view[..4].copy_from_slice(&20u32.to_ne_bytes());
        view[8..12].copy_from_slice(&start.to_ne_bytes());
        view[12..].copy_from_slice(&u32::MAX.to_ne_bytes());
        view
    };
    let views = [far(0), far(9)];
    let broken = [
        Values::Text(Bytes::Small(&[-8, 0, 99], text)),
        Values::Text(Bytes::Large(&[8, 0, i64::MIN], text)),
        Values::Text(Bytes::Views(&views, vec![text])),
        Values::Binary(Bytes::Fixed(&[1, 2, 3], 4)),
        Values::Dictionary(Integers::I8(&[-1, 1]), Box::new(values.clone())),
        Values::Dictionary(Integers::U64(&[u64::MAX, 5]), Box::new(values)),
    ];
    for values in broken {
        let inputs: Vec<Input<'_>> = decoder
            .fields()
            .iter()
            .map(|field| {
                let is_broken = field.name() == "src";
                let values = if is_broken { values.clone() } else { Values::Integers(Integers::U8(&[1, 1])) };
                Input::Columns(vec![Prepared::new(Column::new(2, [], values), Content::of(field))])
            })
            .collect();
        decoder.read(&inputs, 0..2, &mut firewall.batch());
        assert_eq!(decoder.statuses(), [Status::BadAddress; 2], "{values:?}");
        assert_eq!(decoder.fault_of(1), Some(0));
        let Input::Columns(columns) = &inputs[0] else { unreachable!() };
        assert!(!columns[0].column().show(1).is_empty());
    }
}
