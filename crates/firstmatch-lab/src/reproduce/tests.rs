//! Tests of the papers' files, and of runs that record.

use std::fs;

use firstmatch_testkit::layers::sources;

use super::experiment::Run;
use super::*;
use crate::report::records;

const PAPERS: [&str; 5] = ["bitmap-rfc", "decomposition", "shaikot", "storm", "tuplemerge"];

fn papers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../papers")
}

fn paper(key: &str) -> Paper {
    Paper::read(&papers(), key).expect("good files")
}

fn machine() -> Machine {
    Machine { cpu: "a processor".into(), cores: 2, commit: "1234567+".into(), date: "2026-11-25".into() }
}

#[test]
fn every_paper_of_the_repository_is_good() {
    let mut found: Vec<String> = Vec::new();
    for entry in fs::read_dir(papers()).expect("papers") {
        let folder = entry.expect("a folder").path();
        if folder.is_dir() {
            let key = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            paper(&key);
            assert!(folder.join("README.md").exists(), "{}", folder.display());
            found.push(key);
        }
    }
    found.sort_unstable();
    assert_eq!(found, PAPERS);
}

/// Each claim that fails or is undecided in a record has its reason beside the claim.
#[test]
fn failing_claims_have_reasons() {
    let mut failing = 0;
    for key in PAPERS {
        let path = papers().join(key).join("record.csv");
        let text = fs::read_to_string(&path).expect("a record");
        let rows: Vec<Row> = records::rows(&path, &text).expect("good rows");
        for row in rows.iter().filter(|row| ["FAILS", "undecided"].contains(&row.verdict.as_str())) {
            let claim = paper(key).claims.get(&row.id).cloned();
            assert!(claim.is_some_and(|claim| claim.reason.is_some()), "{key}: {} has no `reason`", row.id);
            failing += 1;
        }
    }
    assert!(failing > 0);
}

/// Each claim has an experiment, a test that exists, or a reason that says what is missing.
#[test]
fn every_claim_is_run_or_tested_or_has_a_reason() {
    let sources = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
    let is_there = |test: &str| {
        sources.values().any(|text| {
            text.contains(&format!("#[test]\n    fn {test}()")) || text.contains(&format!("#[test]\nfn {test}()"))
        })
    };
    for key in PAPERS {
        let paper = paper(key);
        for claim in &paper.claims.claims {
            let (id, is_run) = (&claim.id, paper.experiments.measure(&claim.id));
            match &claim.tested {
                Some(test) => assert!(!is_run && is_there(test), "{key}: `{id}`: there is no test `{test}`"),
                None => assert!(is_run || claim.reason.is_some(), "{key}: `{id}` has neither a run nor a reason"),
            }
        }
    }
}

/// No claim of a gain holds where there is none.
#[test]
fn no_gain_holds_nowhere() {
    for key in PAPERS {
        for claim in paper(key).claims.claims {
            let claimed = claim.numbers();
            let Some(none) = claim.gain().filter(|_| !claimed.is_empty()) else { continue };
            let is_gain = (mean(claimed.iter().copied()) - none).abs() > 0.1;
            let measured = Measured::Numbers(vec![none; claimed.len()]);
            let of_none = Verdict::of(&claim, &Outcome::exact(&claim.id, measured, ""));
            let may_hold = !is_gain || claim.shape == claims::Shape::AtMost(true);
            assert!(may_hold || of_none != Verdict::Holds, "{key}: `{}` holds without a gain", claim.id);
        }
    }
}

/// The worked examples of the paper are small enough for every run of the tests.
#[test]
fn the_worked_examples_are_the_papers() {
    let paper = paper("tuplemerge");
    let mut held = 0;
    for (name, entry) in &paper.experiments.0 {
        if let Run::Example(_) = entry.run {
            run(entry, None, &mut Vec::new(), name, &mut |outcome| {
                let claim = paper.claims.get(&outcome.claim).expect("a claim");
                let (row, verdict) = judged("tuplemerge", claim, Some(&outcome));
                assert_eq!(verdict, Verdict::Holds, "{row:?}");
                held += 1;
                Ok(())
            })
            .expect("a run");
        }
    }
    assert_eq!(held, 2);
}

/// Times and rates of a paper's machine are not judged by themselves.
#[test]
fn absolute_times_and_rates_are_stated() {
    for key in PAPERS {
        for claim in paper(key).claims.claims {
            let unit = claim.unit.as_deref().unwrap_or_default();
            let absolute = ["s", "ms", "us", "ns", "cycles", "Mpps", "Gbps"].contains(&unit);
            let free = matches!(claim.shape, claims::Shape::Stated(_) | claims::Shape::Wins(_));
            assert!(!absolute || free, "{key}: {}", claim.id);
        }
    }
}

/// The record of every paper has a row for each claim.
///
/// A claim without an experiment is marked as not run, and every other row names its machine and commit.
#[test]
fn records_have_a_row_for_every_claim() {
    for key in PAPERS {
        let paper = paper(key);
        let path = paper.folder.join("record.csv");
        let text = fs::read_to_string(&path).expect("a record");
        let rows: Vec<Row> = records::rows(&path, &text).expect("good rows");
        assert_eq!(rows.len(), paper.claims.claims.len(), "{key}");
        for claim in &paper.claims.claims {
            let row = rows.iter().find(|row| row.id == claim.id);
            let row = row.unwrap_or_else(|| panic!("{key}: no row of `{}`", claim.id));
            let now = judged(key, claim, None).0;
            for (old, new) in [
                (&row.entry, &now.entry),
                (&row.claim, &now.claim),
                (&row.unit, &now.unit),
                (&row.claimed, &now.claimed),
                (&row.shape, &now.shape),
            ] {
                assert_eq!(old, new, "{key}: the row of `{}` is of another claim", claim.id);
            }
            let is_run = paper.experiments.measure(&claim.id);
            assert_eq!(row.verdict == "not run", !is_run && claim.tested.is_none(), "{row:?}");
            for text in [&row.measured, &row.commit, &row.date, &row.sets, &row.machine] {
                assert_eq!(row.verdict == "not run", text.is_empty(), "{row:?}");
            }
        }
    }
}

/// Figures and tables of a paper by their captions: their numbers by chapter, from 1.
struct Captions {
    key: &'static str,
    figures: &'static [(&'static str, usize)],
    tables: &'static [(&'static str, usize)],
}

const CAPTIONS: [Captions; 5] = [
    Captions { key: "bitmap-rfc", figures: &[("", 9)], tables: &[("", 10)] },
    Captions { key: "decomposition", figures: &[("", 4)], tables: &[("", 7)] },
    Captions {
        key: "shaikot",
        figures: &[("1-", 1), ("2-", 2), ("3-", 14), ("4-", 13), ("5-", 11)],
        tables: &[("1-", 1), ("3-", 2), ("4-", 2), ("5-", 2)],
    },
    Captions { key: "storm", figures: &[("", 10)], tables: &[("", 6)] },
    Captions { key: "tuplemerge", figures: &[("", 15)], tables: &[("", 6)] },
];

/// Every figure and table has claims, or a line that says why there is nothing to compare.
#[test]
fn every_figure_and_table_is_listed() {
    let mut count = 0;
    for Captions { key, figures, tables } in CAPTIONS {
        let paper = paper(key);
        let numbered = |kind: &str, chapters: &[(&str, usize)]| {
            let all = chapters.iter().flat_map(|&(chapter, last)| (1..=last).map(move |n| format!("{chapter}{n}")));
            all.map(|number| format!("{kind}{number}")).collect::<Vec<_>>()
        };
        let captions: BTreeSet<String> =
            [numbered("fig", figures), numbered("table", tables)].concat().into_iter().collect();
        let unclaimed = paper.claims.unclaimed.iter().map(|unclaimed| unclaimed.entry.as_str());
        let listed = paper.claims.entries().chain(unclaimed);
        let listed: BTreeSet<String> =
            listed.filter(|name| name.starts_with("fig") || name.starts_with("table")).map(str::to_owned).collect();
        assert_eq!(listed, captions, "{key}");
        count += captions.len();
    }
    assert_eq!(count, 115);
}

/// A folder of papers with one of our own, which is empty at first.
fn own_paper(test: &str, claims: &str, experiments: Option<&str>) -> PathBuf {
    let papers = std::env::temp_dir().join(format!("firstmatch-reproduce-{test}-{}", std::process::id()));
    let folder = papers.join("own");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("expected.toml"), claims).expect("a file");
    if let Some(text) = experiments {
        fs::write(folder.join("experiment.toml"), text).expect("a file");
    }
    papers
}

fn reproduced(papers: &Path, entry: &str, record: bool) -> (anyhow::Result<ExitCode>, String) {
    let args = ReproduceArgs { entries: vec![entry.into()], papers: papers.to_owned(), seeds: None, record };
    let mut out = Vec::new();
    let code = reproduce(&args, &machine(), &mut out);
    (code, String::from_utf8(out).expect("text"))
}

fn rows(papers: &Path) -> Vec<Row> {
    let path = papers.join("own/record.csv");
    let text = fs::read_to_string(&path).expect("a record");
    assert!(text.starts_with("# firstmatch-lab reproduce own\n"), "{text}");
    records::rows(&path, &text).expect("good rows")
}

const CLAIMS: &str = "\
[[claims]]\nid = 'first'\nentry = 'fig1'\nclaim = 'c1'\nwhere = 'w'\ntext = '1, 1*'\nshape = { exactly = true }\n\
[[claims]]\nid = 'second'\nentry = 'fig2'\nclaim = 'c2'\nwhere = 'w'\nvalue = 3\nshape = { at_most = true }\n\
[[unclaimed]]\nentry = 'fig3'\nwhy = 'a drawing'\n";

const TWO_ENTRIES: &str = "\
[fig1]\nshows = 's1'\nrun = 'example'\nrules = \"\"\"\nschema {\nx 2 prefix\n}\nmatch x 1\nmatch x 2/1\n\"\"\"\n\
claims = [{ id = 'first', engine = 'linear', packets = [[1], [3]] }]\n\
[fig2]\nshows = 's2'\nrun = 'built'\nprofiles = ['acl1']\nsizes = [20]\nlists = 1\n\
[[fig2.engines]]\nengine = 'tuplemerge'\n\
[[fig2.claims]]\nid = 'second'\nengines = ['tuplemerge']\npart = 'PART'\nof = 'means'\n";

#[test]
fn a_paper_without_experiments_says_so() {
    let papers = own_paper("none", CLAIMS, None);
    let (code, out) = reproduced(&papers, "own", false);
    assert_eq!(code.expect("no error"), ExitCode::from(NOTHING_RUN));
    assert!(out.contains("own has no experiments: nothing is measured"), "{out}");
    assert!(out.contains("own: 2 claims: holds 0, FAILS 0, stated 0, undecided 0, not run 2"), "{out}");
    assert!(!papers.join("own/record.csv").exists(), "nothing is recorded unasked");
    let (error, _) = reproduced(&papers, "own/fig3", false);
    assert!(format!("{:#}", error.expect_err("no claims")).contains("nothing to compare: a drawing"));
    let mut out = Vec::new();
    list(&papers, &mut out).expect("a list");
    let out = String::from_utf8(out).expect("text");
    assert_eq!(out, "own/fig1: not run: 1 claim\nown/fig2: not run: 1 claim\nown: not run: 2 of 2 claims\n");
    fs::remove_dir_all(papers).expect("it goes");
}

/// The second entry fails because its claim is about no part; the row of the first stays.
#[test]
fn an_aborted_run_keeps_its_rows() {
    let papers = own_paper("aborted", CLAIMS, Some(&TWO_ENTRIES.replace("PART", "nothing")));
    let (error, out) = reproduced(&papers, "own", true);
    assert!(format!("{:#}", error.expect_err("no part")).contains("there is no part `nothing`"), "{out}");
    let kept = rows(&papers);
    assert_eq!(kept.len(), 1);
    let row = &kept[0];
    let texts = [&row.id, &row.measured, &row.verdict, &row.commit, &row.date, &row.sets, &row.machine];
    assert_eq!(texts, ["first", "r1, r2", "FAILS", "1234567+", "2026-11-25", "profiles", "a processor, 2 cores"]);

    fs::write(papers.join("own/experiment.toml"), TWO_ENTRIES.replace("PART", "number of tables")).expect("a file");
    let (code, out) = reproduced(&papers, "own/fig2", true);
    assert_eq!(code.expect("a run"), ExitCode::SUCCESS, "{out}");
    let both = rows(&papers);
    assert_eq!(both.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["first", "second"]);
    assert_eq!(both[0], kept[0], "the other entry keeps its row");
    assert_eq!(both[1].digest.len(), 32);

    // A claim that is gone takes its row along.
    let (first, rest) = CLAIMS.split_at(CLAIMS.find("[[claims]]\nid = 'second'").expect("the second"));
    let unclaimed = &rest[rest.find("[[unclaimed]]").expect("a drawing")..];
    fs::write(papers.join("own/expected.toml"), format!("{first}{unclaimed}")).expect("a file");
    let only_first = &TWO_ENTRIES[..TWO_ENTRIES.find("[fig2]").expect("the second")];
    fs::write(papers.join("own/experiment.toml"), only_first).expect("a file");
    reproduced(&papers, "own", true).0.expect("a run");
    assert_eq!(rows(&papers).len(), 1);
    fs::remove_dir_all(papers).expect("it goes");
}

/// One run measures two entries, whichever of them is asked for.
#[test]
fn a_run_measures_other_entries_too() {
    let claims = CLAIMS.replace("text = '1, 1*'\nshape = { exactly = true }", "value = 3\nshape = { stated = true }");
    let from = TWO_ENTRIES.find("[fig2]").expect("the second");
    let shared = TWO_ENTRIES[from..].replace("PART", "number of tables").replace(
        "lists = 1\n",
        "lists = 1\n[fig2.also]\nfig1 = 'Shows s1.'\n\
         [[fig2.claims]]\nid = 'first'\nengines = ['tuplemerge']\npart = 'number of tables'\nof = 'most'\n",
    );
    let papers = own_paper("also", &claims, Some(&shared));
    for entry in ["own", "own/fig1", "own/fig2"] {
        let (code, out) = reproduced(&papers, entry, true);
        assert_eq!(code.expect("a run"), ExitCode::SUCCESS, "{out}");
        assert_eq!(out.matches("own/fig2: s2\n").count(), 1, "{out}");
        assert_eq!(out.contains("own/fig1: Shows s1. Measured with fig2.\n"), entry != "own/fig2", "{out}");
        assert!(out.contains("own: 2 claims: ") && out.contains("stated 1"), "{out}");
        let both = rows(&papers);
        assert_eq!(both.iter().map(|row| row.entry.as_str()).collect::<Vec<_>>(), ["fig1", "fig2"]);
        assert_eq!(both[0].digest, both[1].digest);
        fs::remove_file(papers.join("own/record.csv")).expect("it goes");
    }
    let file = papers.join("own/experiment.toml");
    for (bad, expected) in [
        (shared.replace("[fig2.also]\nfig1 = 'Shows s1.'\n", ""), "no claim `first` about it, or about an entry"),
        (shared.clone() + &TWO_ENTRIES[..from], "another experiment measures `fig1`, too"),
    ] {
        fs::write(&file, bad).expect("a file");
        let (error, _) = reproduced(&papers, "own", false);
        let error = format!("{:#}", error.expect_err("bad experiments"));
        assert!(error.contains(expected), "{error}");
    }
    fs::remove_dir_all(papers).expect("it goes");
}
