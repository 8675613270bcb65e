//! Command `firstmatch convert`.

use anyhow::bail;
use firstmatch_core::rule::Rule;
use firstmatch_formats::{Fields, Format as CoreFormat, write};

use crate::args::{ConvertArgs, Flags, Format};
use crate::rules::{self, Loaded, Reading};
use crate::{End, diagnostics, output};

pub(crate) fn run(args: &ConvertArgs) -> anyhow::Result<End> {
    output::refuse_inputs(&args.output, &[("rules", &args.rules)])?;
    let to_json = args.output.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    let to = args.to.unwrap_or(if to_json { Format::Json } else { Format::Native });
    if args.all_fields && to != Format::Json {
        bail!("--all-fields is for `--to json`: in the other formats rules have the fields that they test");
    }
    let Some(loaded) = load(args)? else { return Ok(End::BadInput) };
    let text = match to {
        Format::Json => firstmatch_formats::json::write(loaded.with_live_sets())?,
        Format::Native | Format::Classbench | Format::Ios => {
            let to = match to {
                Format::Classbench => CoreFormat::ClassBench,
                Format::Ios => CoreFormat::Ios,
                _ => CoreFormat::Native,
            };
            let mut text = String::new();
            if let Err(error) = write::write(loaded.with_live_sets(), to, &mut text) {
                refuse(&loaded, to, &error);
                return Ok(End::BadInput);
            }
            text
        }
    };
    output::write(&args.output, &text)?;
    Ok(End::Done)
}

/// Loads the rules, with the flags column of ClassBench if it should be kept.
///
/// The result is `None` if there are faults, which are then shown.
fn load(args: &ConvertArgs) -> anyhow::Result<Option<Loaded>> {
    let Some((name, text)) = rules::text(&args.rules)? else { return Ok(None) };
    let from_json = firstmatch_formats::json::is_json(&text);
    let has_flags = rules::has_flags_column(&text);
    if args.flags.is_some() && !has_flags {
        rules::warn_of_flags(&name);
    }
    let flags = has_flags && args.flags != Some(Flags::Ignore);
    let fields = if args.all_fields { Fields::All } else { Fields::Used };
    let reading = Reading { flags, limits: &args.limits, import: &args.import };
    let options = reading.options(fields);
    let Some(mut loaded) = Loaded::parse(&args.rules, text, options) else { return Ok(None) };
    loaded.warn_of_view();
    let has_own_schema = loaded.file.rules.schemas()[0].family().is_none();
    if args.all_fields && (from_json || has_flags || has_own_schema) {
        let what = if has_flags { "ClassBench has no others" } else { "the file names its fields itself" };
        bail!("{}: --all-fields is for native rules for IP networks; {what}", loaded.name);
    }
    if flags && args.flags.is_none() {
        // The command line does not state whether to keep the column, so no rule may depend on it.
        let column = loaded.file.rules.schemas()[0].index_of("flags");
        let tests = |rule: &&Rule| rule.conditions.iter().any(|condition| Some(condition.field) == column);
        let testing: Vec<&Rule> = loaded.file.rules.iter().filter(tests).collect();
        if let [first, others @ ..] = &testing[..] {
            let others = match others.len() {
                0 => String::new(),
                1 => ", and so does another".to_owned(),
                more => format!(", and so do {more} more"),
            };
            let expected = "`--flags keep` (ClassBench and JSON hold it) or `--flags ignore` (as classify does)";
            let message = format!("this rule tests the flags column{others}");
            loaded.fault_on(loaded.line_of(first), message, Some(expected.to_owned()));
            return Ok(None);
        }
        let Some(without) = loaded.parse_again(false) else { return Ok(None) };
        loaded = without;
    }
    loaded.show_warnings();
    Ok(Some(loaded))
}

/// Shows each part of the rules that the format cannot hold, with its line.
fn refuse(loaded: &Loaded, to: CoreFormat, error: &write::WriteError) {
    let format = match to {
        CoreFormat::Native => "the native format",
        CoreFormat::ClassBench => "ClassBench",
        CoreFormat::Iptables | CoreFormat::Ip6tables => "iptables",
        CoreFormat::Ios | CoreFormat::Nxos => "an access list of Cisco IOS",
        CoreFormat::Aws => "AWS",
    };
    for fault in error.faults() {
        let field = fault.field().map_or(String::new(), |field| format!("{field}: "));
        let message = format!("{field}{}", fault.what());
        match fault.rule().and_then(|id| loaded.rule(id)) {
            Some(rule) => loaded.fault_on(loaded.line_of(rule), message, None),
            None => diagnostics::error(&format!("{}: {message}", loaded.name)),
        }
    }
    let count = error.faults().len() + error.more();
    let things = if count == 1 { "there is something".to_owned() } else { format!("there are {count} things") };
    let shown =
        if error.more() > 0 { format!("; the first {} are shown", error.faults().len()) } else { String::new() };
    diagnostics::error(&format!("{}: {things} that {format} cannot hold; nothing is written{shown}", loaded.name));
}
