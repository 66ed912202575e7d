//! The file of the [`OfflineRecord`], and the lock of the commands that change blocks.
//!
//! **Problem.** A crash must not lose the way back. **Idea.** The file is replaced as a whole before each attempt.
//! **Why this way.** It lies under `/run`: a boot brings all memory online, and empties `/run`. It has a folder of its
//! own, because systemd empties the daemon's when the daemon ends.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rampart_banks::OfflineRecord;
use tempfile::NamedTempFile;

use crate::error::Error;
use crate::inputs::pools::FOLDER;

/// The record on its file, locked until it is dropped.
#[derive(Debug)]
pub struct RecordFile {
    path: PathBuf,
    /// What it holds.
    pub record: OfflineRecord,
    _lock: File,
}

impl RecordFile {
    /// Opens the machine's record.
    pub fn open() -> Result<Self, Error> {
        Self::open_in(Path::new(FOLDER))
    }

    fn open_in(folder: &Path) -> Result<Self, Error> {
        let path = folder.join("offline-blocks.json");
        let failed = |cause| Error::OfflineRecord(path.clone(), cause);
        fs::create_dir_all(folder).map_err(failed)?;
        let lock = File::create(folder.join("offline-blocks.lock")).map_err(failed)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => Error::BanksBusy,
            TryLockError::Error(cause) => failed(cause),
        })?;
        let record = read(&path).map_err(failed)?;
        Ok(Self { path, record, _lock: lock })
    }

    /// Replaces the file.
    pub fn write(&self) -> Result<(), Error> {
        self.replace().map_err(|cause| Error::OfflineRecord(self.path.clone(), cause))
    }

    fn replace(&self) -> io::Result<()> {
        let folder = self.path.parent().expect("it lies in a folder");
        let mut file = NamedTempFile::new_in(folder)?;
        file.write_all(&serde_json::to_vec(&self.record)?)?;
        file.persist(&self.path)?;
        Ok(())
    }
}

fn read(path: &Path) -> io::Result<OfflineRecord> {
    match fs::read(path) {
        Ok(text) => Ok(serde_json::from_slice(&text)?),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(OfflineRecord::default()),
        Err(cause) => Err(cause),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampart_banks::OfflineBlock;
    use rampart_memory::HotplugBlock;

    #[test]
    fn what_was_written_is_read_and_only_one_command_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = RecordFile::open_in(folder.path()).unwrap();
        assert_eq!(file.record, OfflineRecord::default());
        file.record.blocks.push(OfflineBlock { number: HotplugBlock(7), zone: "Movable".to_owned() });
        file.write().unwrap();
        let other = RecordFile::open_in(folder.path()).unwrap_err();
        assert!(matches!(other, Error::BanksBusy), "{other}");
        let written = file.record.clone();
        drop(file);
        assert_eq!(RecordFile::open_in(folder.path()).unwrap().record, written);
    }

    #[test]
    fn a_damaged_record_is_refused_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("offline-blocks.json");
        fs::write(&path, "{\"blocks\":[{").unwrap();
        let refused = RecordFile::open_in(folder.path()).unwrap_err();
        assert!(matches!(refused, Error::OfflineRecord(..)), "{refused}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"blocks\":[{");
    }
}
