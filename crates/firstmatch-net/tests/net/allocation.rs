//! Packets allocate nothing once a batch is warm, and a stream of any length takes the memory of a short one.

use std::io::{self, Read};

use firstmatch_core::Schema;
use firstmatch_core::schema::{Family, Source};
use firstmatch_net::source::{FlowOptions, Input, Limits, from_reader};
use firstmatch_net::wire::{Batch, Config, LinkType, Outcome};
use firstmatch_testkit::counter::{Counted, counted};
use firstmatch_testkit::frames::{damage, ethernet as ethernet_frame, ipv4, random, udp};
use firstmatch_testkit::rng::Rng;

/// Endless supply of one record, up to a number of bytes.
struct Repeat {
    head: Vec<u8>,
    record: Vec<u8>,
    at: usize,
    len: usize,
}

impl Read for Repeat {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let part = match self.at.checked_sub(self.head.len()) {
            None => &self.head[self.at..],
            Some(at) => &self.record[at % self.record.len()..],
        };
        let count = part.len().min(into.len()).min(self.len - self.at);
        into[..count].copy_from_slice(&part[..count]);
        self.at += count;
        Ok(count)
    }
}

/// Returns the number of packets or records read, and the allocations of that.
fn stream(head: &[u8], record: &[u8], records: usize) -> (usize, Counted) {
    counted(|| count_of(head, record, records))
}

fn count_of(head: &[u8], record: &[u8], records: usize) -> usize {
    let len = head.len() + records * record.len();
    let reader = Repeat { head: head.to_vec(), record: record.to_vec(), at: 0, len };
    let mut count = 0;
    match from_reader("made up", Box::new(reader), &Limits::default()).expect("opened") {
        Input::Capture(mut capture) => {
            while capture.next().expect("good").is_some() {
                count += 1;
            }
        }
        Input::Trace(mut trace) => {
            while trace.next().expect("good").is_some() {
                count += 1;
            }
        }
        Input::Table(table) => {
            let mut rows = table.into_rows(&[Schema::openflow()]).expect("the columns");
            while rows.next().expect("good").is_some() {
                count += 1;
            }
        }
        Input::Flows(log) => {
            let mut flows = log.into_flows(FlowOptions::default());
            while flows.next().expect("good").is_some() {
                count += 1;
            }
        }
    }
    count
}

#[test]
fn packets_allocate_nothing_in_a_warm_batch() {
    let mut rng = Rng::new(31);
    let frames: Vec<_> = (0..2000)
        .map(|round| {
            let mut frame = random(&mut rng);
            if round % 3 == 0 {
                damage(&mut rng, &mut frame);
            }
            frame
        })
        .collect();
    let schemas = [Family::Ipv4, Family::Ipv6].map(|f| Schema::five_tuple(f, &[Source::TcpFlags, Source::VlanVid]));
    let mut batch = Batch::new(&Config::default(), &schemas).expect("sources");
    let (none, mut answers) = (vec![None; frames.len()], vec![None; frames.len()]);
    for round in 0..4 {
        let ((), made) = counted(|| {
            batch.clear();
            for frame in &frames {
                batch.push_frame(frame.link, &frame.bytes, 1);
            }
            for schema in 0..2 {
                let rows = batch.keys(schema).len();
                batch.scatter(schema, &none[..rows], &mut answers);
            }
        });
        let classified = batch.records().iter().filter(|record| record.outcome.is_classified()).count();
        assert!(classified > 500 && classified < 2000);
        assert!(batch.records().iter().any(|record| record.outcome == Outcome::Malformed));
        assert_eq!(made.calls > 0, round == 0, "{made:?} in round {round}");
    }

    // A batch that has seen common frames alone has room for others.
    let ethernet = frames.iter().filter(|frame| frame.link == LinkType::Ethernet).map(|frame| &frame.bytes[..]);
    let ethernet: Vec<&[u8]> = ethernet.collect();
    let mut batch =
        Batch::new(&Config::default(), &[Schema::ipv4(), Schema::ipv6()]).expect("every field has a source");
    batch.reserve(ethernet.len());
    let common = ethernet_frame(&[], 0x0800, &ipv4(17, 0x4000, &[], &udp())).bytes;
    batch.push_frames(LinkType::Ethernet, [&common; 40]);
    batch.clear();
    let ((), made) = counted(|| batch.push_frames(LinkType::Ethernet, ethernet.iter().copied()));
    assert!(made.calls == 0 && batch.len() > 64, "{made:?}: adding frames allocates");
}

#[test]
fn captures_of_any_length_take_the_memory_of_a_short_one() {
    let mut pcap = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0];
    let frame = [0x5a; 1000];
    let mut record = vec![0; 8];
    record.extend(1000u32.to_le_bytes());
    record.extend(1000u32.to_le_bytes());
    record.extend(frame);
    let (short, made) = stream(&pcap, &record, 1000);
    let (long, for_long) = stream(&pcap, &record, 200_000);
    assert_eq!((short, long), (1000, 200_000));
    assert!(for_long.peak == made.peak && made.peak < 1 << 20, "{made:?}, {for_long:?}");
    assert_eq!(for_long.calls, made.calls, "reading a packet allocates");
    // A large record grows the buffer, but all memory stays below four times the record's size.
    pcap.extend([0; 8]);
    pcap.extend((3u32 << 20).to_le_bytes());
    pcap.extend((3u32 << 20).to_le_bytes());
    pcap.extend(vec![1; 3 << 20]);
    let (count, made) = stream(&pcap, &record, 20_000);
    assert!(count == 20_001 && made.peak < 12 << 20, "{made:?}");
}

#[test]
fn texts_of_any_length_take_the_memory_of_a_short_one() {
    let (short, made) = stream(b"", b"1 2 3 4 5 6\n", 100_000);
    let (long, for_long) = stream(b"", b"1 2 3 4 5 6\n", 1_000_000);
    assert_eq!((short, long, for_long.peak), (100_000, 1_000_000, made.peak));

    let names: Vec<_> = Schema::openflow().fields().iter().map(|field| field.name().to_owned()).collect();
    let header = format!("{},bytes\n", names.join(","));
    let row = b"1,0xff,02:00:00:00:00:01,,ipv4,,,,,10.0.0.1,192.0.2.1,tcp,46,1024,80,60\n";
    let (short, made) = stream(header.as_bytes(), row, 10_000);
    let (long, for_long) = stream(header.as_bytes(), row, 100_000);
    assert_eq!((short, long, for_long.peak), (10_000, 100_000, made.peak));
    assert_eq!(for_long.calls, made.calls, "reading a row allocates");

    let row = b"2 1 eni-1 10.0.0.1 192.0.2.1 1024 443 6 10 840 1418530010 1418530070 ACCEPT OK\n";
    let (short, made) = stream(b"", row, 10_000);
    let (long, for_long) = stream(b"", row, 100_000);
    assert_eq!((short, long, for_long.peak), (10_000, 100_000, made.peak));
    assert_eq!(for_long.calls, made.calls, "reading a flow allocates");
}

/// A worker swaps boxes for newer ones in a lookup, and keeps no memory of them.
#[cfg(feature = "systems")]
#[test]
fn lookups_by_shared_boxes_allocate_nothing() {
    use std::sync::Arc;

    use firstmatch_core::cache::rule::{BoxUpdater, Config};
    use firstmatch_core::engines::linear::{self, Linear};
    use firstmatch_core::{Classifier, KeyBuf};
    use firstmatch_net::systems::shared::{SharedBoxes, SharedLookup};

    let text: String = (0..40).map(|port| format!("permit udp dport {}-{}\n", port * 10, port * 10 + 7)).collect();
    let rules = firstmatch_formats::parse(&format!("family ipv4\n{text}"), &Default::default()).expect("rules").rules;
    let lowered = firstmatch_core::rule::lower(&rules, &rules.schemas()[0], &Default::default()).expect("few");
    let engine: Arc<dyn Classifier> = Arc::new(Linear::build(&lowered, &linear::Config::default()).expect("no budget"));
    let updater = BoxUpdater::over(Arc::clone(&engine), &lowered, &Config::default()).expect("no budget");
    let shared = SharedBoxes::new(updater, 2);
    let mut workers = [0, 1].map(|worker| SharedLookup::new(&shared, worker));
    let (mut rng, mut keys) = (Rng::new(3), KeyBuf::new(lowered.schema()));
    let mut want = vec![None; 300];
    for round in 0..600 {
        keys.clear();
        for _ in 0..300 {
            let popular = if rng.one_in(8) { 400 } else { 50 };
            keys.push()[..5].copy_from_slice(&[1, 2, 3, rng.below(popular) as u32, 17]);
        }
        engine.classify_batch(&mut engine.scratch(), keys.keys(), &mut want);
        // The workers are at the newest boxes by turns, so that an update finds some that one of them has.
        let (worker, mut best) = (&mut workers[usize::from(round % 3 == 0)], vec![None; 300]);
        let ((), made) = counted(|| worker.improve(&keys.keys(), &mut best));
        assert_eq!(best, want);
        // The first search of each worker makes room for a batch of this length.
        assert!(made.calls == 0 || round < 4, "{made:?} in round {round}");
        shared.update();
    }
    let counts = shared.counts();
    assert!(counts.published > 60 && counts.samples == 600 && counts.hits > 60_000, "{counts:?}");
}
