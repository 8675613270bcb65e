//! The guide to several cores, for a program that depends on this crate alone.

macro_rules! names {
    ($($($part:ident)::+),* $(,)?) => {
        /// Everything that the guide names, where a program finds it.
        #[expect(unused_imports, reason = "that they are there is the test")]
        mod imported {
            $(pub(super) use $($part)::+;)*
        }
        const NAMES: &[&str] = &[$(stringify!($($part)::+)),*];
    };
}

names! {
    firstmatch::Builder,
    firstmatch::Error,
    firstmatch::Firewall,
    firstmatch::OtherFieldsError,
    firstmatch::Update,
    firstmatch::Worker,
    firstmatch::core::Classifier,
    firstmatch::core::live::open,
    firstmatch::core::live::BatchReader,
    firstmatch::core::live::Handle,
    firstmatch::core::live::SetLimits,
    firstmatch::core::live::Writer,
    firstmatch::formats::json::read,
    firstmatch::net::plane::Dispatch,
    firstmatch::net::plane::FlowHash,
    firstmatch::net::plane::Link,
    firstmatch::net::plane::Message,
    firstmatch::net::plane::Plane,
    firstmatch::net::plane::PlaneBuilder,
    firstmatch::net::plane::PlaneCounters,
    firstmatch::net::plane::Pulled,
    firstmatch::net::plane::Outputs,
    firstmatch::net::plane::ResultOrder,
    firstmatch::net::plane::RingCounters,
    firstmatch::net::plane::RowHash,
    firstmatch::net::source::Capture,
    firstmatch::net::source::Frames,
    firstmatch::net::source::Input,
    firstmatch::net::systems::copies::source,
    firstmatch::net::systems::copies::whole,
    firstmatch::net::wire::Batch,
}

/// Names of the standard library.
const STANDARD: [&str; 2] = ["Arc", "None"];

#[test]
fn the_guide_names_what_this_crate_has() {
    let guide = include_str!("../../../../docs/threads.md");
    // Quotes of code are compiled in the examples.
    let text: String = guide.split("```").step_by(2).collect();
    let known = |name: &str| {
        NAMES.iter().any(|known| known.rsplit(':').next().map(str::trim) == Some(name)) || STANDARD.contains(&name)
    };
    let mut checked = 0;
    for quoted in text.split('`').skip(1).step_by(2) {
        for path in quoted.split(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | ':')) {
            let mut parts = path.split("::");
            let is_name = |part: &&str| part.len() > 1 && part.starts_with(|c: char| c.is_ascii_uppercase());
            let Some(name) = parts.find(is_name) else { continue };
            assert!(known(name), "`{path}` of the guide is not found in this crate");
            checked += 1;
        }
    }
    assert!(checked > 40, "{checked} names");
    let manifest = include_str!("../../Cargo.toml");
    let features = manifest.split("[dev-dependencies]").next().unwrap_or("");
    for feature in ["captures", "plane", "systems"] {
        assert!(features.contains(&format!("\"firstmatch-net/{feature}\"")), "{feature}");
    }
    // A dev-dependency with features would hide that a feature of this crate is missing.
    assert!(!manifest.contains("path = \"../firstmatch-net\"") && !features.contains("default ="));
}
