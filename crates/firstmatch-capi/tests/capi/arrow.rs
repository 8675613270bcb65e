//! Columns of every layout of Arrow, beside `linear`, and columns that contradict themselves.

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr::null_mut;

use firstmatch::core::rule::FieldValues;
use firstmatch::core::schema::Family;
use firstmatch::{Firewall, Outcome};
use firstmatch_capi::*;
use firstmatch_testkit::rng::Rng;

use crate::made::{Made, Value, column, structure};

/// Rules with a worker over them by the library, and by `linear` alone.
struct Rules {
    firewall: *mut FirewallHandle,
    worker: *mut WorkerHandle,
    linear: firstmatch::Worker,
    of: Firewall,
}

impl Rules {
    fn new(text: &str) -> Self {
        let (mut firewall, mut worker, mut error) = (null_mut(), null_mut(), null_mut());
        let mut options = MaybeUninit::<OptionsC>::uninit();
        // SAFETY: every pointer leads to a value of its type.
        unsafe {
            firstmatch_options_init(options.as_mut_ptr(), size_of::<OptionsC>());
            let mut options = options.assume_init();
            options.flags = FIRSTMATCH_VALUES_ONLY;
            let (start, length) = (text.as_ptr().cast(), text.len());
            let code = firstmatch_firewall_from_text(start, length, &options, &mut firewall, &mut error);
            assert_eq!((code, firstmatch_worker_new(firewall, &mut worker)), (FIRSTMATCH_OK, FIRSTMATCH_OK));
        }
        let linear = Firewall::builder().values_only(true).engine("linear").expect("an engine");
        let of = linear.build(text).expect("rules");
        Self { firewall, worker, linear: of.worker(), of }
    }

    /// Returns outcome and line of each row.
    fn decide(&self, made: &Made, family: u32) -> Result<Vec<(u32, u32)>, (i32, String)> {
        let options = ArrowOptionsC { size: size_of::<ArrowOptionsC>() as u32, family, link: 0, reserved: 0 };
        let (mut schema, mut array, mut error) = (MaybeUninit::uninit(), MaybeUninit::uninit(), null_mut());
        // SAFETY: every pointer leads to a value of its type, and a result has the columns that the header says.
        unsafe {
            let (out, out_array) = (schema.as_mut_ptr(), array.as_mut_ptr());
            let (types, values) = (&raw const *made.schema, &raw const *made.array);
            let code = firstmatch_classify_arrow(self.worker, types, values, &options, out, out_array, &mut error);
            if code != FIRSTMATCH_OK {
                let message = CStr::from_ptr(firstmatch_error_message(error)).to_str().expect("UTF-8").to_owned();
                firstmatch_error_free(error);
                return Err((code, message));
            }
            let (mut schema, mut array): (ArrowSchema, ArrowArray) = (schema.assume_init(), array.assume_init());
            let child = |index: usize| (**array.children.add(index)).buffers.add(1).read();
            let (lines, outcomes) = (child(3).cast::<u32>(), child(4).cast::<u8>());
            let rows = 0..array.length as usize;
            let decided = rows.map(|row| (u32::from(outcomes.add(row).read()), lines.add(row).read())).collect();
            schema.release.expect("it was not released")(&mut schema);
            array.release.expect("it was not released")(&mut array);
            Ok(decided)
        }
    }

    fn count(&self, outcome: u32) -> u64 {
        let mut count = 0;
        // SAFETY: every pointer leads to a value of its type.
        assert_eq!(unsafe { firstmatch_worker_outcome_count(self.worker, outcome, &mut count) }, FIRSTMATCH_OK);
        count
    }

    /// Returns outcome and line of a row by `linear`.
    fn linear(&mut self, values: FieldValues) -> (u32, u32) {
        let outcome = self.linear.push_values(&values, 0);
        let decision = self.linear.classify()[0];
        let outcome = if outcome == Outcome::NoPorts { FIRSTMATCH_NO_PORTS } else { FIRSTMATCH_COMPLETE };
        (outcome, decision.line.map_or(0, u32::from))
    }

    fn refused(&self, made: &Made, code: i32, text: &str) {
        let (found, message) = self.decide(made, 0).expect_err(text);
        assert!(found == code && message.contains(text), "{found} {message}, not {code} {text}");
    }
}

impl Drop for Rules {
    fn drop(&mut self) {
        // SAFETY: nobody uses them any more.
        unsafe {
            firstmatch_worker_free(self.worker);
            firstmatch_firewall_release(self.firewall);
        }
    }
}

/// Values of the five fields of a row: addresses, ports and protocol.
type Row = (bool, [Option<IpAddr>; 2], [Option<u128>; 3]);

fn address(rng: &mut Rng, is_ipv6: bool) -> IpAddr {
    let low = rng.bits(4);
    match is_ipv6 {
        // Some of these are IPv4-mapped.
        true => Ipv6Addr::from(if rng.percent(20) { 0xFFFF_0A00_0000 } else { 0x2001_0DB8 << 96 } | low).into(),
        false => Ipv4Addr::from(0x0A00_0000 | low as u32).into(),
    }
}

/// Returns rules of few different values, so that packets hit most of them.
fn rules(rng: &mut Rng, head: &str, families: &[bool]) -> String {
    let mut text = format!("{head}unknown permit\n");
    for _ in 0..60 {
        let is_ipv6 = *rng.pick(families);
        let length = if is_ipv6 { 128 } else { 32 } - rng.below(4);
        let mut rule = format!("mark {} ", rng.below(9));
        for (field, percent) in [("src", 70), ("dst", 40)] {
            if rng.percent(percent) {
                let address = address(rng, is_ipv6);
                let kept = |bits: u128, width: u32| bits >> (width as usize - length) << (width as usize - length);
                let prefix: IpAddr = match address {
                    IpAddr::V4(it) => Ipv4Addr::from(kept(u128::from(u32::from(it)), 32) as u32).into(),
                    IpAddr::V6(it) => Ipv6Addr::from(kept(it.into(), 128)).into(),
                };
                rule += &format!("{field} {prefix}/{length} ");
            }
        }
        let first = rng.below(8);
        rule += &match rng.below(4) {
            0 => format!("tcp dport {first}-{}", first + rng.below(5)),
            1 => format!("udp sport {first}"),
            2 => format!("proto {}", rng.pick(&[1, 6, 17, 58])),
            _ => format!("dport {first}"),
        };
        text += &(rule + "\n");
    }
    text
}

fn rows(rng: &mut Rng, count: usize, families: &[bool]) -> Vec<Row> {
    let mut row = || {
        let family = *rng.pick(families);
        let other = if rng.percent(15) { *rng.pick(families) } else { family };
        let addresses = [family, other].map(|is_ipv6| (!rng.percent(5)).then(|| address(rng, is_ipv6)));
        let ports = [(); 2].map(|()| (!rng.percent(10)).then(|| rng.below(10) as u128));
        let protocol = (!rng.percent(3)).then(|| *rng.pick(&[1, 6, 17, 58]));
        (!rng.percent(3), addresses, [ports[0], ports[1], protocol])
    };
    (0..count).map(|_| row()).collect()
}

/// Returns the value of an address; `bytes` is the width of IPv4 in layouts of a fixed width.
fn of_address(address: IpAddr, bytes: usize) -> Value {
    let text = address.to_string();
    match address {
        IpAddr::V4(it) if bytes == 16 => {
            let mapped = it.to_ipv6_mapped();
            Value { number: mapped.into(), bytes: mapped.octets().into(), text: mapped.to_string() }
        }
        IpAddr::V4(it) => Value { number: u32::from(it).into(), bytes: it.octets().into(), text },
        IpAddr::V6(it) => Value { number: it.into(), bytes: it.octets().into(), text },
    }
}

fn of_number(number: u128, text: String) -> Value {
    let least = 15.min(number.leading_zeros() / 8) as usize;
    Value { number, bytes: number.to_be_bytes()[least..].into(), text }
}

/// Layouts of a table: of addresses, with the number of bytes of IPv4 in them, of ports and of the protocol.
type Layouts<'l> = (&'l str, usize, &'l str, &'l str);

/// Returns a table of rows, behind rows of its columns and of its struct that nobody asks for.
fn table(rows: &[Row], (addresses, bytes, ports, protocol): Layouts<'_>, before: [usize; 2], rng: &mut Rng) -> Made {
    let offset = before[0] + before[1];
    let mut columns = Vec::new();
    for (index, name) in ["src", "dst"].into_iter().enumerate() {
        let values: Vec<_> = rows.iter().map(|row| row.1[index].map(|it| of_address(it, bytes))).collect();
        columns.push(column(name, addresses, &values, offset, rng));
    }
    for (index, name) in ["sport", "dport", "proto"].into_iter().enumerate() {
        let text = |number: u128| match (index, number) {
            (2, 6) => "TCP".to_owned(),
            (2, 17) => "udp".to_owned(),
            _ => number.to_string(),
        };
        let values: Vec<_> = rows.iter().map(|row| row.2[index].map(|it| of_number(it, text(it)))).collect();
        columns.push(column(name, if index == 2 { protocol } else { ports }, &values, offset, rng));
    }
    let present: Vec<_> = rows.iter().map(|row| row.0).collect();
    structure(columns, &present, before[1], rng)
}

/// Returns outcome and line that a row must have, where all rows are of the family asked for, or each of its own.
fn wanted(rules: &mut Rules, (is_there, addresses, others): &Row, asked: Option<Family>) -> (u32, u32) {
    let family_of = |address: IpAddr| if address.is_ipv4() { Family::Ipv4 } else { Family::Ipv6 };
    let addresses = addresses.map(|address| match (address, asked) {
        (Some(IpAddr::V6(it)), Some(Family::Ipv4)) => Some(it.to_ipv4_mapped().map_or(it.into(), IpAddr::from)),
        _ => address,
    });
    let present = || addresses.into_iter().flatten().map(family_of);
    let lacks = (FIRSTMATCH_LACKS_FIELD, 0);
    if !is_there {
        return lacks;
    }
    if asked.is_some_and(|family| present().any(|of| of != family)) {
        return (FIRSTMATCH_OUT_OF_RANGE, 0);
    }
    let [Some(src), Some(dst)] = addresses else { return lacks };
    let family = family_of(src);
    if family != family_of(dst) {
        return (FIRSTMATCH_OUT_OF_RANGE, 0);
    }
    if rules.of.schemas().iter().all(|schema| schema.family() != Some(family)) {
        return (FIRSTMATCH_OTHER_FAMILY, 0);
    }
    if others[2].is_none() {
        return lacks;
    }
    let values = [src, dst].map(|address| Some(of_address(address, 4).number));
    rules.linear(FieldValues { family: Some(family), values: [&values[..], others].concat() })
}

/// Layouts in which rows may be of both families.
const STRINGS: [&str; 12] = ["u", "U", "vu", "z", "Z", "vz", "c>u", "S>U", "i>vu", "L>z", "C>Z", "s>vz"];
const PORTS: [&str; 19] =
    ["S", "I", "L", "C", "s", "i", "l", "c", "u", "U", "vu", "z", "Z", "vz", "w:2", "w:16", "c>S", "I>u", "l>vz"];
const PROTOCOLS: [&str; 9] = ["C", "i", "u", "vu", "U", "z", "w:1", "S>u", "l>c"];

/// Decides rows in layouts of addresses, behind every number of rows, and compares with what they must have.
fn check(seed: u64, head: &str, families: &[bool], layouts: &[(&str, usize)], asked: u32, all: Option<Family>) {
    let mut rng = Rng::new(seed);
    let mut rules = Rules::new(&rules(&mut rng, head, families));
    let rows = rows(&mut rng, 150, families);
    let wanted: Vec<_> = rows.iter().map(|row| wanted(&mut rules, row, all)).collect();
    let lines = wanted.iter().filter(|(_, line)| *line > 0).count();
    assert!(lines > 30 && wanted.iter().any(|row| row.0 == FIRSTMATCH_LACKS_FIELD), "{lines} {wanted:?}");
    let (mut calls, mut at) = (0, 0);
    for &(addresses, bytes) in layouts {
        for before in 0..10 {
            at += 1;
            let layouts = (addresses, bytes, PORTS[at % PORTS.len()], PROTOCOLS[at % PROTOCOLS.len()]);
            let made = table(&rows, layouts, [before, (before * 7 + at) % 10], &mut rng);
            let found = rules.decide(&made, asked).unwrap_or_else(|error| panic!("{layouts:?}: {error:?}"));
            for (row, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
                assert_eq!(found, wanted, "seed {seed} {layouts:?} before {before}: row {row} {:?}", rows[row]);
            }
            assert_eq!(found.len(), wanted.len());
            calls += 1;
        }
    }
    for outcome in [FIRSTMATCH_LACKS_FIELD, FIRSTMATCH_OTHER_FAMILY, FIRSTMATCH_OUT_OF_RANGE, FIRSTMATCH_COMPLETE] {
        let once = wanted.iter().filter(|row| row.0 == outcome).count();
        assert_eq!(rules.count(outcome), once as u64 * calls, "outcome {outcome}");
    }
}

#[test]
fn every_layout_of_ipv4_answers_as_linear_does() {
    let more = [("I", 4), ("L", 4), ("l", 4), ("w:4", 4), ("w:6", 4), ("I>I", 4), ("l>w:4", 4), ("w:16", 16)];
    let layouts: Vec<_> = more.into_iter().chain(STRINGS.map(|layout| (layout, 4))).collect();
    let mapped = [("w:16", 16), ("c>w:16", 16), ("z", 16), ("vz", 16), ("u", 16), ("s>vu", 16), ("I", 4), ("u", 4)];
    for seed in 1..3 {
        check(seed, "family ipv4\n", &[false], &layouts, FIRSTMATCH_NO_FAMILY, None);
        check(seed, "", &[false], &layouts[..7], FIRSTMATCH_NO_FAMILY, None);
        check(seed, "", &[false], &mapped, FIRSTMATCH_IPV4, Some(Family::Ipv4));
    }
}

#[test]
fn every_layout_of_both_families_answers_as_linear_does() {
    let (both, strings) = ([false, true], STRINGS.map(|layout| (layout, 4)));
    for seed in 3..5 {
        check(seed, "", &both, &strings, FIRSTMATCH_NO_FAMILY, None);
        check(seed, "", &both, &strings, FIRSTMATCH_IPV4, Some(Family::Ipv4));
        check(seed, "", &both, &strings, FIRSTMATCH_IPV6, Some(Family::Ipv6));
        check(seed, "", &[true], &[("w:16", 4), ("i>w:16", 4)], FIRSTMATCH_NO_FAMILY, None);
    }
}

#[test]
fn rows_of_a_family_without_rules_are_told_apart() {
    let mut rng = Rng::new(5);
    let mut rules = Rules::new(&rules(&mut rng, "family ipv4\n", &[false]));
    // More rows than are decided together.
    let rows = rows(&mut rng, FIRSTMATCH_ARROW_BATCH + 5000, &[false, true]);
    let wanted: Vec<_> = rows.iter().map(|row| wanted(&mut rules, row, None)).collect();
    let made = table(&rows, ("vu", 4, "S", "C"), [1, 2], &mut rng);
    assert!(rules.decide(&made, FIRSTMATCH_NO_FAMILY) == Ok(wanted.clone()));
    let others = wanted.iter().filter(|row| row.0 == FIRSTMATCH_OTHER_FAMILY).count();
    assert!(others > 50);
    assert_eq!(rules.count(FIRSTMATCH_OTHER_FAMILY), others as u64);
}

#[test]
fn fields_of_the_callers_own_have_every_layout() {
    let text = "schema {\n tenant 128 prefix\n label 40 range\n bit 1 exact optional\n}\nunknown permit\n\
                mark 1 tenant 0x10/124 label 5-9\nmark 2 label 0xff00000000 bit absent\nmark 3 bit 1\n\
                mark 4 tenant 0xffffffffffffffffffffffffffffffff\n";
    let mut rules = Rules::new(text);
    let mut rng = Rng::new(6);
    let tenants = [0x10, 0x1F, 0x20, u128::MAX];
    let labels = [5, 9, 10, 0xFF_0000_0000, 1 << 40];
    for layouts in [["w:16", "l", "C"], ["z", "L", "u"], ["vz", "w:6", "c>C"], ["u", "vu", "z"], ["C>vu", "Z", "U"]] {
        for before in 0..10 {
            let mut values = || [*rng.pick(&tenants), *rng.pick(&labels), rng.bits(1)];
            let rows: Vec<_> = (0..60).map(|_| values()).collect();
            let mut column = |at: usize, name: &str| {
                let is_absent = |row: usize| at == 2 && row.is_multiple_of(3);
                let value = |(row, values): (usize, &[u128; 3])| {
                    (!is_absent(row)).then(|| of_number(values[at], values[at].to_string()))
                };
                column(name, layouts[at], &rows.iter().enumerate().map(value).collect::<Vec<_>>(), before, &mut rng)
            };
            let columns = ["tenant", "label", "bit"].iter().enumerate().map(|(at, name)| column(at, name)).collect();
            let made = structure(columns, &[true; 60], before / 2, &mut rng);
            let found = rules.decide(&made, FIRSTMATCH_NO_FAMILY).expect("it is read");
            for (row, ([tenant, label, bit], found)) in rows.iter().zip(found).enumerate() {
                let values = vec![Some(*tenant), Some(*label), (!row.is_multiple_of(3)).then_some(*bit)];
                let is_out = *label >> 40 > 0;
                let wanted = if is_out {
                    (FIRSTMATCH_OUT_OF_RANGE, 0)
                } else {
                    rules.linear(FieldValues { family: None, values })
                };
                assert_eq!(found, wanted, "{layouts:?} row {row} {:?}", rows[row]);
            }
        }
    }
}

/// Returns five rows that the rule of line 1 decides, in some layouts.
fn good(layouts: Layouts<'_>) -> (Rules, Made) {
    let rules = Rules::new("deny src 10.0.0.0/28 dport 3\npermit src 2001:db8::/32\n");
    let address = Some(IpAddr::from([10, 0, 0, 1]));
    let rows = [(true, [address; 2], [Some(1), Some(3), Some(6)]); 5];
    let made = table(&rows, layouts, [2, 1], &mut Rng::new(7));
    assert_eq!(rules.decide(&made, 0), Ok(vec![(FIRSTMATCH_COMPLETE, 1); 5]));
    (rules, made)
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// Row 1 of the table is row 4 of its columns, because 3 are before those asked for.
const ROW: usize = 4;

#[test]
fn values_outside_of_their_buffer_are_out_of_range() {
    let bad = (FIRSTMATCH_OUT_OF_RANGE, 0);
    let fine = (FIRSTMATCH_COMPLETE, 1);
    // Offsets that decrease, and that are negative, spoil the rows on both sides.
    for (layout, width) in [("u", 4), ("Z", 8)] {
        for offset in [1i64 << 30, -1, i64::from(i32::MIN)] {
            let (rules, mut made) = good((layout, 4, "S", "C"));
            put(made.child("src").buffers[1].bytes(), ROW * width, &offset.to_le_bytes()[..width]);
            assert_eq!(rules.decide(&made, 0), Ok(vec![bad, bad, fine, fine, fine]));
        }
    }
    // Views of a buffer that is not there, behind its end, and with a length that no buffer has.
    let views = [(40, 2, 0), (40, 0, 0), (13, -1, 0), (13, 1, u32::MAX), (u32::MAX, 0, u32::MAX), (20, 1, 1 << 31)];
    for (length, buffer, start) in views {
        let (rules, mut made) = good(("vz", 4, "S", "C"));
        let view = [length.to_ne_bytes(), [0; 4], i32::to_ne_bytes(buffer), u32::to_ne_bytes(start)].concat();
        put(made.child("src").buffers[1].bytes(), ROW * 16, &view);
        assert_eq!(rules.decide(&made, 0), Ok(vec![fine, bad, fine, fine, fine]), "{length} {buffer} {start}");
    }
    for index in [-1, i8::MAX, i8::MIN, 3] {
        for inner in ["c>u", "c>I", "c>vz"] {
            let (rules, mut made) = good((inner, 4, "S", "C"));
            put(made.child("src").buffers[1].bytes(), ROW, &index.to_ne_bytes());
            assert_eq!(rules.decide(&made, 0), Ok(vec![fine, bad, fine, fine, fine]), "{index} {inner}");
        }
    }
}

/// No value makes a call fail: a row is decided, or has an outcome of its own. The last offset and the sizes of views'
/// buffers stay, because memory is read as far as they say.
#[test]
fn random_bytes_make_no_call_fail() {
    let mut rng = Rng::new(8);
    let mut spoiled = 0;
    for (layout, kept) in [("u", 4), ("Z", 8), ("vz", 0), ("vu", 0), ("c>u", 0), ("i>vz", 0), ("w:4", 0), ("l", 0)] {
        for _ in 0..100 {
            let (rules, mut made) = good((layout, 4, "u", "vu"));
            let column = made.child("dst");
            // Views have the sizes of their buffers in the last one.
            let buffers = 1..column.buffers.len() - usize::from(layout.starts_with('v'));
            let buffer = rng.below(buffers.len()) + buffers.start;
            let bytes = column.buffers[buffer].bytes();
            let length = bytes.len() - if buffer == 1 { kept } else { 0 };
            for _ in 0..if length > 0 { rng.below(4) } else { 0 } {
                bytes[rng.below(length)] = rng.next() as u8;
            }
            let found = rules.decide(&made, 0).expect("rows are decided");
            spoiled += found.iter().filter(|row| **row != (FIRSTMATCH_COMPLETE, 1)).count();
            assert!(found.iter().all(|row| (1..=FIRSTMATCH_OUTCOME_LAST).contains(&row.0)), "{layout} {found:?}");
        }
    }
    assert!(spoiled > 100, "{spoiled}");
}

#[test]
fn structs_that_contradict_themselves_are_errors() {
    let of = |layout| good((layout, 4, "S", "C"));
    for (layout, buffers) in [("u", 1..3), ("Z", 1..3), ("vu", 1..2), ("I", 1..2), ("c>u", 1..2)] {
        for buffer in buffers {
            let (rules, mut made) = of(layout);
            let column = made.child("src");
            column.buffers[buffer] = Default::default();
            column.point();
            rules.refused(&made, FIRSTMATCH_INVALID_ARGUMENT, &format!("buffer {buffer} of column \"src\" is null"));
        }
        for count in [0, 1, -1, i64::MAX] {
            let (rules, mut made) = of(layout);
            made.child("src").array.n_buffers = count;
            rules.refused(&made, FIRSTMATCH_INVALID_ARGUMENT, "column \"src\"");
        }
    }
    // The last offset is the length of the bytes; the last buffer of views has the sizes of the others.
    let (rules, mut made) = of("u");
    put(made.child("src").buffers[1].bytes(), 8 * 4, &(-1i32).to_ne_bytes());
    rules.refused(&made, FIRSTMATCH_INVALID_ARGUMENT, "column \"src\" has a length, an offset or a count of -1");
    let (rules, mut made) = of("vu");
    put(made.child("src").buffers[4].bytes(), 8, &i64::MIN.to_ne_bytes());
    rules.refused(&made, FIRSTMATCH_INVALID_ARGUMENT, "column \"src\"");
    for (buffers, text) in [(2, "lacks buffer 2"), (4, "buffer 3 of column \"src\" is null")] {
        let (rules, mut made) = of("vu");
        let column = made.child("src");
        column.buffers.truncate(buffers);
        if buffers == 4 {
            column.buffers[3] = Default::default();
        }
        column.point();
        rules.refused(&made, FIRSTMATCH_INVALID_ARGUMENT, text);
    }
}

#[test]
fn dictionaries_that_contradict_themselves_are_errors() {
    let of = |layout| good((layout, 4, "S", "C"));
    let (rules, mut made) = of("c>u");
    made.child("src").dictionary.as_mut().expect("one").array.release = None;
    rules.refused(&made, FIRSTMATCH_INVALID_ARGUMENT, "released");
    let (rules, mut made) = of("c>u");
    made.child("src").array.dictionary = null_mut();
    rules.refused(&made, FIRSTMATCH_INVALID_ARGUMENT, "column \"src\" has a dictionary in");
    let (rules, mut made) = of("c>u");
    made.child("src").dictionary.as_mut().expect("one").array.length = -1;
    rules.refused(&made, FIRSTMATCH_INVALID_ARGUMENT, "column \"src\"");
    // A dictionary whose values are itself has no end.
    let (rules, mut made) = of("c>u");
    let inner = made.child("src").dictionary.as_mut().expect("one");
    (inner.schema.dictionary, inner.array.dictionary) = (&raw mut *inner.schema, &raw mut *inner.array);
    rules.refused(&made, FIRSTMATCH_UNSUPPORTED, "column \"src\" has a dictionary of dictionaries");
    // Indices are integers, and values have a format that is read.
    let (texts, floats) = (CString::new("u").expect("no NUL"), CString::new("g").expect("no NUL"));
    let (rules, mut made) = of("c>u");
    made.child("src").schema.format = texts.as_ptr();
    rules.refused(&made, FIRSTMATCH_UNSUPPORTED, "column \"src\" has the format \"u\"");
    let (rules, mut made) = of("c>u");
    made.child("src").dictionary.as_mut().expect("one").schema.format = floats.as_ptr();
    rules.refused(&made, FIRSTMATCH_UNSUPPORTED, "column \"src\" has the format \"g\"");
    // A dictionary of nulls may say that it is as long as it likes.
    let nulls = CString::new("n").expect("no NUL");
    let (rules, mut made) = of("c>u");
    let inner = made.child("src").dictionary.as_mut().expect("one");
    (inner.schema.format, inner.array.length) = (nulls.as_ptr(), 1 << 48);
    assert_eq!(rules.decide(&made, 0), Ok(vec![(FIRSTMATCH_LACKS_FIELD, 0); 5]));
}
