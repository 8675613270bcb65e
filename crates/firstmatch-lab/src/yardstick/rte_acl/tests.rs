use firstmatch_core::rule::{ExpansionLimits, lower};
use firstmatch_core::schema::Family;
use firstmatch_core::{Classifier, KeyBuf, RuleSet};
use firstmatch_generate::trace::Header;
use firstmatch_net::wire::{Batch, Config, LinkType, Outcome};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;
use crate::workload::FRAME;

const IPV4: &str = "family ipv4\n\
    deny tcp src 10.1.0.0/16 dport 22\n\
    permit tcp src 10.0.0.0/8 dport 20-25\n\
    permit proto not { 6, 17 } dst 192.0.2.7\n\
    permit udp src 0.0.0.3-0.0.0.9 sport 53\n\
    deny src not 10.0.0.0/8 dst 192.0.2.0/24\n";
const IPV6: &str = "family ipv6\n\
    deny tcp src 2001:db8::/33 dport 22\n\
    permit tcp src 2001:db8::/32\n\
    deny proto 58\n";

fn heap(bytes: usize) -> Arc<Heap> {
    Arc::new(Heap::new(bytes).expect("DPDK makes a heap"))
}

/// Compares both configurations and all algorithms with `linear`.
///
/// The keys lie at the corners of regions and beside them.
#[test]
fn it_answers_as_linear_does() {
    for text in [IPV4, IPV6] {
        let file = firstmatch_formats::parse(text, &firstmatch_formats::Options::default()).expect("good rules");
        let lowered = Arc::new(
            lower(&file.rules, &file.rules.schemas()[0], &ExpansionLimits::default()).expect("within the caps"),
        );
        let linear =
            firstmatch_core::engines::linear::Linear::build(&lowered, &Default::default()).expect("it is built");
        let mut random = Pcg64::seed_from_u64(3);
        let mut keys = KeyBuf::new(lowered.schema());
        for _ in 0..5000 {
            let region = lowered.regions().get(random.random_range(0..lowered.regions().len()));
            let words = lowered.schema().words().iter().enumerate();
            for ((index, word), place) in words.zip(keys.push()) {
                let corner = if random.random() { region.lo[index] } else { region.hi[index] };
                *place = match random.random_range(0..8) {
                    0 => corner.saturating_sub(1),
                    1 => (corner + u32::from(corner < word.max)).min(word.max),
                    _ => corner,
                };
            }
        }
        let mut want = vec![None; keys.len()];
        linear.classify_batch(&mut linear.scratch(), keys.keys(), &mut want);
        assert!(want.iter().flatten().count() > 2000 && want.iter().any(Option::is_none));
        for max_size in [0, 1 << 20] {
            let table = Arc::new(Table::build(&lowered, Form::Keys, max_size, heap(16 << 20)).expect("it is built"));
            let algorithms: Vec<_> = ALGORITHMS.into_iter().filter(|&(_, number)| table.has(number)).collect();
            assert!(algorithms.len() >= 2, "{algorithms:?}");
            for (name, algorithm) in algorithms {
                let figures = Figures { seconds: 0.0, run_bytes: 0, peak_bytes: 0 };
                let acl = RteAcl { table: Arc::clone(&table), algorithm, figures };
                for batch in [1, 31, 33, 5000] {
                    let (mut got, mut replay) = (vec![None; keys.len()], acl.replay(keys.keys()));
                    for from in (0..keys.len()).step_by(batch) {
                        let to = keys.len().min(from + batch);
                        acl.classify_batch(&mut acl.scratch(), keys.keys().slice(from, to), &mut got[from..to]);
                        replay.classify(from, to);
                    }
                    assert!(got == want, "{name}, batches of {batch}");
                    assert!(replay.answers() == want, "{name}, a replay, batches of {batch}");
                }
            }
        }
    }
}

/// Compares frames with keys parsed from them, for protocols with ports and without.
///
/// A rule that tests ports must match no packet without ports, whatever its bytes are.
#[test]
fn it_reads_frames_in_place() {
    let text = "family ipv4\n\
        deny proto 1 dport 0\n\
        deny src 10.1.0.0/16 dport 0-22\n\
        permit tcp src 10.0.0.0/8 dport 20-25\n\
        permit proto 47 dst 192.0.2.7\n\
        permit proto 132 sport 5\n\
        permit src 10.1.0.0/17\n\
        mark 3 dport 1\n";
    let only_ports = "family ipv4\npermit dport 0-22\n";
    for text in [text, only_ports] {
        let file = firstmatch_formats::parse(text, &firstmatch_formats::Options::default()).expect("good rules");
        let schema = &file.rules.schemas()[0];
        let lowered = Arc::new(lower(&file.rules, schema, &ExpansionLimits::default()).expect("within the caps"));
        let mut random = Pcg64::seed_from_u64(4);
        let mut frames = Vec::new();
        for _ in 0..3000 {
            let header = Header {
                src: [0x0a01_0001, 0x0a01_8001, 0x0a02_0001, 7][random.random_range(0..4)],
                dst: [0xc000_0207, 9][random.random_range(0..2)],
                family: Family::Ipv4,
                sport: random.random_range(0..8),
                dport: random.random_range(0..30),
                proto: [1, 6, 17, 33, 47, 50, 132, 136][random.random_range(0..8)],
                rule: None,
            };
            let mut frame = Vec::new();
            header.append_frame(&mut frame).expect("it is built");
            let mut frame: [u8; FRAME] = frame.try_into().expect("64 bytes");
            // Bytes that are no ports look like some.
            if matches!(header.proto, 1 | 47 | 50) {
                frame[34..38].copy_from_slice(&[0, 5, 0, random.random_range(0..30)]);
            }
            frames.push(frame);
        }
        let mut batch = Batch::new(&Config::default(), file.rules.schemas()).expect("fields of packets");
        frames.iter().for_each(|frame| _ = batch.push_frame(LinkType::Ethernet, frame, FRAME as u32));
        let linear =
            firstmatch_core::engines::linear::Linear::build(&lowered, &Default::default()).expect("it is built");
        let mut want = vec![None; frames.len()];
        linear.classify_batch(&mut linear.scratch(), batch.keys(0), &mut want);
        let without_ports = batch.records().iter().filter(|record| record.outcome == Outcome::NoPorts).count();
        assert!((500..2500).contains(&without_ports), "{without_ports}");

        let table = Arc::new(Table::build(&lowered, Form::Frames, 0, heap(16 << 20)).expect("it is built"));
        for (name, algorithm) in ALGORITHMS.into_iter().filter(|&(_, number)| table.has(number)) {
            let figures = Figures { seconds: 0.0, run_bytes: 0, peak_bytes: 0 };
            let acl = RteAcl { table: Arc::clone(&table), algorithm, figures };
            for size in [1, 31, 3000] {
                let mut of_frames = acl.replay_frames(&frames).expect("tables of frames");
                let mut of_keys = acl.replay(batch.keys(0));
                for from in (0..frames.len()).step_by(size) {
                    of_frames.classify(from, frames.len().min(from + size));
                    of_keys.classify(from, frames.len().min(from + size));
                }
                assert!(of_frames.answers() == want, "{name}, frames, batches of {size}");
                assert!(of_keys.answers() == want, "{name}, keys, batches of {size}");
            }
            // A frame that cannot be read in place has no answer.
            let mut odd = [frames[0]; 4];
            odd[0][14] = 0x46;
            odd[1][13] = 0xdd;
            odd[2][21] = 1;
            let mut replay = acl.replay_frames(&odd).expect("tables of frames");
            replay.classify(0, 4);
            assert_eq!(replay.answers()[..3], [None; 3]);
        }
    }
}

#[test]
fn rules_beyond_it_are_refused() {
    let schema = Schema::openflow();
    let lowered =
        Arc::new(lower(&RuleSet::new(schema.clone()), &schema, &ExpansionLimits::default()).expect("within the caps"));
    let error = Table::build(&lowered, Form::Keys, 0, heap(1 << 20)).expect_err("it has no such fields");
    assert!(error.to_string().contains("beyond it"), "{error}");
}
