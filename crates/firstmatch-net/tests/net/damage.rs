//! Invariants of the parser on frames that are drawn at random, cut anywhere, damaged or garbage.

use firstmatch_core::policy::Fragments;
use firstmatch_net::wire::{Config, LinkType, Outcome, parse, parse_on};
use firstmatch_testkit::frames::{any, damage, handmade, random};
use firstmatch_testkit::invariants::{check, check_grows, extractors};
use firstmatch_testkit::rng::Rng;

fn layer3() -> Config {
    Config { fragments: Fragments::Layer3, ..Config::default() }
}

#[test]
fn fill_agrees_with_values_on_every_packet() {
    let mut rng = Rng::new(11);
    let mut extractors = extractors();
    let mut outcomes = [0; Outcome::ALL.len()];
    for round in 0..60_000 {
        let mut frame = random(&mut rng);
        if round % 3 == 0 {
            damage(&mut rng, &mut frame);
        }
        let config = if round % 2 == 0 { Config::default() } else { layer3() };
        let headers = check(&config, frame.link, &frame.bytes, frame.bytes.len(), &mut extractors);
        outcomes[extractors[0].0.outcome(&headers).index()] += 1;
    }
    // The generator reaches all outcomes, except for links that it does not draw and fields that are all optional.
    for outcome in Outcome::ALL {
        let of_ipv6 = matches!(outcome, Outcome::ExtensionCap | Outcome::UnknownExtension);
        let drawn = !of_ipv6 && !matches!(outcome, Outcome::LacksField | Outcome::UnknownLink | Outcome::MplsCap);
        assert!(outcomes[outcome.index()] > 100 || !drawn, "{outcome}: {outcomes:?}");
    }
}

#[test]
fn a_frame_cut_anywhere_never_has_a_wrong_value() {
    let mut rng = Rng::new(12);
    let mut extractors = extractors();
    let mut frames: Vec<_> = handmade().into_iter().map(|(_, frame)| frame).collect();
    frames.extend((0..2000).map(|round| if round % 2 == 0 { random(&mut rng) } else { any(&mut rng) }));
    for frame in frames {
        for config in [Config::default(), layer3()] {
            let whole = parse(&config, frame.link, &frame.bytes);
            let len = frame.bytes.len();
            let mut before = parse_on(&config, 0, frame.link, &[], len as u32);
            for cut in 0..=frame.bytes.len() {
                let headers = check(&config, frame.link, &frame.bytes[..cut], len, &mut extractors);
                check_grows(&headers, &whole);
                // More bytes never make a field less known.
                check_grows(&before, &headers);
                before = headers;
            }
        }
    }
}

#[test]
fn garbage_never_panics() {
    let mut rng = Rng::new(13);
    let mut extractors = extractors();
    let links = [0, 1, 12, 101, 105, 108, 113, 127, 192, 228, 229, 276, 147].map(LinkType::from_number);
    for _ in 0..100_000 {
        let len = rng.below(120);
        let mut frame = rng.bytes(len);
        let link = rng.any_of(&links);
        if let Some(first) = frame.first_mut().filter(|_| rng.one_in(2)) {
            *first = 0x40 | *first & 0x2f;
        }
        check(&Config::default(), link, &frame, frame.len(), &mut extractors);
    }
}
