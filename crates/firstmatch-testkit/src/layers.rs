//! Files of a crate and what they import: no file imports itself through others.
//!
//! Only `use` lines count, and none of tests. A path belongs to the file of its longest prefix that is a module.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Checks that no file of the crate in `folder` imports itself through others.
///
/// A module that imports files below itself closes no circle, because that is how it gathers its folder.
///
/// # Panics
/// If there is a circle, or fewer than `least` files were read.
pub fn check_circles(folder: &str, least: usize) {
    let mut imports = Imports::read(&Path::new(folder).join("src"));
    assert!(imports.of.len() >= least, "{} files", imports.of.len());
    imports.of.iter_mut().for_each(|(file, imported)| imported.retain(|to| !is_below(to, file)));
    let circle = imports.circle();
    assert!(circle.is_none(), "these files import each other in a circle: {circle:?}");
}

/// Whether `file` is in the folder of the module `above`.
fn is_below(file: &str, above: &str) -> bool {
    let (file, above) = (module(file), module(above));
    file.len() > above.len() && file.starts_with(&above)
}

/// Files by module path, and for each the files that it imports.
pub struct Imports {
    files: BTreeMap<Vec<String>, String>,
    pub of: BTreeMap<String, BTreeSet<String>>,
}

impl Imports {
    /// Reads the files below `root`, a crate's folder of sources.
    pub fn read(root: &Path) -> Self {
        let texts = sources(root);
        let files = texts.keys().map(|file| (module(file), file.clone())).collect();
        let mut imports = Self { files, of: BTreeMap::new() };
        for (file, text) in texts.iter().filter(|(file, _)| !is_test(file)) {
            let paths = uses(&without_tests(text));
            let found = paths.iter().filter_map(|path| imports.file_of(file, path)).filter(|to| to != file).collect();
            imports.of.insert(file.clone(), found);
        }
        imports
    }

    /// Returns the file that a path of `file` leads to, if it is one of the crate's.
    fn file_of(&self, file: &str, path: &str) -> Option<String> {
        let own = module(file);
        let mut parts: Vec<&str> = path.split("::").map(str::trim).collect();
        let mut full: Vec<String> = match parts[0] {
            "crate" => Vec::new(),
            "super" => own[..own.len() - parts.iter().take_while(|part| **part == "super").count()].to_vec(),
            "self" => own,
            child if self.files.contains_key(&[&own[..], &[child.to_owned()]].concat()) => own,
            _ => return None,
        };
        parts.retain(|part| !["crate", "super", "self"].contains(part));
        full.extend(parts.into_iter().map(String::from));
        while !self.files.contains_key(&full) {
            full.pop()?;
        }
        self.files.get(&full).cloned()
    }

    /// Returns files that import each other in a circle, if there are any.
    pub fn circle(&self) -> Option<Vec<String>> {
        let mut done = BTreeSet::new();
        self.of.keys().find_map(|file| self.circle_from(file, &mut Vec::new(), &mut done))
    }

    fn circle_from(&self, file: &str, path: &mut Vec<String>, done: &mut BTreeSet<String>) -> Option<Vec<String>> {
        if let Some(at) = path.iter().position(|of| of == file) {
            return Some(path[at..].to_vec());
        }
        if !done.insert(file.to_owned()) {
            return None;
        }
        path.push(file.to_owned());
        let found = self.of.get(file).into_iter().flatten().find_map(|to| self.circle_from(to, path, done));
        path.pop();
        found
    }
}

/// Returns the sources below `root`, each by its path from there.
///
/// # Panics
///
/// If one cannot be read.
pub fn sources(root: &Path) -> BTreeMap<String, String> {
    let mut texts = BTreeMap::new();
    collect(root, root, &mut texts);
    texts
}

fn collect(root: &Path, folder: &Path, texts: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).expect("the crate's sources") {
        let path = entry.expect("the crate's sources").path();
        if path.is_dir() {
            collect(root, &path, texts);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let name = path.strip_prefix(root).expect("below it").to_str().expect("a name of ASCII").replace('\\', "/");
            texts.insert(name, fs::read_to_string(&path).expect("a source file"));
        }
    }
}

/// Returns the module path of a file; for example, `["rule", "set"]` for `rule/set.rs`.
fn module(file: &str) -> Vec<String> {
    let path = file.trim_end_matches(".rs").trim_end_matches("/mod");
    if matches!(path, "lib" | "main") { Vec::new() } else { path.split('/').map(String::from).collect() }
}

fn is_test(file: &str) -> bool {
    file.split('/').any(|part| part == "tests") || file.ends_with("tests.rs") || file == "test_rules.rs"
}

/// Returns a text without comments, and without what is compiled for tests alone.
fn without_tests(text: &str) -> String {
    let mut kept = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("#[cfg(") && line.contains("test") && !line.contains("not(all(loom, test))") {
            // The item ends with its first line, or with a brace at the margin.
            let first = lines.next().unwrap_or_default();
            if !first.ends_with(';') && !first.ends_with('}') {
                lines.by_ref().find(|line| line.starts_with('}'));
            }
            continue;
        }
        kept.push_str(line.split("//").next().unwrap_or_default());
        kept.push('\n');
    }
    kept
}

/// Returns the paths that a text imports, one a name.
fn uses(text: &str) -> Vec<String> {
    let mut paths = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("use ") {
        let before = rest[..at].rsplit('\n').next().unwrap_or_default().trim();
        rest = &rest[at + 4..];
        if before.is_empty() || before.starts_with("pub") {
            let end = rest.find(';').unwrap_or(rest.len());
            expand(&rest[..end].split_whitespace().collect::<Vec<_>>().join(" "), &mut paths);
            rest = &rest[end..];
        }
    }
    paths
}

/// Expands `a::{b, c::{d, e}}` to `a::b`, `a::c::d` and `a::c::e`.
fn expand(path: &str, paths: &mut Vec<String>) {
    let Some((prefix, list)) = path.split_once('{') else {
        paths.push(path.split(" as ").next().unwrap_or_default().trim().to_owned());
        return;
    };
    let list = list.trim_end().strip_suffix('}').expect("braces are closed");
    let (mut depth, mut start) = (0, 0);
    for (at, c) in list.char_indices().chain([(list.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !list[start..at].trim().is_empty() {
                    expand(&format!("{}{}", prefix.trim(), list[start..at].trim()), paths);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

#[test]
fn no_file_imports_itself_through_others() {
    check_circles(env!("CARGO_MANIFEST_DIR"), 10);
}
