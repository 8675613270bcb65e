//! Parts of a configuration: access lists, groups of objects, and everything else, which is passed over.
//!
//! A line that is passed over must not have been meant for a list. So words of access lists in unknown places are
//! faults; for example, `permit` below an unknown heading.

use std::collections::HashMap;

use super::Stop;
use super::top::{self, Place};
use super::words::{Line, Word};
use crate::BOM;
use crate::report::{Message, Report, Span, quote};
use crate::suggest::nearest;

/// Kind of an access list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListKind {
    /// IPv4, tests the source alone.
    Standard,
    /// IPv4.
    Extended,
    Ipv6,
    /// Extended list of ASA, which has masks of networks and may have addresses of both families.
    Asa,
    /// Standard list of ASA, which filters no packets.
    AsaStandard,
}

/// Access list.
#[derive(Clone, Debug)]
pub(super) struct List<'t> {
    pub(super) name: &'t str,
    /// `None` if the list has only remarks.
    pub(super) kind: Option<ListKind>,
    /// Place of the heading, or of the first entry if there is none.
    pub(super) heading: Span,
    pub(super) entries: Vec<Line<'t>>,
    /// Whether an entry begins in the first column.
    is_flat: bool,
}

impl List<'_> {
    pub(super) fn is_ipv6(&self) -> bool {
        self.kind == Some(ListKind::Ipv6)
    }
}

/// Kind of a group of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum GroupKind {
    /// Addresses of IPv4, in ASA of both families.
    Network,
    Network6,
    Ports,
    /// Protocols with ports; in ASA also ports.
    Service,
    Protocol,
    Icmp,
    /// Object of ASA with one address, prefix or range.
    Object,
    /// Object of ASA with one service.
    ObjectService,
}

/// Group of objects, with its members as they are written.
#[derive(Clone, Debug)]
pub(super) struct Group<'t> {
    /// Whether masks have ones in the bits that do not matter, as in lists of routers.
    pub(super) has_wildcards: bool,
    /// Protocol of a group of ports in ASA.
    pub(super) protocol: Option<&'t str>,
    pub(super) members: Vec<Line<'t>>,
    is_flat: bool,
}

/// Lists and groups of a configuration.
#[derive(Debug, Default)]
pub(super) struct Config<'t> {
    pub(super) lists: Vec<List<'t>>,
    pub(super) groups: HashMap<(GroupKind, &'t str), Group<'t>>,
    /// Addresses that have a name in ASA.
    pub(super) names: HashMap<&'t str, &'t str>,
    /// Whether something shows that this is a configuration of NX-OS.
    pub(super) is_nxos: bool,
}

/// Section that lines below belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Context<'t> {
    List(usize),
    Group(GroupKind, &'t str),
    /// Part of the configuration that is passed over.
    Other {
        /// Whether its lines may begin with `permit` or `deny`.
        has_entries: bool,
    },
}

const OUTSIDE: Context<'_> = Context::Other { has_entries: false };

/// Returns the lists and groups of a configuration.
pub(super) fn read<'t>(text: &'t str, report: &mut Report<'_>) -> Config<'t> {
    let mut start = if text.starts_with(BOM) { BOM.len_utf8() } else { 0 };
    let mut lines = Vec::new();
    for (line, content) in (1u32..).zip(text[start..].split_inclusive('\n')) {
        let bare = content.trim_end_matches(['\n', '\r']);
        lines.push((bare, Span { line, line_start: start, start, end: start + bare.len() }));
        start += content.len();
    }
    let mut reader = Reader { report, config: Config::default(), context: OUTSIDE, indent: 0 };
    let mut at = 0;
    while let Some(&(bare, whole)) = lines.get(at) {
        at += 1;
        let Some(line) = Line::of(bare, whole) else { continue };
        if line.words[0].text == "banner" {
            at += reader.banner(&line, bare, &lines[at..]);
            continue;
        }
        // The fault is noted already.
        let _: Result<(), Stop> = reader.line(&line);
    }
    reader.config
}

struct Reader<'r, 'p, 't> {
    report: &'r mut Report<'p>,
    config: Config<'t>,
    context: Context<'t>,
    /// Number of bytes before the first word of the heading of the context.
    indent: usize,
}

impl<'t> Reader<'_, '_, 't> {
    fn line(&mut self, line: &Line<'t>) -> Result<(), Stop> {
        let [first, second, third] = line.texts();
        let indent = line.span.start - line.span.line_start;
        let (is_indented, outer) = (indent > self.indent, std::mem::replace(&mut self.indent, indent));
        if first.starts_with(['!', '#', ':']) {
            self.config.is_nxos |= first == "!Command:";
            self.indent = outer;
            return Ok(());
        }
        match (first, second) {
            ("ip" | "ipv4" | "ipv6", "access-list") => return self.list_heading(line, false),
            ("access-list", _) => return self.numbered(line),
            ("object-group", _) if !third.is_empty() => return self.group_heading(line, false),
            ("object", "network" | "service") => return self.group_heading(line, false),
            ("no" | "default", "ip" | "ipv4" | "ipv6") if third == "access-list" => {
                return self.list_heading(&Line { words: line.words[1..].to_vec(), ..*line }, true);
            }
            ("no" | "default", "access-list") => return self.no_numbered(line),
            ("no" | "default", "object-group" | "object") if line.words.len() > 3 => {
                return self.group_heading(&Line { words: line.words[1..].to_vec(), ..*line }, true);
            }
            _ => self.indent = outer,
        }
        let is_member = is_indented || !top::is_known(first) || self.is_service(line);
        match self.context {
            Context::List(index) => {
                let list = &mut self.config.lists[index];
                if is_indented || is_entry(line) || list.is_flat && is_member {
                    list.is_flat |= !is_indented;
                    if !matches!((first, line.words.len()), ("exit" | "end", 1)) {
                        list.entries.push(line.clone());
                    }
                    return Ok(());
                }
            }
            Context::Group(kind, name) => {
                if let Some(group) = self.config.groups.get_mut(&(kind, name))
                    && (is_indented || is_member && (group.is_flat || group.members.is_empty()))
                {
                    group.is_flat |= !is_indented;
                    if !matches!((first, line.words.len()), ("exit" | "end", 1)) {
                        group.members.push(line.clone());
                    }
                    return Ok(());
                }
            }
            Context::Other { has_entries } if is_indented => {
                let is_lost = !has_entries && (is_entry(line) || top::is_member(first));
                return if is_lost { self.outside(line) } else { Ok(()) };
            }
            Context::Other { .. } => {}
        }
        self.indent = indent;
        if let ["name", _, _, "" | "description"] = line.texts() {
            self.config.names.insert(third, second);
        }
        self.other_heading(line)
    }

    /// Whether a line in a group of services is a protocol, although lines of configurations begin with that word, too.
    fn is_service(&self, line: &Line<'_>) -> bool {
        let is_services = matches!(self.context, Context::Group(GroupKind::Service | GroupKind::Protocol, _));
        is_services && matches!(line.texts(), ["ip" | "icmp" | "igmp" | "ospf", ""])
    }

    /// Reads the first line of a section that is passed over.
    fn other_heading(&mut self, line: &Line<'t>) -> Result<(), Stop> {
        let [first, second] = line.texts();
        self.config.is_nxos |= matches!(first, "feature" | "vdc" | "vpc");
        match top::place(line) {
            Place::Entries => self.context = Context::Other { has_entries: true },
            Place::Plain => self.context = OUTSIDE,
            Place::UnknownList => {
                self.context = OUTSIDE;
                let message = Message::new(format!("unknown kind of access list {}", quote(first)));
                return self.fault(line.words[0].span, message.expected("ip, ipv4, ipv6, or a kind for other packets"));
            }
            Place::Lost => {
                self.context = OUTSIDE;
                return self.outside(line);
            }
        }
        let words = ["access-list", "object-group", "permit", "deny", "remark"];
        let meant = if top::is_known(first) { None } else { nearest(first, words) };
        let meant = meant.map(|meant| (line.words[0], meant)).or_else(|| {
            let is_ip = matches!(first, "ip" | "ipv4" | "ipv6" | "no");
            let meant =
                nearest(second, ["access-list"]).filter(|_| is_ip && second.len() > 6 && second != "access-group");
            Some((*line.words.get(1)?, meant?))
        });
        let Some((word, meant)) = meant else { return Ok(()) };
        let message = Message::new(format!("unknown word {}", quote(word.text)));
        self.fault(word.span, message.suggest(Some(meant)).expected("a line without it"))
    }

    /// Notes that a line looks like part of an access list, but belongs to none.
    fn outside(&mut self, line: &Line<'t>) -> Result<(), Stop> {
        let message = Message::new("this looks like part of an access list or a group, but belongs to none");
        self.fault(line.span, message.expected("a heading before it, such as `ip access-list extended NAME`"))
    }

    /// Reads `ip access-list extended NAME` and its kin; `is_reset` is whether `no` stands before it.
    fn list_heading(&mut self, line: &Line<'t>, is_reset: bool) -> Result<(), Stop> {
        self.context = OUTSIDE;
        let [family, _, kind, name] = line.texts();
        let is_v6 = family == "ipv6";
        let found = match (kind, line.words.len()) {
            ("role-based" | "fqdn", _) => {
                self.context = Context::Other { has_entries: true };
                return Ok(());
            }
            ("logging" | "log-update" | "helper" | "persistent" | "match-local-traffic", _) => return Ok(()),
            ("standard", 4) if !is_v6 => Some((name, ListKind::Standard)),
            ("extended", 4) if !is_v6 => Some((name, ListKind::Extended)),
            (name, 3) => Some((name, if is_v6 { ListKind::Ipv6 } else { ListKind::Extended })),
            _ => None,
        };
        let Some((name, kind)) = found.filter(|(name, _)| !top::is_word_of_lists(name)) else {
            let message = Message::new("the heading of an access list that is not read");
            let names = if is_v6 { "`ipv6 access-list NAME`" } else { "`ip access-list extended NAME`" };
            return self.fault(line.span, message.expected(names));
        };
        if is_reset {
            self.reset(name, Some(is_v6));
            return Ok(());
        }
        let index = self.list(name, is_v6, line.span);
        self.context = Context::List(index);
        self.set_kind(index, kind, line.words[2].span)
    }

    /// Reads `access-list NAME …`, one entry.
    fn numbered(&mut self, line: &Line<'t>) -> Result<(), Stop> {
        self.context = OUTSIDE;
        let [_, name, kind] = line.texts();
        let number = super::names::number(name, 9999);
        let (kind, count) = match (kind, number) {
            _ if top::is_word_of_lists(name) => return self.no_numbered_kind(line),
            _ if ["compiled", "rate-limit", "dynamic-extended", "alert-interval", "deny-flow-max"].contains(&name)
                && !line.words.iter().any(|word| matches!(word.text, "permit" | "deny")) =>
            {
                return Ok(());
            }
            ("extended", _) => (Some(ListKind::Asa), 3),
            ("standard", _) => (Some(ListKind::AsaStandard), 3),
            ("ethertype" | "webtype", _) => return Ok(()),
            ("remark", _) => (None, 2),
            ("permit" | "deny" | "dynamic", Some(1..=99 | 1300..=1999)) => (Some(ListKind::Standard), 2),
            ("permit" | "deny" | "dynamic", Some(100..=199 | 2000..=2699)) => (Some(ListKind::Extended), 2),
            // Lists of other protocols than IP.
            ("permit" | "deny", Some(200..=1299)) => return Ok(()),
            ("permit" | "deny", None) => (Some(ListKind::Asa), 2),
            _ => return self.no_numbered_kind(line),
        };
        let index = self.list(name, false, line.span);
        if let Some(kind) = kind {
            self.set_kind(index, kind, line.words[1].span)?;
        }
        match line.behind(count) {
            Some(entry) => self.config.lists[index].entries.push(entry),
            None => return self.fault(line.span, "an access list without its entry"),
        }
        Ok(())
    }

    fn no_numbered_kind(&mut self, line: &Line<'t>) -> Result<(), Stop> {
        let at = if line.words.len() > 2 { 2 } else { line.words.len() - 1 };
        let message = Message::new(format!("unexpected {}", quote(line.words[at].text)));
        self.fault(
            line.words[at].span,
            message.expected("`access-list NUMBER permit …` or `access-list NAME extended …`"),
        )
    }

    /// Reads `no access-list NAME`, which removes a list, or one entry of ASA, which is a fault of the list.
    fn no_numbered(&mut self, line: &Line<'t>) -> Result<(), Stop> {
        self.context = OUTSIDE;
        let [_, _, name] = line.texts();
        if line.words.len() == 3 {
            self.reset(name, None);
        } else if let Some(list) = self.config.lists.iter_mut().find(|list| list.name == name) {
            list.entries.push(line.clone());
        }
        Ok(())
    }

    /// Removes the entries of the lists of a name, of one family if it is given.
    fn reset(&mut self, name: &str, is_v6: Option<bool>) {
        self.config.lists.retain(|list| list.name != name || is_v6.is_some_and(|is_v6| is_v6 != list.is_ipv6()));
    }

    /// Returns the list of a name, which is new if there is none.
    fn list(&mut self, name: &'t str, is_v6: bool, heading: Span) -> usize {
        let lists = &mut self.config.lists;
        if let Some(index) = lists.iter().position(|list| list.name == name && list.is_ipv6() == is_v6) {
            return index;
        }
        let kind = is_v6.then_some(ListKind::Ipv6);
        lists.push(List { name, kind, heading, entries: Vec::new(), is_flat: false });
        lists.len() - 1
    }

    fn set_kind(&mut self, index: usize, kind: ListKind, span: Span) -> Result<(), Stop> {
        let list = &mut self.config.lists[index];
        if *list.kind.get_or_insert(kind) == kind {
            return Ok(());
        }
        let message = format!("the access list {} is of another kind on line {}", quote(list.name), list.heading.line);
        self.fault(span, message)
    }

    /// Reads the heading of a group or an object.
    fn group_heading(&mut self, line: &Line<'t>, is_reset: bool) -> Result<(), Stop> {
        self.context = OUTSIDE;
        let [what, one, two, three] = line.texts();
        let (kind, name, protocol) = match (what, one, two, three, line.words.len()) {
            ("object", "network", name, _, 3) => (GroupKind::Object, name, None),
            ("object", "service", name, _, 3) => (GroupKind::ObjectService, name, None),
            (_, "network", "ipv4", name, 4) | (_, "network", name, _, 3) => (GroupKind::Network, name, None),
            (_, "network", "ipv6", name, 4) | (_, "v6-network", name, _, 3) => (GroupKind::Network6, name, None),
            (_, "ip", "address", name, 4) => (GroupKind::Network, name, None),
            (_, "ipv6", "address", name, 4) => (GroupKind::Network6, name, None),
            (_, "ip", "port", name, 4) | (_, "port", name, _, 3) => (GroupKind::Ports, name, None),
            (_, "service" | "v6-service", name, _, 3) => (GroupKind::Service, name, None),
            (_, "service", name, protocol @ ("tcp" | "udp" | "tcp-udp"), 4) => {
                (GroupKind::Service, name, Some(protocol))
            }
            (_, "protocol", name, _, 3) => (GroupKind::Protocol, name, None),
            (_, "icmp-type", name, _, 3) => (GroupKind::Icmp, name, None),
            (_, "security" | "user" | "fqdn", ..) => return Ok(()),
            _ => {
                let message = Message::new("the heading of a group that is not read");
                let expected = "`object-group network NAME`, or another kind of group with its name";
                return self.fault(line.span, message.expected(expected));
            }
        };
        if is_reset {
            self.config.groups.remove(&(kind, name));
            return Ok(());
        }
        let has_wildcards = (what, one) == ("object-group", "ip");
        self.config.is_nxos |= has_wildcards;
        let new = Group { has_wildcards, protocol, members: Vec::new(), is_flat: false };
        let group = self.config.groups.entry((kind, name)).or_insert(new);
        let is_same = group.has_wildcards == has_wildcards && group.protocol == protocol;
        self.context = Context::Group(kind, name);
        if is_same {
            Ok(())
        } else {
            self.fault(line.span, format!("{} is already a group of another kind", quote(name)))
        }
    }

    /// Returns the number of lines behind `banner …` that are its text.
    fn banner(&mut self, line: &Line<'t>, bare: &str, later: &[(&'t str, Span)]) -> usize {
        self.context = OUTSIDE;
        let Some(&Word { span, .. }) = line.words.get(2) else { return 0 };
        let text = &bare[span.start - span.line_start..];
        let first = text.chars().next().filter(|c| !c.is_alphanumeric());
        let Some(first) = first else { return 0 };
        // Saved configurations have the two characters `^C` where the end of the text is a control character.
        let delimiter = if text.starts_with("^C") { "^C" } else { &text[..first.len_utf8()] };
        if text[delimiter.len()..].contains(delimiter) {
            return 0;
        }
        // Banners of ASA are lines without an end of their own.
        let Some(end) = later.iter().position(|(bare, _)| bare.contains(delimiter)) else { return 0 };
        let heads = ["ip access-list ", "ipv4 access-list ", "ipv6 access-list ", "access-list ", "object-group "];
        if later[..end].iter().any(|(bare, _)| heads.iter().any(|head| bare.starts_with(head))) {
            let message =
                Message::new(format!("the text of this banner, up to {}, has an access list", quote(delimiter)));
            self.report.fault(line.span, || message.expected("a banner whose end stands before the access lists"));
        }
        end + 1
    }

    fn fault<M: Into<Message>>(&mut self, span: Span, message: M) -> Result<(), Stop> {
        self.report.fault(span, || message);
        Err(Stop)
    }
}

/// Whether a line reads like an entry of an access list.
fn is_entry(line: &Line<'_>) -> bool {
    let mut words = line.words.iter().map(|word| word.text).peekable();
    words.next_if_eq(&"no");
    words.next_if_eq(&"sequence");
    words.next_if(|word| super::names::number(word, u64::MAX).is_some());
    let is_head = matches!(words.peek(), Some(&"permit" | &"deny" | &"remark" | &"evaluate" | &"dynamic"));
    is_head || matches!(line.texts(), ["statistics", "per-entry"] | ["fragments", "permit-all" | "deny-all"])
}
