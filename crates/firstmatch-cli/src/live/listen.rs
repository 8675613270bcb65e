//! The page of a command: where it listens, and what the thread of control tells it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, bail};
use firstmatch_core::Stats;
use firstmatch_live::web::{About, Link, Reload, Server, ServerConfig, Serving, State};
use firstmatch_live::{Interface, Lanes};

use super::rules_file::RulesFile;
use crate::args::LiveArgs;
use crate::diagnostics::{self, Problem};
use crate::explain;
use crate::rules::Loaded;

/// Address that is listened on.
pub(super) struct Port(Server);

/// Page that is served.
pub(super) struct Page {
    pub(super) address: SocketAddr,
    pub(super) state: Arc<State>,
    /// Rules that packets are explained by.
    loaded: Arc<Mutex<Arc<Loaded>>>,
    _serving: Serving,
}

impl Port {
    /// Listens where the options say, if they do.
    pub(super) fn open(args: &LiveArgs) -> anyhow::Result<Option<Self>> {
        let Some(address) = args.listen else { return Ok(None) };
        if !address.ip().to_canonical().is_loopback() && !args.listen_anywhere {
            bail!(
                "--listen {address}: other hosts reach this address, and there is neither encryption nor a password; \
                 take 127.0.0.1 with ssh or a proxy in front of it, or add --listen-anywhere"
            );
        }
        let mut config = ServerConfig::new(address);
        config.hosts.clone_from(&args.allow_host);
        Server::bind(config).map(|server| Some(Self(server))).with_context(|| format!("--listen {address}"))
    }

    /// Starts the thread that answers.
    pub(super) fn serve(
        self,
        args: &LiveArgs,
        rules: &RulesFile,
        lanes: &Lanes,
        interfaces: &[Interface],
        command: &'static str,
    ) -> anyhow::Result<Page> {
        let about = About {
            command,
            rules_file: rules.loaded.name.clone(),
            engine: args.engine.clone(),
            system: args.system.map_or_else(|| "copies".to_owned(), |system| system.name().to_owned()),
            version: env!("CARGO_PKG_VERSION"),
            metric_rules: args.metric_rules,
            allow_reload: args.allow_reload,
        };
        let loaded = Arc::new(Mutex::new(Arc::clone(&rules.loaded)));
        let explained = Arc::clone(&loaded);
        let explain = move |packet: &str| {
            let loaded = Arc::clone(&explained.lock().unwrap_or_else(PoisonError::into_inner));
            explain::in_words(packet, &loaded).map_err(|error| format!("{error:#}"))
        };
        let names: Vec<&str> = interfaces.iter().map(Interface::name).collect();
        let state = Arc::new(State::new(about, rules.firewall.clone(), lanes.states(), &names, Box::new(explain))?);
        show_memory(&state, rules);
        // The history begins here.
        state.record();
        let address = self.0.address()?;
        let serving = self.0.start(Arc::clone(&state)).context("no thread can be started")?;
        Ok(Page { address, state, loaded, _serving: serving })
    }
}

impl Page {
    /// Reads the rules anew, and shows the result.
    pub(super) fn reload(&self, rules: &mut RulesFile) {
        self.state.begin_reload();
        let (done, problems) = diagnostics::record(|| rules.reload());
        let result = match done {
            Some(done) => Reload::Done { kept: done.kept, inserted: done.inserted, removed: done.removed },
            None => refused(problems, rules),
        };
        *self.loaded.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&rules.loaded);
        show_memory(&self.state, rules);
        self.state.end_reload(&result);
    }

    /// Shows whether an interface is up, down or gone (`None`).
    pub(super) fn show_link(&self, interface: &str, is_up: Option<bool>) {
        let link = is_up.map_or(Link::Gone, |is_up| if is_up { Link::Up } else { Link::Down });
        self.state.set_link(interface, link);
    }
}

/// Shows the size of the engines that look packets up.
fn show_memory(state: &State, rules: &RulesFile) {
    let of_system = rules.system.as_ref().map(|system| system.stats.iter().map(|(_, stats)| stats.total_bytes()).sum());
    let own = || rules.firewall.stats().iter().map(Stats::total_bytes).sum();
    state.set_memory(of_system.unwrap_or_else(own));
}

/// Returns the first fault with a place, or else the first error.
fn refused(problems: Vec<Problem>, rules: &RulesFile) -> Reload {
    let placed = problems.iter().position(|problem| problem.place.is_some());
    let problem = problems.into_iter().nth(placed.unwrap_or(0));
    let Problem { text, place } =
        problem.unwrap_or_else(|| Problem { text: "the rules cannot be read".to_owned(), place: None });
    Reload::Refused { text: without_folder(&text, rules.path()), place }
}

/// Returns a text without the folder of the rule file, which is nobody's business on the page.
fn without_folder(text: &str, path: &Path) -> String {
    match path.parent().map(|folder| folder.display().to_string()) {
        Some(folder) if !folder.is_empty() => text.replace(&format!("{folder}/"), ""),
        _ => text.to_owned(),
    }
}
