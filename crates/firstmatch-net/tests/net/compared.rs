//! Differences of rule files, compared with what parsed packets get from both: unknown packets of every sort included.
//!
//! A pair of files is called equal only if no frame gets different verdicts. Each difference that is found has a packet,
//! from which a frame is made, and that frame gets the verdicts that were stated.

use firstmatch_core::analyze::{Analysis, Config as Analyze, Kind, diff};
use firstmatch_core::policy::{Policy, Verdict};
use firstmatch_core::rule::{FieldValues, Rule, RuleSet, first_match};
use firstmatch_core::schema::{ExtensionHeader, Family, Schema, Source};
use firstmatch_formats::{Fields, Options, ParseError, RuleFile};
use firstmatch_net::wire::{self, Config, Extractor, Headers, LinkType};
use firstmatch_testkit::rng::Rng;

fn try_parse(text: &str) -> Result<RuleFile, ParseError> {
    firstmatch_formats::parse(text, &Options { fields: Fields::All, ..Options::default() })
}

fn parse(text: &str) -> RuleFile {
    try_parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Rule file with what the parser needs of packets.
struct Side {
    file: RuleFile,
    extractors: Vec<Extractor>,
}

impl Side {
    fn new(file: RuleFile) -> Self {
        let extractor = |schema| Extractor::for_rules(schema, &file.rules).expect("sources");
        let extractors = file.rules.schemas().iter().map(extractor).collect();
        Self { file, extractors }
    }

    /// Returns the first match, if there is one; `None` for an unknown packet.
    fn first(&self, headers: &Headers) -> Option<Option<&Rule>> {
        let values = self.extractors.iter().find_map(|extractor| extractor.values(headers))?;
        Some(first_match(&self.file.rules, &values))
    }

    fn verdict_of(&self, headers: &Headers) -> Verdict {
        let Policy { default, unknown, .. } = self.file.policy;
        self.first(headers).map_or(unknown, |first| first.map_or(default, |rule| rule.action.into()))
    }

    fn headers(&self, frame: &[u8]) -> Headers {
        wire::parse(&Config::from(&self.file.policy), LinkType::Ethernet, frame)
    }
}

/// Packet that is to be written as a frame.
struct Packet<'a> {
    schema: &'a Schema,
    values: &'a FieldValues,
    /// Sort of packets that hide fields, as the analysis names it; empty for others.
    sort: &'a str,
}

impl Packet<'_> {
    fn get(&self, source: Source) -> Option<u64> {
        Some(self.values.values[self.schema.index_of_source(source)?]? as u64)
    }

    fn value(&self, source: Source) -> u64 {
        self.get(source).unwrap_or(0)
    }

    fn is_later(&self) -> bool {
        self.value(Source::Fragment) == 2 || self.sort.starts_with("later fragments")
    }

    /// Returns the transport header, cut as the sort says.
    fn upper(&self, proto: u64) -> Vec<u8> {
        if self.is_later() {
            return vec![0; 16];
        }
        let [sport, dport] = [Source::SrcPort, Source::DstPort].map(|port| (self.value(port) as u16).to_be_bytes());
        let (mut header, icmp) = ([sport, dport].concat(), if self.is_ipv4() { 1 } else { 58 });
        header.resize(20, 0);
        header[13] = self.value(Source::TcpFlags) as u8;
        if proto == icmp {
            (header[0], header[1]) = (self.value(Source::IcmpType) as u8, self.value(Source::IcmpCode) as u8);
        }
        if self.sort.contains("their flags") {
            header.truncate(8);
        } else if self.sort.contains("their") {
            header.truncate(1);
        }
        header
    }

    fn is_ipv4(&self) -> bool {
        self.values.family == Some(Family::Ipv4)
    }

    /// Returns the length to be stated: that of the packet, `header + payload`, unless it has one of its own.
    fn length(&self, header: usize, payload: usize) -> usize {
        // A length of 0 behind the header of IPv6 states none.
        let least = if header == 40 { 41 } else { header };
        let range = least..=65_535 + if header == 40 { 40 } else { 0 };
        let own = self.get(Source::Length).filter(|&own| range.contains(&(own as usize)));
        if self.sort.contains("no length") { 0 } else { own.map_or(header + payload, |own| own as usize) }
    }

    fn frame(&self) -> Vec<u8> {
        let mut frame = vec![2; 12];
        if let Some(vid) = self.get(Source::VlanVid) {
            frame.extend([0x81, 0]);
            frame.extend((vid as u16).to_be_bytes());
        }
        let family = self.values.family.expect("packets of IP");
        frame.extend(if self.is_ipv4() { [0x08, 0x00] } else { [0x86, 0xDD] });
        let addresses = [Source::Src, Source::Dst].map(|source| {
            let at = self.schema.index_of_source(source).expect("addresses");
            self.values.values[at].unwrap_or(0).to_be_bytes()[16 - family.address_bits() as usize / 8..].to_vec()
        });
        let proto = self.get(Source::Proto).unwrap_or(47);
        let (upper, ttl) = (self.upper(proto), self.value(Source::Ttl) as u8);
        if self.is_ipv4() {
            let length = self.length(20, upper.len()) as u16;
            let fragment: u16 = if self.is_later() { 1 } else { (self.value(Source::Fragment) as u16) << 13 };
            let dscp = (self.value(Source::Dscp) as u8) << 2;
            frame.extend(
                [0x45, dscp].into_iter().chain(length.to_be_bytes()).chain([0, 0]).chain(fragment.to_be_bytes()),
            );
            frame.extend([ttl, proto as u8, 0, 0]);
            frame.extend(addresses.concat());
            frame.extend(upper);
            return frame;
        }
        let (first, chain) = self.chain(proto as u8);
        let payload = chain.len() + upper.len();
        let length = self.length(40, payload);
        let class = (self.value(Source::Dscp) as u16) << 6 | 0x6000;
        frame.extend(class.to_be_bytes().into_iter().chain([0, 0]));
        frame.extend(((length.max(40) - 40) as u16).to_be_bytes().into_iter().chain([first, ttl]));
        frame.extend(addresses.concat());
        frame.extend(chain);
        frame.extend(upper);
        frame
    }

    /// Returns the first next header and the extension headers before `proto`, the fragment header last.
    fn chain(&self, proto: u8) -> (u8, Vec<u8>) {
        if self.sort.contains("not all read") {
            return (135, vec![0; 8]);
        }
        let mut bits = self.value(Source::ExtHeaders) as u8;
        let routing = self.get(Source::RoutingType);
        if self.value(Source::Fragment) > 0 || self.is_later() {
            bits |= 0x04;
        }
        let mut headers: Vec<(u8, [u8; 8])> = Vec::new();
        for header in ExtensionHeader::ALL.iter().filter(|header| bits & header.bit != 0 && header.bit & 0x06 == 0) {
            headers.push((header.next_header, [0; 8]));
        }
        let mixed: &[u8] = if self.sort.contains("several types") { &[0, 1] } else { &[] };
        let one = routing.map(|kind| kind as u8).or((bits & 0x02 != 0).then_some(0));
        let kinds = if mixed.is_empty() { one.as_slice() } else { mixed };
        headers.extend(kinds.iter().map(|&kind| (43, [0, 0, kind, 0, 0, 0, 0, 0])));
        if bits & 0x04 != 0 {
            let offset = if self.is_later() { 8 } else { self.value(Source::Fragment) as u8 & 1 };
            headers.push((44, [0, 0, 0, offset, 0, 0, 0, 0]));
        }
        let last = if self.sort.contains("whose protocol is hidden") { 60 } else { proto };
        let next: Vec<u8> = headers.iter().map(|&(kind, _)| kind).chain([last]).collect();
        let bytes = headers.iter().zip(&next[1..]).flat_map(|((_, body), &next)| [&[next], &body[1..]].concat());
        (next[0], bytes.collect())
    }
}

/// Returns a random value of a condition of the native format; both files draw from the same few.
fn condition(rng: &mut Rng) -> String {
    let ports = ["22", "0-1023", "1024-65535", "absent", "not absent", "not 22", "53"];
    let one = |rng: &mut Rng, all: &[&str]| (*rng.pick(all)).to_owned();
    match rng.below(16) {
        0 => format!(
            "src {}",
            one(rng, &["10.0.0.0/8", "2001:db8::/32", "not 10.0.0.0/9", "{ 10.1.0.0/16, 2001:db8::1 }"])
        ),
        1 => format!("dst {}", one(rng, &["192.0.2.0/24", "192.0.2.10", "2001:db8::/48"])),
        2 | 3 => format!("proto {}", one(rng, &["tcp", "udp", "icmp", "47", "not tcp", "58", "{ 6, 17 }"])),
        4 | 5 => format!("dport {}", one(rng, &ports)),
        6 => format!("sport {}", one(rng, &ports)),
        7 => format!("icmp_type {}", one(rng, &["0", "8", "128", "absent"])),
        8 => format!("icmp_code {}", one(rng, &["0", "not 0", "absent"])),
        9 => format!("tcp_flags {}", one(rng, &["0x02/0x12", "0x10/0x10", "absent", "not absent"])),
        10 => format!("ext_headers {}", one(rng, &["routing", "fragment", "0", "{ ah, fragment }", "not routing"])),
        11 => format!("routing_type {}", one(rng, &["0", "not 0", "absent"])),
        12 => format!("vlan_vid {}", one(rng, &["7", "absent", "0-100"])),
        13 => format!("fragment {}", one(rng, &["none", "first", "later", "not none", "{ none, first, later }"])),
        14 => format!("length {}", one(rng, &["0-23", "< 34", "> 60", "> 1500", "41-47", "40-65575", "20-21"])),
        _ => one(rng, &["dscp 46", "ttl 1", "ttl > 3", "dscp not 0"]),
    }
}

fn rule(rng: &mut Rng) -> String {
    let mut rule = (*rng.pick(&["permit", "deny", "permit", "mark 1"])).to_owned();
    if rng.percent(30) {
        rule.push_str(rng.pick::<&str>(&[" family ipv4", " family ipv6"]));
    }
    let mut seen: Vec<String> = Vec::new();
    for _ in 0..rng.below(3) {
        let condition = condition(rng);
        let field = condition.split(' ').next().unwrap_or_default().to_owned();
        if !seen.contains(&field) {
            rule.push(' ');
            rule.push_str(&condition);
            seen.push(field);
        }
    }
    rule
}

fn head(rng: &mut Rng) -> String {
    let mut head = String::new();
    for (line, percent) in [("fragments layer3\n", 30), ("unknown permit\n", 30), ("default permit\n", 30)] {
        head.push_str(if rng.percent(percent) { line } else { "" });
    }
    head
}

/// Returns two files that differ in a rule, in the order of rules, in the policy, or in all.
fn files(rng: &mut Rng) -> [String; 2] {
    let mut rules: Vec<String> = (0..1 + rng.below(4)).map(|_| rule(rng)).collect();
    let of = |head: &str, rules: &[String]| format!("{head}{}\n", rules.join("\n"));
    let before = head(rng);
    let one = of(&before, &rules);
    let mut after = before.clone();
    match rng.below(6) {
        0 => after = head(rng),
        1 => rules.push(rule(rng)),
        2 => rules.insert(rng.below(rules.len() + 1), rule(rng)),
        3 if rules.len() > 1 => drop(rules.remove(rng.below(rules.len()))),
        4 => rules.reverse(),
        _ => rules = (0..1 + rng.below(3)).map(|_| rule(rng)).collect(),
    }
    [one, of(&after, &rules)]
}

/// Returns frames of every sort, many of them with the values that rules test.
fn frames(rng: &mut Rng, schemas: &[Schema], count: usize) -> Vec<Vec<u8>> {
    let sorts = ["", "", "", "later fragments", "their ports", "their flags", "no length", "not all read"];
    let more = ["several types", "later fragments whose protocol is hidden"];
    let mut frames = Vec::new();
    for _ in 0..count {
        let schema = rng.pick(schemas);
        let is_ipv4 = schema.family() == Some(Family::Ipv4);
        let value = |source: Source, rng: &mut Rng| -> Option<u128> {
            let few: &[u128] = match (source, is_ipv4) {
                (Source::Src, true) => &[0x0A00_0001, 0x0A80_0001, 0x0A01_0203, 0x0B00_0001],
                (Source::Dst, true) => &[0xC000_0207, 0xC000_020A, 0x0101_0101],
                (Source::Src | Source::Dst, false) => &[0x2001_0DB8 << 96 | 1, 0x2001_0DB8_0001 << 80, 5],
                (Source::Proto, _) => &[6, 17, 1, 58, 47, 132],
                (Source::SrcPort | Source::DstPort, _) => &[22, 53, 80, 2000],
                (Source::IcmpType, _) => &[0, 8, 128],
                (Source::IcmpCode, _) => &[0, 1],
                (Source::TcpFlags, _) => &[2, 0x10, 0x12],
                (Source::Fragment, _) => &[0, 0, 1, 2],
                (Source::Dscp, _) => &[0, 46],
                (Source::Ttl, _) => &[1, 64],
                (Source::VlanVid, _) => &[7, 200],
                (Source::Length, _) => &[21, 23, 30, 34, 43, 45, 50, 58, 1600],
                (Source::ExtHeaders, false) => &[0, 0, 2, 4, 0x14, 0x1F],
                (Source::RoutingType, false) => &[0, 3],
                _ => return None,
            };
            let is_there = match source {
                Source::VlanVid | Source::RoutingType => rng.percent(20),
                Source::Length => rng.percent(40),
                _ => true,
            };
            is_there.then(|| *rng.pick(few))
        };
        let sources = schema.fields().iter().map(|field| field.source().expect("a source"));
        let values = sources.map(|source| value(source, rng)).collect();
        let values = FieldValues { family: schema.family(), values };
        let sort = if rng.percent(10) { *rng.pick(&more) } else { *rng.pick(&sorts) };
        frames.push(Packet { schema, values: &values, sort }.frame());
    }
    frames
}

fn schemas() -> RuleSet {
    parse("permit\n").rules
}

#[test]
fn files_are_called_equal_if_no_packet_differs() {
    let pairs: usize = std::env::var("COMPARED_PAIRS").map_or(10_000, |pairs| pairs.parse().expect("a number"));
    let mut rng = Rng::new(630);
    let set = schemas();
    let frames = frames(&mut rng, set.schemas(), 400);
    let of = |fragments| {
        let config = Config { fragments, ..Config::default() };
        frames.iter().map(|frame| wire::parse(&config, LinkType::Ethernet, frame)).collect::<Vec<Headers>>()
    };
    let parsed = [of(firstmatch_core::policy::Fragments::Unknown), of(firstmatch_core::policy::Fragments::Layer3)];
    let (mut equal, mut differ, mut one_sided) = (0, 0, 0);
    for _ in 0..pairs {
        let mut texts = files(&mut rng);
        if rng.percent(15) {
            // A file of one family, if its rules can be.
            let text = &mut texts[rng.below(2)];
            let alone = format!("family {}\n{text}", rng.pick(&["ipv4", "ipv6"]));
            *text = if try_parse(&alone).is_ok() { alone } else { std::mem::take(text) };
        }
        let sides = texts.each_ref().map(|text| Side::new(parse(text)));
        let [one, other] = sides.each_ref().map(|side| (&side.file.rules, &side.file.policy));
        let found = diff(one, other, &Analyze::default()).expect("few regions");
        assert_eq!(found.undecided, 0, "{texts:?}");
        let seen = (0..frames.len()).find(|&at| {
            let verdict = |side: &Side| side.verdict_of(&parsed[side.file.policy.fragments as usize][at]);
            verdict(&sides[0]) != verdict(&sides[1])
        });
        if let Some(at) = seen {
            assert!(!found.is_none(), "{}\n{}\n{:02x?}", texts[0], texts[1], frames[at]);
        }
        let check = |values: &FieldValues, sort: &str, verdicts: [Verdict; 2]| {
            let schema = set.schema(values.family).expect("of the file");
            let frame = Packet { schema, values, sort }.frame();
            let own = sides.each_ref().map(|side| side.verdict_of(&side.headers(&frame)));
            let [one, other] = &texts;
            assert_eq!(own, verdicts, "{one}\n{other}\n{sort}: {values:?} over {schema:?}\n{frame:02x?}");
        };
        for pair in &found.pairs {
            check(&pair.packet, "", pair.verdicts);
        }
        for of in &found.one_sided {
            check(&of.packet, of.packets, of.verdicts);
        }
        equal += usize::from(found.is_none());
        differ += usize::from(!found.pairs.is_empty());
        one_sided += usize::from(!found.one_sided.is_empty());
    }
    assert!(equal * 20 > pairs && differ * 4 > pairs && one_sided * 10 > pairs, "{equal} {differ} {one_sided}");
}

/// All rules that `check` finds can be removed without changing the verdict on a packet, unless they must stay. Each
/// finding's packet is decided by a rule that the finding names.
#[test]
fn rules_that_are_found_can_be_removed() {
    let mut rng = Rng::new(631);
    let (mut removed, mut stay, mut decided) = (0, 0, 0);
    for _ in 0..3_000 {
        let text = format!("{}{}", head(&mut rng), (0..4).map(|_| rule(&mut rng) + "\n").collect::<String>());
        let side = Side::new(parse(&text));
        let report = Analysis::new(&side.file.rules, &side.file.policy, &Analyze::default()).expect("few").check();
        for finding in &report.findings {
            let Some(values) = &finding.packet else { continue };
            let schema = side.file.rules.schema(values.family).expect("of the file");
            let frame = Packet { schema, values, sort: "" }.frame();
            let headers = side.headers(&frame);
            let first = side.first(&headers).flatten().map(|rule| rule.id);
            let allowed = match finding.kind {
                Kind::Shadowed | Kind::Duplicate => &finding.by[..],
                _ => &[finding.rule],
            };
            assert!(first.is_some_and(|first| allowed.contains(&first)), "{text}{finding:?}\n{headers:?}");
            decided += 1;
        }
        let line = |id| side.file.rules.get(id).and_then(|rule| rule.line).map_or(0, u32::from);
        let gone: Vec<u32> = report.findings.iter().filter(|of| !of.must_stay).map(|of| line(of.rule)).collect();
        let kept =
            text.lines().zip(1..).filter(|(_, line)| !gone.contains(line)).map(|(text, _)| text.to_owned() + "\n");
        let rest = Side::new(parse(&kept.collect::<String>()));
        let [one, other] = [&side, &rest].map(|side| (&side.file.rules, &side.file.policy));
        let found = diff(one, other, &Analyze::default()).expect("few regions");
        assert!(found.is_none(), "{text}{gone:?}: {found:?}");
        removed += gone.len();
        stay += report.findings.iter().filter(|of| of.must_stay).count();
    }
    assert!(removed > 1_000 && stay > 100 && decided > 1_000, "{removed} {stay} {decided}");
}
