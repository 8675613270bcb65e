//! Fields that conditions may test: fields of IP networks, or of the file's own schema.

use firstmatch_core::rule::RuleSet;
use firstmatch_core::schema::{Family, Field, Kind, Schema, Source};

/// Fields that conditions may test, with their schemas.
pub(super) struct Fields<'t> {
    pub(super) infos: Vec<FieldInfo<'t>>,
    /// Schema of the file's own; `None` for IP networks.
    pub(super) own: Option<Schema>,
    /// Whether there may be fields beyond those of IP networks.
    ///
    /// If so, MAC addresses, ether types and numbers above 32 bits are values.
    pub(super) own_values: bool,
    /// Schemas for which the regions of a rule are counted when it is checked.
    ///
    /// Empty if the file's own schema has a fault.
    pub(super) views: Vec<Schema>,
}

/// Number of fields of IP networks that every schema has.
pub(crate) const ALWAYS: usize = 5;
/// Fields of IP networks: the 5-tuple, then those that a schema has only if a rule uses them.
pub(crate) const INET: [Source; 15] = [
    Source::Src,
    Source::Dst,
    Source::SrcPort,
    Source::DstPort,
    Source::Proto,
    Source::IcmpType,
    Source::IcmpCode,
    Source::TcpFlags,
    Source::ExtHeaders,
    Source::RoutingType,
    Source::VlanVid,
    Source::Fragment,
    Source::Dscp,
    Source::Ttl,
    Source::Length,
];

#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldInfo<'t> {
    pub(super) name: &'t str,
    pub(super) source: Option<Source>,
    pub(super) kind: Kind,
    /// Width in bits; for an address of either family the larger one.
    pub(super) width: u32,
    /// Whether packets may lack it.
    pub(super) optional: bool,
    pub(crate) takes: Takes,
}

/// Kind of values that a field takes; all but addresses may be numbers, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// Addresses, of this family if one is given.
    Address(Option<Family>),
    /// Numbers and, alternatively, addresses of this family, because no header defines the field.
    NumberOrAddress(Family),
    /// MAC addresses, of 48 bits.
    Mac,
    Protocol,
    EtherType,
    /// ICMP types; names only if the family is known, because a name has a number in each.
    IcmpType {
        names: bool,
    },
    /// ICMP codes; names as for types.
    IcmpCode {
        names: bool,
    },
    /// Ports: numbers, and names of services.
    Port,
    /// Numbers, and names of TCP flags.
    TcpFlags,
    /// `first`, `later` or `none`, and their numbers.
    Fragment,
    /// Numbers, and names of extension headers of IPv6, each of which tests its bit.
    ExtHeaders,
    Number,
    /// Everything: the field has a fault, and no further fault about it is noted.
    Anything,
}

impl<'t> Fields<'t> {
    /// Builds the fields of IP networks.
    pub(super) fn inet() -> Self {
        let infos = INET.map(|source| {
            let mut info = FieldInfo::of_source(source, Family::Ipv6);
            match &mut info.takes {
                Takes::Address(family) => *family = None,
                Takes::IcmpType { names } | Takes::IcmpCode { names } => *names = true,
                _ => {}
            }
            info
        });
        let views = [Family::Ipv4, Family::Ipv6].map(|family| Schema::five_tuple(family, &INET[ALWAYS..]));
        Self { infos: infos.into(), own: None, own_values: false, views: views.into() }
    }

    /// Builds the fields of the file's own schema.
    pub(super) fn of(infos: Vec<FieldInfo<'t>>, schema: Schema) -> Self {
        Self { infos, own: Some(schema.clone()), own_values: true, views: vec![schema] }
    }

    /// Builds the fields of the file's own schema, which has a fault.
    pub(super) fn faulty(infos: Vec<FieldInfo<'t>>) -> Self {
        Self { infos, own: None, own_values: true, views: Vec::new() }
    }

    /// Builds the fields of an existing set.
    pub(super) fn of_set(rules: &'t RuleSet) -> Self {
        let schemas = rules.schemas();
        let family = if let [one] = schemas { one.family() } else { None };
        let is_usual = |field: &Field, family| INET.iter().any(|&of| *field == Field::from_source(of, family));
        let own_values = schemas
            .iter()
            .any(|schema| schema.fields().iter().any(|f| !schema.family().is_some_and(|of| is_usual(f, of))));
        let info = |index: usize| {
            // The last schema is the one with the wider addresses.
            let field = &schemas[schemas.len() - 1].fields()[index];
            let mut info = FieldInfo::of(field, family);
            match &mut info.takes {
                Takes::Address(family) if schemas.len() > 1 => *family = None,
                Takes::IcmpType { names } | Takes::IcmpCode { names } if schemas.len() > 1 => *names = true,
                _ => {}
            }
            info
        };
        let infos = (0..schemas[0].fields().len()).map(info).collect();
        Self { infos, own: None, own_values, views: schemas.to_vec() }
    }

    /// Confines fields of IP networks to one family, if the file is for one alone.
    pub(super) fn confine(&mut self, only: Option<Family>) {
        self.views.retain(|schema| only.is_none() || schema.family() == only);
        for info in &mut self.infos {
            if let Takes::Address(family) = &mut info.takes {
                *family = only;
            }
        }
    }

    /// Whether packets have families, which conditions may ask for.
    pub(super) fn is_of_families(&self) -> bool {
        self.views.first().is_some_and(|schema| schema.family().is_some())
    }

    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.infos.iter().position(|f| f.name == name)
    }

    /// Returns the field that a header field fills.
    pub(super) fn of_source(&self, source: Source) -> Option<usize> {
        self.infos.iter().position(|f| f.source == Some(source))
    }

    /// Returns the field that a protocol's name alone stands for.
    pub(super) fn protocol(&self) -> Option<usize> {
        self.infos.iter().position(|f| f.takes == Takes::Protocol)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &'t str> + Clone {
        self.infos.iter().map(|f| f.name)
    }

    /// Returns the schemas of the set, and the fields after the 5-tuple as indices into `infos`.
    ///
    /// For IP networks these are the fields of `used`. For the file's own schema the list is empty.
    pub(super) fn schemas(&self, only: Option<Family>, used: u64) -> (Vec<Schema>, Vec<usize>) {
        if let Some(own) = &self.own {
            return (vec![own.clone()], Vec::new());
        }
        let extra: Vec<usize> = (ALWAYS..INET.len()).filter(|&f| used & 1 << f != 0).collect();
        let sources: Vec<_> = extra.iter().map(|&f| INET[f]).collect();
        let families = [Family::Ipv4, Family::Ipv6].into_iter().filter(|&f| only.is_none_or(|only| only == f));
        (families.map(|family| Schema::five_tuple(family, &sources)).collect(), extra)
    }
}

impl<'t> FieldInfo<'t> {
    fn of_source(source: Source, family: Family) -> FieldInfo<'static> {
        let (name, width) = (source.name(), source.width(family));
        FieldInfo {
            name,
            source: Some(source),
            kind: source.kind(),
            width,
            optional: source.is_optional(),
            takes: takes(Some(source), width),
        }
    }

    /// Builds the description of a field in a schema of no family, which every packet has.
    pub(super) fn new(name: &'t str, width: u32, kind: Kind, source: Option<Source>) -> Self {
        Self { name, source, kind, width, optional: false, takes: takes(source, width) }
    }

    /// Builds the description of a field of any schema.
    pub(crate) fn of(field: &'t Field, family: Option<Family>) -> Self {
        let mut info = Self::new(field.name(), field.width(), field.kind(), field.source());
        info.optional = field.is_optional();
        match (&mut info.takes, family) {
            (Takes::Address(of), Some(_)) => *of = family,
            (Takes::IcmpType { names } | Takes::IcmpCode { names }, Some(_)) => *names = true,
            _ => {}
        }
        info
    }

    pub(super) fn max(&self) -> u128 {
        u128::MAX >> (128 - self.width)
    }

    /// Describes the numbers that it takes, for messages.
    pub(super) fn wants_number(&self) -> String {
        match self.width {
            ..=32 => format!("a number up to {}", self.max()),
            width => format!("a number of at most {width} bits"),
        }
    }

    /// Describes the values that it takes, for messages.
    pub(super) fn wants(&self) -> String {
        let number = || self.wants_number();
        match self.takes {
            Takes::Address(None) => "an address, a prefix or a range of addresses".into(),
            Takes::Address(Some(family)) => {
                let family = family.pretty();
                format!("an {family} address, a prefix or a range of {family} addresses")
            }
            Takes::NumberOrAddress(family) => format!("{} or an {} address", number(), family.pretty()),
            Takes::Mac => "a MAC address such as 02:00:00:00:00:01 or a number of at most 48 bits".into(),
            Takes::Protocol => format!("a protocol's name or {}", number()),
            Takes::EtherType => format!("the name of an ether type or {}", number()),
            Takes::IcmpType { names: true } => format!("the name of an ICMP type or {}", number()),
            Takes::IcmpCode { names: true } => format!("the name of an ICMP code or {}", number()),
            Takes::ExtHeaders => format!("the name of an extension header or {}", number()),
            Takes::Fragment => "first, later or none".into(),
            Takes::Port => format!("the name of a service or {}", number()),
            Takes::TcpFlags => format!("TCP flags such as `syn,!ack` or {}", number()),
            _ => number(),
        }
    }

    /// Describes the values that it takes where only one value may stand.
    pub(super) fn wants_one(&self) -> String {
        match self.takes {
            Takes::Address(None) => "an address".into(),
            Takes::Address(Some(family)) => format!("an {} address", family.pretty()),
            // A name of these is a test of one bit.
            Takes::ExtHeaders | Takes::TcpFlags => self.wants_number(),
            _ => self.wants(),
        }
    }
}

fn takes(source: Option<Source>, width: u32) -> Takes {
    match (source, width) {
        (Some(Source::Src | Source::Dst | Source::Ipv4Src | Source::Ipv4Dst), ..128) => {
            Takes::Address(Some(Family::Ipv4))
        }
        (Some(Source::Src | Source::Dst | Source::Ipv4Src | Source::Ipv4Dst), _) => Takes::Address(Some(Family::Ipv6)),
        (Some(Source::EthSrc | Source::EthDst), _) | (None, 48) => Takes::Mac,
        (Some(Source::Proto | Source::IpProto), _) => Takes::Protocol,
        (Some(Source::EthType), _) => Takes::EtherType,
        (Some(Source::IcmpType), _) => Takes::IcmpType { names: false },
        (Some(Source::IcmpCode), _) => Takes::IcmpCode { names: false },
        (Some(Source::SrcPort | Source::DstPort | Source::TpSrc | Source::TpDst), _) => Takes::Port,
        (Some(Source::TcpFlags), _) => Takes::TcpFlags,
        (Some(Source::Fragment), _) => Takes::Fragment,
        (Some(Source::ExtHeaders), _) => Takes::ExtHeaders,
        (None, 32) => Takes::NumberOrAddress(Family::Ipv4),
        (None, 128) => Takes::NumberOrAddress(Family::Ipv6),
        _ => Takes::Number,
    }
}
