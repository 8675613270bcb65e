//! Fuzz target that reads text as a rule file.
//!
//! A file that parses must lower to regions that agree with the oracle, and must survive being written and read.
//! Otherwise every fault must point into the text.

use firstmatch_core::rule::{ExpansionLimits, Priority, Rule, RuleSet, RuleSpec, lower, lower_products};
use firstmatch_core::schema::Family;
use firstmatch_core::{Diagnostic, KeyBuf, Schema};
use firstmatch_formats::ParseError;
use firstmatch_formats::write::write;
use firstmatch_formats::{Format, Options, RuleFile, parse, sniff};

use crate::corners;
use crate::rng::Rng;

const CAPS: ExpansionLimits = ExpansionLimits {
    regions_per_rule: 256,
    regions_per_set: 1 << 14,
    region_bytes: usize::MAX,
    mask_comparisons: 1 << 14,
};
/// Number of packets drawn for each schema.
const PACKETS: usize = 60;

fn options(format: Option<Format>) -> Options {
    Options { format, expansion: CAPS, max_expanded: 1 << 12, flags: format.is_some(), ..Options::default() }
}

/// Reads `data` as a rule file in every format and checks the result.
///
/// A file that parses is lowered and compared with the oracle on packets from the corners of its rules. Otherwise every
/// fault must lie inside the text.
pub fn parse_rules(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for format in [Format::Native, Format::ClassBench] {
        let read = parse(&text, &options(Some(format)));
        match &read {
            Ok(file) => {
                check_file(&text, file);
                check_written(format, file);
                check_entries(file);
            }
            Err(error) => check_faults(&text, error),
        }
        check_caps(&text, format, &read);
    }
    for format in [Format::Iptables, Format::Ip6tables, Format::Ios, Format::Nxos, Format::Aws] {
        match parse(&text, &options(Some(format))) {
            Ok(file) => {
                check_list(&text, &file);
                check_entries(&file);
            }
            Err(error) => check_faults(&text, &error),
        }
    }
    // Without a format in the options, `parse` guesses it from the text as `sniff` does.
    let same = Options { flags: false, ..options(Some(sniff(&text))) };
    let (guessed, told) = (parse(&text, &options(None)), parse(&text, &same));
    match (&guessed, &told) {
        (Ok(guessed), Ok(told)) => assert!(guessed.rules.iter().eq(told.rules.iter())),
        (Err(guessed), Err(told)) => assert_eq!(guessed, told),
        _ => panic!("{guessed:?} is not {told:?}"),
    }
}

fn check_file(text: &str, file: &RuleFile) {
    check_places(text, &file.warnings);
    let lines = text.lines().count() as u32;
    for rule in file.rules.iter() {
        let line = rule.line.expect("a rule from a file has a line").get();
        assert!(line <= lines && rule.priority == Priority::of_line(line), "{rule:?} of {lines} lines");
    }
    for schema in file.rules.schemas() {
        check_lowering(&file.rules, schema, data_seed(text));
    }
}

/// Checks the list that a file of another firewall is: lines are those of the file, priorities those of the list.
fn check_list(text: &str, file: &RuleFile) {
    check_places(text, &file.warnings);
    let lines = text.lines().count() as u32;
    for (place, rule) in (1..).zip(file.rules.iter()) {
        let line = rule.line.expect("a rule from a file has a line").get();
        assert!(line <= lines && rule.priority == Priority::of_line(place), "{rule:?} of {lines} lines");
    }
    for schema in file.rules.schemas() {
        check_lowering(&file.rules, schema, data_seed(text));
    }
}

/// Checks that a written file reads back as the same rules in the same order.
fn check_written(format: Format, file: &RuleFile) {
    let mut text = String::new();
    match write(file, format, &mut text) {
        Ok(()) => {}
        // A ClassBench file cannot express an empty rule set.
        Err(_) if format == Format::ClassBench && file.rules.is_empty() => return,
        Err(error) => panic!("{error}"),
    }
    let back = parse(&text, &options(Some(format))).unwrap_or_else(|error| panic!("{text}\n{error}"));
    assert_eq!((back.policy, back.rules.schemas()), (file.policy, file.rules.schemas()), "{text}");
    let spec = |rule: &Rule| RuleSpec { priority: Priority(0), line: None, ..rule.spec.clone() };
    assert!(back.rules.iter().map(spec).eq(file.rules.iter().map(spec)), "{text}");
}

/// Checks that access lists, where they can hold the rules, read back as one list for each family.
fn check_entries(file: &RuleFile) {
    let mut text = String::new();
    if write(file, Format::Ios, &mut text).is_err() {
        return;
    }
    for schema in file.rules.schemas() {
        let number = if schema.family() == Some(Family::Ipv6) { 6 } else { 4 };
        let mut options = options(Some(Format::Ios));
        options.import.list = Some(format!("RULES-IPV{number}"));
        if let Err(error) = parse(&text, &options) {
            // Entries of one rule count their regions apart, so that a cap is the only reason.
            assert!(error.to_string().contains("regions"), "{text}\n{error}");
        }
    }
}

/// Checks that a packet lies in one region of each rule that matches it, and in no others.
fn check_lowering(set: &RuleSet, schema: &Schema, seed: u64) {
    let set = &set.resolved();
    let lowered = match lower(set, schema, &CAPS) {
        Ok(lowered) => lowered,
        Err(error) => {
            // Each condition is within the caps, because `parse` would have refused the file otherwise.
            match lower_products(set, schema, &CAPS) {
                Ok(all) => assert_eq!(all.expanded(), Err(error)),
                Err(all) => assert_eq!(all, error),
            }
            return;
        }
    };
    let places = lowered.by_rule().count() + lowered.unmatchable().len();
    assert_eq!(places, set.len());
    let mut keys = KeyBuf::new(schema);
    for packet in corners::of_set(set, schema, &mut Rng::new(seed), PACKETS) {
        keys.clear();
        keys.push_values(&packet);
        let row = keys.keys().row(0);
        let inside = |range: std::ops::Range<usize>| range.filter(|&i| lowered.regions().get(i).contains(row)).count();
        for (found, range) in lowered.by_rule() {
            let rule = set.get(found.rule).expect("a lowered rule is live");
            let want = usize::from(rule.matches(schema, &packet));
            assert_eq!(inside(range), want, "regions of {rule:?} that hold {packet:?}");
        }
        for unmatchable in lowered.unmatchable() {
            let rule = set.get(unmatchable.rule).expect("a lowered rule is live");
            assert!(!rule.matches(schema, &packet), "{rule:?} has no region, {packet:?} matches");
        }
    }
}

fn check_faults(text: &str, error: &ParseError) {
    check_places(text, error.faults());
    assert!(!error.faults().is_empty() && error.line() == error.faults()[0].line);
    assert!(error.to_string().lines().count() >= error.faults().len());
}

/// Checks that a cap of one fault and one warning drops diagnostics alone, and counts them.
fn check_caps(text: &str, format: Format, all: &Result<RuleFile, ParseError>) {
    let few = parse(text, &Options { max_faults: 1, max_warnings: 1, ..options(Some(format)) });
    match (all, &few) {
        (Ok(all), Ok(few)) => {
            assert!(all.rules.iter().eq(few.rules.iter()));
            assert_eq!(all.warnings.len() + all.more_warnings, few.warnings.len() + few.more_warnings);
        }
        (Err(all), Err(few)) => {
            assert_eq!(all.faults().len() + all.more(), few.faults().len() + few.more(), "{all}\n---\n{few}");
        }
        _ => panic!("{all:?} is not {few:?}"),
    }
}

/// Checks that every diagnostic lies inside the text, in order, and shows the line it is on.
fn check_places(text: &str, diagnostics: &[Diagnostic]) {
    assert!(diagnostics.is_sorted_by_key(|d| (d.line, d.column)), "{diagnostics:?}");
    // A byte order mark belongs to no line, so columns do not count it.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines: Vec<&str> = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
    for d in diagnostics {
        let Some(line) = (d.line as usize).checked_sub(1).and_then(|index| lines.get(index)) else {
            panic!("there is no line {} of {}: {d}", d.line, lines.len());
        };
        let len = line.chars().count();
        let (column, width) = (d.column as usize, d.width as usize);
        assert!(column >= 1 && column - 1 + width <= len, "{d}: {width} characters from {column} of {len}: {line:?}");
        // Hidden characters are shown as others.
        let line = &*firstmatch_formats::visible(line);
        let shown = d.text.strip_suffix('…').filter(|_| len > d.text.chars().count() - 1).unwrap_or(&d.text);
        assert!(line.starts_with(shown) && (shown.len() == line.len() || shown != d.text), "{d}: {line:?}");
        assert!(!d.message.is_empty() && !d.message.contains('\n'), "{d:?}");
        assert!(d.to_string().starts_with(&format!("{}:{}: ", d.line, d.column)));
    }
}

/// Returns the seed for packets: the length of `text`.
///
/// Packets so depend on the text alone, yet most changes of a byte leave them as they are.
fn data_seed(text: &str) -> u64 {
    text.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fuzzer that starts from texts with faults never reaches the code behind the parser.
    #[test]
    fn seeds_parse_unless_their_name_says_otherwise() {
        for (path, data) in crate::files("seeds/parse_rules") {
            let text = String::from_utf8(data).expect("seeds are text");
            let parsed = parse(&text, &options(None));
            let faults = path.to_string_lossy().contains("faults");
            assert_eq!(parsed.is_err(), faults, "{}: {parsed:?}", path.display());
        }
    }
}
