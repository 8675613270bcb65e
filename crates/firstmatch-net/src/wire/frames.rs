//! Frames added to a batch together, several in flight.

use firstmatch_core::raw::prefetch;

use super::batch::{Batch, Group, Record, Uncommon, route};
use super::kinds::{IPV6_BIT, UNCOMMON};
use super::parse::parse_frame;
use super::plan::{Head, NO_TARGET, TARGETS, Target};
use super::{Headers, LinkType};

/// Number of frames that are recognised before the first row is filled.
const CHUNK: usize = 32;

/// Chunks of at most this many frames are read one by one.
const FEW: usize = 3;

impl Batch {
    /// Adds whole frames of interface 0, in order.
    ///
    /// It does the same as [`Batch::push_frame`] for each frame and is faster. The next frames are prefetched, eight
    /// frames are recognised side by side, and the rows of one schema are filled after those of another. So no branch
    /// depends on the protocol of the frame before.
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
        if link != LinkType::Ethernet || frames.len() <= FEW {
            frames.iter().for_each(|frame| _ = self.push_frame(link, frame, frame.len() as u32));
            return;
        }
        // Reserved in the first chunk, so that later ones allocate nothing, however many of their frames are uncommon.
        self.uncommon.clear();
        self.uncommon.reserve(CHUNK);
        let mut kinds = [UNCOMMON; CHUNK];
        self.plan.recognised.of_all(self.level, frames, &mut kinds);
        // Elements without a frame copy the first one, so that all can be compared together.
        let first = kinds[0];
        kinds.iter_mut().skip(frames.len()).for_each(|kind| *kind = first);
        let (any, all) = kinds.iter().fold((0, u8::MAX), |(any, all), &kind| (any | kind, all & kind));
        let is_one_family = any & UNCOMMON == 0 && (any ^ all) & IPV6_BIT == 0;
        let target = self.plan.family(any & IPV6_BIT != 0).filter(|_| is_one_family);
        let first = self.records.len();
        let plan = &self.plan;
        let record = |(frame, &kind): (&&[u8], &u8)| Record { outcome: plan.outcome(kind), bytes: frame.len() as u32 };
        self.records.extend(frames.iter().zip(&kinds).map(record));
        match target {
            Some(target) => self.push_targets(target, frames, &kinds, first, 0..frames.len()),
            None => self.push_mixed(frames, &kinds, first),
        }
    }

    /// Adds the rows of frames of any kinds.
    ///
    /// The frames of one schema are read after those of another, each in order of arrival. So the branches on the
    /// family are predicted in mixed traffic, too.
    #[inline(never)]
    fn push_mixed(&mut self, frames: &[&[u8]], kinds: &[u8; CHUNK], first: usize) {
        let mut targets = [NO_TARGET; CHUNK];
        targets.iter_mut().zip(kinds).for_each(|(target, &kind)| *target = self.plan.target(kind));
        self.parse_uncommon(frames, kinds, first, &mut targets);
        // Frames of each target, and of none. All four counts are in one register, because a count in memory would be
        // read again before it is written.
        let mut lists = [[0u8; CHUNK]; TARGETS + 1];
        let mut counts = 0u32;
        for (at, &target) in (0..).zip(&targets).take(frames.len()) {
            let target = usize::from(target) % lists.len();
            lists[target][(counts >> (8 * target)) as usize % CHUNK] = at;
            counts += 1 << (8 * target);
        }
        let counts = counts.to_le_bytes().map(usize::from);
        for target in 0..TARGETS {
            let list = &lists[target][..counts[target].min(CHUNK)];
            if !list.is_empty() {
                self.push_targets(target as u8, frames, kinds, first, list.iter().map(|&at| usize::from(at)));
            }
        }
        let Self { groups, uncommon, .. } = self;
        for &Uncommon { ref headers, at, schema } in &*uncommon {
            let target = usize::from(targets[usize::from(at) % CHUNK]) % lists.len();
            let Some(Group { extractor, keys, packets, .. }) = groups.get_mut(usize::from(schema)) else { continue };
            let list = &lists[target][..counts[target].min(CHUNK)];
            if let Some(before) = list.iter().position(|&of| of == at).filter(|_| target != usize::from(NO_TARGET)) {
                let words = keys.row_mut(packets.len() - list.len() + before);
                // The row was filled for another kind, which may have more words, but padding must be zero.
                words.fill(0);
                extractor.fill(headers, words);
            }
        }
    }

    /// Adds the rows of frames of one target, in the given order.
    ///
    /// Uncommon frames get the row of any kind, because a branch for them would be mispredicted.
    #[inline(always)]
    fn push_targets(
        &mut self,
        target: u8,
        frames: &[&[u8]],
        kinds: &[u8; CHUNK],
        first: usize,
        order: impl ExactSizeIterator<Item = usize> + Clone,
    ) {
        let Self { plan, groups, .. } = self;
        let Some(&Target { schema, row }) = plan.targets.get(usize::from(target)) else { return };
        let Some(Group { keys, packets, .. }) = groups.get_mut(usize::from(schema)) else { return };
        packets.extend(order.clone().map(|at| (first + at) as u32));
        let stride = keys.stride();
        let rows = keys.push_rows(order.len());
        let frames = order.filter_map(|at| Some((*frames.get(at)?, kinds[at % CHUNK])));
        // Form and stride are constants in each loop.
        match row {
            Head::Ipv4 => {
                for ((frame, kind), row) in frames.zip(rows.as_chunks_mut::<8>().0) {
                    plan.kind(kind).fill_ipv4(kind, frame, row);
                }
            }
            Head::Ipv6 => {
                for ((frame, kind), row) in frames.zip(rows.as_chunks_mut::<12>().0) {
                    plan.kind(kind).fill_ipv6(kind, frame, row);
                }
            }
            Head::Empty => {
                for ((frame, kind), row) in frames.zip(rows.chunks_exact_mut(stride)) {
                    plan.kind(kind).fill(kind, frame, row);
                }
            }
        }
    }

    /// Finds the headers, the schema, the outcome and the target of each uncommon frame.
    #[inline(always)]
    fn parse_uncommon(&mut self, frames: &[&[u8]], kinds: &[u8; CHUNK], first: usize, targets: &mut [u8; CHUNK]) {
        let Self { config, plan, groups, records, uncommon, .. } = self;
        for at in bits_of(kinds, UNCOMMON) {
            let Some(frame) = frames.get(usize::from(at)) else { return };
            uncommon.push(Uncommon { headers: Headers::new(0, config.metadata), at, schema: 0 });
            let (Some(parsed), Some(record)) = (uncommon.last_mut(), records.get_mut(first + usize::from(at))) else {
                continue;
            };
            parse_frame(config, LinkType::Ethernet, frame, frame.len() as u32, &mut parsed.headers);
            let (schema, outcome) = route(groups, &parsed.headers);
            (parsed.schema, record.outcome) = (schema as u8, outcome);
            targets[usize::from(at) % CHUNK] =
                if outcome.is_classified() { plan.target_of(schema as u8) } else { NO_TARGET };
        }
    }
}

/// Returns the indices of the bytes in which a bit is set, in order.
fn bits_of(bytes: &[u8; CHUNK], bit: u8) -> impl Iterator<Item = u8> {
    let words = bytes.as_chunks::<8>().0.iter();
    words.zip((0..).step_by(8)).flat_map(move |(&word, first)| {
        let mut left = u64::from_le_bytes(word) & u64::from_le_bytes([bit; 8]);
        std::iter::from_fn(move || {
            let at = left.checked_ilog2().map(|_| first + left.trailing_zeros() as u8 / 8);
            left &= left.wrapping_sub(1);
            at
        })
    })
}
