//! Values and conditions in words.

use std::net::{Ipv4Addr, Ipv6Addr};

use firstmatch_core::Schema;
use firstmatch_core::rule::{ConditionRef, FieldValues, Region, Test};
use firstmatch_core::schema::{ExtensionHeader, Family, Field, Kind, Source};
use firstmatch_formats::native::{fragment_name, icmp_type_name, protocol_name};
use firstmatch_net::wire::{Headers, Outcome, SourceSet};

/// Maximum number of tests of a condition that are shown.
const TESTS: usize = 6;

/// Header fields of an IP packet that are shown whatever the rules test.
const IP: SourceSet = SourceSet::of(&[
    Source::Src,
    Source::Dst,
    Source::Proto,
    Source::SrcPort,
    Source::DstPort,
    Source::IcmpType,
    Source::IcmpCode,
    Source::TcpFlags,
    Source::VlanVid,
]);

/// Returns lines about the header fields that rules test: present, absent and unknown.
pub fn headers(headers: &Headers, asked: SourceSet) -> Vec<String> {
    let wanted = if asked.contains(Source::Src) { asked.union(IP) } else { asked };
    let all = || Source::ALL.into_iter().filter(|source| wanted.contains(*source));
    let names =
        |set: SourceSet| all().filter(move |source| set.contains(*source)).map(|source| source.name().to_owned());
    let there = all().filter_map(|source| {
        let value = value_of(headers.value(source)?, Some(source), headers.family());
        Some(format!("{} {value}", source.name()))
    });
    lines(
        there.collect(),
        [("absent", names(headers.absent()).collect()), ("unknown", names(headers.unknown()).collect())],
    )
}

/// Returns lines about a row of fields in the same form; `unknown` are fields that the packet hides.
pub fn values(schema: &Schema, values: &FieldValues, unknown: &[usize]) -> Vec<String> {
    let all = || schema.fields().iter().zip(&values.values);
    let there = all().filter_map(|(field, value)| {
        Some(format!("{} {}", field.name(), value_of((*value)?, field.source(), values.family)))
    });
    let name = |(field, _): (&Field, _)| field.name().to_owned();
    let lacking = all().enumerate().filter(|(_, (_, value))| value.is_none());
    let (unknown, absent): (Vec<_>, Vec<_>) = lacking.partition(|(index, _)| unknown.contains(index));
    let [unknown, absent] = [unknown, absent].map(|fields| fields.into_iter().map(|(_, of)| name(of)).collect());
    lines(there.collect(), [("absent", absent), ("unknown", unknown)])
}

fn lines(there: Vec<String>, lacking: [(&str, Vec<String>); 2]) -> Vec<String> {
    let lacking = lacking.into_iter().filter(|(_, names)| !names.is_empty());
    let lacking = lacking.map(|(what, names)| format!("{what}: {}", names.join(", ")));
    std::iter::once(there.join(", ")).filter(|line| !line.is_empty()).chain(lacking).collect()
}

/// Returns the text of one value of a field.
fn value_of(value: u128, source: Option<Source>, family: Option<Family>) -> String {
    let named = |name: Option<&str>| name.map_or(String::new(), |name| format!(" ({name})"));
    match (source, family) {
        (Some(Source::Src | Source::Dst), Some(Family::Ipv4)) => Ipv4Addr::from(value as u32).to_string(),
        (Some(Source::Src | Source::Dst), Some(Family::Ipv6)) => Ipv6Addr::from(value).to_string(),
        (Some(Source::Ipv4Src | Source::Ipv4Dst), _) => Ipv4Addr::from(value as u32).to_string(),
        (Some(Source::EthSrc | Source::EthDst), _) => mac(value),
        (Some(Source::EthType), _) => format!("{value:#06x}"),
        (Some(Source::Proto | Source::IpProto), _) => format!("{value}{}", named(protocol_name(value as u8))),
        (Some(Source::IcmpType), Some(family)) => format!("{value}{}", named(icmp_type_name(family, value as u8))),
        (Some(Source::TcpFlags), _) => format!("{value:#04x}"),
        (Some(Source::Fragment), _) => fragment_name(value as u8).map_or(value.to_string(), str::to_owned),
        (Some(Source::ExtHeaders), _) => {
            let set = ExtensionHeader::ALL.iter().filter(|header| value & u128::from(header.bit) != 0);
            let names: Vec<_> = set.map(|header| header.name).collect();
            format!("{value:#04x} ({})", if names.is_empty() { "none".to_owned() } else { names.join(" and ") })
        }
        _ => value.to_string(),
    }
}

fn mac(value: u128) -> String {
    let bytes = (0..6).rev().map(|byte| format!("{:02x}", value >> (8 * byte) & 0xFF));
    bytes.collect::<Vec<_>>().join(":")
}

/// Returns the packet's value in the field of a condition, in words.
pub fn actual(condition: ConditionRef<'_>, field: &Field, values: &FieldValues) -> String {
    let families = condition.tests().all(|(family, _)| family.is_some() && family != values.family);
    match values.values[condition.field] {
        None => "absent".to_owned(),
        Some(value) => {
            let shown = value_of(value, field.source(), values.family);
            let other = values.family.filter(|_| families);
            other.map_or(shown.clone(), |family| format!("{shown}; the condition has no {family} value"))
        }
    }
}

/// Returns a condition as in a rule file, with its sets written out.
pub fn condition(condition: ConditionRef<'_>, field: &Field) -> String {
    // An address shows its family, and the name of an ICMP type has a number in each family.
    let told = matches!(field.source(), Some(Source::Src | Source::Dst | Source::IcmpType));
    let written = |(family, t): (Option<Family>, Test)| match family.filter(|_| !told) {
        Some(of) => format!("family {of} {}", test(t, family, field)),
        None => test(t, family, field),
    };
    let mut tests: Vec<_> = condition.tests().map(written).collect();
    // The name of an ICMP type is two tests, one for each family, which look alike.
    tests.dedup();
    let more = tests.len().saturating_sub(TESTS);
    tests.truncate(TESTS);
    let tail = if more > 0 { format!(", … {more} more") } else { String::new() };
    let not = if condition.negated { "not " } else { "" };
    match &tests[..] {
        [one] if more == 0 => format!("{} {not}{one}", field.name()),
        _ => format!("{} {not}{{ {}{tail} }}", field.name(), tests.join(", ")),
    }
}

/// Returns a region as conditions that a rule file may have, `any` if it is all packets of the schema.
///
/// `permit` before it is a rule for just the keys of the region. The exceptions are values under a mask of a field of
/// kind `prefix` that is no address: only JSON can hold these, so they are shown word by word.
///
/// ```
/// use firstmatch::core::rule::Region;
/// use firstmatch::{core::Schema, show};
///
/// let hi = [0x0AFF_FFFF, u32::MAX, 1 << 16, 443, 6];
/// let region = Region { lo: &[0x0A00_0000, 0, 0, 80, 6], hi: &hi, ternary: None };
/// assert_eq!(show::region(&Schema::ipv4(), &region), "src 10.0.0.0/8 dport 80-443 proto tcp");
/// ```
pub fn region(schema: &Schema, region: &Region<'_>) -> String {
    let fields = schema.fields().iter().enumerate().filter_map(|(index, field)| field_of(schema, index, field, region));
    let fields: Vec<String> = fields.collect();
    // An address shows its family.
    let is_told = fields.iter().any(|field| field.starts_with("src ") || field.starts_with("dst "));
    let family = schema.family().filter(|_| !is_told).map(|family| format!("family {family}"));
    let all: Vec<String> = family.into_iter().chain(fields).collect();
    if all.is_empty() { "any".to_owned() } else { all.join(" ") }
}

/// Returns the values of one field in a region as a condition; `None` if they are all.
fn field_of(schema: &Schema, index: usize, field: &Field, region: &Region<'_>) -> Option<String> {
    let at = schema.words_of(index);
    let words = &schema.words()[at.clone()];
    let (lo, hi) = (&region.lo[at.clone()], &region.hi[at.clone()]);
    let mask =
        |word: usize| region.ternary.map_or((0, 0), |(value, mask)| (value[at.start + word], mask[at.start + word]));
    let has_mask = (0..words.len()).any(|word| mask(word).1 != 0);
    let is_all = words.iter().zip(lo.iter().zip(hi)).all(|(word, (&lo, &hi))| lo == 0 && hi == word.max);
    if is_all && !has_mask {
        return None;
    }
    let absent = words[0].absent;
    let (mut tests, mut top) = (Vec::new(), (lo[0], hi[0]));
    let lacks = absent.is_some_and(|absent| lo[0] <= absent && absent <= hi[0]);
    if let (true, Some(absent)) = (lacks, absent) {
        // The words behind an absent one are 0.
        let holds = |word: usize| word == 0 || lo[word] == 0 && mask(word).0 == 0;
        if (0..words.len()).all(holds) && (absent & mask(0).1) == mask(0).0 {
            tests.push(Test::Absent);
        }
        top.1 = absent.saturating_sub(1);
    }
    if top.0 <= top.1 && !(lacks && absent == Some(lo[0])) {
        let ends: Vec<(u32, u32)> =
            std::iter::once(top).chain(lo.iter().copied().zip(hi.iter().copied()).skip(1)).collect();
        // Values have no gap if all words behind the first one with several values are free.
        let open = ends.iter().position(|(lo, hi)| lo != hi).map_or(ends.len(), |open| open + 1);
        let is_free = |word: usize| ends[word] == (0, words[word].bits);
        let whole = |values: &mut dyn Iterator<Item = u32>| {
            words.iter().zip(values).fold(0u128, |whole, (word, value)| whole | u128::from(value) << word.shift)
        };
        if !has_mask && (open..ends.len()).all(is_free) && !only_masks(field) {
            let (lo, hi) = (whole(&mut ends.iter().map(|ends| ends.0)), whole(&mut ends.iter().map(|ends| ends.1)));
            tests.push(interval(lo, hi, field.width()));
        } else {
            // Each word is a list of values under masks, and the field their product.
            let mut products = vec![(0u128, 0u128)];
            for (index, (word, &(lo, hi))) in words.iter().zip(&ends).enumerate() {
                let own = masked(lo, hi, word.bits, mask(index));
                let wide = |of: u32| u128::from(of) << word.shift;
                products = products
                    .iter()
                    .flat_map(|&(value, mask)| own.iter().map(move |&(v, m)| (value | wide(v), mask | wide(m))))
                    .collect();
            }
            tests.extend(products.into_iter().map(|(value, mask)| under_mask(value, mask, field.width())));
        }
    }
    if has_prefixes_alone(field) && tests.iter().any(|test| matches!(test, Test::Mask { .. })) {
        let word = |word: usize| match mask(word) {
            (_, 0) => format!("{:#x}-{:#x}", lo[word], hi[word]),
            (value, mask) => format!("{:#x}-{:#x} under {value:#x}/{mask:#x}", lo[word], hi[word]),
        };
        return Some(format!(
            "{} by word [{}]",
            field.name(),
            (0..words.len()).map(word).collect::<Vec<_>>().join(", ")
        ));
    }
    // A number of ICMP stands for itself: the family is told beside it.
    let family = schema.family();
    let shown: Vec<String> = tests.iter().flat_map(|&one| texts(one, family, field)).collect();
    Some(match &shown[..] {
        [one] => format!("{} {one}", field.name()),
        _ => format!("{} {{ {} }}", field.name(), shown.join(", ")),
    })
}

/// Returns the texts of a test: several where the reader takes values one by one.
fn texts(one: Test, family: Option<Family>, field: &Field) -> Vec<String> {
    match one {
        Test::Range { lo, hi } if field.source() == Some(Source::Fragment) => {
            (lo..=hi.min(2)).map(|value| test(Test::Value(value), family, field)).collect()
        }
        Test::Prefix { value, len } if field.source() == Some(Source::Fragment) && len > 0 => (value..=value | 1)
            .filter(|&value| value <= 2)
            .map(|value| test(Test::Value(value), family, field))
            .collect(),
        Test::Value(value) if field.source() == Some(Source::IcmpType) => vec![value.to_string()],
        _ => vec![test(one, family, field)],
    }
}

/// Whether the field takes values and masks, but no ranges.
fn only_masks(field: &Field) -> bool {
    field.kind() == Kind::Mask
}

/// Whether the field is of numbers that take a length behind `/`, so that a mask cannot be written.
fn has_prefixes_alone(field: &Field) -> bool {
    field.kind() == Kind::Prefix && !is_address(field.source())
}

/// Returns the values from `lo` to `hi` that agree with a value under a mask, as values under masks.
fn masked(lo: u32, hi: u32, bits: u32, (value, mask): (u32, u32)) -> Vec<(u32, u32)> {
    let (mut from, mut all) = (u64::from(lo), Vec::new());
    while from <= u64::from(hi) {
        // The largest aligned block from here on that ends before `hi`.
        let free = (0..=from.trailing_zeros().min(32))
            .rev()
            .find(|&free| from + (1 << free) - 1 <= u64::from(hi))
            .unwrap_or(0);
        let (start, own) = (from as u32, !(((1u64 << free) - 1) as u32) & bits);
        if (start ^ value) & own & mask == 0 {
            all.push((start & own | value & mask, own | mask));
        }
        from += 1 << free;
    }
    all
}

/// Returns the test of a value under a mask: a prefix where the mask is one.
fn under_mask(value: u128, mask: u128, width: u32) -> Test {
    let all = u128::MAX >> (128 - width);
    let free = !mask & all;
    match free.checked_add(1).is_none_or(u128::is_power_of_two) {
        true if free == 0 => Test::Value(value),
        true => Test::Prefix { value, len: width - free.count_ones() },
        false => Test::Mask { value, mask },
    }
}

/// Returns the shortest test of an interval.
fn interval(lo: u128, hi: u128, width: u32) -> Test {
    let free = (lo ^ hi).count_ones();
    if lo == hi {
        Test::Value(lo)
    } else if (lo ^ hi).checked_add(1).is_none_or(u128::is_power_of_two) && lo & (lo ^ hi) == 0 {
        Test::Prefix { value: lo, len: width - free }
    } else {
        Test::Range { lo, hi }
    }
}

/// Whether values of the source are written as addresses.
fn is_address(source: Option<Source>) -> bool {
    use Source::{Dst, EthDst, EthSrc, Ipv4Dst, Ipv4Src, Src};
    matches!(source, Some(Src | Dst | Ipv4Src | Ipv4Dst | EthSrc | EthDst))
}

/// Returns a test of a field as rules write it, for packets of a family if it is known.
pub fn test(test: Test, of: Option<Family>, field: &Field) -> String {
    let (source, width) = (field.source(), field.width());
    // Tests of ClassBench name no family, so the family follows from the field's width.
    let family = of.or(if width == 128 { Some(Family::Ipv6) } else { Some(Family::Ipv4) });
    let is_address = is_address(source);
    let show = |value: u128| match source {
        _ if is_address || source == Some(Source::EthType) => value_of(value, source, family),
        _ if field.kind() == Kind::Mask => format!("{value:#04x}"),
        _ => value.to_string(),
    };
    match test {
        Test::Absent => "absent".to_owned(),
        Test::Set(id) => format!("live set {}", id.index()),
        Test::Prefix { len: 0, .. } => "any".to_owned(),
        Test::Prefix { value, len } if is_address || field.kind() == Kind::Prefix => format!("{}/{len}", show(value)),
        // Behind other numbers, `/` takes a mask.
        Test::Prefix { value, len } if field.kind() == Kind::Mask => {
            let mask = (u128::MAX << (width - len)) & (u128::MAX >> (128 - width));
            format!("{}/{}", show(value), show(mask))
        }
        Test::Prefix { value, len } => format!("{}-{}", show(value), show(value | ((1 << (width - len)) - 1))),
        Test::Value(value) if matches!(source, Some(Source::Proto | Source::IpProto)) => {
            protocol_name(value as u8).map_or(value.to_string(), str::to_owned)
        }
        Test::Value(value) if source == Some(Source::IcmpType) => {
            of.and_then(|family| icmp_type_name(family, value as u8)).map_or(value.to_string(), str::to_owned)
        }
        Test::Value(value) if source == Some(Source::Fragment) => value_of(value, source, family),
        Test::Value(value) => show(value),
        Test::Range { lo, hi } => format!("{}-{}", show(lo), show(hi)),
        Test::Mask { value, mask } if source == Some(Source::ExtHeaders) && value == mask => {
            ExtensionHeader::by_bit(value).map_or(format!("{value:#04x}/{mask:#04x}"), |header| header.name.to_owned())
        }
        Test::Mask { value, mask } if is_address => format!("{}/{}", show(value), show(mask)),
        Test::Mask { value, mask } => format!("{value:#04x}/{mask:#04x}"),
    }
}

/// Returns the reason why a packet was not classified.
pub fn why_unknown(outcome: Outcome) -> String {
    let why = match outcome {
        Outcome::Complete | Outcome::NoPorts | Outcome::FragmentLayer3 => "it was classified",
        Outcome::Fragment => "a fragment other than the first, and what the rules test is in another packet",
        Outcome::FirstFragmentShort => "a first fragment that ends before the fields the rules test",
        Outcome::Truncated => "the capture ends before the fields the rules test",
        Outcome::Malformed => "its lengths, versions or routing headers contradict each other",
        Outcome::ExtensionCap => "more IPv6 extension headers than are followed",
        Outcome::UnknownExtension => "an IPv6 extension header that is not read, so what follows it is unknown",
        Outcome::VlanCap => "more VLAN tags than are followed",
        Outcome::MplsCap => "more MPLS labels than are followed",
        Outcome::NotIp => "neither IPv4 nor IPv6",
        Outcome::OtherFamily => "the rules are for packets of the other family alone",
        Outcome::LacksField => "it lacks a field that every packet should have, and rules test it",
        Outcome::UnknownLink => "a link type that is not known",
    };
    format!("{why} ({outcome})")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values under masks are shown as names of extension headers, addresses or hexadecimal numbers, by the field's
    /// source.
    #[test]
    fn masks_are_shown_as_their_field_says() {
        let of = |source: Source, family| Field::new(source.name(), source.width(family), source.kind(), Some(source));
        let own = Field::new("own", 16, Kind::Mask, None);
        let extensions = of(Source::ExtHeaders, Family::Ipv6);
        for (field, value, mask, expected) in [
            (&extensions, 0x04, 0x04, "fragment"),
            (&extensions, 0x02, 0x06, "0x02/0x06"),
            (&extensions, 0x06, 0x06, "0x06/0x06"),
            (&of(Source::TcpFlags, Family::Ipv4), 0x02, 0x02, "0x02/0x02"),
            (&of(Source::TcpFlags, Family::Ipv4), 0x02, 0x12, "0x02/0x12"),
            (&own, 0x10, 0x10, "0x10/0x10"),
            (&of(Source::Src, Family::Ipv4), 0x0a00_0007, 0xff00_00ff, "10.0.0.7/255.0.0.255"),
            (&of(Source::Src, Family::Ipv4), 1, 1, "0.0.0.1/0.0.0.1"),
            (&of(Source::EthSrc, Family::Ipv4), 1, 1, "00:00:00:00:00:01/00:00:00:00:00:01"),
        ] {
            assert_eq!(test(Test::Mask { value, mask }, None, field), expected, "{}", field.name());
        }
    }
    /// The text of a region, read as a rule, holds for the keys of the region and for no other.
    #[test]
    fn regions_are_shown_as_rules() {
        use firstmatch_core::rule::{ExpansionLimits, lower};
        use firstmatch_formats::{Fields, Options, parse};
        let options = Options { fields: Fields::All, ..Options::default() };
        let schemas = parse("permit\n", &options).expect("a rule").rules.schemas().to_vec();
        let rng = &mut firstmatch_testkit::rng::Rng::new(64);
        let mut inside = 0;
        for round in 0..4_000 {
            let schema = &schemas[round % 2];
            let words = schema.words();
            let (mut lo, mut hi): (Vec<u32>, Vec<u32>) = words.iter().map(|word| (0, word.max)).unzip();
            let (mut value, mut mask) = (vec![0; words.len()], vec![0; words.len()]);
            for _ in 0..1 + rng.below(3) {
                let at = rng.below(words.len());
                let word = words[at];
                let field = schema.words_of(word.field);
                // Of fields that have gaps only a few values, so that the list of masks stays short.
                let is_fragment = schema.fields()[word.field].source() == Some(Source::Fragment);
                let most = if field.len() > 1 && at + 1 < field.end { word.max.min(5) } else { word.max };
                let most = if is_fragment { 2 } else { most };
                let ends = [(); 2].map(|()| (rng.next() % (u64::from(most) + 1)) as u32);
                (lo[at], hi[at]) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
                (value[at], mask[at]) = (0, 0);
                if rng.percent(20) && word.absent.is_none() {
                    mask[at] = rng.next() as u32 & word.bits & 0x7;
                    value[at] = lo[at] & mask[at];
                }
            }
            let ternary = mask.iter().any(|&mask| mask != 0).then_some((&value[..], &mask[..]));
            let region = Region { lo: &lo, hi: &hi, ternary };
            let shown = super::region(schema, &region);
            let text = format!("permit {}\n", if shown == "any" { "" } else { &shown });
            let file = parse(&text, &options).unwrap_or_else(|error| panic!("{text}{error}"));
            let lowered = lower(&file.rules, schema, &ExpansionLimits::default()).expect("few regions");
            for _ in 0..60 {
                let mut key: Vec<u32> =
                    (0..words.len()).map(|at| *rng.pick(&[lo[at], hi[at], value[at].max(lo[at])])).collect();
                if rng.percent(60) {
                    let at = rng.below(words.len());
                    let any = rng.next() as u32;
                    key[at] = *rng.pick(&[
                        lo[at].saturating_sub(1),
                        hi[at].saturating_add(1).min(words[at].max),
                        any & words[at].bits,
                    ]);
                }
                // Words behind an absent one are 0 in every row.
                let is_row = schema.fields().iter().enumerate().all(|(field, _)| {
                    let of = schema.words_of(field);
                    words[of.start].absent != Some(key[of.start]) || key[of].iter().skip(1).all(|&word| word == 0)
                });
                let fragment = schema.index_of_source(Source::Fragment).map(|field| key[schema.words_of(field).start]);
                if is_row && fragment != Some(3) {
                    let found = lowered.regions().iter().any(|of| of.contains(&key));
                    assert_eq!(found, region.contains(&key), "{text}{region:?} {key:?}");
                    inside += usize::from(found);
                }
            }
        }
        assert!(inside > 20_000, "{inside}");
    }
}
