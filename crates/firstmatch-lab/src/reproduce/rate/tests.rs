//! Claims about rates, projections, small runs and refusals.

use super::*;
use crate::reproduce::testing::{numbers, ran};
use crate::reproduce::{Measured, NEARBY};

const PLANES: &str = "
[[planes]]
name = 'one'
form = 'replicated'
workers = [1]
engine = { engine = 'tuplemerge' }
cores = 1
[[planes]]
name = 'many'
form = 'replicated'
workers = [4]
engine = { engine = 'tuplemerge' }
cores = 10000
[[planes]]
name = 'few'
form = 'replicated'
workers = [2]
engine = { engine = 'linear' }
cores = 10000
";

fn rate(more: &str, claims: &str) -> String {
    let claim = |line: &str| format!("[[claims]]\n{line}\n");
    let claims: String = claims.lines().map(claim).collect();
    let text = format!("profile = 'acl1'\nsizes = [40]\nseconds = 0.005\n{more}\n{PLANES}\n{claims}");
    text.replace("; ", "\n")
}

const CLAIMS: &str = "id = 'mpps'; of = 'mpps'; planes = ['one']
id = 'gbps'; of = 'gbps'; planes = ['one', 'many']
id = 'ratio'; of = 'ratio'; planes = ['many', 'one']
id = 'percent'; of = 'percent'; planes = ['many', 'few']";

#[test]
fn claims_are_about_rates() {
    let of_text = |text: &str| toml::from_str::<Rate>(text).expect("an experiment");
    let run = of_text(&rate("packet_bytes = 125", CLAIMS));
    let all = [(2.0, false), (8.0, true), (5.0, true)];
    let names = ["one", "many", "few"].map(str::to_owned);
    let found = |(name, (mpps, is_projected))| Found { name, mpps, is_projected, ..Found::default() };
    let all = [names.into_iter().zip(all).map(found).collect::<Vec<_>>()];
    let of = |claim: usize| run.measured(&all, &run.claims[claim]).expect("numbers");
    assert_eq!(of(0), Measured::Numbers(vec![2.0]));
    assert_eq!(of(1), Measured::Projected(vec![2.0, 8.0]));
    assert_eq!(of(2), Measured::Projected(vec![4.0]));
    let Measured::Projected(percent) = of(3) else { panic!("a projection") };
    assert!((percent[0] - 60.0).abs() < 1e-9, "{percent:?}");
    let rates: Vec<f64> = nearby(&all).map(|other| other[0][1].mpps).collect();
    assert_eq!(rates, [8.0, 8.0, 8.0 * NEARBY[0], 8.0 * NEARBY[1], 8.0, 8.0]);
    for (claim, expected) in [
        ("id = 'i'; of = 'mpps'; planes = ['none']", "there is no plane `none`"),
        ("id = 'i'; of = 'ratio'; planes = ['one']", "expected two for a ratio"),
        ("id = 'i'; of = 'mpps'; planes = []", "one at least"),
    ] {
        let run = of_text(&rate("", claim));
        let error = run.measured(&all, &run.claims[0]).expect_err("a bad claim");
        assert!(format!("{error:#}").contains(expected), "{claim}: {error:#}");
    }
}

/// Planes in Storm's form are projected from one measurement of their stages.
#[test]
fn storm_is_projected_from_its_stages() {
    let plane = |name: &str, more: &str| {
        let engine = "engine = { engine = 'hypercuts' }";
        format!("[[planes]]\nname = '{name}'\nform = 'storm'\n{engine}\n{more}\n")
    };
    let planes = plane("fixed", "workers = [2, 1]") + &plane("moving", "workers = [4, 2]\nwhen_full = [2, 4]");
    let copies = "[[planes]]\nname = 'copies'\nform = 'replicated'\nworkers = [8]\ncores = 10000
engine = { engine = 'hypercuts' }
[[planes]]\nname = 'folded'\nform = 'shared'\nworkers = [1]\nengine = { engine = 'hypercuts' }\n";
    let claims = ["mpps", "nanos", "cache", "warm_up", "partition", "stages"];
    let of = |of: &&str| format!("[[claims]]\nid = '{of}'\nof = '{of}'\nplanes = ['moving', 'fixed']\n");
    let ends = "[[claims]]\nid = 'ends'\nof = 'mpps'\nplanes = ['moving']\nrules = 40\nscale = 2.0\nends = true
[[claims]]\nid = 'cpu'\nof = 'cpu'\nplanes = ['folded']\nprofile = 'fw1'\n";
    let claims: String = claims.iter().map(of).collect::<String>() + ends;
    let text = format!(
        "profile = 'acl1'\nfurther = ['fw1']\ndeny = 0.1\nsizes = [40, 60]\nseconds = 0.005\nzipf = 2.0\n{planes}{copies}{claims}"
    );
    let (_, found) = ran(run, &text).expect("a run");
    let projected = [0, 1, 2, 3, 6].map(|at| &found[at]);
    assert!(projected.iter().all(|outcome| matches!(outcome.measured, Measured::Projected(_))), "{found:?}");
    let [mpps, nanos, cache, warm_up, ends] = projected.map(numbers);
    for (mpps, nanos) in mpps.iter().zip(nanos) {
        // On a machine that holds everything up, no rate may be without loss.
        assert!(*mpps == 0.0 || (mpps * nanos / 1e3 - 1.0).abs() < 1e-9, "{found:?}");
    }
    assert!((cache[1] / cache[0] - 2.0).abs() < 1e-9 && nanos[1] >= 0.9 * cache[1], "{found:?}");
    assert!(numbers(&found[5])[1] == numbers(&found[5])[3] && numbers(&found[5])[0] == 4.0 * cache[0], "{found:?}");
    assert!(warm_up.len() == 4 && warm_up.iter().all(|ms| *ms >= 0.0), "{found:?}");
    assert!(
        matches!(&found[4].measured, Measured::Text(text) if ["4-2-1", "2-4-1"].contains(&text.as_str())),
        "{found:?}"
    );
    assert_eq!(ends, [2.0 * mpps[0]; 2]);
    assert!(numbers(&found[7]).len() == 1 && numbers(&found[7]).iter().all(|nanos| *nanos > 0.0), "{found:?}");
}

/// The papers' pipelines and copies beside them: measured on one core, projected to many.
#[test]
fn pipelines_are_run_by_cores() {
    let plane = |name: &str, form: &str, stages: usize, engine: &str| {
        let engine = format!("engine = {{ engine = '{engine}', config = {{ paper = true }} }}");
        format!("[[planes]]\nname = '{name}'\nform = '{form}'\nby_cores = [1, 40]\nstages = {stages}\n{engine}\n")
    };
    let planes = [
        plane("copies", "replicated", 1, "bitmap_rfc"),
        plane("phases", "classes", 2, "bitmap_rfc"),
        plane("reads", "classes", 3, "bitmap_rfc"),
        plane("shared", "locked", 1, "npf"),
        plane("pnpf", "pnpf", 7, "npf") + "shares_cores = true\n",
    ];
    let claim =
        "[[claims]]\nid = 'one'\nof = 'mpps'\nplanes = ['copies, 1', 'phases, 1', 'reads, 1', 'shared, 1', 'pnpf, 1']\n
[[claims]]\nid = 'many'\nof = 'mpps'\nplanes = ['reads, 40']\n";
    let head = "profile = 'acl1'\nsizes = [40]\nseconds = 0.005\n";
    let text = format!("{head}{}{claim}", planes.concat());
    let (out, found) = ran(run, &text).expect("a run");
    assert!(out.contains("a hop of a message: "), "{out}");
    // One worker of input and of output, and up to three of each word.
    let row =
        out.lines().find(|line| line.contains("pnpf, 40")).and_then(|line| line.split('|').nth(2)).expect("a row");
    let workers: Vec<usize> = row.trim().split('-').map(|count| count.parse().expect("a number")).collect();
    assert!(
        workers.len() == 7 && workers[0] == 1 && workers[6] == 1 && *workers.iter().max().expect("some") == 3,
        "{out}"
    );
    let Measured::Numbers(one) = &found[0].measured else { panic!("{found:?}") };
    assert!(one.len() == 5 && one.iter().all(|mpps| *mpps > 0.0), "{found:?}");
    assert!(matches!(&found[1].measured, Measured::Projected(many) if many[0] > 0.0), "{found:?}");
    for (right, wrong, expected) in [
        ("form = 'pnpf'", "form = 'classes'", "expected the form's engine, with `paper = true`"),
        ("paper = true", "paper = false", "expected the form's engine, with `paper = true`"),
        ("stages = 3", "stages = 4", "4 stages; expected two or three"),
        ("stages = 7", "stages = 5", "5 stages; expected 7, one a key word and two more"),
        ("stages = 2\n", "", "`by_cores` needs `stages`"),
        ("by_cores = [1, 40]", "by_cores = [0]", "`by_cores` needs `stages` and a core each"),
    ] {
        let plane = planes.iter().rfind(|plane| plane.contains(right)).unwrap_or(&planes[4]);
        let bad = format!("{head}claims = []\n{plane}").replace(right, wrong);
        let error = ran(run, &bad).expect_err("a bad plane");
        assert!(format!("{error:#}").contains(expected), "{wrong}: {error:#}");
    }
}

/// One plane is measured on a single core, and no machine has 10,000.
#[test]
fn a_small_rate_is_run() {
    let (out, outcomes) = ran(run, &rate("", CLAIMS)).expect("a run");
    let how: Vec<&str> = out.lines().filter_map(|line| line.split('|').nth(4)).map(str::trim).collect();
    assert_eq!(how[2..], ["measured", "projected", "projected"], "{out}");
    assert!(matches!(outcomes[0].measured, Measured::Numbers(_)) && outcomes[0].digest.len() == 32, "{outcomes:?}");
    let Measured::Projected(percent) = &outcomes[3].measured else { panic!("{outcomes:?}") };
    assert_eq!(percent.len(), 1, "{outcomes:?}");
}

#[test]
fn bad_planes_are_refused() {
    for (wrong, right, expected) in [
        ("workers = [1]", "workers = [0]", "a worker of each stage"),
        ("workers = [1]", "workers = [1, 1]", "2 stages; expected one"),
        ("cores = 1", "cores = 0", "a core at least"),
        ("'replicated'", "'storm'", "1 stages; expected boxes and lookups"),
        ("'replicated'", "'parts'", "expected copies, or a form of the papers"),
        ("workers = [1]", "workers = [1]\nwhen_full = [2, 2]", "`when_full` is of two stages"),
        ("seconds = 0.005", "seconds = 0.0", "a number above 0"),
    ] {
        let text = format!("profile = 'acl1'\nsizes = [40]\nseconds = 0.005\nclaims = []\n{PLANES}");
        let error = ran(run, &text.replacen(wrong, right, 1)).expect_err("a bad plane");
        assert!(format!("{error:#}").contains(expected), "{right}: {error:#}");
    }
}
