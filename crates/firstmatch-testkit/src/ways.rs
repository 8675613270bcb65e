//! The ways from a frame to a row: a frame at once, frames together with vectors and without, and through its headers.
#![allow(dead_code, unreachable_pub, reason = "each user takes a part of it")]

use firstmatch_core::raw::Level;
use firstmatch_core::schema::Source;
use firstmatch_core::{RuleSet, Schema};
use firstmatch_net::wire::{Batch, Config, LinkType, parse};

use crate::invariants::extractors;

/// A batch for each way, of the same schemas.
#[derive(Clone, Debug)]
pub struct Ways {
    config: Config,
    by_headers: Batch,
    by_frame: Batch,
    together: Batch,
    /// Frames together without vectors.
    scalar: Batch,
}

/// Returns lists of schemas: of one family, of both, and every schema of [`extractors`] alone.
pub fn schemas() -> Vec<Vec<Schema>> {
    use firstmatch_core::schema::Family::{Ipv4, Ipv6};
    let both = |extra: &[Source]| vec![Schema::five_tuple(Ipv4, extra), Schema::five_tuple(Ipv6, extra)];
    let mut lists = vec![
        both(&[]),
        both(&[Source::TcpFlags, Source::VlanVid, Source::IcmpType, Source::IcmpCode]),
        vec![Schema::ipv6(), Schema::openflow(), Schema::ipv4()],
        // All fields that frames alone fill, so that common frames are read in place.
        both(&Source::ALL[17..]),
        both(&[Source::Fragment, Source::Dscp, Source::Ttl]),
        both(&[Source::Ttl, Source::Length]),
    ];
    // 5-tuples without one of their fields are no 5-tuples.
    for family in [Ipv4, Ipv6] {
        let fields = Schema::five_tuple(family, &[]).fields().to_vec();
        for without in 0..fields.len() {
            let left = fields.iter().enumerate().filter(|(at, _)| *at != without).map(|(_, field)| field.clone());
            lists.push(vec![Schema::new(Some(family), left.collect())]);
        }
    }
    lists.extend(extractors().iter().map(|(extractor, ..)| vec![extractor.schema().clone()]));
    // Rows of IPv4 are longer than those of IPv6.
    lists.push(vec![Schema::five_tuple(Ipv4, &Source::ALL[17..]), Schema::ipv6()]);
    lists
}

impl Ways {
    /// Returns empty batches.
    ///
    /// # Panics
    /// If a schema has a field that packets cannot fill.
    pub fn new(config: &Config, schemas: &[Schema]) -> Self {
        Self::of(config, |config| Batch::new(config, schemas).expect("every field has a source"))
    }

    /// Checks that one frame gets the same outcome, record and row every way.
    pub fn compare(&mut self, link: LinkType, frame: &[u8]) {
        self.compare_many(link, &[frame]);
    }

    /// Checks that frames get the same outcomes, records and rows every way.
    pub fn compare_many(&mut self, link: LinkType, frames: &[&[u8]]) {
        self.push_each(link, frames);
        for batch in [&mut self.together, &mut self.scalar] {
            batch.clear();
            batch.push_frames(link, frames.iter().copied());
        }
        self.check(&self.together, link, frames);
        self.check(&self.scalar, link, frames);
    }

    /// Checks that `together` holds what each of these frames alone gives.
    pub fn compare_all(&mut self, link: LinkType, frames: &[&[u8]], together: &Batch) {
        self.push_each(link, frames);
        self.check(together, link, frames);
    }

    /// Returns empty batches that need the fields that `rules` test.
    ///
    /// # Panics
    /// If a schema has a field that packets cannot fill.
    pub fn for_rules(config: &Config, rules: &RuleSet) -> Self {
        Self::of(config, |config| Batch::for_rules(config, rules).expect("every field has a source"))
    }

    fn of(config: &Config, batch: impl Fn(&Config) -> Batch) -> Self {
        let (with, without) = (batch(config), batch(&Config { simd: Some(Level::Scalar), ..*config }));
        Self { config: *config, by_headers: with.clone(), by_frame: with.clone(), together: with, scalar: without }
    }

    fn push_each(&mut self, link: LinkType, frames: &[&[u8]]) {
        let Self { config, by_headers, by_frame, .. } = self;
        by_headers.clear();
        by_frame.clear();
        for frame in frames {
            let bytes = frame.len() as u32;
            let outcome = by_headers.push_headers(&parse(config, link, frame), bytes);
            assert_eq!(by_frame.push_frame(link, frame, bytes), outcome, "{link:?} {frame:02x?}");
        }
    }

    fn check(&self, together: &Batch, link: LinkType, frames: &[&[u8]]) {
        for batch in [&self.by_frame, together] {
            assert_eq!(batch.records(), self.by_headers.records(), "{link:?} {frames:02x?}");
            for schema in 0..batch.schemas() {
                assert_eq!(batch.packets(schema), self.by_headers.packets(schema), "{link:?} {frames:02x?}");
                let rows = batch.keys(schema).words();
                assert_eq!(rows, self.by_headers.keys(schema).words(), "{link:?} {frames:02x?}");
            }
        }
    }
}
