//! A file that a command writes at its end.
//!
//! **Problem.** A file that cannot be written is noticed only at the end, when the run is over. In a folder that
//! everybody may write to, a symbolic link could make root overwrite a file of its own. **Idea.** The file is made at
//! the start, under another name in the same folder, and renamed when it is complete. **Why this way.** A rename
//! follows no link, a reader sees the old content or the new, and a folder that cannot be written to is refused before
//! anything runs.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::Error;

/// A file that will be written at the end.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    destination: Destination,
}

#[derive(Debug)]
enum Destination {
    /// A temporary file in the same folder, to be renamed.
    Temporary(NamedTempFile),
    /// The file itself: a pipe or a device, or the target of a link.
    Direct(File),
}

impl Output {
    /// Checks that the file can be written, and leaves it unchanged.
    ///
    /// # Errors
    /// [`Error::Report`] if it cannot be written.
    pub fn prepare(path: &Path) -> Result<Self, Error> {
        let destination = Destination::prepare(path).map_err(|cause| Error::Report { path: path.to_owned(), cause })?;
        Ok(Self { path: path.to_owned(), destination })
    }

    /// Writes the whole content.
    ///
    /// # Errors
    /// [`Error::Report`] if it cannot be written; a regular file is then unchanged.
    pub fn write(self, content: &[u8]) -> Result<(), Error> {
        let path = self.path.clone();
        self.write_all(content).map_err(|cause| Error::Report { path, cause })
    }

    fn write_all(self, content: &[u8]) -> io::Result<()> {
        match self.destination {
            Destination::Temporary(mut file) => {
                file.write_all(content)?;
                file.persist(&self.path)?;
            }
            Destination::Direct(mut file) => {
                if file.metadata()?.is_file() {
                    file.set_len(0)?;
                }
                file.write_all(content)?;
            }
        }
        Ok(())
    }
}

impl Destination {
    fn prepare(path: &Path) -> io::Result<Self> {
        Ok(match fs::symlink_metadata(path) {
            Ok(found) if found.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(found) if may_be_trap(path, &found)? => {
                return Err(io::Error::other("it belongs to another user, in a folder that everybody may write to"));
            }
            // Opened without truncation. A device or pipe exists already; the target of a link may not exist yet.
            Ok(found) if found.is_symlink() => Self::Direct(open(OpenOptions::new().create(true), path)?),
            Ok(found) if !found.is_file() => Self::Direct(open(&mut OpenOptions::new(), path)?),
            Ok(_) => match temporary_beside(path) {
                Ok(file) => Self::Temporary(file),
                Err(_) => Self::Direct(open(OpenOptions::new().custom_flags(NO_FOLLOW), path)?),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::Temporary(temporary_beside(path)?),
            Err(error) => return Err(error),
        })
    }
}

/// `O_NOFOLLOW`: the value of asm-generic/fcntl.h, which x86-64 uses, and that of aarch64.
pub const NO_FOLLOW: i32 = if cfg!(target_arch = "aarch64") { 0o100_000 } else { 0o400_000 };

fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    options.write(true).truncate(false).open(path)
}

/// Makes a temporary file in the folder of another file, with the permissions of an ordinary one.
fn temporary_beside(path: &Path) -> io::Result<NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    tempfile::Builder::new().prefix(".rampart-").permissions(Permissions::from_mode(0o666)).tempfile_in(folder)
}

/// Whether a file could be a trap: it is in a folder that everybody may write to, and belongs neither to this user nor
/// to the folder's owner. The kernel applies the same rule to links (proc(5), `protected_symlinks`).
fn may_be_trap(path: &Path, found: &Metadata) -> io::Result<bool> {
    const WRITABLE_FOR_ALL: u32 = 0o002;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = fs::metadata(folder)?;
    let is_shared = folder.mode() & WRITABLE_FOR_ALL != 0;
    let own = fs::metadata("/proc/self")?.uid();
    Ok(is_shared && ![own, folder.uid()].contains(&found.uid()))
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::os::unix::fs::{chown, symlink};

    const NOBODY: u32 = 65_534;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_old_content_stays_until_the_new_one_is_whole_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report");
        fs::write(&path, "old and longer").unwrap();
        let dropped = Output::prepare(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old and longer");
        drop(dropped);
        assert_eq!(names(folder.path()), ["report"]);
        Output::prepare(&path).unwrap().write(b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        let fresh = folder.path().join("fresh");
        Output::prepare(&fresh).unwrap().write(b"first").unwrap();
        assert_eq!(names(folder.path()), ["fresh", "report"]);
        assert_eq!(fs::metadata(&fresh).unwrap().mode() & 0o700, 0o600);
    }

    #[test]
    fn what_cannot_be_written_is_refused_before_the_end() {
        let folder = tempfile::tempdir().unwrap();
        for bad in [folder.path().to_owned(), folder.path().join("none/report"), folder.path().join("")] {
            assert!(Output::prepare(&bad).is_err(), "{}", bad.display());
        }
        let full = Output::prepare(Path::new("/dev/full")).unwrap();
        assert!(full.write(b"text").is_err());
    }

    #[test]
    fn ones_own_link_is_followed_and_another_users_in_a_folder_of_everybodys_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (link, target) = (folder.path().join("link"), folder.path().join("target"));
        fs::write(&target, "mine, and longer").unwrap();
        symlink(&target, &link).unwrap();
        Output::prepare(&link).unwrap().write(b"written").unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "written");
        fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).unwrap();
        let given = std::os::unix::fs::lchown(&link, Some(NOBODY), None);
        if rampart_skips::granted(&[rampart_skips::Feature::Root], given).is_none() {
            return;
        }
        assert!(Output::prepare(&link).is_err(), "a link");
        fs::remove_file(&link).unwrap();
        fs::write(&link, "a trap").unwrap();
        chown(&link, Some(NOBODY), None).unwrap();
        assert!(Output::prepare(&link).is_err(), "a file");
        // A link that appears meanwhile is replaced and not followed.
        fs::remove_file(&link).unwrap();
        let output = Output::prepare(&link).unwrap();
        symlink(&target, &link).unwrap();
        output.write(b"safe").unwrap();
        let found = [&link, &target].map(|path| fs::read_to_string(path).unwrap());
        assert_eq!(found, ["safe", "written"]);
        assert!(fs::symlink_metadata(&link).unwrap().is_file());
    }
}
