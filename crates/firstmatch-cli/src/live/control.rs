//! The thread beside the lanes: it takes signals, reads rules anew, looks at interfaces, and prints the answer.

use std::fs::File;
use std::io::{self, PipeReader, Read};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use firstmatch_live::capture::{Sampler, Writer};
use firstmatch_live::path::Path as FramePath;
use firstmatch_live::{Counts, Finished, Interface, LaneOptions, Lanes, WatchedFile, Watcher, become_user};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::SIGHUP;
use signal_hook::low_level::pipe;

use super::listen::{Page, Port};
use super::rules_file::{RulesFile, note};
use crate::args::LiveArgs;
use crate::classify::Watched;
use crate::format::{counted, thousands};
use crate::stop::Stop;
use crate::{End, answer_to, diagnostics, output};

/// Time between two looks at the interfaces.
const LOOK: Duration = Duration::from_secs(1);

/// Command on live traffic that is about to begin.
pub(super) struct Start<'a, P> {
    pub(super) traffic: Traffic<'a>,
    pub(super) paths: Vec<P>,
}

/// Traffic of a command, and what is done to it.
pub(super) struct Traffic<'a> {
    pub(super) args: &'a LiveArgs,
    pub(super) rules: RulesFile,
    pub(super) interfaces: Vec<Interface>,
    pub(super) options: LaneOptions,
    /// Whether frames with unfinished checksums do harm.
    pub(super) refuses_unfinished: bool,
    /// Name of the command, for the page.
    pub(super) command: &'static str,
    /// Name of the traffic in the answer.
    pub(super) input: String,
    /// What is done to it, for the line that says that all is ready.
    pub(super) verb: &'static str,
}

impl<P: FramePath> Start<'_, P> {
    /// Runs until a signal comes, an interface is gone or a lane fails, and prints the answer.
    pub(super) fn run(self) -> anyhow::Result<End> {
        let Self { traffic, paths } = self;
        let Traffic { args, rules, interfaces, mut options, refuses_unfinished, command, input, verb } = traffic;
        let writer = match &args.write {
            None => None,
            Some(path) => {
                let (writer, sampler) = start_writer(path, &args.rules)?;
                options.sampler = Some(sampler);
                Some(writer)
            }
        };
        let port = Port::open(args)?;
        if port.is_some() {
            // The page shows denied packets.
            options.sampler = Some(options.sampler.unwrap_or_default().keeping());
        }
        let (stop, hang_up) = (Stop::default(), HangUp::register()?);
        let signals = stop.wake()?;
        let lanes = match rules.system.as_ref().and_then(|system| system.generations.as_ref()) {
            Some(generations) => Lanes::start_system(paths, &rules.firewall, generations, &options),
            None => Lanes::start(paths, &rules.firewall, &options),
        };
        let lanes = lanes.context("no thread can be started")?;
        // The writer ends when the lanes have dropped their senders.
        drop(options);
        let start = Instant::now();
        if let Some(user) = &args.user {
            become_user(user).with_context(|| format!("--user {user}"))?;
            rules.check_readable();
        }
        let page = port.map(|port| port.serve(args, &rules, &lanes, &interfaces, command)).transpose()?;
        let watcher = if args.no_watch_file { None } else { start_watcher(rules.files.clone()) };
        let links = interfaces.into_iter().map(|interface| Link { interface, is_up: true }).collect();
        let line = every(args).map(|every| (start + every, Counts::default()));
        let alerts = Alerts { refuses_unfinished, has_unfinished: false, is_open: false };
        let look = start + LOOK;
        let mut control = Control { args, input, rules, lanes, links, alerts, watcher, hang_up, look, line, page };
        let is_gone = control.is_gone()?;
        let at = control.page.as_ref().map_or_else(String::new, |page| format!("; http://{}/", page.address));
        note(&format!("ready: {} is {verb} by the rules of {}{at}", control.input, control.rules.loaded.name));
        tell_service_manager("READY=1");
        let end = if is_gone { End::Gone } else { control.serve(&stop, &signals)? };
        tell_service_manager("STOPPING=1");
        control.finish(start, &stop, writer, end)
    }
}

/// Refuses rules that cannot be read anew.
pub(super) fn check_rules(args: &LiveArgs) -> anyhow::Result<()> {
    if args.rules == Path::new("-") {
        bail!("the rules cannot come from standard input, which cannot be read anew; expected a file");
    }
    Ok(())
}

/// Returns the interface of a name, which must have frames of Ethernet.
pub(super) fn interface(name: &str) -> anyhow::Result<Interface> {
    let interface =
        Interface::of_name(name).map_err(|error| match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NODEV | Errno::NXIO) => anyhow!("there is no interface {name}"),
            _ => anyhow!("{name}: {error}"),
        })?;
    if !interface.is_ethernet().map_err(|error| refused(name, &error))? {
        bail!("{name}: this interface has no Ethernet frames");
    }
    Ok(interface)
}

/// Returns the reason for which sockets of an interface cannot be opened.
pub(super) fn refused(name: &str, error: &io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::PermissionDenied => anyhow!(
            "{name}: its frames may not be read: that needs CAP_NET_RAW, which root has, and any user after \
             `setcap cap_net_raw+ep` on this program"
        ),
        _ => anyhow!("{name}: {error}"),
    }
}

/// Creates the file of samples; it is written while packets come, so that it may be read meanwhile.
fn start_writer(path: &Path, rules: &Path) -> anyhow::Result<(Writer, Sampler)> {
    if path == Path::new("-") {
        bail!("--write takes a file, because standard output has the answer");
    }
    output::refuse_inputs(path, &[("rules", rules)])?;
    let file = File::create(path);
    file.and_then(Writer::start).with_context(|| format!("{}: cannot be written", path.display()))
}

/// Watches the files of the rules, or says why not.
fn start_watcher(files: Vec<WatchedFile>) -> Option<Watcher> {
    Watcher::new(files)
        .inspect_err(|error| {
            diagnostics::warning(&format!("{error}: the rule file is not watched, and SIGHUP alone reads it anew"));
        })
        .ok()
}

/// Pipe that SIGHUP writes to.
struct HangUp(PipeReader);

impl HangUp {
    fn register() -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        pipe::register(SIGHUP, writer)?;
        Ok(Self(reader))
    }
}

struct Link {
    interface: Interface,
    is_up: bool,
}

/// Alerts that were given, or are to be given once.
struct Alerts {
    refuses_unfinished: bool,
    has_unfinished: bool,
    is_open: bool,
}

struct Control<'a> {
    args: &'a LiveArgs,
    /// Name of the traffic.
    input: String,
    rules: RulesFile,
    lanes: Lanes,
    links: Vec<Link>,
    alerts: Alerts,
    watcher: Option<Watcher>,
    hang_up: HangUp,
    /// Time of the next look at the interfaces.
    look: Instant,
    /// Time of the next line of counts, if there are any, and the counts of the last one.
    line: Option<(Instant, Counts)>,
    page: Option<Page>,
}

impl Control<'_> {
    /// Serves until a signal comes, an interface is gone, or a lane fails.
    fn serve(&mut self, stop: &Stop, signals: &PipeReader) -> anyhow::Result<End> {
        loop {
            let [hang_up, has_ended, is_asked, has_events] = self.wait(signals)?;
            if let Some(signal) = stop.signal() {
                return Ok(End::Stopped(signal));
            }
            if has_ended {
                return Ok(End::Failed);
            }
            if hang_up {
                let _signals = self.hang_up.0.read(&mut [0; 64])?;
                self.reload();
            }
            if is_asked && let Some(page) = &self.page {
                page.state.clear_wake()?;
                self.reload();
            }
            if let Some(watcher) = &mut self.watcher {
                if has_events {
                    watcher.take_events();
                }
                match watcher.has_changed() {
                    Ok(true) => self.reload(),
                    Ok(false) => {}
                    Err(error) => self.stop_watching(&error),
                }
            }
            if Instant::now() >= self.look {
                self.look = Instant::now() + LOOK;
                if let Some(page) = &self.page {
                    page.state.record();
                }
                if self.is_gone()? {
                    return Ok(End::Gone);
                }
            }
            if self.line.as_ref().is_some_and(|(at, _)| Instant::now() >= *at) {
                self.show_line()?;
            }
        }
    }

    /// Waits for whatever comes first. Returns whether SIGHUP came, a lane has ended, the page asks for a
    /// reload, and files may have changed.
    fn wait(&self, signals: &PipeReader) -> anyhow::Result<[bool; 4]> {
        let until = [Some(self.look), self.line.as_ref().map(|(at, _)| *at)].into_iter().flatten();
        let until = until.map(|at| at.saturating_duration_since(Instant::now()));
        let wait = until.chain(self.watcher.as_ref().and_then(Watcher::wait)).min().unwrap_or(LOOK);
        // A timeout of less than a millisecond would be none.
        let wait = Timespec::try_from(wait + Duration::from_millis(1))?;
        let mut ready = vec![PollFd::new(signals, PollFlags::IN), PollFd::new(&self.hang_up.0, PollFlags::IN)];
        let ended = self.lanes.ended();
        ready.push(PollFd::from_borrowed_fd(ended, PollFlags::IN));
        // Without a page or a watcher another file takes the place, and is not looked at.
        let asked = self.page.as_ref().map_or(ended, |page| page.state.wake());
        let events = self.watcher.as_ref().map_or(ended, Watcher::queue);
        ready.extend([asked, events].map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN)));
        match poll(&mut ready, Some(&wait)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok([1, 2, 3, 4].map(|at: usize| !ready[at].revents().is_empty()))
    }

    fn reload(&mut self) {
        match &self.page {
            None => drop(self.rules.reload()),
            Some(page) => page.reload(&mut self.rules),
        }
        if self.watcher.is_some() {
            match Watcher::new(self.rules.files.clone()) {
                Ok(watcher) => self.watcher = Some(watcher),
                Err(error) => self.stop_watching(&error),
            }
        }
    }

    fn stop_watching(&mut self, error: &io::Error) {
        self.watcher = None;
        diagnostics::warning(&format!("{error}: the rule file is watched no longer, and SIGHUP alone reads it anew"));
    }

    /// Looks whether an interface is gone, and says which went down or up.
    fn is_gone(&mut self) -> anyhow::Result<bool> {
        for Link { interface, is_up } in &mut self.links {
            let (name, now) = (interface.name(), interface.is_up()?);
            if let Some(page) = &self.page {
                page.show_link(name, now);
            }
            let Some(now) = now else {
                diagnostics::error(&format!("{name} is gone"));
                return Ok(true);
            };
            match (*is_up, now) {
                (true, false) => {
                    note(&format!("{name} is down, and its frames come once it is up: ip link set {name} up"));
                }
                (false, true) => note(&format!("{name} is up")),
                _ => {}
            }
            *is_up = now;
        }
        // The kernel counts in 32 bits.
        self.lanes.statistics()?;
        self.give_alerts();
        Ok(false)
    }

    /// Says once what an operator has to see to.
    fn give_alerts(&mut self) {
        let Alerts { refuses_unfinished, has_unfinished, is_open } = &mut self.alerts;
        for state in self.lanes.states() {
            let (counts, name) = (state.counts(), &state.interface);
            if counts.undecided > 0 && !std::mem::replace(is_open, true) {
                diagnostics::error(&format!(
                    "{name}: a thread has panicked, and its frames pass without rules (--fail open)"
                ));
            }
            if *refuses_unfinished && counts.unfinished > 0 && !std::mem::replace(has_unfinished, true) {
                diagnostics::error(&format!(
                    "{name}: frames come without a finished checksum, and nobody takes them: their sender leaves it to \
                     its network card (for a virtual interface: ethtool -K {name}'s peer tx off; or --offloads keep)"
                ));
            }
        }
    }

    /// Prints the counts so far, and of the time since the last line.
    fn show_line(&mut self) -> anyhow::Result<()> {
        let Some((at, last)) = &mut self.line else { return Ok(()) };
        let (counts, statistics) = (self.lanes.counts(), self.lanes.statistics()?);
        let (all, before) = (counts.all().packets, last.all().packets);
        let of = |counts: &Counts| counts.of(firstmatch::Verdict::Deny).packets;
        note(&format!(
            "{}: {}, {} of them denied, {} lost; since the last line {}, {} denied",
            self.input,
            counted(all, "packet"),
            thousands(of(&counts)),
            thousands(statistics.lost),
            thousands(all - before),
            thousands(of(&counts) - of(last))
        ));
        (*at, *last) = (Instant::now() + every(self.args).unwrap_or(LOOK), counts);
        Ok(())
    }

    /// Ends the lanes, and prints the answer.
    fn finish(self, start: Instant, stop: &Stop, writer: Option<Writer>, end: End) -> anyhow::Result<End> {
        let Self { args, input, rules, lanes, .. } = self;
        let Finished { counts, statistics, interfaces, failure } = lanes.finish()?;
        let wall = start.elapsed();
        let mut warnings = Vec::new();
        if let (Some(writer), Some(path)) = (writer, &args.write) {
            match writer.finish() {
                Ok(written) => note(&format!("{}: {}", path.display(), counted(written, "denied packet"))),
                Err(error) => warnings.push(format!("{}: {error}", path.display())),
            }
        }
        if let Some(failure) = &failure {
            diagnostics::error(&format!("{input}: {failure}"));
        } else if statistics.received != counts.taken() + statistics.lost {
            warnings.push("frames were left in the ring, because it could not be emptied within a second".to_owned());
        }
        let watched = Watched {
            args,
            input,
            loaded: &rules.loaded,
            firewall: &rules.firewall,
            engines: rules.system.as_ref().map(|system| &system.stats[..]),
            rules: rules.rules(),
            counts,
            statistics,
            interfaces,
            reloads: rules.reloads,
            wall,
            warnings,
        };
        // The exit code does not depend on whether the reader takes the whole answer.
        let _printed = watched.print(&mut answer_to(false));
        Ok(match (failure, stop.signal()) {
            (Some(_), _) => End::Failed,
            (None, Some(signal)) if end != End::Gone => End::Stopped(signal),
            (None, _) => end,
        })
    }
}

/// Tells the service manager, if one has started this program (sd_notify(3)).
fn tell_service_manager(state: &str) {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let address = match name.as_encoded_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(&name),
    };
    let told = address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address));
    if let Err(error) = told {
        diagnostics::warning(&format!("{}: {error}: the service manager is not told {state}", name.to_string_lossy()));
    }
}

/// Returns the time between two lines of counts, if there are any.
fn every(args: &LiveArgs) -> Option<Duration> {
    args.every.map(|seconds| Duration::from_secs(seconds.into()))
}
