//! Command `firstmatch bridge`.

use anyhow::{anyhow, bail};
use firstmatch::Verdict;
use firstmatch_live::packet::{Ring, Slots};
use firstmatch_live::xdp::{Forwarder, XdpConfig};
use firstmatch_live::{Interface, LaneOptions, OnPanic};

use super::control::{Start, Traffic, check_rules, interface, refused};
use super::rules_file::RulesFile;
use crate::args::{BridgeArgs, Fail, Io, Offloads, System};
use crate::{End, diagnostics};

pub(crate) fn run(args: &BridgeArgs) -> anyhow::Result<End> {
    let BridgeArgs { live, first, second, .. } = args;
    check_rules(live)?;
    check(args)?;
    let Some(rules) = RulesFile::open(live)? else { return Ok(End::BadInput) };
    if rules.firewall.policy().unknown == Verdict::Deny && !args.pass_arp {
        diagnostics::warning(
            "ARP is no IP, so it is denied, and hosts of IPv4 do not find each other; expected `unknown permit` in the \
             rules, or --pass-arp",
        );
    }
    let interfaces = [port(first, args)?, port(second, args)?];
    let [mtu, other_mtu] = [interfaces[0].mtu()?, interfaces[1].mtu()?];
    if mtu != other_mtu {
        diagnostics::warning(&format!(
            "packets of {first} have up to {mtu} bytes, those of {second} {other_mtu}: the larger ones are lost"
        ));
    }
    let mut options = LaneOptions::default();
    options.passes_arp = args.pass_arp;
    options.on_panic = match args.fail {
        Fail::Closed => OnPanic::Close,
        Fail::Open => OnPanic::Open,
    };
    let (mib, workers) = (live.ring_mib.into(), live.workers.into());
    let traffic = Traffic {
        args: live,
        rules,
        command: "bridge",
        input: format!("{first} and {second}"),
        verb: "bridged",
        refuses_unfinished: args.offloads == Offloads::Refuse,
        options,
        interfaces: interfaces.to_vec(),
    };
    let ways = [(&interfaces[0], &interfaces[1]), (&interfaces[1], &interfaces[0])];
    let of_way = |error| refused(first, &error);
    match (args.io, args.offloads) {
        (Io::Xdp, _) => {
            let mut config = XdpConfig::default();
            config.mib = mib;
            let paths =
                Forwarder::open_pair(&interfaces[0], &interfaces[1], &config).map_err(|error| anyhow!(error))?;
            Start { traffic, paths: paths.into() }.run()
        }
        (Io::Packet, Offloads::Refuse) => {
            let paths: Result<Vec<_>, _> = ways.iter().map(|(from, to)| Slots::open(from, to, mib, workers)).collect();
            Start { traffic, paths: paths.map_err(of_way)?.into_iter().flatten().collect() }.run()
        }
        (Io::Packet, Offloads::Keep) => {
            let paths: Result<Vec<_>, _> =
                ways.iter().map(|(from, to)| Ring::open_to(from, to, mib, workers)).collect();
            Start { traffic, paths: paths.map_err(of_way)?.into_iter().flatten().collect() }.run()
        }
    }
}

/// Refuses options that do not go together.
fn check(args: &BridgeArgs) -> anyhow::Result<()> {
    let BridgeArgs { live, first, second, .. } = args;
    let has_system = live.system.is_some_and(|system| system != System::Copies);
    if first == second {
        bail!("{first} is given twice; expected two interfaces");
    }
    if args.fail == Fail::Open && has_system {
        bail!("--fail open is of --system copies; the planes of the others hold frames that a panic would lose");
    }
    if args.io == Io::Xdp {
        let other = [
            (live.workers > 1, "--workers", "one thread for each direction, because a socket is of one queue"),
            (has_system, "--system", "copies alone, because frames are sent from where they are"),
            (args.offloads == Offloads::Keep, "--offloads keep", "frames as they are on the wire alone"),
        ];
        if let Some((_, option, what)) = other.into_iter().find(|(is_asked, ..)| *is_asked) {
            bail!("--io xdp does not go with {option}: it takes {what}");
        }
    }
    Ok(())
}

/// Returns an interface that may be bridged.
fn port(name: &str, args: &BridgeArgs) -> anyhow::Result<Interface> {
    let interface = interface(name)?;
    if interface.is_loopback()? {
        bail!("{name} is the loopback, where every frame that is sent would come in again");
    }
    if let Some(master) = interface.master()? {
        bail!("{name} is a port of {master}, so that frames would pass beside the rules: ip link set {name} nomaster");
    }
    if interface.has_address()? {
        bail!("{name} has an address of this host, which would answer beside the rules: ip address flush dev {name}");
    }
    if !args.wait && interface.is_up()? == Some(false) {
        bail!("{name} is down: ip link set {name} up (or --wait)");
    }
    if args.offloads == Offloads::Refuse && interface.merges_frames()? {
        bail!(
            "{name} merges frames of a connection (GRO or LRO), which then are too long to be sent on: ethtool -K {name} \
             gro off lro off (or --offloads keep)"
        );
    }
    Ok(interface)
}
