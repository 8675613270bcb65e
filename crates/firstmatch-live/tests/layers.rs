//! Files of the crate: none imports itself through others.

#[test]
fn no_file_imports_itself_through_others() {
    firstmatch_testkit::layers::check_circles(env!("CARGO_MANIFEST_DIR"), 10);
}
