//! Output files that are either complete or absent.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufWriter, StdoutLock, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// Writes a file in one step; `-` is standard output.
///
/// The file keeps its old content, or is absent, until all of the new content is written.
pub(crate) fn write(path: &Path, content: &str) -> anyhow::Result<()> {
    let written = Output::create(path).and_then(|mut output| {
        output.write_all(content.as_bytes())?;
        output.finish()
    });
    if path == Path::new("-") {
        return Ok(written?);
    }
    written.with_context(|| format!("{}: cannot be written", path.display()))
}

/// Refuses an output that is the same file as an input, by whatever path.
///
/// Writing it would destroy the input while it is read.
///
/// # Errors
/// If one of the inputs (`-` is standard input) is the file that would be written.
pub(crate) fn refuse_inputs(path: &Path, inputs: &[(&str, &Path)]) -> anyhow::Result<()> {
    let dash = Path::new("-");
    let Some(target) = (if path == dash { of_descriptor(io::stdout().as_fd()) } else { of_path(path) }) else {
        return Ok(());
    };
    for &(what, input) in inputs {
        let same = if input == dash { of_descriptor(io::stdin().as_fd()) } else { of_path(input) };
        if same == Some(target) {
            let shown = if path == dash { "standard output".to_owned() } else { path.display().to_string() };
            bail!("{shown}: this is also where the {what} come from; expected another file to write to");
        }
    }
    Ok(())
}

/// Returns device and inode, which identify a file.
///
/// The result is `None` for files that hold nothing, for example `/dev/null`.
fn identity(metadata: &Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::FileTypeExt;
    let kind = metadata.file_type();
    (kind.is_file() || kind.is_fifo() || kind.is_block_device()).then(|| (metadata.dev(), metadata.ino()))
}

fn of_path(path: &Path) -> Option<(u64, u64)> {
    identity(&fs::metadata(path).ok()?)
}

fn of_descriptor(descriptor: BorrowedFd<'_>) -> Option<(u64, u64)> {
    identity(&File::from(descriptor.try_clone_to_owned().ok()?).metadata().ok()?)
}

/// File that is being written.
///
/// It gets its name only at [`Output::finish`]; if it is dropped before, it never does.
pub(crate) struct Output(Way);

enum Way {
    Stdout(StdoutLock<'static>),
    /// A device or a pipe, which holds nothing that could be half-written.
    Direct(File),
    Beside {
        out: BufWriter<File>,
        unfinished: Unfinished,
        target: PathBuf,
    },
}

impl Output {
    /// Begins a file. `-`, or another name of the same file or pipe, is standard output.
    ///
    /// # Errors
    /// If nothing can be written there or, for a regular file, beside it.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let of_stdout = || of_path(path).is_some_and(|target| of_descriptor(io::stdout().as_fd()) == Some(target));
        if path == Path::new("-") || of_stdout() {
            return Ok(Self(Way::Stdout(io::stdout().lock())));
        }
        // A link stays a link: the file that it points to is replaced.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let before = fs::metadata(&target).ok();
        if before.as_ref().is_some_and(|before| !before.is_file()) {
            return Ok(Self(Way::Direct(OpenOptions::new().write(true).open(&target)?)));
        }
        let (file, unfinished) = beside(&target)?;
        if let Some(before) = before {
            file.set_permissions(before.permissions())?;
        }
        Ok(Self(Way::Beside { out: BufWriter::new(file), unfinished, target }))
    }

    /// Whether everything goes to standard output.
    pub(crate) fn is_stdout(&self) -> bool {
        matches!(self.0, Way::Stdout(_))
    }

    /// Ends the file and gives it its name.
    ///
    /// # Errors
    /// If the rest cannot be written or the file cannot be renamed; then it keeps its old content.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        let Way::Beside { out, unfinished, target } = self.0 else { return Ok(()) };
        out.get_ref().sync_all()?;
        fs::rename(&unfinished.0, &target)
        // No file has the temporary name any more, so removing it fails, which is ignored.
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Way::Stdout(out) => out.write(bytes),
            Way::Direct(out) => out.write(bytes),
            Way::Beside { out, .. } => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Way::Stdout(out) => out.flush(),
            Way::Direct(out) => out.flush(),
            Way::Beside { out, .. } => out.flush(),
        }
    }
}

/// File that is removed when it goes out of scope.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Opens a new file in the same folder, because only there a rename is one step.
///
/// Its name cannot be predicted, so that no other program takes it first.
fn beside(target: &Path) -> io::Result<(File, Unfinished)> {
    let name = target.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    for attempt in 0u32.. {
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{:016x}.new", RandomState::new().hash_one(attempt)));
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
        std::os::unix::fs::symlink("x.rules", folder.join("link")).expect("linked");
        write(&folder.join("link"), "four\n").expect("written");
        assert!(fs::symlink_metadata(folder.join("link")).expect("there").is_symlink());
        assert_eq!(fs::read_to_string(&path).expect("read"), "four\n");
        // An output that is dropped leaves nothing.
        let mut output = Output::create(&path).expect("created");
        output.write_all(b"five").expect("written");
        drop(output);
        assert_eq!(fs::read_to_string(&path).expect("read"), "four\n");
        assert_eq!(fs::read_dir(&folder).expect("read").count(), 2);
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn a_file_is_told_from_others_by_what_it_is() {
        let folder = std::env::temp_dir().join(format!("firstmatch-inputs-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let (input, other) = (folder.join("input"), folder.join("other"));
        fs::write(&input, "x").expect("written");
        fs::write(&other, "x").expect("written");
        let (hard, soft) = (folder.join("hard"), folder.join("soft"));
        fs::hard_link(&input, &hard).expect("linked");
        std::os::unix::fs::symlink("./input", &soft).expect("linked");
        let refused = |path: &Path| refuse_inputs(path, &[("rules", &other), ("packets", &input)]);
        for path in [&input, &hard, &soft, &folder.join("../.").join(folder.file_name().expect("a name")).join("input")]
        {
            let error = refused(path).expect_err("the same file").to_string();
            assert!(error.ends_with("this is also where the packets come from; expected another file to write to"));
        }
        assert!(refused(&other).expect_err("the same file").to_string().contains("the rules"));
        assert!(refused(&folder.join("new")).is_ok());
        let null = Path::new("/dev/null");
        assert!(refuse_inputs(null, &[("packets", null)]).is_ok());
        fs::remove_dir_all(&folder).expect("removed");
    }
}
