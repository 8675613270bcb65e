//! Files that are whole or not there.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

/// Writes a file in one step: it has the old content, or none, until it has all of the new. `-` is standard output.
pub(crate) fn write(path: &Path, content: &str) -> anyhow::Result<()> {
    if path == Path::new("-") {
        let mut out = io::stdout().lock();
        return Ok(out.write_all(content.as_bytes()).and_then(|()| out.flush())?);
    }
    replace(path, content).with_context(|| format!("{}: cannot be written", path.display()))
}

fn replace(path: &Path, content: &str) -> io::Result<()> {
    // A link stays one: the file it leads to is replaced.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let before = fs::metadata(&target).ok();
    if before.as_ref().is_some_and(|before| !before.is_file()) {
        // Devices and pipes hold nothing that could be half-written.
        return OpenOptions::new().write(true).open(&target)?.write_all(content.as_bytes());
    }
    let (mut file, unfinished) = beside(&target)?;
    if let Some(before) = before {
        file.set_permissions(before.permissions())?;
    }
    file.write_all(content.as_bytes())?;
    file.sync_all()?;
    fs::rename(&unfinished.0, &target)
    // Nothing is left of it under its first name: removing that fails, which is well.
}

/// Removed when it goes out of scope.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A new file in the same folder: only there a rename is one step.
fn beside(target: &Path) -> io::Result<(File, Unfinished)> {
    let name = target.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    for attempt in 0u32.. {
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.{attempt}.new", std::process::id()));
        let path = target.with_file_name(hidden);
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < 100 => {}
            opened => return opened.map(|file| (file, Unfinished(path))),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_nothing_else_stays_behind() {
        let folder = std::env::temp_dir().join(format!("firstmatch-output-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("x.rules");
        for content in ["one\n", "", "two, which is longer\n"] {
            write(&path, content).expect("written");
            assert_eq!(fs::read_to_string(&path).expect("read"), content);
        }
        let mut permissions = fs::metadata(&path).expect("there").permissions();
        permissions.set_readonly(true);
        fs::set_permissions(&path, permissions).expect("set");
        write(&path, "three\n").expect("the folder may be written to");
        assert!(fs::metadata(&path).expect("there").permissions().readonly());
        assert!(write(&folder.join("missing/x"), "").is_err() && write(&folder, "").is_err());
        assert_eq!(fs::read_dir(&folder).expect("read").count(), 1);
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("x.rules", folder.join("link")).expect("linked");
            write(&folder.join("link"), "four\n").expect("written");
            assert!(fs::symlink_metadata(folder.join("link")).expect("there").is_symlink());
            assert_eq!(fs::read_to_string(&path).expect("read"), "four\n");
        }
        fs::remove_dir_all(&folder).expect("removed");
    }
}
