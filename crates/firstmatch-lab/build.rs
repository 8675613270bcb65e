//! Finds DPDK if the feature `rte-acl` is on.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "rte-acl")]
    {
        let mut probe = pkg_config::Config::new();
        // Two of its many libraries are enough.
        let found = probe.atleast_version("22.11").cargo_metadata(false).probe("libdpdk")?;
        for folder in found.link_paths {
            println!("cargo:rustc-link-search=native={}", folder.display());
        }
        for library in ["rte_acl", "rte_eal"] {
            println!("cargo:rustc-link-lib=dylib={library}");
        }
    }
    Ok(())
}
