//! Command `firstmatch watch`.

use firstmatch_live::LaneOptions;
use firstmatch_live::packet::{Direction, Ring, RingConfig};

use super::control::{Start, Traffic, check_rules, interface, refused};
use super::rules_file::RulesFile;
use crate::End;
use crate::args::{WatchArgs, Which};

pub(crate) fn run(args: &WatchArgs) -> anyhow::Result<End> {
    let (live, name) = (&args.live, &args.interface);
    check_rules(live)?;
    let Some(rules) = RulesFile::open(live)? else { return Ok(End::BadInput) };
    let interface = interface(name)?;
    let mut config = RingConfig::default();
    config.mib = live.ring_mib.into();
    config.rings = live.workers.into();
    config.is_promiscuous = !args.no_promiscuous;
    config.direction = match args.direction {
        Which::In => Direction::In,
        Which::Both => Direction::Both,
    };
    let paths = Ring::open(&interface, &config).map_err(|error| refused(name, &error))?;
    let traffic = Traffic {
        args: live,
        rules,
        command: "watch",
        input: name.clone(),
        verb: "counted",
        // Frames are copies: whatever is unfinished, somebody else finishes it.
        refuses_unfinished: false,
        options: LaneOptions::default(),
        interfaces: vec![interface],
    };
    Start { traffic, paths }.run()
}
