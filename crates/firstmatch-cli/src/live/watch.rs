//! Command `firstmatch watch`.

use firstmatch_live::OnPanic;
use firstmatch_live::packet::{Direction, Ring, RingConfig};

use super::control::{Start, check_rules, interface, refused};
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
    let (interfaces, input) = (vec![interface], name.clone());
    // Frames are copies, so that none would be missing where they should go.
    let on_panic = OnPanic::Close;
    Start { args: live, rules, interfaces, paths, on_panic, input, verb: "counted" }.run()
}
