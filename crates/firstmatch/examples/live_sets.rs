//! Measures live sets: changes of members a second, and the time that a lookup takes more.
//!
//! ```sh
//! cargo run --release -p firstmatch --example live_sets -- 1000 100000 1000000
//! ```
//!
//! Each argument is a number of members, all random addresses of IPv4. The rules are `deny src $bad` behind 1,000 rules
//! on destinations that no packet here matches.
//!
//! - *changes/s*: five members go and five come in each commit, without a reader. The figure is the best of 1,000
//!   turns of 20 commits, because other programs take the core in between; *median* is that of the turns.
//! - *more ns*: batches of 32 keys, every other of which has a member as its source. Thirty rounds of an engine with
//!   the live rule and of one without it take turns; the difference of the fastest rounds is divided by the keys.
//! - *beside*: changes a second while a reader looks up batches all the time on another thread, with waits for it.
//! - *torn*: batches of that reader in which two addresses were both members or both none, although each commit
//!   exchanges them.

#![expect(clippy::print_stdout, reason = "the figures are its output")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use firstmatch::core::live::{self, Engine, Writer};
use firstmatch::core::rule::{FieldValues, Member, SetId};
use firstmatch::core::schema::Family;
use firstmatch::core::{Classifier, KeyBuf};
use firstmatch::formats::{self, Options};

/// Number of keys that a lookup takes at a time.
const BATCH: usize = 32;
/// Number of changes in a commit.
const CHANGES: usize = 10;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (self.0 >> 32) as u32
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() as usize * end) >> 32
    }
}

fn host(address: u32) -> Member {
    std::net::IpAddr::from(address.to_be_bytes()).into()
}

/// Opens the rules, with the rule of the live set and its members or without.
fn open(members: Option<&[u32]>) -> (Engine, Writer) {
    let mut text = "family ipv4\n".to_owned();
    (0..1000).for_each(|net: u32| text += &format!("permit dst 240.{}.{}.0/24 tcp\n", net / 256, net % 256));
    if members.is_some() {
        text += "live set bad = { }\ndeny src $bad\n";
    }
    let mut rules = formats::parse(&text, &Options::default()).expect("good rules").rules;
    for &address in members.unwrap_or_default() {
        rules.live_sets_mut().insert(SetId::new(0), host(address)).expect("the set is there");
    }
    let (mut engines, writer) = live::open(rules, &live::Config::default()).expect("no budget");
    (engines.swap_remove(0), writer)
}

/// Returns batches of keys, every other with a member as its source.
fn batches(engine: &Engine, members: &[u32], random: &mut Random) -> Vec<KeyBuf> {
    let batch = |_| {
        let mut keys = KeyBuf::new(firstmatch::core::Engine::schema(engine));
        for key in 0..BATCH {
            let src = if key % 2 == 0 { members[random.below(members.len())] } else { random.next() };
            let values = [src, random.next() >> 1, 1024, 443, 6].map(|value| Some(value.into())).to_vec();
            keys.push_values(&FieldValues { family: Some(Family::Ipv4), values });
        }
        keys
    };
    (0..2048).map(batch).collect()
}

/// Returns the nanoseconds that a key takes, over all batches.
fn time(engine: &Engine, batches: &[KeyBuf]) -> f64 {
    let (mut scratch, mut found) = (engine.scratch(), [None; BATCH]);
    let start = Instant::now();
    let mut matches = 0;
    for batch in batches {
        engine.classify_batch(&mut scratch, batch.keys(), &mut found);
        matches += found.iter().flatten().count();
    }
    assert!(matches < usize::MAX);
    start.elapsed().as_secs_f64() * 1e9 / (batches.len() * BATCH) as f64
}

/// Commits changes of members, with two addresses of which one is a member; returns the number of changes.
fn commit(writer: &mut Writer, members: &mut [u32], pair: &mut [u32; 2], random: &mut Random) -> usize {
    let (set, mut changes) = (SetId::new(0), 2);
    let mut transaction = writer.begin();
    for _ in 0..CHANGES / 2 - 1 {
        let (place, new) = (random.below(members.len()), random.next() >> 1);
        // An address that was drawn twice is one member.
        changes += usize::from(transaction.remove_member(set, host(members[place])).expect("the set is there"));
        changes += usize::from(transaction.insert_member(set, host(new)).expect("few members"));
        members[place] = new;
    }
    transaction.remove_member(set, host(pair[0])).expect("the set is there");
    transaction.insert_member(set, host(pair[1])).expect("few members");
    pair.swap(0, 1);
    transaction.commit().expect("no limit");
    changes
}

/// Returns the changes a second of the best turn and of the median one.
fn rate(turns: usize, mut turn: impl FnMut() -> usize) -> [f64; 2] {
    let one = |_| {
        let start = Instant::now();
        turn() as f64 / start.elapsed().as_secs_f64()
    };
    let mut rates: Vec<f64> = (0..turns).map(one).collect();
    rates.sort_unstable_by(f64::total_cmp);
    [rates[turns - 1], rates[turns / 2]]
}

/// Changes members beside a reader; returns changes a second, batches read and batches torn.
fn beside(engine: &Engine, pair: [u32; 2], mut turn: impl FnMut() -> usize) -> (f64, u64, u64) {
    let (is_over, read, torn) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let mut rates = [0.0; 2];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut keys = KeyBuf::new(firstmatch::core::Engine::schema(engine));
            for key in 0..BATCH {
                let values = [pair[key % 2], 1, 2, 3, 6].map(|value| Some(value.into())).to_vec();
                keys.push_values(&FieldValues { family: Some(Family::Ipv4), values });
            }
            let (mut scratch, mut found) = (engine.scratch(), [None; BATCH]);
            while !is_over.load(Ordering::Relaxed) {
                engine.classify_batch(&mut scratch, keys.keys(), &mut found);
                read.fetch_add(1, Ordering::Relaxed);
                torn.fetch_add(u64::from(found.iter().flatten().count() != BATCH / 2), Ordering::Relaxed);
            }
        });
        rates = rate(200, &mut turn);
        is_over.store(true, Ordering::Relaxed);
    });
    (rates[0], read.into_inner(), torn.into_inner())
}

fn main() {
    let mut sizes: Vec<usize> = std::env::args().skip(1).filter_map(|size| size.parse().ok()).collect();
    if sizes.is_empty() {
        sizes = vec![1000, 100_000, 1_000_000];
    }
    println!("  members changes/s   median   beside more ns open ms      bytes  batches torn");
    let (without, _) = open(None);
    for size in sizes {
        let mut random = Random(size as u64);
        let mut members: Vec<u32> = (0..size).map(|_| random.next() >> 1).collect();
        let start = Instant::now();
        let (with, mut writer) = open(Some(&members));
        let opened = start.elapsed();
        let keys = batches(&with, &members, &mut random);
        let mut least = [f64::MAX; 2];
        for _ in 0..30 {
            for (least, engine) in least.iter_mut().zip([&with, &without]) {
                *least = least.min(time(engine, &keys));
            }
        }
        let bytes = with.explain().bytes;
        let mut pair = [0xF000_0001, 0xF000_0003];
        let mut transaction = writer.begin();
        transaction.insert_member(SetId::new(0), host(pair[0])).expect("few members");
        transaction.commit().expect("no limit");
        let mut turn = || (0..20).map(|_| commit(&mut writer, &mut members, &mut pair, &mut random)).sum();
        let [best, median] = rate(1000, &mut turn);
        let (beside, read, torn) = beside(&with, [0xF000_0001, 0xF000_0003], &mut turn);
        let (more, opened) = (least[0] - least[1], opened.as_millis());
        println!(
            "{size:>9} {best:>9.0} {median:>8.0} {beside:>8.0} {more:>7.1} {opened:>7} {bytes:>10} {read:>8} {torn:>4}"
        );
    }
}
