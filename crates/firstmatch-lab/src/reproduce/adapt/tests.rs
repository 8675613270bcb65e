//! Runs over small sets.

use super::*;
use crate::reproduce::testing::{numbers, ran};

const TREES: &str = "
    [[trees]]\nname = 'npf'\nform = 'paper'
    [[trees]]\nname = 'still'\nform = 'paper'\nthreshold = 4294967295
    [[trees]]\nname = 'offline'\nform = 'paper'\nweights = 'former'
    [[trees]]\nname = 'guessed'\nform = 'paper'\nweights = 'random'
    [[trees]]\nname = 'defended'\nform = 'defended'\nsample = 1\n";

/// Trees whose traffic must not depend on the trees.
const LEAVES: &str = "[[trees]]\nname = 'leaves'\nform = 'huffman'\nweights = 'former'\n";

fn claims(all: &[(&str, &str, &[&str])]) -> String {
    let one = |(of, tree, against): &(&str, &str, &[&str])| {
        format!("[[claims]]\nid = '{of}'\nof = '{of}'\ntree = '{tree}'\nagainst = {against:?}\n")
    };
    all.iter().map(one).collect()
}

#[test]
fn trees_that_turn_come_near_the_optimal_ones() {
    let asked: [(&str, &str, &[&str]); 10] = [
        ("edges", "npf", &[]),
        ("entropy", "npf", &[]),
        ("saved", "npf", &["still", "guessed"]),
        ("range", "npf", &["offline"]),
        ("more", "still", &["npf"]),
        ("height", "npf", &[]),
        ("settles", "npf", &[]),
        ("nodes", "npf", &[]),
        ("edges", "leaves", &[]),
        ("packet", "npf", &[]),
    ];
    let head = "values = [64]\nbits = [3.0]\nstages = [{ packets = 500 }, { packets = 40_000 }]\ncourse = true\n";
    let (out, found) = ran(run, &format!("{head}{TREES}{LEAVES}{}", claims(&asked))).expect("a run");
    let of = |at: usize| numbers(&found[at])[0];
    assert!((1.0..2.0).contains(&of(0)) && numbers(&found[1]) == [of(0), 3.0], "{out}");
    assert!(of(2) > 40.0 && numbers(&found[2])[1] > 40.0 && of(4) > 50.0, "{out}");
    // Trees by the true weights are nearly optimal.
    assert!((-20.0..20.0).contains(&of(3)) && of(5) >= 6.0 && of(7) == of(0) + 1.0, "{out}");
    // A tree that answers in its leaves alone needs at least the entropy, and less than one edge more.
    assert!((3.0..4.0).contains(&of(8)) && numbers(&found[9]) == [of(0); 2], "{out}");
    assert_eq!(found[6].measured, Measured::Text("many at first, then few".into()));
    assert!(out.contains(" optimal |"), "{out}");
    let course = found[0].course.as_deref().expect("a course");
    assert!(
        course.starts_with(
            "packets,\"npf\",\"still\",\"offline\",\"guessed\",\"defended\",\"leaves\",optimal static,balanced\n500,"
        ),
        "{course}"
    );
    assert!(course.lines().count() == 3 && found[1].course.is_none());
}

#[test]
fn traffic_that_is_meant_to_be_slow_lengthens_the_papers_walks() {
    let head = "values = [256]\nbits = [7.5]\nstages = [{ packets = 100_000, orders = ['rising'] }, \
                { packets = 20_000, orders = ['same', 'deepest', 'list', 'bursts'] }]\n";
    let (out, found) =
        ran(run, &format!("{head}{TREES}{}", claims(&[("saved", "defended", &["npf"])]))).expect("a run");
    assert!(numbers(&found[0]).len() == 4 && numbers(&found[0]).iter().all(|&saved| saved > 20.0), "{out}");
    let optimal = |order: &str| {
        let row = out.lines().find(|line| line.contains(order) && line.contains(" optimal |")).expect("a row");
        row.split('|').nth(6).map(|cell| cell.trim().to_owned()).expect("a cell")
    };
    assert!(optimal("deepest").is_empty() && optimal("bursts").parse::<f64>().is_ok(), "{out}");
}

#[test]
fn sets_of_profiles_have_a_tree_for_each_word() {
    let lines = "profiles = ['npf']\nsizes = [25]\nunmatched = 0.5\nbits = [3.0]\nstages = [{ packets = 24_000 }]\n\
                 [[trees]]\nname = 'npf'\nform = 'ours'\nalternates = true\n\
                 [[trees]]\nname = 'all'\nform = 'ours'\nbypass = false\n";
    let asked = claims(&[("counting", "npf", &[]), ("edges", "all", &[])]);
    let (out, found) = ran(run, &format!("{lines}{asked}")).expect("a run");
    let searched = |name: &str| {
        let row = out.lines().find(|line| line.contains(&format!(" {name} |"))).expect("a row");
        row.split('|').nth(7).and_then(|cell| cell.trim().parse::<f64>().ok()).expect("a number")
    };
    assert!(searched("all") == 5.0 && searched("npf") < 4.9, "{out}");
    assert_eq!((found[0].nearby.len(), numbers(&found[0]).len()), (2, 2));
    for (bad, expected) in [
        ("bits = [3.0]\nstages = [{ packets = 1 }]", "expected `values`"),
        ("values = [4]\nbits = [3.0]\nstages = []", "`stages`: expected one"),
        (
            "values = [4]\nbits = [1.0]\nstages = [{ packets = 1 }, { packets = 1, orders = [] }]",
            "`orders`: expected one",
        ),
        ("values = [4]\nbits = [1.0]\nstages = [{ packets = 0 }]", "expected packets"),
        (
            "values = [4]\nbits = [1.0]\nstages = [{ packets = 1 }]\n[[trees]]\nname = 'h'\nform = 'huffman'",
            "Huffman trees need",
        ),
        ("values = [4]\nbits = [1.0]\nstages = [{ packets = 1 }]", "there is no tree `oak`"),
    ] {
        let error = ran(run, &format!("{bad}\n{TREES}{}", claims(&[("edges", "oak", &[])]))).expect_err("a bad run");
        assert!(format!("{error:#}").contains(expected), "{error:#}");
    }
}
