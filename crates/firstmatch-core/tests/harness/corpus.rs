//! Corpus: every file of `testdata/`, on every engine.
//!
//! Engines are built at once, inserted rule by rule, and checked after removals.

use std::path::Path;

use firstmatch_core::rule::{
    ExpansionLimits, Lowered, Priority, Regions, Rule, RuleId, RuleSet, RuleSpec, lower, lower_rule,
};
use firstmatch_core::{Match, Schema, Updatable};

use crate::broken::{Fault, word_faults};
use crate::case::{Case, LONGEST};
use crate::corners;
use crate::engines::{Reference, Start, Subject, engines};
use crate::rng::Rng;
use crate::script::{Script, Step};

fn scripts() -> Vec<Script> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
    let entries = std::fs::read_dir(&folder).expect("testdata/ stands beside crates/");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("readable").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "txt"));
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let text = std::fs::read_to_string(path).expect("readable");
        Script::read(&path.file_name().unwrap_or_default().to_string_lossy(), &text)
    };
    paths.iter().map(read).collect()
}

/// Moment of a script: the rules that are live and the packets asked about, for each schema.
struct Moment {
    name: String,
    set: RuleSet,
    views: Vec<View>,
}

struct View {
    schema: Schema,
    lowered: Lowered,
    case: Case,
}

/// Plays a script on a rule set and checks its expectations against the oracle.
///
/// Returns its moments.
fn play(script: &Script) -> Vec<Moment> {
    let mut set = script.empty_set();
    let mut ids: Vec<Option<RuleId>> = Vec::new();
    let mut out = Vec::new();
    let mut asked = Vec::new();
    let mut wrong = Vec::new();
    for (index, (line, step)) in script.steps.iter().enumerate() {
        let place = format!("{}:{line}", script.name);
        match step {
            Step::Rule { spec, refused } => {
                let inserted = set.insert(spec.clone());
                assert!(inserted.is_err() == *refused, "{place}: {inserted:?}");
                ids.push(inserted.ok());
            }
            Step::Remove { rule, refused } => {
                let id = ids[*rule].expect("the rule was not refused");
                assert!(set.remove(id).is_err() == *refused, "{place}");
            }
            Step::Key { packet, want } => {
                let got = firstmatch_core::rule::first_match(&set, packet).map(|rule| rule.id);
                let want = want.map(|rule| ids[rule].expect("the rule was not refused"));
                if got != want {
                    wrong.push(format!("{place}: the oracle says {got:?}, the file {want:?}"));
                }
                asked.push(packet.clone());
                if !matches!(script.steps.get(index + 1), Some((_, Step::Key { .. }))) {
                    out.push(moment(place, &set, std::mem::take(&mut asked)));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(!out.is_empty() && asked.is_empty(), "{} asks nothing", script.name);
    out
}

/// Returns a moment: the packets the file asks about, then the corners of its rules.
///
/// Where packets are few, every packet takes the place of the corners.
fn moment(name: String, set: &RuleSet, asked: Vec<firstmatch_core::rule::FieldValues>) -> Moment {
    let mut rng = Rng::new(asked.len() as u64);
    let view = |schema: &Schema| {
        let mut packets: Vec<_> = asked.iter().filter(|p| p.family == schema.family()).cloned().collect();
        match corners::every_packet(schema, 5_000) {
            Some(every) => packets.extend(every),
            None => packets.extend(corners::of_set(set, schema, &mut rng, 400)),
        }
        while packets.len() < 2 * LONGEST {
            packets.extend_from_within(..);
        }
        let lowered = lower(set, schema, &ExpansionLimits::default()).expect("within the caps");
        View { schema: schema.clone(), lowered, case: Case::new(set, schema, packets) }
    };
    let views = set.schemas().iter().map(view).collect();
    Moment { name, set: set.clone(), views }
}

/// Returns each rule set of the corpus, with its name.
pub(crate) fn sets() -> impl Iterator<Item = (String, RuleSet)> {
    each_moment().map(|moment| (moment.name, moment.set))
}

fn each_moment() -> impl Iterator<Item = Moment> {
    scripts().into_iter().flat_map(|script| play(&script))
}

#[test]
fn the_corpus_is_there() {
    let scripts = scripts();
    assert!(scripts.len() >= 25);
    let moments: usize = scripts.iter().map(|script| play(script).len()).sum();
    assert!(moments >= scripts.len());
}

#[test]
fn built() {
    let engines = engines();
    for moment in each_moment() {
        for view in &moment.views {
            for subject in &engines {
                let engine = subject.build(&view.lowered);
                if let Err(what) = view.case.check_thoroughly(&*engine) {
                    panic!("{}: {}: {what}", moment.name, subject.name);
                }
            }
        }
    }
}

#[test]
fn inserted_one_by_one_in_any_order() {
    for_each_updatable(|moment, view, subject| {
        let mut rng = Rng::new(1);
        let mut rules: Vec<&Rule> = moment.set.iter().collect();
        for order in 0..4 {
            match order {
                0 => {}
                1 => rules.reverse(),
                _ => rng.shuffle(&mut rules),
            }
            let mut engine = subject.start(Start::Empty(&view.schema));
            rules.iter().for_each(|rule| insert(&mut *engine, &view.schema, rule.id, &rule.spec));
            if let Err(what) = view.case.check_thoroughly(&*engine) {
                panic!("{}: {}, inserted in order {order}: {what}", moment.name, subject.name);
            }
        }
    });
}

#[test]
fn after_decoys_are_removed() {
    for_each_updatable(|moment, view, subject| {
        let mut rng = Rng::new(2);
        for built in [false, true] {
            // Decoys stand between the rules: copies of each, and rules that match everything.
            let mut set = moment.set.clone();
            let decoys: Vec<RuleId> =
                decoys(&moment.set).into_iter().map(|spec| set.insert(spec).expect("there is room")).collect();
            let mut engine = if built {
                let all = lower(&set, &view.schema, &ExpansionLimits::default()).expect("within the caps");
                subject.start(Start::Rules(&all))
            } else {
                let mut engine = subject.start(Start::Empty(&view.schema));
                let mut rules: Vec<&Rule> = set.iter().collect();
                rng.shuffle(&mut rules);
                rules.iter().for_each(|rule| insert(&mut *engine, &view.schema, rule.id, &rule.spec));
                engine
            };
            let mut decoys = decoys;
            rng.shuffle(&mut decoys);
            for id in decoys {
                assert!(engine.remove(id).is_ok(), "{}: {}", moment.name, subject.name);
                assert!(engine.remove(id).is_err(), "{}: {}: removed twice", moment.name, subject.name);
            }
            if let Err(what) = view.case.check_thoroughly(&*engine) {
                panic!("{}: {}, decoys removed (built: {built}): {what}", moment.name, subject.name);
            }
        }
    });
}

/// The script itself is played, step by step, on a living engine.
#[test]
fn played() {
    for script in scripts() {
        for schema in &script.schemas {
            for subject in engines().iter().filter(|s| s.is_updatable()) {
                play_on(&script, schema, subject);
            }
        }
    }
}

fn play_on(script: &Script, schema: &Schema, subject: &Subject) {
    let mut set = script.empty_set();
    let mut engine = subject.start(Start::Empty(schema));
    let mut ids = Vec::new();
    let mut asked = Vec::new();
    for (index, (line, step)) in script.steps.iter().enumerate() {
        let place = format!("{}:{line}: {}", script.name, subject.name);
        match step {
            Step::Rule { spec, .. } => {
                let id = set.insert(spec.clone()).ok();
                ids.push(id);
                if let Some(id) = id {
                    insert(&mut *engine, schema, id, spec);
                }
            }
            Step::Remove { rule, refused } => {
                let id = ids[*rule].expect("the rule was not refused");
                let _: Option<Rule> = set.remove(id).ok();
                let removed = engine.remove(id);
                assert!(removed.is_err() == *refused, "{place}: {removed:?}");
                assert!(!refused || removed.is_err_and(|e| e.is_stale()), "{place}");
            }
            Step::Key { packet, .. } => {
                asked.extend((packet.family == schema.family()).then(|| packet.clone()));
                if !matches!(script.steps.get(index + 1), Some((_, Step::Key { .. }))) {
                    let case = Case::new(&set, schema, std::mem::take(&mut asked));
                    case.check(&*engine).unwrap_or_else(|what| panic!("{place}: {what}"));
                }
            }
        }
    }
}

fn for_each_updatable(mut run: impl FnMut(&Moment, &View, &Subject)) {
    let engines = engines();
    for moment in each_moment() {
        for view in &moment.views {
            engines.iter().filter(|s| s.is_updatable()).for_each(|subject| run(&moment, view, subject));
        }
    }
}

pub(crate) fn regions_of(schema: &Schema, spec: &RuleSpec) -> Regions {
    let mut regions = Regions::new(schema.words().len());
    lower_rule(schema, spec, &ExpansionLimits::default(), &mut regions).expect("within the caps");
    regions
}

fn insert(engine: &mut dyn Updatable, schema: &Schema, id: RuleId, spec: &RuleSpec) {
    let rule = Match { rule: id, priority: spec.priority };
    engine.insert(rule, &regions_of(schema, spec)).expect("the rule fits");
}

/// Returns rules to put in and take out again: one before all, and one between any two.
///
/// They are left out where priorities have no room for them.
fn decoys(set: &RuleSet) -> Vec<RuleSpec> {
    let rules: Vec<&Rule> = set.iter().collect();
    let mut out = Vec::new();
    let mut low = Priority(0);
    for (index, rule) in rules.iter().enumerate().take(60) {
        for decoy in [crate::generate::empty_rule(low), rule.spec.clone()] {
            if let Some(priority) = Priority::between(low, rule.priority) {
                out.push(RuleSpec { priority, ..decoy });
                low = priority;
            }
        }
        // A copy of another rule hits what only that decides, often where many are alike.
        if let Some(other) = rules.get((index * 7 + 3) % rules.len())
            && let Some(priority) = Priority::between(low, rule.priority)
        {
            out.push(RuleSpec { priority, ..other.spec.clone() });
        }
        low = rule.priority;
    }
    out
}

/// The corpus alone would catch an engine with one thing wrong.
#[test]
fn broken_engines_are_caught() {
    let moments: Vec<Moment> = each_moment().collect();
    let views: Vec<&View> = moments.iter().flat_map(|moment| &moment.views).collect();
    for view in &views {
        assert_eq!(view.case.check_thoroughly(&Reference::new(&view.lowered)), Ok(()));
    }
    for fault in word_faults(11).into_iter().chain([Fault::MasksIgnored]) {
        let caught = views.iter().any(|view| view.case.check(&fault.engine(&view.lowered)).is_err());
        assert!(caught, "{fault:?} goes unnoticed");
    }
    // At least eight in ten regions of the corpus decide some packet.
    let (mut regions, mut caught) = (0, 0);
    for view in views.iter().filter(|view| view.lowered.regions().len() < 40) {
        for index in 0..view.lowered.regions().len() {
            regions += 1;
            caught += usize::from(view.case.check(&Fault::RegionDropped { index }.engine(&view.lowered)).is_err());
        }
    }
    assert!(caught * 10 >= regions * 8, "of {regions} dropped regions {caught} are noticed");
}
