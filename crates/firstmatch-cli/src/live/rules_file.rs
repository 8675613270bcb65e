//! The rules in service, and the file that they are read from again and again.

use std::cell::RefCell;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::anyhow;
use firstmatch::{Firewall, Reloaded, RuleId};
use firstmatch_core::rule::Rule;
use firstmatch_live::WatchedFile;

use super::system::LiveSystem;
use crate::args::LiveArgs;
use crate::classify::Reloads;
use crate::engine_names::DEFAULT;
use crate::format::counted;
use crate::rules::Loaded;
use crate::{diagnostics, engines, rules};

/// Rules in service, with their file.
pub(super) struct RulesFile {
    path: PathBuf,
    /// The file itself and those that it includes, as they were before they were read.
    pub(super) files: Vec<WatchedFile>,
    /// The file as it is in service, which the page explains packets by.
    pub(super) loaded: Arc<Loaded>,
    pub(super) firewall: Firewall,
    /// Arrangement of threads that looks packets up, if it is not each lane itself.
    pub(super) system: Option<LiveSystem>,
    /// Number of reloads since the start that were done, and that were refused.
    pub(super) reloads: Reloads,
}

impl RulesFile {
    /// Reads the rules and builds their engine; `None` if they have faults, which are then shown.
    pub(super) fn open(args: &LiveArgs) -> anyhow::Result<Option<Self>> {
        let system = LiveSystem::of(args)?;
        // Beside a system the firewall counts and explains, and its engine is of no account.
        let (name, options) = if system.is_some() { (DEFAULT, &[][..]) } else { (&*args.engine, &args.option[..]) };
        let engine = engines::named(name).ok_or_else(|| anyhow!("there is no engine {name}"))?;
        let settings = engines::settings(engine, &args.choice, options)?;
        let noted = RefCell::new(vec![WatchedFile::now(&args.rules)]);
        let note = |path: &Path| noted.borrow_mut().push(WatchedFile::now(path));
        let Some(loaded) = rules::load_noting(&args.rules, args.limits.expansion(), &note)? else { return Ok(None) };
        loaded.show_warnings_briefly();
        warn_of_audit(&loaded);
        let firewall = match engines::serve_live(&loaded, engine, &settings) {
            Ok(firewall) => firewall,
            Err(error) => {
                loaded.not_built(error, |error| engines::how_to_raise(name, error))?;
                return Ok(None);
            }
        };
        let (path, files, loaded) = (args.rules.clone(), noted.into_inner(), Arc::new(loaded));
        let mut rules = Self { path, files, loaded, firewall, system: None, reloads: Reloads::default() };
        if let Some(mut system) = system {
            let policy = rules.loaded.file.policy;
            let built = system.build(&rules.loaded, &policy)?;
            system.publish(built, policy, &rules.rules(), rules.firewall.generation());
            rules.system = Some(system);
        }
        Ok(Some(rules))
    }

    /// Reads the file again. If it has a fault, that is shown, and the old rules stay. Returns what differs, or `None`.
    pub(super) fn reload(&mut self) -> Option<Reloaded> {
        // A file that is refused may include others than the rules in service: a change of any of them may be the cure.
        let before: Vec<_> = self.files.iter().map(|file| WatchedFile::now(file.path())).collect();
        let noted = RefCell::new(vec![WatchedFile::now(&self.path)]);
        let result = self.try_reload(&|path| noted.borrow_mut().push(WatchedFile::now(path)));
        self.files = noted.into_inner();
        if !matches!(result, Ok(Some(_))) {
            let is_new = |file: &WatchedFile| self.files.iter().all(|noted| noted.path() != file.path());
            let others: Vec<_> = before.into_iter().filter(is_new).collect();
            self.files.extend(others);
        }
        let name = &self.loaded.name;
        match &result {
            Ok(Some(done)) => {
                let (kept, inserted, removed) = (done.kept as u64, done.inserted as u64, done.removed as u64);
                let rebuilt = if done.is_rebuilt { "; other fields or another policy" } else { "" };
                note(&format!("{name}: {} kept, {inserted} new, {removed} removed{rebuilt}", counted(kept, "rule")));
            }
            Ok(None) => diagnostics::error(&format!("{name}: the old rules stay")),
            Err(error) => diagnostics::error(&format!("{error:#}; the old rules stay")),
        }
        let done = result.ok().flatten();
        *if done.is_some() { &mut self.reloads.done } else { &mut self.reloads.refused } += 1;
        done
    }

    fn try_reload(&mut self, note: &dyn Fn(&Path)) -> anyhow::Result<Option<Reloaded>> {
        let Some(loaded) = rules::load_noting(&self.path, self.loaded.expansion(), note)? else { return Ok(None) };
        if loaded.file.rules.is_empty() {
            // A file that is being written is empty for a while.
            return Err(anyhow!("{}: there is no rule", loaded.name));
        }
        let built = match &self.system {
            Some(system) => Some((system.build(&loaded, &loaded.file.policy)?, loaded.file.policy)),
            None => None,
        };
        let done = match self.firewall.reload_file(loaded.with_live_sets().clone()) {
            Ok(done) => done,
            Err(error) => return loaded.not_built(error, |_| None).map(|()| None),
        };
        loaded.show_warnings_briefly();
        warn_of_audit(&loaded);
        self.loaded = Arc::new(loaded);
        if let (Some(mut system), Some((built, policy))) = (self.system.take(), built) {
            system.publish(built, policy, &self.rules(), self.firewall.generation());
            self.system = Some(system);
        }
        Ok(Some(done))
    }

    /// Returns the path of the file, as it was given.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns each rule in service with its id there.
    ///
    /// The file has its own ids, but the rules in service are the rules of the file, in the same order.
    pub(super) fn rules(&self) -> Vec<(RuleId, &Rule)> {
        let update = self.firewall.update();
        let live = update.rules().map(|rule| rule.id);
        live.zip(self.loaded.file.rules.iter()).collect()
    }

    /// Warns of files that cannot be read by the user that the process is now.
    pub(super) fn check_readable(&self) {
        for path in self.files.iter().map(WatchedFile::path) {
            if let Err(error) = File::open(path) {
                let path = path.display();
                diagnostics::warning(&format!(
                    "{path}: {error}: this user cannot read it, so the rules stay as they are"
                ));
            }
        }
    }
}

/// Says what has happened, on standard error.
pub(super) fn note(text: &str) {
    use std::io::Write;
    // There is no other place to report a failure.
    let _ignored = writeln!(anstream::stderr().lock(), "{text}");
}

fn warn_of_audit(loaded: &Loaded) {
    if loaded.file.audited.is_some() {
        diagnostics::warning(&format!("{}: audit rules are not counted here; `classify` counts them", loaded.name));
    }
}
