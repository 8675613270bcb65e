//! Commands that read live traffic, behind the feature `live`.

#[cfg(all(feature = "live", target_os = "linux"))]
mod control;
#[cfg(all(feature = "live", target_os = "linux"))]
mod rules_file;
#[cfg(all(feature = "live", target_os = "linux"))]
mod watch;

#[cfg(all(feature = "live", target_os = "linux"))]
pub(crate) use watch::run as watch;

/// Says which feature the program lacks.
#[cfg(not(all(feature = "live", target_os = "linux")))]
pub(crate) fn watch(_: &crate::args::WatchArgs) -> anyhow::Result<crate::End> {
    anyhow::bail!(
        "this program was built without the feature `live`, which needs Linux: cargo install firstmatch-cli --features live"
    )
}
