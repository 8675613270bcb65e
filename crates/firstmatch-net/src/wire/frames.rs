//! Frames added to a batch together, several in flight.

use firstmatch_core::raw::prefetch;

use super::batch::{Batch, Group, Record, route};
use super::parse::parse_frame;
use super::plan::{CommonFacts, Head, IPV4_BYTES, IPV6_BIT, Kind, Plan, UNCOMMON};
use super::{Headers, LinkType, Outcome};

/// Number of frames that are sorted into kinds before the first of them is read.
const CHUNK: usize = 32;

/// Frame that is not common, with its headers.
#[derive(Clone, Debug)]
pub(super) struct Uncommon {
    headers: Headers,
    /// Index of the frame among those added with it.
    at: u8,
    schema: u8,
    outcome: Outcome,
}

impl Batch {
    /// Adds whole frames of interface 0, in order.
    ///
    /// It does the same as [`Batch::push_frame`] for each frame and is faster. The frames ahead are prefetched, and
    /// frames of different protocols are sorted first, so that no branch depends on the protocol of the frame before.
    ///
    /// ```
    /// use firstmatch_core::Schema;
    /// use firstmatch_net::wire::{Batch, Config, LinkType, Outcome};
    ///
    /// let mut batch = Batch::new(&Config::default(), &[Schema::ipv4(), Schema::ipv6()])?;
    /// let frames: Vec<Vec<u8>> = vec![vec![0; 60], vec![0xff; 60]];
    /// batch.push_frames(LinkType::Ethernet, &frames);
    /// assert!(batch.records().iter().all(|record| record.outcome == Outcome::NotIp));
    /// # Ok::<(), firstmatch_net::wire::NoSource>(())
    /// ```
    #[inline]
    pub fn push_frames<'f, F>(&mut self, link: LinkType, frames: impl IntoIterator<Item = &'f F>)
    where
        F: AsRef<[u8]> + ?Sized + 'f,
    {
        let mut frames = frames.into_iter();
        let mut chunk: [&[u8]; CHUNK] = [&[]; CHUNK];
        loop {
            let mut count = 0;
            for (place, frame) in chunk.iter_mut().zip(&mut frames) {
                *place = frame.as_ref();
                if let Some(first) = place.first() {
                    prefetch(first);
                }
                count += 1;
            }
            if count > 0 {
                self.push_chunk(link, &chunk[..count]);
            }
            if count < CHUNK {
                return;
            }
        }
    }

    /// Adds at most [`CHUNK`] frames.
    #[inline(never)]
    fn push_chunk(&mut self, link: LinkType, frames: &[&[u8]]) {
        if link != LinkType::Ethernet {
            frames.iter().for_each(|frame| _ = self.push_frame(link, frame, frame.len() as u32));
            return;
        }
        // Reserved by the first chunk, so that later ones allocate nothing, however many of their frames are uncommon.
        self.uncommon.clear();
        self.uncommon.reserve(CHUNK);
        let frames = if self.was_mixed { frames } else { &frames[self.push_run(frames)..] };
        if frames.is_empty() {
            return;
        }
        let mut kinds = [UNCOMMON; CHUNK];
        self.was_mixed = self.plan.kinds_of(frames, &mut kinds);
        if self.was_mixed {
            self.push_mixed(frames, &kinds[..frames.len().min(CHUNK)]);
        } else {
            let count = self.push_run(frames);
            debug_assert_eq!(count, frames.len(), "all are of one family");
        }
    }

    /// Adds frames as long as they are common ones of one family, and returns their number.
    #[inline(always)]
    fn push_run(&mut self, frames: &[&[u8]]) -> usize {
        let Some(first) = frames.first() else { return 0 };
        let is_ipv6 = self.plan.is_ipv6(first);
        // Family and stride are constants in each call.
        match (is_ipv6, self.plan.family(is_ipv6).row) {
            (false, Head::Ipv4) => {
                self.push_family(false, Some(8), frames, |kind, at_type, _, row| kind.fill_ipv4(at_type, row))
            }
            (true, Head::Ipv6) => {
                self.push_family(true, Some(12), frames, |kind, _, frame, row| kind.fill_ipv6(frame, row))
            }
            (false, _) => self.push_family(false, None, frames, |kind, _, frame, row| kind.fill(frame, row)),
            (true, _) => self.push_family(true, None, frames, |kind, _, frame, row| kind.fill(frame, row)),
        }
    }

    /// Adds frames as long as they are common ones of IPv6, or of IPv4, and returns their number.
    #[inline(always)]
    fn push_family(
        &mut self,
        ipv6: bool,
        stride: Option<usize>,
        frames: &[&[u8]],
        fill: impl Fn(&Kind, &[u8; IPV4_BYTES], &[u8], &mut [u32]),
    ) -> usize {
        let Self { plan, groups, records, .. } = self;
        let &CommonFacts { schema, is_classified, .. } = plan.family(ipv6);
        let Some(Group { keys, packets, .. }) = groups.get_mut(usize::from(schema)).filter(|_| is_classified) else {
            return 0;
        };
        let (first, first_row) = (records.len() as u32, packets.len());
        let stride = stride.unwrap_or(keys.stride());
        debug_assert_eq!(stride, keys.stride(), "rows of a head and nothing behind it");
        let mut kinds = [UNCOMMON; CHUNK];
        let mut count = 0;
        let rows = keys.push_rows(frames.len()).chunks_exact_mut(stride);
        for ((frame, row), index) in frames.iter().zip(rows).zip(&mut kinds) {
            let Some((kind, at_type)) = plan.common(ipv6, frame) else { break };
            // The outcome would be stored late, and the loads of the next frames would wait for that.
            *index = kind;
            fill(plan.kind(kind), at_type, frame, row);
            count += 1;
        }
        keys.truncate(first_row + count);
        packets.extend((first..).take(count));
        let record = |((frame, &index), row): ((&&[u8], &u8), u32)| {
            let outcome = plan.kind(index).outcome;
            Record { outcome, place: Some((schema, row)), bytes: frame.len() as u32 }
        };
        records.extend(frames[..count].iter().zip(&kinds).zip(first_row as u32..).map(record));
        count
    }

    /// Adds frames of any kinds.
    ///
    /// The frames of one schema are read after those of another, each in order of arrival. So the branches for a family
    /// are predicted in mixed traffic, too.
    #[inline(never)]
    fn push_mixed(&mut self, frames: &[&[u8]], kinds: &[u8]) {
        // A bit for each frame.
        let (mut ipv6, mut uncommon) = (0, 0);
        for &kind in kinds.iter().rev() {
            ipv6 = ipv6 << 1 | u32::from(kind & IPV6_BIT != 0);
            uncommon = uncommon << 1 | u32::from(kind & UNCOMMON != 0);
        }
        let all = u32::MAX >> (CHUNK - frames.len().clamp(1, CHUNK));
        let common = [all & !ipv6 & !uncommon, ipv6];
        let unread = |frame: &&[u8]| Record { outcome: Outcome::NotIp, place: None, bytes: frame.len() as u32 };
        let first = self.records.len();
        self.records.extend(frames.iter().map(unread));
        self.parse_uncommon(frames, uncommon);
        let Self { plan, groups, records, uncommon: parsed, .. } = self;
        let Some(records) = records.get_mut(first..) else { return };
        let common = [false, true].map(|ipv6| {
            let frames = common[usize::from(ipv6)];
            if plan.family(ipv6).is_classified { frames } else { set_outcomes(plan, kinds, records, frames) }
        });
        for (schema, Group { extractor, keys, packets, .. }) in (0..).zip(groups) {
            let of_family = |ipv6: bool| if plan.family(ipv6).schema == schema { common[usize::from(ipv6)] } else { 0 };
            let of_parsed = parsed.iter().filter(|frame| frame.schema == schema && frame.outcome.is_classified());
            let frames_here = of_parsed.fold(of_family(false) | of_family(true), |all, frame| all | 1 << frame.at);
            let rows = packets.len() as u32..;
            packets.extend(Bits(frames_here).map(|at| (first + at) as u32));
            let stride = keys.stride();
            let words = keys.push_rows(frames_here.count_ones() as usize);
            // Uncommon frames get any kind first, because a branch for them would be mispredicted.
            for (at, words) in Bits(frames_here).zip(words.chunks_exact_mut(stride)) {
                plan.kind(kinds[at]).fill(frames[at], words);
            }
            for (at, row) in Bits(frames_here).zip(rows) {
                let Some(record) = records.get_mut(at) else { continue };
                (record.outcome, record.place) = (plan.kind(kinds[at]).outcome, Some((schema, row)));
            }
            for frame in parsed.iter().filter(|frame| frames_here >> frame.at & 1 != 0) {
                let Some(record) = records.get_mut(usize::from(frame.at)) else { continue };
                record.outcome = frame.outcome;
                let row = (frames_here & ((1 << frame.at) - 1)).count_ones() as usize;
                let words = &mut words[row * stride..][..stride];
                // The kind that it got first may be of longer rows, but padding must be zero.
                words.fill(0);
                extractor.fill(&frame.headers, words);
            }
        }
    }

    /// Finds the headers, the schema and the outcome of each uncommon frame, and notes the outcome in its record.
    #[inline(always)]
    fn parse_uncommon(&mut self, frames: &[&[u8]], which: u32) {
        let Self { config, groups, records, uncommon, .. } = self;
        let first = records.len() - frames.len();
        for at in Bits(which) {
            let headers = Headers::new(0, config.metadata);
            uncommon.push(Uncommon { headers, at: at as u8, schema: 0, outcome: Outcome::NotIp });
            let (Some(frame), Some(parsed)) = (frames.get(at), uncommon.last_mut()) else { continue };
            parse_frame(config, LinkType::Ethernet, frame, &mut parsed.headers);
            let (schema, outcome) = route(groups, &parsed.headers);
            (parsed.schema, parsed.outcome) = (schema as u8, outcome);
            records[first + at].outcome = outcome;
        }
    }
}

/// Notes the outcome of common frames, and returns those that are classified.
fn set_outcomes(plan: &Plan, kinds: &[u8], records: &mut [Record], frames: u32) -> u32 {
    Bits(frames).fold(0, |classified, at| {
        let outcome = plan.kind(kinds[at]).outcome;
        records[at].outcome = outcome;
        classified | u32::from(outcome.is_classified()) << at
    })
}

/// Iterator over the indices of the bits that are set, from the lowest.
struct Bits(u32);

impl Iterator for Bits {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let at = self.0.trailing_zeros() as usize;
        (self.0 != 0).then(|| {
            self.0 &= self.0 - 1;
            at
        })
    }
}
