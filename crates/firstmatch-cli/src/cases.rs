//! Command `firstmatch test`: packets with the expected verdict or rule.

use std::io::Write;

use anyhow::Context;
use firstmatch_core::Diagnostic;
use firstmatch_core::policy::Verdict;
use firstmatch_core::rule::Rule;
use firstmatch_net::wire::Config;

use crate::args::TestArgs;
use crate::explain::{Explanation, Packet, by_hand};
use crate::format::{BOLD, counted};
use crate::rules::{self, Loaded};
use crate::{End, answer_to, diagnostics};

const FORM: &str = "PACKET => permit, deny, mark N, match, line N, label \"TEXT\", unmatched or unknown";

/// Expectation of a case about its packet.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Expected {
    Verdict(Verdict),
    /// The rule on this line decides.
    Line(u32),
    /// A rule with this label decides.
    Label(String),
    /// No rule matches.
    Unmatched,
    /// The packet cannot be classified.
    Unknown,
}

/// Packet with the expectation about it.
struct Case {
    line: u32,
    what: String,
    packet: Packet,
    expected: Expected,
}

pub(crate) fn run(args: &TestArgs) -> anyhow::Result<End> {
    let Some(loaded) = rules::load(&args.rules, args.reading())? else { return Ok(End::BadInput) };
    let config = loaded.wire_config(None)?;
    let Some((name, text)) = rules::text(&args.cases)? else { return Ok(End::BadInput) };
    let Some(cases) = parse(&loaded, &config, &name, &text) else { return Ok(End::BadInput) };
    if cases.is_empty() {
        anyhow::bail!("{name}: no case, so that nothing is tested; expected {FORM}");
    }
    let mut out = answer_to(false);
    let (count, mut failed) = (cases.len() as u64, 0);
    for Case { line, what, packet, expected } in cases {
        let explanation = Explanation::new(&loaded, &config, packet)?;
        let found = explanation.decision();
        if expected.holds(&loaded, &found) {
            continue;
        }
        failed += 1;
        writeln!(out, "{BOLD}{name}:{line}{BOLD:#}: expected {}", expected.text())?;
        let asked = if let Expected::Line(line) = &expected { loaded.rules_on(*line) } else { Vec::new() };
        explanation.print(&what, &asked, &mut out)?;
        writeln!(out)?;
    }
    let how = if failed == 0 { "all as expected".to_owned() } else { format!("{failed} not as expected") };
    writeln!(out, "{BOLD}{name}{BOLD:#}: {}; {how}", counted(count, "case"))?;
    out.flush()?;
    Ok(if failed == 0 { End::Done } else { End::BadAnswer })
}

/// Reads the cases; `None` if some have faults, all of which are then shown.
fn parse(loaded: &Loaded, config: &Config, name: &str, text: &str) -> Option<Vec<Case>> {
    let (mut cases, mut faults) = (Vec::new(), 0);
    for (line, text) in (1..).zip(text.lines()) {
        let of_case = before_comment(text).trim();
        if of_case.is_empty() {
            continue;
        }
        match case(loaded, config, line, of_case) {
            Ok(case) => cases.push(case),
            Err(error) => {
                faults += 1;
                let column = 1 + (text.len() - text.trim_start().len()) as u32;
                let width = of_case.chars().count() as u32;
                let (message, expected) = (format!("{error:#}"), Some(FORM.to_owned()));
                diagnostics::fault(name, &Diagnostic { line, column, width, message, expected, text: text.to_owned() });
            }
        }
    }
    (faults == 0).then_some(cases)
}

/// Returns a line without its comment, which begins with `#` outside quotes.
fn before_comment(line: &str) -> &str {
    let mut is_quoted = false;
    let end = line.find(|character| {
        is_quoted ^= character == '"';
        character == '#' && !is_quoted
    });
    &line[..end.unwrap_or(line.len())]
}

fn case(loaded: &Loaded, config: &Config, line: u32, text: &str) -> anyhow::Result<Case> {
    let (what, expected) = text.rsplit_once("=>").context("a case without `=>`")?;
    let (what, words) = (what.trim().to_owned(), expected.split_whitespace().collect::<Vec<_>>());
    let expected = match words[..] {
        ["permit"] => Expected::Verdict(Verdict::Permit),
        ["deny"] => Expected::Verdict(Verdict::Deny),
        ["match"] => Expected::Verdict(Verdict::Match),
        ["mark", number] => Expected::Verdict(Verdict::Mark(number.parse().context("the number of a mark")?)),
        ["line", number] => Expected::Line(number.parse().context("the number of a line")?),
        ["label", ..] => Expected::Label(label(expected.trim())?),
        ["unmatched"] => Expected::Unmatched,
        ["unknown"] => Expected::Unknown,
        _ => anyhow::bail!("`{}` is nothing to expect", words.join(" ")),
    };
    if let Expected::Line(number) = &expected {
        anyhow::ensure!(!loaded.rules_on(*number).is_empty(), "there is no rule on line {number} of {}", loaded.name);
    }
    let packet = by_hand(&what, config, loaded)?;
    Ok(Case { line, what, packet, expected })
}

/// Reads `label "TEXT"`.
fn label(text: &str) -> anyhow::Result<String> {
    let quoted = text.strip_prefix("label").map(str::trim);
    let inside = quoted.and_then(|quoted| quoted.strip_prefix('"')?.strip_suffix('"'));
    Ok(inside.context("a label without quotes")?.to_owned())
}

impl Expected {
    /// Whether a packet is decided as expected; `found` is the first match, or `None` for an unknown packet.
    fn holds(&self, loaded: &Loaded, found: &Option<Option<&Rule>>) -> bool {
        let policy = &loaded.file.policy;
        let rule = found.flatten();
        match self {
            Self::Verdict(verdict) => {
                let other = if found.is_some() { policy.default } else { policy.unknown };
                *verdict == rule.map_or(other, |rule| rule.action.into())
            }
            Self::Line(line) => rule.is_some_and(|rule| loaded.line_of(rule) == *line),
            Self::Label(label) => rule.and_then(|rule| loaded.label_of(rule)) == Some(label),
            Self::Unmatched => *found == Some(None),
            Self::Unknown => found.is_none(),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Verdict(verdict) => verdict.to_string(),
            Self::Line(line) => format!("the rule on line {line}"),
            Self::Label(label) => format!("a rule with the label \"{label}\""),
            Self::Unmatched => "no rule".to_owned(),
            Self::Unknown => "a packet that cannot be classified".to_owned(),
        }
    }
}
