//! The seeds of every fuzz target, and whatever fuzzing once found, put through the target again.

use firstmatch_fuzz::{TARGETS, files};

#[test]
fn seeds_and_findings_pass() {
    for (name, target) in TARGETS {
        let seeds = files(&format!("seeds/{name}"));
        assert!(seeds.len() >= 5, "{name} has {} seeds", seeds.len());
        let found = files(&format!("found/{name}"));
        println!("{name}: {} seeds, {} findings", seeds.len(), found.len());
        for (path, data) in seeds.iter().chain(&found) {
            // Captured by the test runner, and shown when the next line panics.
            println!("{}", path.display());
            target(data);
        }
    }
}

/// A folder without a target would be replayed by nobody.
#[test]
fn every_folder_belongs_to_a_target() {
    for folder in ["seeds", "found"] {
        let path = firstmatch_fuzz::folder().join(folder);
        for entry in std::fs::read_dir(path).expect("it is there") {
            let name = entry.expect("readable").file_name();
            assert!(TARGETS.iter().any(|(target, _)| *target == name), "{folder}/{}", name.display());
        }
    }
}
