//! Fuzz target that parses a frame and compares every header field with etherparse's.

use std::cell::RefCell;

use firstmatch_core::policy::Fragments;
use firstmatch_core::{KeyBuf, Schema};
use firstmatch_net::wire::{Batch, Config, Headers, LinkType, parse, parse_on};

use crate::common::Frame;
use crate::invariants::{WithBuffers, check, check_grows, extractors};
use crate::reference::{Notes, compare};

/// Caps from tight to loose: a field that one cap leaves known stays known under the next.
const CAPS: [usize; 4] = [0, 1, 8, 100];
/// Most cuts of a frame that are tried: one to each length below this.
const MOST_CUTS: usize = 300;

/// Extractors and batches kept between runs, because each takes long to make.
struct Tools {
    extractors: Vec<WithBuffers>,
    /// For each list of schemas a batch, and the rows that its values are expected to fill.
    batches: Vec<(Batch, Vec<KeyBuf>)>,
}

thread_local! {
    static TOOLS: RefCell<Option<Tools>> = const { RefCell::new(None) };
}

impl Tools {
    fn new() -> Self {
        let sets = [vec![Schema::ipv4(), Schema::ipv6()], vec![Schema::ipv6()], vec![Schema::openflow()]];
        let batch = |schemas: &[Schema]| {
            let batch = Batch::new(&Config::default(), schemas).expect("every field has a source");
            (batch, schemas.iter().map(KeyBuf::new).collect())
        };
        Self { extractors: extractors(), batches: sets.iter().map(|schemas| batch(schemas)).collect() }
    }
}

fn config(cap: usize, fragments: Fragments) -> Config {
    let caps = Config { max_extension_headers: cap, max_vlan_tags: cap, max_mpls_labels: cap, ..Config::default() };
    Config { fragments, ..caps }
}

/// Reads two bytes as a link type and the rest as a frame, and checks the parser's result.
///
/// The frame is parsed under several configurations and cut anywhere. Each packet must have one outcome, and looser
/// caps or more bytes must never make a field less known. Rows and values must agree, and every field must be as
/// etherparse sees it.
pub fn wire(data: &[u8]) {
    let Some((link, bytes)) = data.split_first_chunk::<2>() else { return };
    let link = LinkType::from_number(u16::from_be_bytes(*link).into());
    TOOLS.with_borrow_mut(|tools| {
        let tools = tools.get_or_insert_with(Tools::new);
        for fragments in [Fragments::Unknown, Fragments::Layer3] {
            let mut tighter: Option<Headers> = None;
            for cap in CAPS {
                let config = config(cap, fragments);
                let headers = check(&config, link, bytes, bytes.len(), &mut tools.extractors);
                if let Some(tighter) = tighter {
                    check_grows(&tighter, &headers);
                }
                tighter = Some(headers);
            }
            check_cuts(&config(8, fragments), link, bytes);
        }
        let (closed, open) = (Config::default(), config(8, Fragments::Layer3));
        check_grows(&parse(&closed, link, bytes), &parse(&open, link, bytes));
        for (batch, rows) in &mut tools.batches {
            check_batch(batch, rows, link, bytes);
        }
    });
    compare(&Frame { link, bytes: bytes.to_vec() }, &mut Notes::default());
}

fn check_cuts(config: &Config, link: LinkType, bytes: &[u8]) {
    let whole = parse(config, link, bytes);
    let cut_at = |cut: usize| parse_on(config, 0, link, &bytes[..cut], bytes.len() as u32);
    let mut before = cut_at(0);
    for cut in 0..bytes.len().min(MOST_CUTS) {
        let headers = cut_at(cut);
        check_grows(&before, &headers);
        before = headers;
    }
    check_grows(&before, &whole);
}

/// Checks that a frame gives one outcome, and a row if and only if it is classified.
fn check_batch(batch: &mut Batch, rows: &mut [KeyBuf], link: LinkType, bytes: &[u8]) {
    batch.clear();
    let outcome = batch.push_frame(link, bytes, bytes.len() as u32);
    assert_eq!(batch.records().len(), 1);
    let record = batch.records()[0];
    assert_eq!(record.outcome, outcome);
    let rows_made: usize = (0..rows.len()).map(|schema| batch.packets(schema).len()).sum();
    assert_eq!(rows_made, usize::from(outcome.is_classified()));
    let values = batch.values(&parse(batch.config(), link, bytes));
    assert_eq!(values.is_some(), outcome.is_classified());
    for (index, row) in rows.iter_mut().enumerate() {
        let here = batch.packets(index) == [0];
        row.clear();
        if let Some(values) = values.as_ref().filter(|_| here) {
            row.push_values(values);
        }
        assert_eq!(batch.keys(index).words(), row.keys().words(), "{values:?}");
    }
}
