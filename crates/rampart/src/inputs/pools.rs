//! What `rampart banks pools --apply` says of itself to other commands, above all to the daemon: how much memory it
//! keeps free, and what it has done.
//!
//! **Problem.** The daemon is another process, and what a process wrote before it was killed must not look alive.
//! **Idea.** A file that is replaced as a whole, and a lock beside it for as long as the process lives. **Why this
//! way.** The kernel drops the lock with the process, however that ends; a process number could be another's by then.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rampart_banks::{Pool, PoolMove};
use rampart_diagnostic::MachineUnderTest;
use rampart_memory::Bytes;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

/// The folder of this machine's pools, and of the record of blocks that are offline.
pub const FOLDER: &str = "/run/rampart-banks";

/// Name and version of the file's schema.
const SCHEMA: &str = "rampart.pools-state/1";

/// What pools have done since they began, and what they keep free.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolsState {
    /// [`SCHEMA`].
    schema: String,
    /// The process that keeps the pools.
    pub pid: u32,
    /// Memory that they keep free, of all nodes.
    pub reserve: Bytes,
    /// Blocks that went to another pool.
    pub moves: Vec<MoveCount>,
    /// Attempts that failed: the block stayed.
    pub failures: u64,
    /// Offline blocks that something else brought online.
    pub came_back: u64,
}

/// How many blocks went from one pool to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveCount {
    /// From here.
    pub from: Pool,
    /// To here.
    pub to: Pool,
    /// So many.
    pub blocks: u64,
}

impl PoolsState {
    /// This process begins to keep pools.
    pub fn new(reserve: Bytes) -> Self {
        let schema = SCHEMA.to_owned();
        Self { schema, pid: std::process::id(), reserve, moves: Vec::new(), failures: 0, came_back: 0 }
    }

    /// Counts a block that went to another pool.
    pub fn moved(&mut self, from: Pool, moved: PoolMove) {
        match self.moves.iter_mut().find(|count| count.from == from && count.to == moved.to) {
            Some(count) => count.blocks += 1,
            None => self.moves.push(MoveCount { from, to: moved.to, blocks: 1 }),
        }
    }
}

/// The file of the process that keeps the pools; it says so until this is dropped.
#[derive(Debug)]
pub struct PoolsFile {
    path: PathBuf,
    _lock: File,
}

impl PoolsFile {
    /// Begins. There is only one such process, as it holds the lock of the record.
    ///
    /// # Errors
    /// If the files cannot be made.
    pub fn create(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let lock = File::create(folder.join("pools.lock"))?;
        // A reader has the lock for a moment only.
        lock.lock()?;
        Ok(Self { path: folder.join("pools.json"), _lock: lock })
    }

    /// Replaces the state: a reader sees the old one or the new.
    ///
    /// # Errors
    /// If the file cannot be written; the old state stays.
    pub fn write(&self, state: &PoolsState) -> io::Result<()> {
        let mut file = NamedTempFile::new_in(self.path.parent().expect("it lies in a folder"))?;
        file.write_all(&serde_json::to_vec(state).expect("plain data"))?;
        file.as_file().set_permissions(fs::Permissions::from_mode(0o644))?;
        file.persist(&self.path)?;
        Ok(())
    }
}

/// The state of the process that keeps pools now; `None` if there is none.
pub fn read(folder: &Path) -> Option<PoolsState> {
    let lock = File::open(folder.join("pools.lock")).ok()?;
    if !matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)) {
        return None;
    }
    let state: PoolsState = serde_json::from_slice(&fs::read(folder.join("pools.json")).ok()?).ok()?;
    (state.schema == SCHEMA).then_some(state)
}

/// This machine for a tester, which leaves free what the pools keep free.
pub fn machine_beside_pools() -> MachineUnderTest {
    MachineUnderTest::this().beside(|| read(Path::new(FOLDER)).map_or(Bytes::ZERO, |state| state.reserve))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampart_memory::HotplugBlock;

    #[test]
    fn a_state_is_read_as_long_as_its_process_keeps_the_pools() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()), None, "no folder, no pools");
        let file = PoolsFile::create(folder.path()).unwrap();
        assert_eq!(read(folder.path()), None, "nothing was said yet");
        let mut state = PoolsState::new(Bytes::from_mib(200));
        for to in [Pool::Offline, Pool::User, Pool::Offline] {
            state.moved(Pool::Kernel, PoolMove { block: HotplugBlock(7), to });
        }
        state.failures = 3;
        file.write(&state).unwrap();
        let counts: Vec<_> = state.moves.iter().map(|count| (count.from, count.to, count.blocks)).collect();
        assert_eq!(counts, [(Pool::Kernel, Pool::Offline, 2), (Pool::Kernel, Pool::User, 1)]);
        assert_eq!(read(folder.path()), Some(state));
        drop(file);
        assert_eq!(read(folder.path()), None, "the file is still there, and its process no longer keeps pools");
    }

    #[test]
    fn a_file_of_another_version_is_no_state() {
        let folder = tempfile::tempdir().unwrap();
        let file = PoolsFile::create(folder.path()).unwrap();
        let other = PoolsState { schema: "rampart.pools-state/9".to_owned(), ..PoolsState::new(Bytes::ZERO) };
        file.write(&other).unwrap();
        assert_eq!(read(folder.path()), None);
        fs::write(folder.path().join("pools.json"), "{\"schema\":").unwrap();
        assert_eq!(read(folder.path()), None);
    }
}
