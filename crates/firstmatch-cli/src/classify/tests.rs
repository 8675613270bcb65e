//! Tests of the pieces of `classify`.

use std::path::Path;
use std::time::Instant;

use firstmatch::Firewall;
use firstmatch_core::engines::linear::{self, Linear};
use firstmatch_core::engines::registry::Entry;
use firstmatch_core::rule::{RuleId, RuleSet, first_match};
use firstmatch_core::schema::Family;
use firstmatch_core::{Keys, Match, Policy, Schema, Stats};
use firstmatch_formats::Options;
use firstmatch_net::wire::{Batch, Config, Headers};

use super::check::{Checker, Sample};
use super::lookups::Lookups;
use super::passes;
use super::stretch::{Feed, Packet, Reader};
use super::timing;
use super::timing::STRETCH;
use clap::Parser;

use crate::args::{Args, Check, ClassifyArgs, Command};
use crate::{End, engines};

fn rules() -> RuleSet {
    let text = "family ipv4\npermit tcp dport 80\ndeny tcp\npermit udp sport 53\n";
    firstmatch_formats::parse(text, &Options::default()).expect("the rules are good").rules
}

fn headers(number: u64) -> Headers {
    let proto = if number.is_multiple_of(3) { 6 } else { 17 };
    Headers::of_five_tuple(Family::Ipv4, number.into(), 2, 53, if number.is_multiple_of(2) { 80 } else { 81 }, proto)
}

fn answer(rules: &RuleSet, batch: &Batch, headers: &Headers) -> Option<RuleId> {
    first_match(rules, &batch.values(headers)?).map(|rule| rule.id)
}

/// Runs a checker over packets; the packets numbered in `wrong` get no answer.
fn check(mode: Check, count: u64, wrong: &[u64]) -> Checker {
    let rules = rules();
    let batch = Batch::new(&Config::default(), rules.schemas()).expect("packets fill the 5-tuple");
    let mut checker = Checker::new(mode);
    for number in 0..count {
        let headers = headers(number);
        let answer = answer(&rules, &batch, &headers).filter(|_| !wrong.contains(&number));
        checker.offer_one(Sample { number, packet: Packet::Headers(headers), answer });
        if number % 1000 == 999 {
            checker.compare_all(&rules, &batch);
        }
    }
    checker.compare_all(&rules, &batch);
    checker.compare_sample(&rules, &batch);
    checker
}

#[test]
fn a_wrong_answer_is_found_wherever_it_stands() {
    for wrong in [0, 1, 63, 64, 127, 128, 500, 999, 1000, 2499] {
        let checker = check(Check::All, 2500, &[wrong]);
        assert_eq!((checker.checked, checker.different, checker.numbers()), (2500, 1, vec![wrong]), "{wrong}");
    }
    let checker = check(Check::All, 2500, &(0..50).collect::<Vec<_>>());
    assert_eq!((checker.different, checker.numbers()), (50, (0..10).collect()));
    assert_eq!(check(Check::All, 2500, &[]).different, 0);
}

#[test]
fn a_sample_has_the_size_asked_for_and_is_spread_over_the_input() {
    for (asked, count, expected) in [(1, 10_000, 1), (7, 5, 5), (100, 100, 100), (100, 12_345, 100), (3, 0, 0)] {
        let all: Vec<u64> = (0..count).collect();
        let checker = check(Check::Sample(asked), count, &all);
        assert_eq!((checker.checked, checker.different), (expected, expected), "{asked} of {count}");
    }
    let all: Vec<u64> = (0..20_000).collect();
    let numbers = check(Check::Sample(10), 20_000, &all).numbers();
    let gaps: Vec<_> = numbers.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().all(|gap| (1000..=3000).contains(gap)), "{numbers:?}");
}

#[test]
fn passes_keep_their_keys_and_their_number() {
    let rules = rules();
    let mut batch = Batch::new(&Config::default(), rules.schemas()).expect("packets fill the 5-tuple");
    for number in 0..500 {
        batch.push_headers(&headers(number), 60);
    }
    for name in engines::names() {
        let builder = Firewall::builder().engine(name).expect("it is listed");
        let firewall = builder.build_set(rules.clone(), Policy::default()).expect("it fits");
        let mut lookups = Lookups::new(firewall, 64);
        let mut held = firstmatch_core::KeyBuf::new(&rules.schemas()[0]);
        for row in 0..500 {
            held.push().copy_from_slice(batch.keys(0).row(row));
        }
        let start = Instant::now();
        let times = passes::passes(&mut lookups, &[held], 3, &|| false);
        let spent = start.elapsed().as_nanos() as f64;
        assert!(times.len() == 3 && times.is_sorted() && times[0] > 0.0, "{name}: {times:?}");
        // 4,096 keys are timed per pass, which together take at most the time spent.
        assert!(times.iter().sum::<f64>() * 4096.0 <= spent, "{name}: {times:?} in {spent}");
        assert!(
            passes::passes(&mut lookups, &[firstmatch_core::KeyBuf::new(&rules.schemas()[0])], 3, &|| false).is_empty()
        );
    }
    assert_eq!(timing::median(&[]), None);
    assert_eq!(timing::median(&[1.0, 2.0, 9.0]), Some(2.0));
    assert_eq!(timing::median(&[1.0, 2.0]), Some(1.5));
}

#[test]
fn a_shuffle_is_a_new_order_of_the_same_values() {
    let (mut values, mut random): (Vec<u32>, u64) = ((0..100).collect(), 1);
    let orders = [(); 3].map(|()| {
        passes::shuffle(&mut values, &mut random);
        values.clone()
    });
    assert!(orders[0] != orders[1] && orders[1] != orders[2]);
    for mut order in orders {
        order.sort_unstable();
        assert_eq!(order, (0..100).collect::<Vec<_>>());
    }
}

/// Engine that overlooks the first key of each batch.
#[derive(Debug)]
struct Careless(Linear);

impl firstmatch_core::Engine for Careless {
    type Scratch = ();

    fn schema(&self) -> &Schema {
        firstmatch_core::Engine::schema(&self.0)
    }

    fn new_scratch(&self) {}

    fn stats(&self) -> Stats {
        firstmatch_core::Engine::stats(&self.0)
    }

    fn improve(&self, scratch: &mut (), keys: &Keys<'_>, best: &mut [Option<Match>]) {
        self.0.improve(scratch, keys, best);
        best[0] = None;
    }
}

/// Returns the arguments that classify the example's packets, followed by `extra`.
fn on_the_example(extra: &[&str]) -> ClassifyArgs {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let (rules, input) = (examples.join("edge.rules"), examples.join("edge.pcapng"));
    let mut line: Vec<&std::ffi::OsStr> =
        vec!["firstmatch".as_ref(), "classify".as_ref(), rules.as_ref(), input.as_ref()];
    line.extend(extra.iter().map(std::ffi::OsStr::new));
    match Args::try_parse_from(line).expect("it is a command").command {
        Command::Classify(args) => *args,
        _ => panic!("it is another command"),
    }
}

#[test]
fn a_wrong_engine_ends_badly_if_it_is_checked() {
    let engine = Entry::new("careless", "", |rules, _| {
        Ok(Box::new(Careless(Linear::build(rules, &linear::Config::default())?)))
    });
    for (extra, end) in
        [(&[][..], End::Done), (&["--check", "all", "--json"], End::BadAnswer), (&["--check", "2000"], End::BadAnswer)]
    {
        let args = on_the_example(extra);
        assert_eq!(super::run_with(&args, &engine, &mut |_, _, _| Ok(())).expect("it runs"), end, "{extra:?}");
    }
}

/// Engine that panics at once.
#[derive(Debug)]
struct Panics(Linear);

impl firstmatch_core::Engine for Panics {
    type Scratch = ();

    fn schema(&self) -> &Schema {
        firstmatch_core::Engine::schema(&self.0)
    }

    fn new_scratch(&self) {}

    fn stats(&self) -> Stats {
        firstmatch_core::Engine::stats(&self.0)
    }

    fn improve(&self, (): &mut (), _: &Keys<'_>, _: &mut [Option<Match>]) {
        panic!("no answer");
    }
}

#[test]
fn a_worker_that_panics_ends_the_run_with_its_reason() {
    let engine =
        Entry::new("panics", "", |rules, _| Ok(Box::new(Panics(Linear::build(rules, &linear::Config::default())?))));
    let args = on_the_example(&["--workers", "2"]);
    let error = super::run_with(&args, &engine, &mut |_, _, _| Ok(())).expect_err("a worker panics").to_string();
    assert!(error.starts_with("stage classify, worker ") && error.contains(" panicked: no answer"), "{error}");
}

#[test]
fn csv_cannot_be_written_where_there_is_no_folder() {
    let error =
        super::csv::Writer::create(Path::new("/nonexistent/x.csv"), &["packet"]).map(|_| ()).expect_err("no folder");
    assert!(error.to_string().starts_with("/nonexistent/x.csv: cannot be written"), "{error}");
}

/// A stretch ends after a bounded number of packets, even if none of them can be classified.
#[test]
fn a_stretch_of_unknown_packets_ends() {
    let rules = rules();
    let count = 17_000u32;
    // The header of a little-endian capture of Ethernet, then frames of one byte.
    let header = [0xA1B2_C3D4u32, 2 | 4 << 16, 0, 0, 65_535, 1].map(u32::to_le_bytes).concat();
    let frame = [&[0u32, 0, 1, 1].map(u32::to_le_bytes).concat()[..], &[7]].concat();
    let bytes = [header, frame.repeat(count as usize)].concat();
    let input = firstmatch_net::source::from_reader("x", Box::new(std::io::Cursor::new(bytes)), &Default::default());
    let feed =
        Feed::new(input.expect("a capture"), rules.schemas(), &Default::default()).expect("a capture has no columns");
    let mut reader = Reader::new(feed, &Config::default(), 0);
    let mut stretch = reader.stretch(&rules, false, false).expect("packets fill the 5-tuple");
    let mut lengths = Vec::new();
    while reader.read(&mut stretch).expect("the capture is whole") {
        stretch.parse();
        lengths.push(stretch.batch.len());
    }
    assert!(lengths.len() > 1 && lengths.iter().all(|length| (1..=4 * STRETCH).contains(length)), "{lengths:?}");
    assert_eq!(lengths.iter().sum::<usize>(), count as usize);
}
