//! Packets that hide fields: packets whose headers do not show a value that they may have.
//!
//! A packet that hides a field that is needed is *unknown*: no rule is tried on it, and it gets the policy's verdict.
//! Another rule file may need other fields, so that the packet is classified there. The sorts of packets below are those
//! of the parser of `firstmatch-net`, for the schemas of IP packets.

use super::piece::Piece;
use crate::policy::Fragments;
use crate::schema::{Family, Schema, Source};

/// Fields behind the IP header.
pub(super) const UPPER: [Source; 5] =
    [Source::SrcPort, Source::DstPort, Source::TcpFlags, Source::IcmpType, Source::IcmpCode];
const PORTS: [Source; 2] = [Source::SrcPort, Source::DstPort];
const ICMP: [Source; 2] = [Source::IcmpType, Source::IcmpCode];
/// Value of [`Source::Fragment`] in a fragment after the first.
pub(super) const LATER: u32 = 2;
/// Bits of [`Source::ExtHeaders`] for a routing and a fragment header.
pub(super) const ROUTING_BIT: u32 = 0x02;
pub(super) const FRAGMENT_BIT: u32 = 0x04;

/// Sort of packets that hide the same fields.
#[derive(Clone, Debug)]
pub(super) struct Hiding {
    /// Name for people, in the plural.
    pub(super) name: &'static str,
    /// Fields of the schema that the packets hide.
    pub(super) fields: Vec<usize>,
    /// Words whose values are confined in these packets.
    pub(super) confined: Vec<(usize, Piece)>,
    /// Whether they are later fragments, which [`Fragments::Layer3`] classifies.
    pub(super) is_later: bool,
    /// Whether a set that classifies them sees the fields, as with [`Fragments::Layer3`].
    pub(super) is_seen: bool,
    /// Whether they have one more routing header than [`Source::ExtHeaders`] shows.
    pub(super) has_more_routing: bool,
}

impl Hiding {
    /// Returns all packets of a family, none of which hides a field.
    pub(super) fn none(schema: &Schema) -> Self {
        let name = if schema.family() == Some(Family::Ipv6) { "IPv6 packets" } else { "IPv4 packets" };
        let (fields, confined) = (Vec::new(), Vec::new());
        Self { name, fields, confined, is_later: false, is_seen: true, has_more_routing: false }
    }
}

/// Whether the sorts of packets that hide fields are known for a schema.
pub(super) fn is_known(schema: &Schema) -> bool {
    schema.family().is_some() && schema.index_of_source(Source::Src).is_some()
}

/// Returns the sorts of packets that hide fields of a schema.
///
/// Later fragments are a sort of their own in IPv4 unless they are classified. In IPv6, those before another extension
/// header hide the protocol even then.
pub(super) fn hidings(schema: &Schema, fragments: Fragments) -> Vec<Hiding> {
    let Some(family) = schema.family().filter(|_| is_known(schema)) else { return Vec::new() };
    let mut made = Maker { schema, made: Vec::new() };
    let is_whole = [(Source::Fragment, 0, LATER - 1)];
    let (icmp, mut later) = match family {
        Family::Ipv4 => (1, UPPER.to_vec()),
        Family::Ipv6 => (58, [&UPPER[..], &[Source::Proto, Source::ExtHeaders, Source::RoutingType]].concat()),
    };
    let fragment = [(Source::Fragment, LATER, LATER)];
    if fragments == Fragments::Unknown {
        made.add("later fragments", &later, &fragment, &[], true);
    } else if family == Family::Ipv6 {
        made.add("later fragments whose protocol is hidden", &later, &fragment, &[], false);
    }
    let of = |proto: u32| [is_whole[0], (Source::Proto, proto, proto)];
    made.add(
        "TCP packets cut short before their ports",
        &[&PORTS[..], &[Source::TcpFlags]].concat(),
        &of(6),
        &ICMP,
        false,
    );
    made.add("TCP packets cut short before their flags", &[Source::TcpFlags], &of(6), &ICMP, false);
    for &proto in Source::SrcPort.protocols(Some(family)).unwrap_or_default().iter().filter(|&&proto| proto != 6) {
        let absent = [&ICMP[..], &[Source::TcpFlags]].concat();
        made.add("packets cut short before their ports", &PORTS, &of(proto.into()), &absent, false);
    }
    let absent = [&PORTS[..], &[Source::TcpFlags]].concat();
    made.add("ICMP packets cut short before their type", &ICMP, &of(icmp), &absent, false);
    made.add("packets that state no length", &[Source::Length], &[], &[], false);
    if family == Family::Ipv6 {
        made.add_routing();
        later.push(Source::Fragment);
        made.add("packets whose extension headers are not all read", &later, &[], &[], false);
    }
    made.made
}

struct Maker<'s> {
    schema: &'s Schema,
    made: Vec<Hiding>,
}

impl Maker<'_> {
    /// Returns the first word of the field of a source, if the schema has the field.
    fn top(&self, source: Source) -> Option<usize> {
        Some(self.schema.words_of(self.schema.index_of_source(source)?).start)
    }

    /// Adds packets that hide some fields, with confined values of other fields and fields that are absent.
    fn add(
        &mut self,
        name: &'static str,
        hidden: &[Source],
        confined: &[(Source, u32, u32)],
        absent: &[Source],
        is_later: bool,
    ) {
        let values = confined.iter().filter_map(|&(source, lo, hi)| Some((self.top(source)?, Piece::interval(lo, hi))));
        let lacking = absent.iter().filter_map(|&source| self.absent(source));
        let confined = values.chain(lacking).collect();
        let fields = hidden.iter().filter_map(|&source| self.schema.index_of_source(source)).collect();
        self.made.push(Hiding { name, fields, confined, is_later, is_seen: false, has_more_routing: false });
    }

    /// Adds packets with routing headers of several types.
    fn add_routing(&mut self) {
        self.add("packets with routing headers of several types", &[Source::RoutingType], &[], &[], false);
        let bits = self.top(Source::ExtHeaders);
        if let Some(hiding) = self.made.last_mut() {
            hiding.confined.extend(bits.zip(Piece::new(0, 0xFF, ROUTING_BIT, ROUTING_BIT)));
            hiding.has_more_routing = true;
        }
    }

    fn absent(&self, source: Source) -> Option<(usize, Piece)> {
        absent(self.schema, source)
    }
}

/// Returns the absent value of a field's first word, if the schema has the field and it is optional.
pub(super) fn absent(schema: &Schema, source: Source) -> Option<(usize, Piece)> {
    let top = schema.words_of(schema.index_of_source(source)?).start;
    let absent = schema.words()[top].absent?;
    Some((top, Piece::interval(absent, absent)))
}
