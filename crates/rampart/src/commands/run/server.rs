//! What `rampart run` is to the guards of its program, for as long as it lives: it reads what they tell
//! ([`super::following`]), and tells them which frames are bad and that somebody is there.
//!
//! **Problem.** A program is many processes, each with a guard of its own, that begin and end as they like; none of
//! them may wait for another, and what one of them finds out all must know. **Idea.** A folder, whose name all
//! processes inherit: in it each guard writes files of its own, the list of bad frames is replaced whole when the map
//! grows, and a file is locked while we live. **Why this way.** See docs/decisions/0012: nothing is asked, so nobody
//! waits, nothing is lost if either side is killed, and the kernel itself tells of a death.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rampart_guard::{BadFrames, server};
use rampart_linux::SystemClock;
use rampart_linux::executable::LeftAlone;
use rampart_memory::Clock as _;
use rampart_memory::fault_map::Origin;
use tempfile::{NamedTempFile, TempDir};

use crate::error::Error;
use crate::guards::folder;
use crate::inputs::store;

/// How often it is looked whether the map has grown.
const GLANCE: Duration = Duration::from_secs(1);

/// How long what the program has started may take to end after it, and how often it is looked whether it has.
const MOMENT: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(10);

/// What is left to say of a program that nothing else is known of.
const NOT_LOADED: &str =
    "no process of the program has loaded the library: LD_PRELOAD was changed, or ld.so says above why it could not";

/// The folder, and what we keep in it.
pub struct GuardServer {
    // Removed before the file is unlocked, so that an end is told from a death.
    folder: TempDir,
    /// Locked while we live.
    _alive: File,
    map: Option<Map>,
}

impl GuardServer {
    /// Begins. `map`: the store whose bad frames are to be kept from the program, where their numbers can be compared.
    ///
    /// # Errors
    /// If there can be no folder, or the map cannot be read.
    pub fn start(map: Option<PathBuf>) -> Result<Self, Error> {
        let folder = folder::create().map_err(Error::GuardFolder)?;
        let alive = folder::locked(&folder.path().join(server::ALIVE)).map_err(Error::GuardFolder)?;
        let map = map.map(|store| Map::hand_over(store, folder.path())).transpose()?;
        Ok(Self { folder, _alive: alive, map })
    }

    /// Where the guards write.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Tells the guards what is new on the map.
    pub fn look(&mut self) {
        if let Some(map) = self.map.as_mut().filter(|map| map.looked.elapsed() >= GLANCE)
            && let Err(error) = map.look(self.folder.path())
        {
            eprintln!("rampart: the guards are not told which frames are bad from now on: {error}");
            self.map = None;
        }
    }

    /// Processes of the program that go on when it has ended. Those that are about to end, as the daemons of an MPI
    /// are, get a moment.
    pub fn left(&self) -> usize {
        let began = Instant::now();
        loop {
            let left = self.living();
            if left == 0 || began.elapsed() >= MOMENT {
                return left;
            }
            thread::sleep(PAUSE);
        }
    }

    /// Why nothing was guarded: what the first process said, or what was seen of the program's file.
    pub fn why_nothing(&self, left_alone: Option<LeftAlone>) -> String {
        let said = folder::read(&self.folder().join(server::UNGUARDED)).ok();
        let said = said.map(|said| String::from_utf8_lossy(&said).trim().to_owned()).filter(|said| !said.is_empty());
        said.or_else(|| left_alone.map(|why| why.to_string())).unwrap_or_else(|| NOT_LOADED.to_owned())
    }

    /// Processes whose guards have files of this folder mapped.
    fn living(&self) -> usize {
        let counted = |entry: &fs::DirEntry| {
            let path = entry.path();
            let process = path.file_stem()?.to_str()?.parse::<u32>().ok()?;
            let mapped = fs::read_to_string(format!("/proc/{process}/maps")).ok()?;
            (path.extension()? == "counts" && mapped.contains(path.to_str()?)).then_some(())
        };
        let entries = fs::read_dir(self.folder.path()).into_iter().flatten().flatten();
        entries.filter(|entry| counted(entry).is_some()).count()
    }
}

/// The map of bad frames, which others may add to.
struct Map {
    store: PathBuf,
    /// The store's files when they were read.
    seen: [Option<(SystemTime, u64)>; 2],
    looked: Instant,
}

impl Map {
    fn hand_over(store: PathBuf, folder: &Path) -> Result<Self, Error> {
        let mut map = Self { store, seen: [None; 2], looked: Instant::now() };
        map.look(folder)?;
        Ok(map)
    }

    /// Writes the list if the store was changed. One that is not there has no frames.
    fn look(&mut self, folder: &Path) -> Result<(), Error> {
        self.looked = Instant::now();
        let now = [self.store.clone(), beside(&self.store)].map(|path| {
            let file = fs::metadata(path).ok()?;
            Some((file.modified().ok()?, file.len()))
        });
        if now == self.seen {
            return Ok(());
        }
        // Opened for a moment only: whoever finds it damaged can set it aside meanwhile.
        let bad = store::open(Some(self.store.clone()), SystemClock.now())?.failures(Origin::Real)?;
        let list: BadFrames = bad.iter().map(|failed| failed.frame).collect();
        replace(&folder.join(BadFrames::FILE), &list.to_string()).map_err(Error::GuardFolder)?;
        self.seen = now;
        Ok(())
    }
}

/// Where `SQLite` writes first (<https://www.sqlite.org/wal.html>).
fn beside(store: &Path) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// Whoever reads finds the old content or the new one.
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
            store.keep_failure(None, Origin::Real, &failed).unwrap();
            drop(store);
            server.map.as_mut().unwrap().look(server.folder.path()).unwrap();
            assert_eq!(list(&server).unwrap().among(&[Frame::new(number)]), [0]);
        }
        server.look();
        assert!(server.map.is_some(), "an hour is not over");
    }

    #[test]
    fn a_lock_is_held_until_the_folder_is_gone() {
        let server = GuardServer::start(None).unwrap();
        let seen = File::open(server.folder().join(server::ALIVE)).unwrap();
        assert!(seen.try_lock_shared().is_err());
        assert_eq!(server.left(), 0);
        drop(server);
        assert!(seen.try_lock_shared().is_ok());
    }
}
