//! Comparison with etherparse: each header field of each packet, present, absent or unknown.

use etherparse::PacketBuilder;
use firstmatch_net::wire::{LinkType, Outcome};
use firstmatch_testkit::frames::{Frame, any, damage, handmade};
use firstmatch_testkit::reference::{DIFFERENCES, Notes, compare};
use firstmatch_testkit::rng::Rng;

/// Every permitted difference occurs in some packet.
#[test]
fn drawn_and_damaged_packets_agree() {
    let mut rng = Rng::new(21);
    let mut notes = Notes::default();
    let mut classified = 0;
    for round in 0..300_000 {
        let mut frame = any(&mut rng);
        if round % 2 == 0 {
            damage(&mut rng, &mut frame);
        }
        classified += usize::from(compare(&frame, &mut notes).reason() == Outcome::Complete);
    }
    for name in DIFFERENCES {
        assert!(notes.0.contains_key(name), "no packet shows: {name}; {:?}", notes.0);
    }
    assert!((80_000..250_000).contains(&classified), "{classified} of 300,000 wholly known");
}

#[test]
fn handmade_packets_agree_cut_anywhere() {
    let mut notes = Notes::default();
    for (_, frame) in handmade() {
        for cut in 0..=frame.bytes.len() {
            compare(&Frame { link: frame.link, bytes: frame.bytes[..cut].to_vec() }, &mut notes);
        }
    }
}

#[test]
fn packets_etherparse_built_agree() {
    let mut rng = Rng::new(22);
    let mut notes = Notes::default();
    let mac = [1, 2, 3, 4, 5, 6];
    for _ in 0..5_000 {
        let payload = rng.below(40);
        let payload = rng.bytes(payload);
        let (a, b) = (rng.next() as u16, rng.next() as u16);
        let vid = etherparse::VlanId::try_new(a & 0xfff).expect("12 bits");
        let v4 = || PacketBuilder::ethernet2(mac, mac).ipv4([10, 0, 0, a as u8], [10, 1, b as u8, 9], 9);
        let v6 = || PacketBuilder::ethernet2(mac, mac).single_vlan(vid).ipv6([a as u8; 16], [b as u8; 16], 9);
        let mut bytes = Vec::new();
        match rng.below(6) {
            0 => v4().tcp(a, b, 1, 2).syn().ack(3).write(&mut bytes, &payload),
            1 => v4().udp(a, b).write(&mut bytes, &payload),
            2 => v4().icmpv4_echo_request(a, b).write(&mut bytes, &payload),
            3 => v6().tcp(a, b, 1, 2).fin().write(&mut bytes, &payload),
            4 => v6().udp(a, b).write(&mut bytes, &payload),
            _ => v6().icmpv6_echo_reply(a, b).write(&mut bytes, &payload),
        }
        .expect("built");
        let frame = Frame { link: LinkType::Ethernet, bytes };
        assert_eq!(compare(&frame, &mut notes).reason(), Outcome::Complete);
    }
    assert!(notes.0.is_empty(), "{:?}", notes.0);
}
