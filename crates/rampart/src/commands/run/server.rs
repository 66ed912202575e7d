//! The server of the guards of a program: while it lives, it gives them the list of bad frames and shows that their
//! reports are read ([`super::following`]).
//!
//! **Problem.** A program has many processes, each with its own guard, which begin and end at any time. None of them
//! may wait for another, and all must learn what one of them finds. **Idea.** All processes inherit the name of a
//! folder. Each guard writes its own files into it; the list of bad frames is replaced whole when the map grows; and
//! one file is locked while the server lives. **Why this way.** See docs/decisions/0012: there are no requests, so that
//! nobody waits; nothing is lost if either side is killed; and the kernel releases the lock of a dead server.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rampart_guard::{BadFrames, server};
use rampart_linux::SystemClock;
use rampart_linux::executable::LeftAlone;
use rampart_memory::Clock as _;
use rampart_memory::fault_map::MapOrigin;
use tempfile::{NamedTempFile, TempDir};

use crate::error::Error;
use crate::guards::folder;
use crate::inputs::store;

/// How often the map is checked for new frames.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// How long processes of the program may take to end after it, and how often that is checked.
const GRACE: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(10);

/// The message if no other reason is known.
const NOT_LOADED: &str =
    "no process of the program has loaded the library: LD_PRELOAD was changed, or ld.so says above why it could not";

/// The folder of the guards, with the server's files in it.
pub struct GuardServer {
    // Removed before the file is unlocked, so that guards can distinguish an end from a death.
    folder: TempDir,
    /// Locked while the server lives.
    _alive: File,
    list: Option<BadFrameList>,
}

impl GuardServer {
    /// Starts the server. `store`: the store whose bad frames the program must not get, if frame numbers can be
    /// compared.
    ///
    /// # Errors
    /// If the folder cannot be made, or the map cannot be read.
    pub fn start(store: Option<PathBuf>) -> Result<Self, Error> {
        let folder = folder::create().map_err(Error::GuardFolder)?;
        let alive = folder::locked(&folder.path().join(server::ALIVE)).map_err(Error::GuardFolder)?;
        let list = store.map(|store| BadFrameList::create(store, folder.path())).transpose()?;
        Ok(Self { folder, _alive: alive, list })
    }

    /// The folder into which the guards write.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Gives the guards the new frames of the map.
    pub fn poll(&mut self) {
        if let Some(list) = self.list.as_mut().filter(|list| list.checked.elapsed() >= POLL_INTERVAL)
            && let Err(error) = list.update(self.folder.path())
        {
            eprintln!("rampart: the guards do not learn of new bad frames from now on: {error}");
            self.list = None;
        }
    }

    /// Counts the processes that run on after the program has ended. Waits up to half a second for processes that are
    /// about to end, such as the daemons of an MPI.
    pub fn remaining_processes(&self) -> usize {
        let began = Instant::now();
        loop {
            let remaining = self.guarded_processes();
            if remaining == 0 || began.elapsed() >= GRACE {
                return remaining;
            }
            thread::sleep(PAUSE);
        }
    }

    /// The reason why nothing was guarded: as the first process reported it, or from the program's file.
    pub fn why_unguarded(&self, unguardable: Option<LeftAlone>) -> String {
        let reported = folder::read(&self.folder().join(server::UNGUARDED)).ok();
        let reported = reported.map(|text| String::from_utf8_lossy(&text).trim().to_owned());
        let reported = reported.filter(|reason| !reason.is_empty());
        reported.or_else(|| unguardable.map(|why| why.to_string())).unwrap_or_else(|| NOT_LOADED.to_owned())
    }

    /// Counts the processes whose guards have files of this folder mapped.
    fn guarded_processes(&self) -> usize {
        let mapped_counts = |entry: &fs::DirEntry| {
            let path = entry.path();
            let process = path.file_stem()?.to_str()?.parse::<u32>().ok()?;
            let mapped = fs::read_to_string(format!("/proc/{process}/maps")).ok()?;
            (path.extension()? == "counts" && mapped.contains(path.to_str()?)).then_some(())
        };
        let entries = fs::read_dir(self.folder.path()).into_iter().flatten().flatten();
        entries.filter(|entry| mapped_counts(entry).is_some()).count()
    }
}

/// The list of bad frames in the folder, which follows the map in the store: others may add to the map.
struct BadFrameList {
    store: PathBuf,
    /// Time and length of the store's files when they were last read.
    seen: [Option<(SystemTime, u64)>; 2],
    checked: Instant,
}

impl BadFrameList {
    fn create(store: PathBuf, folder: &Path) -> Result<Self, Error> {
        let mut list = Self { store, seen: [None; 2], checked: Instant::now() };
        list.update(folder)?;
        Ok(list)
    }

    /// Writes the list if the store has changed. A missing store has no bad frames.
    fn update(&mut self, folder: &Path) -> Result<(), Error> {
        self.checked = Instant::now();
        let now = [self.store.clone(), write_ahead_log(&self.store)].map(|path| {
            let file = fs::metadata(path).ok()?;
            Some((file.modified().ok()?, file.len()))
        });
        if now == self.seen {
            return Ok(());
        }
        // Opened only briefly, so that another process that finds the store damaged can set it aside.
        let bad = store::open(Some(self.store.clone()), SystemClock.now())?.failures(MapOrigin::Real)?;
        let list: BadFrames = bad.iter().map(|failed| failed.frame).collect();
        replace(&folder.join(BadFrames::FILE), &list.to_string()).map_err(Error::GuardFolder)?;
        self.seen = now;
        Ok(())
    }
}

/// The file to which `SQLite` writes first (<https://www.sqlite.org/wal.html>).
fn write_ahead_log(store: &Path) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// Replaces a file atomically: a reader finds the old content or the new.
fn replace(path: &Path, content: &str) -> std::io::Result<()> {
    let mut file = NamedTempFile::new_in(path.parent().expect("a file in a folder"))?;
    file.write_all(content.as_bytes())?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    use rampart_memory::fault_map::FailedFrame;
    use rampart_memory::{Frame, Timestamp};

    fn list(server: &GuardServer) -> Option<BadFrames> {
        fs::read_to_string(server.folder().join(BadFrames::FILE)).ok().map(|text| text.parse().unwrap())
    }

    #[test]
    fn guards_are_told_of_frames_that_others_find_bad_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let mut server = GuardServer::start(Some(path.clone())).unwrap();
        assert!(!path.exists() && list(&server).is_none(), "a store is not made for this");
        for number in [5, 7] {
            let failed = FailedFrame::condemned(Frame::new(number).unwrap(), Timestamp::default());
            let mut store = store::open(Some(path.clone()), Timestamp::default()).unwrap();
            store.keep_failure(None, MapOrigin::Real, &failed).unwrap();
            drop(store);
            server.list.as_mut().unwrap().update(server.folder.path()).unwrap();
            assert_eq!(list(&server).unwrap().among(&[Frame::new(number)]), [0]);
        }
        server.poll();
        assert!(server.list.is_some(), "the store can still be read");
    }

    #[test]
    fn a_lock_is_held_until_the_folder_is_gone() {
        let server = GuardServer::start(None).unwrap();
        let seen = File::open(server.folder().join(server::ALIVE)).unwrap();
        assert!(seen.try_lock_shared().is_err());
        assert_eq!(server.remaining_processes(), 0);
        drop(server);
        assert!(seen.try_lock_shared().is_ok());
    }
}
