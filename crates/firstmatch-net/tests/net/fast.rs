//! Comparison of the fast way for common frames with the way through `Headers`: equal rows, records and outcomes.

use firstmatch_core::Schema;
use firstmatch_core::policy::Fragments;
use firstmatch_core::schema::{Family, Source};
use firstmatch_formats::Options;
use firstmatch_net::wire::{Batch, Config, LinkType};
use firstmatch_testkit::frames::{Frame, any, damage, ethernet, handmade, ipv4, ipv6, tcp, udp};
use firstmatch_testkit::rng::Rng;
use firstmatch_testkit::ways::{Ways, schemas};

fn configs() -> Vec<Config> {
    let plain = Config::default();
    vec![
        plain,
        Config { fragments: Fragments::Layer3, metadata: 0x1234_5678_9abc, ..plain },
        Config { max_vlan_tags: 0, max_extension_headers: 0, max_mpls_labels: 0, ..plain },
        Config { max_vlan_tags: 1, ..plain },
    ]
}

/// Returns frames of all common kinds, tagged and not, with and without padding.
fn common() -> Vec<Frame> {
    let mut frames = Vec::new();
    for tags in [&[][..], &[(0x8100, 0xe123)], &[(0x88a8, 5)], &[(0x9100, 0xffff)]] {
        for proto in [1, 2, 6, 17, 33, 47, 50, 58, 59, 132, 136] {
            let payload = if proto == 6 { tcp(0x5a) } else { udp() };
            for padding in [0, 18] {
                let behind = |packet: Vec<u8>| [packet, vec![0xee; padding]].concat();
                frames.push(ethernet(tags, 0x0800, &behind(ipv4(proto, 0x4000, &[], &payload))));
                frames.push(ethernet(tags, 0x86dd, &behind(ipv6(proto, &payload))));
            }
        }
    }
    frames
}

/// Returns the ways of every configuration, with batches of all schemas and of rules that test few fields.
fn all_ways() -> Vec<Ways> {
    let rules = ["permit src 10.0.0.0/8", "permit tcp_flags 0x02/0x02\ndeny vlan_vid 7", "deny icmp_type 8\npermit"];
    let rules = rules.map(|text| firstmatch_formats::parse(text, &Options::default()).expect(text).rules);
    let of = |config: &Config| {
        let of_rules = rules.iter().map(|rules| Ways::for_rules(config, rules));
        of_rules.chain(schemas().iter().map(|schemas| Ways::new(config, schemas))).collect::<Vec<_>>()
    };
    configs().iter().flat_map(of).collect()
}

#[test]
fn drawn_and_damaged_frames_are_equal_both_ways() {
    let mut rng = Rng::new(41);
    let mut ways = all_ways();
    let common = common();
    for round in 0..200_000 {
        let mut frame = if round % 4 == 0 { common[rng.below(common.len())].clone() } else { any(&mut rng) };
        if round % 2 == 0 {
            damage(&mut rng, &mut frame);
        }
        let count = ways.len();
        ways[round % count].compare(frame.link, &frame.bytes);
    }
}

#[test]
fn frames_cut_anywhere_are_equal_both_ways() {
    let frames: Vec<Frame> = handmade().into_iter().map(|(_, frame)| frame).chain(common()).collect();
    for ways in &mut all_ways() {
        for frame in &frames {
            (0..=frame.bytes.len()).for_each(|cut| ways.compare(frame.link, &frame.bytes[..cut]));
        }
    }
}

/// Every byte of the headers takes values near its own and at random, and each length every value below 80.
#[test]
fn frames_with_a_byte_changed_are_equal_both_ways() {
    let mut rng = Rng::new(42);
    let all =
        [Schema::five_tuple(Family::Ipv4, &Source::ALL[5..]), Schema::five_tuple(Family::Ipv6, &Source::ALL[5..])];
    let both = [Schema::ipv4(), Schema::ipv6()];
    let of = |schemas: &[Schema]| configs().into_iter().map(|config| Ways::new(&config, schemas)).collect::<Vec<_>>();
    let mut ways: Vec<Ways> = [of(&all[..]), of(&both)].concat();
    for frame in common() {
        let network = if frame.bytes[12..14] == [0x08, 0x00] || frame.bytes[12..14] == [0x86, 0xdd] { 14 } else { 18 };
        for at in 0..frame.bytes.len().min(76) {
            let was = frame.bytes[at];
            let is_length = (network + 2..network + 6).contains(&at);
            let near = [was ^ 1, was ^ 2, was ^ 0x10, was ^ 0x40, was ^ 0x80, 0, 0xff, rng.next() as u8];
            let values: Vec<u8> = if is_length { (0..80).chain(near).collect() } else { near.to_vec() };
            let mut bytes = frame.bytes.clone();
            for value in values {
                bytes[at] = value;
                let which = rng.below(ways.len());
                ways[which].compare(frame.link, &bytes);
            }
        }
    }
    // Every protocol and every ether type.
    for frame in common().iter().step_by(2) {
        let network = if frame.bytes[12..14] == [0x08, 0x00] || frame.bytes[12..14] == [0x86, 0xdd] { 14 } else { 18 };
        let mut bytes = frame.bytes.clone();
        for proto in 0..=u8::MAX {
            let at = if bytes[network] >> 4 == 4 { network + 9 } else { network + 6 };
            bytes[at] = proto;
            ways.iter_mut().for_each(|ways| ways.compare(frame.link, &bytes));
        }
    }
    let mut bytes = common()[0].bytes.clone();
    for ether_type in 0..=u16::MAX {
        bytes[12..14].copy_from_slice(&ether_type.to_be_bytes());
        ways[usize::from(ether_type) % 4].compare(LinkType::Ethernet, &bytes);
    }
}

/// Frames of one link in chunks of all sizes: rows in order of arrival, whatever is uncommon among them.
#[test]
fn many_frames_are_equal_to_each_alone() {
    let mut rng = Rng::new(43);
    let all: Vec<Frame> = (0..2000).map(|_| any(&mut rng)).chain(common()).collect();
    let of_ethernet: Vec<&[u8]> =
        all.iter().filter(|frame| frame.link == LinkType::Ethernet).map(|frame| &frame.bytes[..]).collect();
    for schemas in schemas() {
        for config in configs() {
            let mut together = Batch::new(&config, &schemas).expect("sources");
            let mut ways = Ways::new(&config, &schemas);
            for count in (0..=70).chain([200]) {
                let share = rng.any_of(&[0, 0, 1, 2, 3]);
                let mut frames: Vec<&[u8]> = (0..count).map(|_| rng.any_of(&of_ethernet)).collect();
                // Chunks of one family, too, and those that seem so until a frame near their end.
                match share {
                    1 => frames.iter_mut().for_each(|frame| *frame = &all[all.len() - 2].bytes),
                    2 => frames.iter_mut().for_each(|frame| *frame = &all[all.len() - 1].bytes),
                    3 => frames.iter_mut().rev().skip(3).for_each(|frame| *frame = &all[all.len() - 1].bytes),
                    _ => {}
                }
                together.clear();
                together.push_frames(LinkType::Ethernet, frames.iter().copied());
                ways.compare_all(LinkType::Ethernet, &frames, &together);
                together.push_frames(LinkType::Raw, frames.iter().copied());
                assert_eq!(together.len(), 2 * frames.len());
            }
        }
    }
}
