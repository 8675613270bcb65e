//! Answers of a batch, from rows to packets.

use firstmatch_core::rule::Priority;
use firstmatch_core::{Match, RuleId, Schema};
use firstmatch_net::wire::{Batch, Config, LinkType};
use firstmatch_testkit::frames::{ethernet, ipv4, ipv6, udp};

fn answer(slot: u32) -> Option<Match> {
    Some(Match { rule: RuleId::new(slot, 1), priority: Priority(1) })
}

#[test]
fn a_batch_of_one_schema_scatters_in_order() {
    let mut batch = Batch::new(&Config::default(), &[Schema::ipv4(), Schema::ipv6()]).expect("sources");
    let frames: Vec<_> = (0..40).map(|_| ethernet(&[], 0x0800, &ipv4(17, 0, &[], &udp())).bytes).collect();
    batch.push_frames(LinkType::Ethernet, &frames);
    let by_row: Vec<_> = (0..40).map(answer).collect();
    let mut answers = vec![answer(99); 40];
    batch.scatter(1, &[], &mut answers);
    assert_eq!(answers, vec![answer(99); 40]);
    batch.scatter(0, &by_row, &mut answers);
    assert_eq!(answers, by_row);
}

/// Answers of a lookup stand where [`Batch::scatter`] puts them, whether all packets have a row or not, and places of
/// other packets stay as they are.
#[test]
fn looking_up_puts_answers_where_their_packets_are() {
    let plain = ethernet(&[], 0x0800, &ipv4(17, 0, &[], &udp())).bytes;
    let ipv6 = ethernet(&[], 0x86dd, &ipv6(17, &udp())).bytes;
    for (frames, want) in [
        (vec![&plain; 3], vec![answer(0), answer(1), answer(2)]),
        (vec![&ipv6, &plain, &ipv6, &plain], vec![answer(99), answer(0), answer(99), answer(1)]),
        (vec![&ipv6; 2], vec![answer(99); 2]),
    ] {
        let mut batch = Batch::new(&Config::default(), &[Schema::ipv4(), Schema::ipv6()]).expect("sources");
        batch.push_frames(LinkType::Ethernet, frames.iter().copied());
        let (mut by_row, mut answers) = (vec![answer(7); 5], vec![answer(99); frames.len()]);
        batch.look_up(0, &mut by_row, &mut answers, |keys, found| {
            assert_eq!((keys.words(), found.to_vec()), (batch.keys(0).words(), vec![None; keys.len()]));
            (0..).zip(found).for_each(|(slot, found)| *found = answer(slot));
        });
        assert_eq!(answers, want);
    }
}
