//! Explanations, compared word by word.

use super::*;
use crate::engine::Stats;
use crate::error::Cap;
use crate::select::{Candidate, Outcome};

fn candidate(kind: Kind, outcome: Outcome) -> Candidate {
    Candidate { kind, outcome, nanos: [None; 5], ratio: None, takes: None, visits: None }
}

fn explanation(candidates: Vec<Candidate>) -> Explanation {
    Explanation {
        rules: 70,
        set_rules: 0,
        kind: Kind::Linear,
        asked: None,
        candidates,
        compared: 1,
        is_over_defaults: false,
        base: Stats {
            rules: 60,
            regions: 80,
            worst_lines: 5,
            worst_tests: 9,
            bytes: vec![("blocks", 2_000), ("matches", 345)],
            ..Stats::default()
        },
        front: None,
        in_place: 11,
        dead: 12,
        overlay: 13,
        generation: 0,
        epoch: 15,
        bytes: 9_876,
    }
}

/// An explanation has one line per candidate, and lines that depend on traffic, limits and changes.
#[test]
fn each_part_of_an_explanation_has_its_line() {
    let timed = Candidate {
        nanos: [Some(12.25), None, Some(0.96), None, None],
        ratio: Some(1.456),
        takes: Some([4_096, 7, 80]),
        ..candidate(Kind::BitSelect, Outcome::Slower)
    };
    let other = Candidate { nanos: [Some(8.0), None, None, None, None], ..candidate(Kind::Linear, Outcome::Chosen) };
    let mut of = explanation(vec![timed, candidate(Kind::BitVector, Outcome::NotAsked), other]);
    let candidates = "rules       60 in 80 regions\n\
        bit_select  not taken: slower, or hardly faster than one before it; at most 1.46 times the fastest; 4096 bytes, \
        at worst 7 lines and 80 tests\n\
        bit_vector  not tried: another was asked for\n\
        linear      chosen\n";
    let [first, third] = [Traffic::ALL[0], Traffic::ALL[2]];
    let times = format!(
        "ns a packet {first:>9} {third:>9}\nbit_select       12.2       1.0\nlinear            8.0          \n"
    );
    let memory = "memory      9876 bytes, 2345 of them the base\nworst case  5 cache lines and 9 region tests a packet";
    assert_eq!(of.to_string(), format!("{candidates}{times}{memory}"));
    of.generation = 1;
    of.is_over_defaults = true;
    of.front = Some(("rfc", Stats { worst_lines: 13, bytes: vec![("tables", 77)], ..Stats::default() }));
    of.asked = Some(Kind::Linear);
    of.candidates.iter_mut().for_each(|candidate| candidate.nanos = [None; 5]);
    let front = "rfc         answers first; 77 bytes, at worst 13 lines and 0 tests\nbit_select";
    let candidates = candidates.replace("chosen", "asked for; chosen").replace("bit_select", front);
    let changes = ": no candidate that fits keeps the default limits\nchanges     11 in place, 13 in the overlay, \
        12 marked as removed since the last rebuild; generation 1, rebuilds 15";
    assert_eq!(of.to_string(), format!("{candidates}{memory}{changes}"));
}

/// Each outcome is shown with its numbers, and each cap with its subject.
#[test]
fn each_outcome_has_its_words() {
    let (needed, allowed) = (8, 7);
    let refused = |cap| Outcome::Refused { cap, needed, allowed };
    for (outcome, text) in [
        (refused(Cap::RunBytes), "refused: it needs 8 bytes or more, the budget leaves 7"),
        (refused(Cap::BuildBytes), "refused: building it may take 8 bytes, the limit is 7"),
        (refused(Cap::WorstLines), "refused: a packet can touch 8 cache lines, the limit is 7"),
        (refused(Cap::WorstTests), "refused: a packet can be tested against 8 regions, the limit is 7"),
        (refused(Cap::BuildVisits), "refused: building it takes 8 region visits or more, the limit is 7"),
        (
            Outcome::Deep { cap: Cap::WorstTests, needed, allowed },
            "not taken by default: a packet can be tested against 8 regions, the limit is 7",
        ),
        (Outcome::Untimed, "not timed: a lookup may visit too many regions for a trial"),
        (
            Outcome::HardlyFaster { tests: 6 },
            "not taken: up to 6 tests a packet, a hundred times another's, and not twice as fast",
        ),
        (Outcome::LongBuild { visits: 4 }, "not taken: unfinished after 4 region visits"),
        (Outcome::NotNeeded, "not tried: an earlier one fits"),
        (Outcome::FewRegions, "not tried: 8 regions and fewer need no structure"),
        (
            Outcome::Outgrown { needed: 5, allowed: 3 },
            "not built: it would hold 5 bytes or more, and is of use up to 3",
        ),
        (Outcome::Kept, "not tried: the choice before decided"),
    ] {
        assert_eq!(candidate(Kind::Linear, outcome).to_string(), text);
    }
}
