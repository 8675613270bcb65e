//! Replays the seeds of every fuzz target and the inputs that fuzzing once failed on.

use firstmatch_fuzz::{TARGETS, files};

#[test]
fn seeds_and_findings_pass() {
    for (name, target) in TARGETS {
        let seeds = files(&format!("seeds/{name}"));
        assert!(seeds.len() >= 5, "{name} has {} seeds", seeds.len());
        let found = files(&format!("found/{name}"));
        println!("{name}: {} seeds, {} findings", seeds.len(), found.len());
        for (path, data) in seeds.iter().chain(&found) {
            // The test runner captures this line and shows it if the target panics.
            println!("{}", path.display());
            target(data);
        }
    }
}

/// A folder that belongs to no target would never be replayed.
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

#[test]
fn no_file_imports_itself_through_others() {
    firstmatch_testkit::layers::check_circles(env!("CARGO_MANIFEST_DIR"), 8);
}
