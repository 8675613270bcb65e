//! Reader of words, and the conditions that they become.

use std::collections::HashMap;
use std::rc::Rc;

use firstmatch_core::rule::Action;
use firstmatch_core::schema::Family;

use super::super::product::Product;
use super::super::values::{FRAGMENT, FieldIndex, Values};
use super::Stop;
use super::config::{Config, GroupKind, ListKind};
use super::words::{Line, Word};
use crate::report::{Message, Report, Span, quote};

/// Protocols that have ports.
const WITH_PORTS: [u8; 3] = [6, 17, 132];
/// Value of the field `fragment` of later fragments.
const LATER: u128 = 2;

/// Conditions of an entry: what the IP header shows, and what stands behind it.
#[derive(Clone, Debug, Default)]
struct Alternative {
    header: Product,
    /// `None` if the entry asks for nothing behind the header.
    behind: Option<Product>,
}

/// Service: protocols, none of which means all, and conditions on what stands behind the IP header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Service {
    pub(super) protocols: Vec<u8>,
    pub(super) behind: Vec<(FieldIndex, Values)>,
}

/// Reader of the entries of one list, and of the members of groups.
pub(super) struct Reader<'r, 'p, 't> {
    pub(super) config: &'r Config<'t>,
    pub(super) report: &'r mut Report<'p>,
    pub(super) family: Family,
    pub(super) kind: ListKind,
    words: &'r [Word<'t>],
    at: usize,
    pub(super) whole: Span,
    /// Groups whose members are being read, the outermost first.
    pub(super) open: Vec<(GroupKind, &'t str)>,
    /// Groups of values that were read; `None` after a fault.
    pub(super) values: HashMap<(GroupKind, &'t str), Option<Rc<Values>>>,
    /// Groups of services that were read; `None` after a fault.
    pub(super) services: HashMap<(GroupKind, &'t str), Option<Rc<Vec<Service>>>>,
    alternatives: Vec<Alternative>,
    /// Protocols of the entry; none means all.
    protocols: Vec<u8>,
    /// Whether the protocol came with conditions of its own.
    has_service: bool,
    /// Whether an address belongs to the other family, which a list of ASA may have.
    pub(super) is_of_other_family: bool,
}

impl<'r, 'p, 't> Reader<'r, 'p, 't> {
    pub(super) fn new(config: &'r Config<'t>, report: &'r mut Report<'p>, family: Family, kind: ListKind) -> Self {
        Self {
            config,
            report,
            family,
            kind,
            words: &[],
            at: 0,
            whole: Span::default(),
            open: Vec::new(),
            values: HashMap::new(),
            services: HashMap::new(),
            alternatives: Vec::new(),
            protocols: Vec::new(),
            has_service: false,
            is_of_other_family: false,
        }
    }

    /// Whether this is a list of ASA.
    pub(super) fn is_asa(&self) -> bool {
        self.kind == ListKind::Asa
    }

    /// Reads a whole line with `read`.
    pub(super) fn within<R>(
        &mut self,
        line: &'r Line<'t>,
        read: impl FnOnce(&mut Self) -> Result<R, Stop>,
    ) -> Result<R, Stop> {
        let outer = (self.words, self.at, self.whole);
        (self.words, self.at, self.whole) = (&line.words, 0, line.span);
        let read = read(self).and_then(|read| match self.peek() {
            None => Ok(read),
            Some(word) => {
                let message = Message::new(format!("unexpected {}", quote(word.text)));
                self.fault(word.span, message.expected("the end of the line"))
            }
        });
        (self.words, self.at, self.whole) = outer;
        read
    }

    /// Returns the next word, without taking it.
    pub(super) fn peek(&self) -> Option<Word<'t>> {
        self.words.get(self.at).copied()
    }

    /// Returns the word behind the next one.
    pub(super) fn second(&self) -> Option<Word<'t>> {
        self.words.get(self.at + 1).copied()
    }

    /// Returns the text of the next word, empty at the end of the line.
    pub(super) fn text(&self) -> &'t str {
        self.peek().map_or("", |word| word.text)
    }

    /// Takes the next word if `is_it` holds for its text.
    pub(super) fn next_if(&mut self, is_it: impl Fn(&str) -> bool) -> Option<Word<'t>> {
        let word = self.peek().filter(|word| is_it(word.text))?;
        self.at += 1;
        Some(word)
    }

    /// Takes the next word, where `what` is needed.
    pub(super) fn next(&mut self, what: &str) -> Result<Word<'t>, Stop> {
        match self.next_if(|_| true) {
            Some(word) => Ok(word),
            None => self.fault(self.whole, format!("the line ends before {what}")),
        }
    }

    /// Takes the rest of the line as a text.
    pub(super) fn rest(&mut self) -> String {
        let words: Vec<&str> = self.words[self.at.min(self.words.len())..].iter().map(|word| word.text).collect();
        self.at = self.words.len();
        words.join(" ")
    }

    /// Begins an entry that every packet of a service matches.
    pub(super) fn begin(&mut self, services: &[Service]) {
        self.is_of_other_family = false;
        self.protocols.clear();
        self.alternatives.clear();
        self.has_service = services.iter().any(|service| !service.behind.is_empty());
        // A service without a protocol makes the entry one for all.
        let is_all = services.iter().any(|service| service.protocols.is_empty());
        for service in services {
            self.protocols.extend(service.protocols.iter().filter(|_| !is_all));
            let mut alternative = Alternative::default();
            if !service.protocols.is_empty() {
                let numbers = service.protocols.iter().map(|&number| (number.into(), number.into()));
                let numbers = alternative.header.restrict(super::super::values::PROTO, Values::of(numbers));
                alternative.header = numbers.unwrap_or_default();
            }
            for (field, values) in &service.behind {
                let behind = alternative.behind.unwrap_or_default();
                alternative.behind = behind.restrict(*field, values.clone());
            }
            self.alternatives.push(alternative);
        }
    }

    /// Confines the entry to packets whose IP header has one of `values`.
    pub(super) fn restrict(&mut self, field: FieldIndex, values: impl Into<Rc<Values>>) {
        let values = values.into();
        self.alternatives.retain_mut(|alternative| {
            let met = alternative.header.restrict(field, Rc::clone(&values));
            met.map(|header| alternative.header = header).is_some()
        });
    }

    /// Confines the entry to packets that have one of `values` behind the IP header.
    pub(super) fn restrict_behind(&mut self, span: Span, field: FieldIndex, values: Values) -> Result<(), Stop> {
        for at in 0..self.alternatives.len() {
            let behind = self.alternatives[at].behind.clone().unwrap_or_default();
            match behind.restrict(field, values.clone()) {
                Some(behind) => self.alternatives[at].behind = Some(behind),
                None => return self.fault(span, "no packet meets this condition and those before it"),
            }
        }
        Ok(())
    }

    /// Checks that the entry is for protocols with ports alone.
    pub(super) fn check_ports(&mut self, span: Span) -> Result<(), Stop> {
        if self.is_within(&WITH_PORTS) && !self.has_service {
            return Ok(());
        }
        let message = Message::new("ports of an entry whose protocol has none, or has its own");
        self.fault(span, message.expected("tcp, udp or sctp"))
    }

    /// Whether the entry is for some of these protocols alone.
    pub(super) fn is_within(&self, protocols: &[u8]) -> bool {
        !self.protocols.is_empty() && self.protocols.iter().all(|number| protocols.contains(number))
    }

    /// Whether the entry is for one protocol alone, without conditions of a group.
    pub(super) fn is_only(&self, protocol: u8) -> bool {
        self.protocols[..] == [protocol] && !self.has_service
    }

    /// Returns the packets of the entry.
    ///
    /// Routers let later fragments through where an entry permits packets by what stands behind the IP header, because
    /// later fragments do not show that. For an entry that denies, they go on to the next one.
    pub(super) fn products(&mut self, action: Action, fragments: Option<Span>) -> Result<Vec<Product>, Stop> {
        let later = |header: &Product| header.restrict(FRAGMENT, Values::one(LATER));
        let has_later = action == Action::Permit && !self.is_asa();
        let (mut products, mut fragments_of): (Vec<Product>, Vec<Product>) = (Vec::new(), Vec::new());
        for Alternative { header, behind } in std::mem::take(&mut self.alternatives) {
            match (behind, fragments) {
                (None, Some(_)) => products.extend(later(&header)),
                (Some(_), Some(span)) => {
                    let message = Message::new("`fragments` beside ports, types or flags, which later fragments lack");
                    return self.fault(span, message.expected("two entries, or one condition of the two"));
                }
                (None, None) => products.push(header),
                (Some(behind), None) => {
                    products.extend(header.meet(&behind));
                    fragments_of.extend(later(&header).filter(|_| has_later));
                }
            }
        }
        for product in fragments_of {
            if !products.contains(&product) {
                products.push(product);
            }
        }
        Ok(products)
    }

    pub(super) fn fault<R>(&mut self, span: Span, message: impl Into<Message>) -> Result<R, Stop> {
        self.report.fault(span, || message);
        Err(Stop)
    }
}
