//! The folder of `rampart run`, in which guards write, if it is this user's.
//!
//! Findings in it go on the map of bad frames, so only this user may write there, and no link leads out of it: another
//! user's folder does not count. A process that has given up its initial rights has none either; its guard prints its
//! findings.

use std::env;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::fs::{FileType, FlockOperation, Mode, OFlags, fchmod, flock, fstat, open};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::messages::say;

/// The variable that names it. Empty: an ancestor of this process has reported everything.
pub const VARIABLE: &str = "RAMPART_GUARD_STATE";

/// How often opening is retried while `rampart run` is removing the file, which takes it some microseconds.
const TRIES: usize = 1000;
const PAUSE: Duration = Duration::from_millis(1);

/// For this user alone.
const OURS: Mode = Mode::RUSR.union(Mode::WUSR);

/// The folder, if the environment names one and it is this user's.
pub fn folder() -> Option<PathBuf> {
    named().filter(|folder| is_ours(folder))
}

/// Whether the environment names a folder of another user, so that this process is not of the user who runs the
/// program.
pub fn is_of_another() -> bool {
    named().is_some_and(|folder| fs::symlink_metadata(&folder).is_ok() && !is_ours(&folder))
}

fn named() -> Option<PathBuf> {
    env::var_os(VARIABLE).filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

fn is_ours(folder: &Path) -> bool {
    let ours = |found: fs::Metadata| found.is_dir() && found.uid() == geteuid().as_raw() && found.mode() & 0o077 == 0;
    fs::symlink_metadata(folder).is_ok_and(ours)
}

/// A file of this process, for reading and writing: a new one, or that of the program that this process executed
/// before. Never a file of another user.
pub fn created(path: &Path, flags: OFlags) -> Option<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | flags;
    match open(path, OFlags::CREATE | OFlags::EXCL | flags, OURS) {
        Ok(file) => {
            // A umask may have removed our own permissions too.
            fchmod(&file, OURS).ok()?;
            Some(file)
        }
        Err(Errno::EXIST) => open(path, flags, Mode::empty()).ok().filter(is_our_file),
        Err(_) => None,
    }
}

/// The same, locked for as long as this process has it open: `rampart run` takes the files of ended processes, and this
/// process may have the number of one of them.
pub fn locked(path: &Path, flags: OFlags) -> Option<OwnedFd> {
    for _ in 0..TRIES {
        let file = created(path, flags)?;
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) if fstat(&file).is_ok_and(|found| found.st_nlink == 1) => return Some(file),
            Ok(()) | Err(Errno::WOULDBLOCK) => sleep(PAUSE),
            // A file system or a sandbox without locks.
            Err(_) => return Some(file),
        }
    }
    created(path, flags)
}

/// One name, or none if `rampart run` has just taken it.
fn is_our_file(file: &OwnedFd) -> bool {
    let is_ours = |found: rustix::fs::Stat| {
        FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
            && found.st_uid == geteuid().as_raw()
            && found.st_nlink <= 1
    };
    fstat(file).is_ok_and(is_ours)
}

/// Prints a message unless another process of the same run has printed one of this name: what one lacks, the others
/// lack too.
pub fn say_once(name: &str, text: &str) {
    let was_told = env::var_os(VARIABLE).is_some_and(|folder| folder.is_empty());
    if !was_told && folder().is_none_or(|folder| is_first(&folder.join(name), text)) {
        say(text);
    }
}

/// Whether this is the first process here. The message is left for `rampart run`.
fn is_first(path: &Path, text: &str) -> bool {
    match fs::OpenOptions::new().write(true).create_new(true).mode(OURS.as_raw_mode()).open(path) {
        Ok(mut file) => {
            // The disk may be full; the message is printed all the same.
            let _ = file.write_all(text.as_bytes());
            true
        }
        Err(error) => error.kind() != ErrorKind::AlreadyExists,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    #[test]
    fn a_file_that_is_just_being_taken_away_is_made_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("1.jsonl");
        fs::write(&path, "of an ended process").unwrap();
        let reader = fs::File::open(&path).unwrap();
        reader.try_lock().unwrap();
        let writes = || rustix::io::write(locked(&path, OFlags::APPEND).expect("a file"), b"new");
        std::thread::scope(|threads| {
            let writer = threads.spawn(writes);
            sleep(20 * PAUSE);
            fs::remove_file(&path).unwrap();
            drop(reader);
            assert_eq!(writer.join().unwrap(), Ok(3));
        });
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn a_file_that_is_written_is_not_taken_away() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("1.jsonl");
        let writer = locked(&path, OFlags::APPEND).expect("a file");
        let reader = fs::File::open(&path).unwrap();
        assert!(reader.try_lock().is_err());
        drop(writer);
        assert!(reader.try_lock().is_ok());
    }

    #[test]
    fn only_a_folder_that_nobody_else_may_enter_is_ours() {
        let folder = tempfile::tempdir().unwrap();
        let allow = |mode| fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
        allow(0o777);
        assert!(!is_ours(folder.path()));
        allow(0o700);
        assert!(is_ours(folder.path()) && !is_ours(&folder.path().join("none")));
        symlink(folder.path(), folder.path().join("link")).unwrap();
        assert!(!is_ours(&folder.path().join("link")));
        if chown(folder.path(), Some(65_534), None).is_ok() {
            assert!(!is_ours(folder.path()), "another user's");
        }
    }

    #[test]
    fn a_file_is_made_or_was_ours_and_a_link_is_never_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let create = |name: &str| created(&path(name), OFlags::empty());
        let first = create("1.counts").unwrap();
        assert_eq!(Mode::from_raw_mode(fstat(&first).unwrap().st_mode), OURS);
        rustix::io::write(&first, b"kept").unwrap();
        assert!(create("1.counts").is_some() && fs::read(path("1.counts")).unwrap() == b"kept", "it goes on");
        symlink(path("1.counts"), path("2.counts")).unwrap();
        symlink(path("nothing"), path("3.counts")).unwrap();
        assert!(create("2.counts").is_none() && create("3.counts").is_none() && !path("nothing").exists());
        fs::hard_link(path("1.counts"), path("4.counts")).unwrap();
        assert!(create("4.counts").is_none(), "it has another name");
        fs::write(path("5.counts"), "forged").unwrap();
        if chown(path("5.counts"), Some(65_534), None).is_ok() {
            assert!(create("5.counts").is_none(), "another user's");
        }
    }

    #[test]
    fn the_first_who_says_something_leaves_it_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("said");
        assert!(is_first(&path, "why") && !is_first(&path, "again"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "why");
    }
}
