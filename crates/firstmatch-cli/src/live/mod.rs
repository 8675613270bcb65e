//! Commands on live traffic, behind the feature `live`.

#[cfg(all(feature = "live", target_os = "linux"))]
mod bridge;
#[cfg(all(feature = "live", target_os = "linux"))]
mod control;
#[cfg(all(feature = "live", target_os = "linux"))]
mod listen;
#[cfg(all(feature = "live", target_os = "linux"))]
mod rules_file;
#[cfg(all(feature = "live", target_os = "linux"))]
mod system;
#[cfg(all(feature = "live", target_os = "linux"))]
mod watch;

#[cfg(all(feature = "live", target_os = "linux"))]
pub(crate) use {bridge::run as bridge, watch::run as watch};

/// Says which feature the program lacks.
#[cfg(not(all(feature = "live", target_os = "linux")))]
pub(crate) fn watch(_: &crate::args::WatchArgs) -> anyhow::Result<crate::End> {
    anyhow::bail!(
        "this program was built without the feature `live`, which needs Linux: cargo install firstmatch-cli --features live"
    )
}

/// Says which feature the program lacks.
#[cfg(not(all(feature = "live", target_os = "linux")))]
pub(crate) fn bridge(args: &crate::args::BridgeArgs) -> anyhow::Result<crate::End> {
    let _ = args;
    anyhow::bail!(
        "this program was built without the feature `live`, which needs Linux: cargo install firstmatch-cli --features live"
    )
}
