//! The core's layers: no file imports itself through others, and engines are known by the registry alone.

use std::collections::BTreeSet;
use std::path::Path;

use firstmatch_testkit::layers::Imports;

fn core() -> Imports {
    Imports::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"))
}

#[test]
fn no_file_imports_itself_through_others() {
    let imports = core();
    assert!(imports.of.len() > 80, "{} files", imports.of.len());
    assert!(imports.of["live/snapshot.rs"].contains("live/store.rs") && imports.of["lib.rs"].contains("rule/mod.rs"));
    assert_eq!(imports.circle(), None);
    // A circle would be seen.
    let mut broken = core();
    broken.of.get_mut("rule/id.rs").expect("it is there").insert("live/mod.rs".to_owned());
    assert!(broken.circle().is_some_and(|circle| circle.contains(&"rule/id.rs".to_owned())));
}

/// Dependencies go from `live` to `select`, `engines`, `engine` and `rule`.
#[test]
fn layers_import_lower_ones() {
    let order = ["raw", "rule", "engine", "engines", "select", "live"];
    let layer = |file: &str| order.iter().position(|folder| file.starts_with(&format!("{folder}/")));
    for (file, imported) in &core().of {
        for to in imported {
            let (Some(own), Some(other)) = (layer(file), layer(to)) else { continue };
            assert!(other <= own, "{file} imports {to}");
        }
    }
}

/// Only the registry imports an engine from outside its folder.
#[test]
fn engines_are_known_by_the_registry_alone() {
    let imports = core();
    let engine = |file: &str| {
        let name = file.strip_prefix("engines/")?.split('/').next()?.trim_end_matches(".rs").to_owned();
        (!["mod", "registry", "shared"].contains(&name.as_str())).then_some(name)
    };
    let engines: BTreeSet<String> = imports.of.keys().filter_map(|file| engine(file)).collect();
    assert!(engines.contains("bit_vector") && engines.len() >= 5, "{engines:?}");
    for (file, imported) in imports.of.iter().filter(|(file, _)| *file != "engines/registry.rs") {
        for to in imported {
            assert!(engine(to).is_none() || engine(to) == engine(file), "{file} imports {to}");
        }
    }
}
