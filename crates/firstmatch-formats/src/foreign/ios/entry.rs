//! Entries of access lists.

use firstmatch_core::rule::Action;
use firstmatch_core::schema::{Family, IPV6_EXTENSIONS};

use super::super::product::Product;
use super::super::values::{
    DPORT, DSCP, DST, EXT_HEADERS, FieldIndex, ICMP_TYPE, ROUTING_TYPE, SPORT, SRC, TCP_FLAGS, TTL, Values, max_of,
};
use super::Stop;
use super::config::{GroupKind, ListKind};
use super::names;
use super::reader::{Reader, Service};
use super::words::{Line, Word};
use crate::report::{Message, Span, quote};

/// Flags ACK and RST, of which a packet of an existing connection has one.
const ACK_RST: u128 = 0x14;
/// Levels of messages, which `log` takes in ASA.
const LEVELS: [&str; 8] =
    ["emergencies", "alerts", "critical", "errors", "warnings", "notifications", "informational", "debugging"];

/// Entry that was read.
#[derive(Debug)]
pub(super) struct Entry {
    /// Number that orders the entries.
    pub(super) number: Option<u64>,
    pub(super) content: Content,
}

/// Content of an entry.
#[derive(Debug)]
pub(super) enum Content {
    Rule(Action, Vec<Product>),
    Remark(String),
    /// Entry of a list of ASA that is for addresses of the other family.
    OfOtherFamily,
    /// Entry that is not in force.
    Inactive,
    /// Option of the list that decides nothing.
    Nothing,
}

/// Conditions behind the addresses that stand once, and their findings.
#[derive(Default)]
struct Rest {
    used: Vec<&'static str>,
    fragments: Option<Span>,
    is_inactive: bool,
    number: Option<u64>,
}

impl<'r, 't> Reader<'r, '_, 't> {
    /// Reads an entry of the list.
    pub(super) fn entry(&mut self, line: &'r Line<'t>) -> Result<Entry, Stop> {
        self.within(line, |reader| {
            let is_sequence = reader.next_if(|text| text == "sequence").is_some();
            let number = reader.next_if(|text| names::number(text, u64::MAX).is_some());
            let number = match number {
                Some(word) => Some(reader.sequence(word)?),
                None if is_sequence => return reader.fault(line.span, "`sequence` without its number"),
                None => None,
            };
            let word = reader.next("`permit` or `deny`")?;
            let (content, behind) = match word.text {
                "permit" => reader.rule(Action::Permit)?,
                "deny" => reader.rule(Action::Deny)?,
                "remark" => (Content::Remark(reader.rest()), None),
                "statistics" if reader.text() == "per-entry" => {
                    reader.next("`per-entry`")?;
                    (Content::Nothing, None)
                }
                "fragments" => {
                    let message = Message::new("`fragments` for the whole list cannot be held");
                    return reader.fault(word.span, message.expected("entries with `fragments`"));
                }
                "no" | "default" => {
                    let message = Message::new("a line that removes an entry, so that a file does not show the list");
                    return reader.fault(word.span, message.expected("the running configuration"));
                }
                _ if let Some(fault) = unheld(word.text) => return reader.fault(word.span, fault),
                _ => {
                    let message = Message::new(format!("unexpected {}", quote(word.text)));
                    return reader.fault(word.span, message.expected("`permit`, `deny` or `remark`"));
                }
            };
            Ok(Entry { number: number.or(behind), content })
        })
    }

    fn sequence(&mut self, word: Word<'t>) -> Result<u64, Stop> {
        match names::number(word.text, u32::MAX.into()) {
            Some(number) if number > 0 => Ok(number),
            _ => self.fault(word.span, format!("{} is no number of an entry", quote(word.text))),
        }
    }

    /// Reads the conditions of a rule; the number stands behind them in some lists.
    fn rule(&mut self, action: Action) -> Result<(Content, Option<u64>), Stop> {
        match self.kind {
            ListKind::Standard => {
                self.begin(&[Service::default()]);
                self.address_of(SRC)?;
            }
            _ => {
                self.protocol()?;
                self.address_of(SRC)?;
                self.ports(SPORT)?;
                self.address_of(DST)?;
                self.ports(DPORT)?;
                self.icmp_of_entry()?;
            }
        }
        let mut rest = Rest::default();
        while let Some(word) = self.next_if(|_| true) {
            self.option(word, &mut rest)?;
        }
        let products = self.products(action, rest.fragments)?;
        let content = match rest.is_inactive {
            true => Content::Inactive,
            false if self.is_of_other_family => Content::OfOtherFamily,
            false => Content::Rule(action, products),
        };
        Ok((content, rest.number))
    }

    fn address_of(&mut self, field: FieldIndex) -> Result<(), Stop> {
        if let Some(values) = self.address()? {
            self.restrict(field, values);
        }
        Ok(())
    }

    fn protocol(&mut self) -> Result<(), Stop> {
        let word = self.next("a protocol")?;
        let all = match self.kind {
            ListKind::Ipv6 => &["ipv6"][..],
            ListKind::Asa => &["ip"],
            _ => &["ip", "ipv4"],
        };
        if all.contains(&word.text) {
            self.begin(&[Service::default()]);
            return Ok(());
        }
        if matches!(word.text, "object-group" | "object") {
            let name = self.next("the name of a group")?;
            let kind = match word.text {
                "object" => GroupKind::ObjectService,
                _ if self.config.groups.contains_key(&(GroupKind::Protocol, name.text)) => GroupKind::Protocol,
                _ => GroupKind::Service,
            };
            let services = self.group_of_services(kind, name)?;
            self.begin(&services);
            return Ok(());
        }
        let Some(number) = names::protocol(word.text, self.family).filter(|&number| number > 0) else {
            let message = Message::new(format!("unknown protocol {}", quote(word.text)));
            let expected = format!("`{}` for all protocols, or the number of one", all[0]);
            return self.fault(word.span, message.expected(expected));
        };
        if self.family == Family::Ipv6 && IPV6_EXTENSIONS.contains(&number) {
            let message = Message::new(format!("protocol {number} is an extension header in IPv6"));
            if number < 128 {
                let message =
                    message.expected("the protocol behind these headers, or `auth`, `hbh`, `routing` or `dest-option`");
                return self.fault(word.span, message);
            }
            self.report.warn(word.span, || message.expected("the protocol behind all of them"));
        }
        self.begin(&[Service { protocols: vec![number], behind: Vec::new() }]);
        Ok(())
    }

    /// Reads the type of ICMP messages behind the addresses, if there is one.
    fn icmp_of_entry(&mut self) -> Result<(), Stop> {
        let number = if self.family == Family::Ipv4 { 1 } else { 58 };
        if !self.is_only(number) {
            return Ok(());
        }
        let Some(word) = self.peek() else { return Ok(()) };
        if self.is_asa() && word.text == "object-group" {
            self.next("a group")?;
            let name = self.next("the name of a group")?;
            let values = self.group_of_values(GroupKind::Icmp, name)?;
            return self.restrict_behind(name.span, ICMP_TYPE, Values::clone(&values));
        }
        for (field, values) in self.icmp()?.map(|service| service.behind).unwrap_or_default() {
            self.restrict_behind(word.span, field, values)?;
        }
        Ok(())
    }

    /// Reads an option behind the addresses.
    fn option(&mut self, word: Word<'t>, rest: &mut Rest) -> Result<(), Stop> {
        const ONCE: [&str; 11] = [
            "established",
            "fragments",
            "dscp",
            "precedence",
            "ttl",
            "log",
            "routing",
            "routing-type",
            "inactive",
            "counter",
            "sequence",
        ];
        if let Some(name) = ONCE.into_iter().find(|&name| name == word.text) {
            if rest.used.contains(&name) {
                return self.fault(word.span, format!("{} stands twice", quote(name)));
            }
            rest.used.push(name);
        }
        let is_v6 = self.kind == ListKind::Ipv6;
        match word.text {
            "log" | "log-input" => self.log(),
            "inactive" if self.is_asa() => {
                rest.is_inactive = true;
                Ok(())
            }
            "counter" if !self.is_asa() => self.next("the name of a counter").map(|_| ()),
            "sequence" if is_v6 => {
                let number = self.next("a number")?;
                rest.number = Some(self.sequence(number)?);
                Ok(())
            }
            _ if self.kind == ListKind::Standard || self.is_asa() => self.no_option(word),
            "established" | "match-all" | "match-any" | "ack" | "fin" | "psh" | "rst" | "syn" | "urg" => {
                self.flags(word, rest)
            }
            "fragments" => {
                rest.fragments = Some(word.span);
                Ok(())
            }
            "dscp" => {
                self.next_if(|text| text == "eq");
                let value = self.next("a DSCP")?;
                let Some(dscp) = names::dscp(value.text) else {
                    let message = Message::new(format!("unknown DSCP {}", quote(value.text)));
                    return self.fault(value.span, message.expected("0 to 63, or a class such as `af41`"));
                };
                self.restrict_once(word, DSCP, (dscp, dscp), rest)
            }
            "precedence" => {
                let value = self.next("a precedence")?;
                let Some(precedence) = names::precedence(value.text) else {
                    let message = Message::new(format!("unknown precedence {}", quote(value.text)));
                    return self.fault(value.span, message.expected("0 to 7, or a name such as `routine`"));
                };
                self.restrict_once(word, DSCP, (8 * precedence, 8 * precedence + 7), rest)
            }
            "ttl" => match self.comparison(TTL)? {
                Some(values) => {
                    self.restrict(TTL, values);
                    Ok(())
                }
                None => self.fault(
                    word.span,
                    Message::new("`ttl` without a comparison").expected("`ttl eq 255` or `ttl lt 5`"),
                ),
            },
            "routing" if is_v6 => self.extension(0x02),
            "hbh" if is_v6 => self.extension(0x01),
            "dest-option" if is_v6 => self.extension(0x08),
            "auth" if is_v6 => self.extension(0x10),
            "routing-type" if is_v6 => {
                let value = self.next("a type")?;
                match names::number(value.text, 255) {
                    Some(of_type) => self.restrict(ROUTING_TYPE, Values::one(of_type.into())),
                    None => return self.fault(value.span, format!("{} is no type from 0 to 255", quote(value.text))),
                }
                Ok(())
            }
            _ => self.no_option(word),
        }
    }

    fn no_option(&mut self, word: Word<'t>) -> Result<(), Stop> {
        if let Some(fault) = unheld(word.text) {
            return self.fault(word.span, fault);
        }
        let message = Message::new(format!("unexpected {}", quote(word.text)));
        self.fault(word.span, message.expected("an option of the entry, or the end of the line"))
    }

    /// Confines the entry to a range of DSCP, which one option does.
    fn restrict_once(
        &mut self,
        word: Word<'t>,
        field: FieldIndex,
        (lo, hi): (u8, u8),
        rest: &mut Rest,
    ) -> Result<(), Stop> {
        if rest.used.contains(&"dscp") && rest.used.contains(&"precedence") {
            return self.fault(word.span, "`dscp` beside `precedence`, which is a part of it");
        }
        self.restrict(field, Values::of([(lo.into(), hi.into())]));
        Ok(())
    }

    /// Confines the entry to packets with an extension header.
    fn extension(&mut self, bit: u128) -> Result<(), Stop> {
        let values = Values::masked(bit, bit, max_of(EXT_HEADERS, self.family)).unwrap_or_default();
        self.restrict(EXT_HEADERS, values);
        Ok(())
    }

    /// Reads the level and the interval of `log`, which ASA has.
    fn log(&mut self) -> Result<(), Stop> {
        if !self.is_asa() {
            return Ok(());
        }
        if self.next_if(|text| matches!(text, "disable" | "default")).is_some() {
            return Ok(());
        }
        self.next_if(|text| LEVELS.contains(&text) || names::number(text, 7).is_some());
        if self.next_if(|text| text == "interval").is_some() {
            let word = self.next("a number of seconds")?;
            if names::number(word.text, 600).is_none() {
                return self.fault(word.span, format!("{} is no number of seconds up to 600", quote(word.text)));
            }
        }
        Ok(())
    }

    /// Reads a condition on TCP flags, of which an entry has one.
    fn flags(&mut self, word: Word<'t>, rest: &mut Rest) -> Result<(), Stop> {
        if !self.is_only(6) {
            return self.fault(word.span, Message::new("TCP flags of an entry that is not for TCP").expected("tcp"));
        }
        if std::mem::replace(&mut rest.used, vec!["flags"]).contains(&"flags") {
            let message = Message::new("a second condition on TCP flags");
            return self.fault(word.span, message.expected("`match-all` or `match-any` with all of them"));
        }
        let max = max_of(TCP_FLAGS, self.family);
        let under = |mask: u128, value: u128| Values::masked(value, mask, max).unwrap_or_default();
        let values = match word.text {
            "established" => under(ACK_RST, 0).negated(TCP_FLAGS, self.family),
            "match-all" | "match-any" => {
                let (mut mask, mut set) = (0, 0);
                while let Some(flag) = self.next_if(|text| text.starts_with(['+', '-'])) {
                    let Some(bit) = names::tcp_flag(&flag.text[1..]).map(u128::from).filter(|bit| mask & bit == 0)
                    else {
                        let message = Message::new(format!("unknown or repeated flag {}", quote(flag.text)));
                        return self
                            .fault(flag.span, message.expected("ack, fin, psh, rst, syn or urg behind `+` or `-`"));
                    };
                    mask |= bit;
                    set |= if flag.text.starts_with('+') { bit } else { 0 };
                }
                if mask == 0 {
                    return self.fault(word.span, Message::new("no flag behind it").expected("`+syn` or `-ack`"));
                }
                match word.text {
                    "match-all" => under(mask, set),
                    _ => under(mask, mask & !set).negated(TCP_FLAGS, self.family),
                }
            }
            flag => {
                let bit = names::tcp_flag(flag).unwrap_or_default().into();
                under(bit, bit)
            }
        };
        self.restrict_behind(word.span, TCP_FLAGS, values)
    }
}

/// Returns the fault of a word whose meaning a list of rules cannot hold.
fn unheld(word: &str) -> Option<Message> {
    let (why, expected) = match word {
        "time-range" => ("depends on the clock", "an entry without it"),
        "reflect" | "evaluate" | "timeout" => ("depends on other packets", "an entry without it"),
        "dynamic" => ("depends on users who have logged in", "an entry without it"),
        "option" => ("tests options of IP, which are no field here", "an entry without it"),
        "tos" => ("tests bits of ECN, which are no field here", "`dscp` or `precedence`"),
        "flow-label"
        | "mobility"
        | "mobility-type"
        | "dest-option-type"
        | "undetermined-transport"
        | "fragment-type" => ("tests what is no field here", "an entry without it"),
        "packet-length" => ("counts bytes in another way on each platform", "an entry without it"),
        "police" | "set" | "nexthop1" | "nexthop2" | "nexthop3" | "redirect" | "capture" | "udf" | "vlan"
        | "priority" => ("is more than a verdict", "an entry without it"),
        "user" | "user-group" | "object-group-user" | "security-group" | "object-group-security" => {
            ("depends on who sent the packet", "addresses")
        }
        "dvmrp" | "host-query" | "host-report" | "pim" | "trace" | "v2-leave" | "v2-report" | "v3-report" => {
            ("is a type of IGMP, which is no field here", "an entry without it")
        }
        _ => return None,
    };
    Some(Message::new(format!("`{word}` {why}")).expected(expected))
}
