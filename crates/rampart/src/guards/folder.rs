//! The folder into which the guards of a program write, and its protection.
//!
//! **Problem.** Frames in these files go on the map of bad frames, which belongs to root: no other user may write them,
//! make us read another file, or hold one of our locks. **Idea.** Only our user may enter the folder, whatever the
//! umask is, and only files of that user are read: regular files with one name, no links. **Why this way.** The kernel
//! enforces it, and a process with our rights does not need this folder to do harm.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use tempfile::TempDir;

use crate::output::file::NO_FOLLOW;

/// `O_NONBLOCK`: without it, opening a pipe in the folder would wait for its other end.
const NO_WAIT: i32 = 0o4000;

/// Makes a folder that only our user may enter.
pub fn create() -> io::Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("rampart-").permissions(only_ours(0o700)).tempdir()?;
    // A umask may take our own rights too.
    fs::set_permissions(folder.path(), only_ours(0o700))?;
    Ok(folder)
}

/// Makes a file, and locks it until it is closed.
pub fn locked(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.set_permissions(only_ours(0o600))?;
    file.try_lock()?;
    Ok(file)
}

/// Opens a file that a process of our user made.
///
/// # Errors
/// The kernel's error, or an error if another user owns the file or it is no regular file with one name.
pub fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(NO_FOLLOW | NO_WAIT).open(path)?;
    let found = file.metadata()?;
    let is_ours = found.is_file() && found.nlink() == 1 && found.uid() == own_user()?;
    if is_ours { Ok(file) } else { Err(io::Error::other("no process of the program made it")) }
}

/// Reads a file that a process of our user made.
///
/// # Errors
/// Those of [`open`], and of reading.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    open(path)?.read_to_end(&mut content)?;
    Ok(content)
}

/// Whether a process has given up our user's rights and cannot take them back. An ended process counts as one that had
/// them, since it could open its files.
pub fn gave_up_rights(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status"));
    own_user().is_ok_and(|own| status.is_ok_and(|status| lacks_user(&status, own)))
}

/// Whether a process' status (proc_pid_status(5)) names this user neither as the real, nor the effective, nor the saved
/// one.
fn lacks_user(status: &str, user: u32) -> bool {
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    users.is_some_and(|users| users.split_whitespace().take(3).all(|word| word.parse() != Ok(user)))
}

fn own_user() -> io::Result<u32> {
    Ok(fs::metadata("/proc/self")?.uid())
}

fn only_ours(mode: u32) -> Permissions {
    Permissions::from_mode(mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::os::unix::fs::{chown, symlink};

    #[test]
    fn only_ordinary_files_of_our_user_are_read() {
        let folder = create().unwrap();
        assert_eq!(fs::metadata(folder.path()).unwrap().mode() & 0o7777, 0o700);
        let path = |name: &str| folder.path().join(name);
        fs::write(path("ours"), "text").unwrap();
        assert_eq!(read(&path("ours")).unwrap(), b"text");
        symlink(path("ours"), path("link")).unwrap();
        fs::create_dir(path("folder")).unwrap();
        let pipe = std::process::Command::new("mkfifo").arg(path("pipe")).status().unwrap();
        assert!(pipe.success());
        assert!(["link", "folder", "pipe", "none"].iter().all(|name| read(&path(name)).is_err()));
        fs::hard_link(path("ours"), path("second")).unwrap();
        assert!(read(&path("ours")).is_err() && read(&path("second")).is_err(), "two names");
        fs::remove_file(path("second")).unwrap();
        if chown(path("ours"), Some(65_534), None).is_ok() {
            assert!(read(&path("ours")).is_err(), "another user's");
        }
    }

    #[test]
    fn a_file_that_is_there_is_never_taken_for_a_lock() {
        let folder = create().unwrap();
        let target = folder.path().join("target");
        fs::write(&target, "precious").unwrap();
        symlink(&target, folder.path().join("lock")).unwrap();
        assert!(locked(&target).is_err() && locked(&folder.path().join("lock")).is_err());
        assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
        assert_eq!(locked(&folder.path().join("new")).unwrap().metadata().unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_process_that_can_take_its_rights_back_has_them() {
        let status = |users: &str| format!("Name:\tx\nUid:\t{users}\nGid:\t0\t0\t0\t0\n");
        let lacks = |users: &str| lacks_user(&status(users), 0);
        assert!(lacks("65534\t65534\t65534\t65534"));
        assert!(!lacks("0\t0\t0\t0") && !lacks("0\t65534\t65534\t65534") && !lacks("65534\t65534\t0\t65534"));
        assert!(!gave_up_rights(std::process::id()) && !gave_up_rights(u32::MAX));
    }
}
