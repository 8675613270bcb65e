//! Tests the report with a few made-up figures, with none, and with broken files.

use std::fs;
use std::path::Path;

use crate::{folder, lab};

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/report");

fn report(folder: &Path, args: &[&str]) -> (i32, String, String) {
    lab(folder, &[&["report"], args].concat())
}

/// Returns the text of a page by lines; a plot is its title and its number of marks.
fn outline(page: &str) -> String {
    let (mut lines, mut line) = (Vec::new(), String::new());
    let (mut in_plot, mut in_row, mut marks) = (false, false, 0);
    let body = page.split_once("<body>").map_or(page, |(_, body)| body);
    for piece in body.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').expect("tags are closed");
        let name = tag.split(' ').next().unwrap_or(tag);
        in_plot |= name == "svg";
        in_row |= name == "tr";
        marks += usize::from(tag.contains("var(--s"));
        match name {
            "/svg" => line += &format!(": {} marks", std::mem::take(&mut marks)),
            "/th" | "/td" => line += " | ",
            "/tr" => in_row = false,
            _ => {}
        }
        let ends = matches!(
            name,
            "/svg" | "/tr" | "/h1" | "/h2" | "/h3" | "/h4" | "/p" | "/li" | "/dd" | "/figcaption" | "/summary"
        );
        if ends && !line.trim().is_empty() {
            lines.push(line.split_whitespace().collect::<Vec<_>>().join(" "));
        }
        if ends || name == "svg" {
            line.clear();
        }
        in_plot &= name != "/svg";
        if !in_plot || name == "title" {
            line += text;
        }
    }
    assert!(!in_row && !in_plot, "the page came to its end");
    lines.retain(|line| !line.starts_with(": ") && !line.contains("Page made at"));
    lines.join("\n") + "\n"
}

#[test]
fn a_page_of_a_few_records() {
    let folder = folder("report-good");
    let definitions = folder.join("benchmarks/definitions");
    fs::create_dir_all(&definitions).expect("a folder");
    let definition = "shows = \"what a `test` <shows>\"\n[[sets]]\nname = \"x\"\ngenerate = { profile = \"fw\", rules = 9, seed = 5, headers = 9 }\n[[engines]]\nengine = \"linear\"\n";
    fs::write(definitions.join("small.toml"), definition).expect("a definition");
    let (record, papers) = (format!("{HERE}/record"), format!("{HERE}/papers"));
    let (code, out, err) = report(&folder, &["--record", &record, "--papers", &papers, "--out", "new/page.html"]);
    assert_eq!((code, out.as_str(), err.as_str()), (0, "new/page.html\n", ""));
    let page = fs::read_to_string(folder.join("new/page.html")).expect("it is written");

    for word in ["http:", "https:", "@import", "url(", "<script", "<img", "<iframe", "#0102"] {
        assert!(!page.contains(word), "{word}");
    }
    for (index, _) in page.match_indices("href=\"").chain(page.match_indices("src=\"")) {
        let target = page[index..].split('"').nth(1).unwrap_or_default();
        assert!(target.starts_with('#') || target == "data:,", "{target}");
    }
    assert!(!page.contains("old_1k"), "an older record of the definition is not shown");
    for id in
        page.match_indices("href=\"#").map(|(index, _)| page[index..].split(['#', '"']).nth(2).unwrap_or_default())
    {
        assert!(page.contains(&format!("id=\"{id}\"")), "{id}");
    }

    let is = outline(&page).replace(HERE, "HERE");
    let expected = fs::read_to_string(format!("{HERE}/outline.txt")).unwrap_or_default();
    if is != expected {
        fs::write(folder.join("outline.txt"), &is).expect("a file to compare");
        let differs = is.lines().zip(expected.lines()).find(|(is, expected)| is != expected);
        panic!("{} is other than expected, first at {differs:?}", folder.join("outline.txt").display());
    }
}

#[test]
fn nothing_to_show_is_said() {
    let folder = folder("report-empty");
    let (code, out, err) = report(&folder, &[]);
    assert_eq!((code, out.as_str(), err.as_str()), (0, "target/report.html\n", ""));
    let page = fs::read_to_string(folder.join("target/report.html")).expect("it is written");
    assert!(page.contains("There is no record in <code>benchmarks/record</code>"), "{page}");

    let good = fs::read_to_string(format!("{HERE}/record/test-machine/2026-11-21-large.csv")).expect("a record");
    let head: Vec<&str> = good.lines().take(4).collect();
    let machine = folder.join("benchmarks/record/some-machine");
    fs::create_dir_all(&machine).expect("a folder");
    fs::write(machine.join("2026-11-21-large.csv"), head.join("\n")).expect("a record without rows");
    let (code, _, err) = report(&folder, &[]);
    assert_eq!((code, err.as_str()), (0, ""));
    let page = fs::read_to_string(folder.join("target/report.html")).expect("it is written");
    assert!(page.contains("<h2>large</h2>") && page.contains("The record has no figures."), "{page}");
    assert!(page.contains("No record has times of lookups"), "{page}");
}

#[test]
fn what_is_broken_is_named_and_nothing_is_written() {
    let good = fs::read_to_string(format!("{HERE}/record/test-machine/2026-11-21-large.csv")).expect("a record");
    let claims = fs::read_to_string(format!("{HERE}/papers/sample/record.csv")).expect("a paper's record");
    let (record, paper) = ("record/m/2026-11-21-large.csv", "papers/p/record.csv");
    let without = |column: &str| good.replacen(column, "other", 1);
    let line = |number: usize, text: &str| {
        let mut lines: Vec<&str> = good.lines().collect();
        lines[number - 1] = text;
        lines.join("\n")
    };
    let cases = [
        ("number", record, good.replacen(",10000,", ",many,", 1), format!("{record}:5: column 2: invalid digit")),
        ("short", record, line(7, "acl_10k,10000,3"), format!("{record}:7: expected 19 columns, found 3")),
        ("column", record, without("noise_floor"), format!("{record}:5: unknown field `other`")),
        ("name", "record/m/yesterday.csv", good.clone(), "yesterday.csv: expected a name like 2026-11-21-".to_owned()),
        ("day", "record/m/2026-13-45-x.csv", good.clone(), "2026-13-45-x.csv: expected a name like".to_owned()),
        ("paper", paper, claims.replace("shape,verdict", "shape,end"), format!("{paper}:3: missing field `verdict`")),
        (
            "verdict",
            paper,
            claims.replace("slower,holds", "slower,good"),
            format!("{paper}:3: expected one of holds, FAILS"),
        ),
        ("other", "record/m/2026-11-21-x.csv", "a,b\n1,2\n3\n".to_owned(), "x.csv:3: expected 2 columns".to_owned()),
        ("definition", "benchmarks/definitions/large.toml", "shows = 3\n".to_owned(), "line 1, column 9".to_owned()),
    ];
    for (name, path, text, expected) in cases {
        let folder = folder(&format!("report-{name}"));
        let put = |path: &str, text: &str| {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        };
        put(record, &good);
        put(path, &text);
        let (code, out, err) = report(&folder, &["--record", "record"]);
        assert_eq!((code, out.as_str()), (2, ""), "{name}");
        assert!(err.contains(&expected), "{name}: {err}");
        assert!(!folder.join("target").exists(), "{name}: nothing is written");
    }
}
