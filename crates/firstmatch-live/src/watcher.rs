//! Changed files, found by the folders that lead to them, because editors rename files.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io};

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;

/// Time without an event after which files are looked at.
const SETTLE: Duration = Duration::from_millis(100);
/// Maximum number of links on a path, as in the kernel.
const LINKS: usize = 40;

/// Watches files, whether or not they are there.
///
/// Folders are watched, not files: every folder with a link on the way to the file, the folder of the file itself, or
/// the last folder of the path that exists. After an event there, a file has changed if its path leads to another file,
/// or to the same with another size or time.
#[derive(Debug)]
pub struct Watcher {
    queue: OwnedFd,
    files: Vec<WatchedFile>,
    /// Time at which files are looked at, if something has happened.
    due: Option<Instant>,
}

/// Facts that differ once a file was replaced or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    /// Seconds and nanoseconds of the last change, of the file or of its permissions.
    changed: (i64, i64),
}

/// File to be watched, as it was at some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedFile {
    path: PathBuf,
    identity: Option<Identity>,
}

impl WatchedFile {
    /// Returns the file as it is now, whether or not it is there. If it is about to be read, a later change is seen.
    pub fn now(path: &Path) -> Self {
        Self { path: path.to_owned(), identity: Identity::of(path) }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Identity {
    fn of(path: &Path) -> Option<Self> {
        let about = fs::metadata(path).ok()?;
        let changed = (about.ctime(), about.ctime_nsec());
        Some(Self { device: about.dev(), inode: about.ino(), size: about.size(), changed })
    }
}

impl Watcher {
    /// Watches files for changes since the time of each.
    ///
    /// # Errors
    /// If the kernel has no room for more watches.
    pub fn new(files: Vec<WatchedFile>) -> io::Result<Self> {
        // The comparison finds changes in between.
        Ok(Self { queue: watch(&files)?, files, due: Some(Instant::now() + SETTLE) })
    }

    /// Returns the queue of events, which is readable once there is one.
    pub fn queue(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }

    /// Takes the events from the queue.
    pub fn take_events(&mut self) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.queue, &mut buffer);
        // Files are compared whatever the events were.
        while reader.next().is_ok() {
            self.due = Some(Instant::now() + SETTLE);
        }
    }

    /// Returns the time until [`Watcher::has_changed`] should be called, if it should.
    pub fn wait(&self) -> Option<Duration> {
        self.due.map(|due| due.saturating_duration_since(Instant::now()))
    }

    /// Whether a file has changed since the last call, once no event has come for 100 ms.
    ///
    /// # Errors
    /// As for [`Watcher::new`].
    pub fn has_changed(&mut self) -> io::Result<bool> {
        if self.due.take_if(|due| *due <= Instant::now()).is_none() {
            return Ok(false);
        }
        // Folders may have come or gone. They are watched before files are compared, so that nothing is missed.
        self.queue = watch(&self.files)?;
        let mut has_changed = false;
        for file in &mut self.files {
            let now = WatchedFile::now(&file.path);
            has_changed |= now != *file;
            *file = now;
        }
        Ok(has_changed)
    }
}

/// Returns a queue of the events of all folders that lead to files.
fn watch(files: &[WatchedFile]) -> io::Result<OwnedFd> {
    let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
    let folders: BTreeSet<PathBuf> = files.iter().flat_map(|file| folders(&file.path)).collect();
    let events = WatchFlags::CLOSE_WRITE
        | WatchFlags::CREATE
        | WatchFlags::MOVE
        | WatchFlags::DELETE
        | WatchFlags::ATTRIB
        | WatchFlags::MOVE_SELF
        | WatchFlags::DELETE_SELF;
    for folder in folders {
        match inotify::add_watch(&queue, &folder, events | WatchFlags::ONLYDIR) {
            // One that is gone or closed to us leaves the file unreadable, which its reader says.
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(queue)
}

/// Returns the folders in which an event can make a path lead to another file.
fn folders(path: &Path) -> Vec<PathBuf> {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let parts = |path: &Path| path.components().map(|part| part.as_os_str().to_owned()).collect::<Vec<OsString>>();
    let mut rest: VecDeque<OsString> = parts(&absolute).into();
    let (mut at, mut folders, mut links) = (PathBuf::from("/"), Vec::new(), 0);
    while let Some(part) = rest.pop_front() {
        let next = match Path::new(&part).components().next() {
            Some(Component::ParentDir) => {
                at.pop();
                continue;
            }
            _ => at.join(&part),
        };
        match fs::read_link(&next) {
            Ok(target) if links < LINKS => {
                links += 1;
                folders.push(at.clone());
                parts(&target).into_iter().rev().for_each(|part| rest.push_front(part));
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
            }
            _ if rest.is_empty() || fs::symlink_metadata(&next).is_err() => {
                folders.push(at);
                break;
            }
            _ => at = next,
        }
    }
    folders
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("firstmatch-watcher-{name}-{}", std::process::id()));
            fs::create_dir_all(&folder).expect("a folder");
            // The comparison below needs a path without links.
            Self(folder.canonicalize().expect("it is there"))
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// Waits for the next event and the time after it; returns whether a file has changed.
    fn changes(watcher: &mut Watcher) -> bool {
        use rustix::event::{PollFd, PollFlags, poll};
        let queue = watcher.queue().try_clone_to_owned().expect("a copy");
        poll(&mut [PollFd::new(&queue, PollFlags::IN)], None).expect("an event");
        settled(watcher)
    }

    /// Waits until no event comes any more; returns whether a file has changed.
    fn settled(watcher: &mut Watcher) -> bool {
        loop {
            watcher.take_events();
            match watcher.wait() {
                Some(wait) if !wait.is_zero() => std::thread::sleep(wait),
                _ => return watcher.has_changed().expect("watched"),
            }
        }
    }

    #[test]
    fn a_path_leads_through_the_folders_of_its_links() {
        let folder = Folder::new("folders");
        let at = |name: &str| folder.0.join(name);
        fs::create_dir_all(at("one/two")).expect("folders");
        fs::write(at("one/two/x"), "").expect("a file");
        symlink("two", at("one/link")).expect("a link");
        symlink(at("one/link/../link/x"), at("y")).expect("a link");
        assert_eq!(folders(&at("one/two/x")), [at("one/two")]);
        assert_eq!(folders(&at("one/link/x")), [at("one"), at("one/two")]);
        assert_eq!(
            folders(&at("y")),
            [at(""), at("one"), at("one"), at("one/two")].map(|path| path.components().collect::<PathBuf>())
        );
        // The last folder that is there, where the end of a path is missing.
        assert_eq!(folders(&at("one/three/four/x")), [at("one")]);
        symlink("loop", at("loop")).expect("a link");
        assert_eq!(folders(&at("loop")).len(), LINKS + 1);
    }

    /// Every way to give a file another content is a change, and nothing else is.
    #[test]
    fn files_change_by_writing_renaming_and_links() {
        let folder = Folder::new("changes");
        let at = |name: &str| folder.0.join(name);
        for (name, text) in [("a/x", "1"), ("b/x", "2")] {
            fs::create_dir_all(at(name).parent().expect("a folder")).expect("folders");
            fs::write(at(name), text).expect("written");
        }
        symlink("a", at("now")).expect("a link");
        let path = at("now/x");
        let mut watcher = Watcher::new(vec![WatchedFile::now(&path)]).expect("watched");
        fs::write(&path, "11").expect("written");
        assert!(changes(&mut watcher), "another text");
        fs::write(at("a/other"), "").expect("written");
        assert!(!changes(&mut watcher), "another file");
        fs::write(at("a/new"), "3").expect("written");
        fs::rename(at("a/new"), at("a/x")).expect("renamed");
        assert!(changes(&mut watcher), "another file of this name");
        symlink("b", at("new")).expect("a link");
        fs::rename(at("new"), at("now")).expect("renamed");
        assert!(changes(&mut watcher), "a link that leads elsewhere");
        fs::remove_file(at("b/x")).expect("removed");
        assert!(changes(&mut watcher), "a file that is gone");
        fs::rename(at("b"), at("c")).expect("renamed");
        assert!(!changes(&mut watcher), "it was gone before");
        fs::create_dir(at("b")).expect("a folder");
        assert!(!changes(&mut watcher), "a folder without it");
        fs::write(at("b/x"), "4").expect("written");
        assert!(changes(&mut watcher), "it is there again");
        // A change between the reading of a file and the watch of it is seen without an event.
        let files = [path, at("a/other")].map(|path| WatchedFile::now(&path));
        fs::write(at("a/other"), "5").expect("written");
        let mut watcher = Watcher::new(files.into()).expect("watched");
        assert!(settled(&mut watcher), "a file that had changed before");
    }
}
