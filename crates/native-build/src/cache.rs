//! Libraries that were built before.
//!
//! **Problem.** A build takes seconds, and a script may start hundreds of short jobs. **Idea.** A library is kept under
//! a key of all that it was built from: the sources, what the compiler makes of `mpi.h`, the compiler and its options.
//! **Why this way.** Another MPI, compiler or version of Rampart has another key, so nothing must ever be invalidated.
//!
//! What cannot be read or written here is built each time: the cache is never a reason to fail.

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How many libraries are kept: two of each MPI of a machine that has many.
const MOST: usize = 16;

/// The folder of libraries that were built before.
#[derive(Clone, Debug)]
pub(crate) struct Cache(PathBuf);

impl Cache {
    /// A folder of `rampart` in `$XDG_CACHE_HOME`, or else in `$HOME/.cache` (XDG Base Directory Specification 0.8; a
    /// relative path is ignored); none if neither is set.
    pub fn of_user(name: &str) -> Option<Self> {
        let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let folder = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
        Some(Self(folder.join("rampart").join(name)))
    }

    fn path(&self, file: &str, key: u64) -> PathBuf {
        self.0.join(format!("{key:016x}-{file}"))
    }

    /// Copies the library with this key to a folder, and says where it is.
    pub fn fetch(&self, file: &str, key: u64, to: &Path) -> Option<PathBuf> {
        let (kept, copy) = (self.path(file, key), to.join(file));
        fs::copy(&kept, &copy).ok()?;
        // The oldest goes first; a failure only makes this one older.
        let _ = fs::File::open(&kept).and_then(|file| file.set_modified(SystemTime::now()));
        Some(copy)
    }

    /// Keeps a library. Others may do the same at this moment: it gets its name when it is complete.
    pub fn keep(&self, library: &Path, file: &str, key: u64) {
        let _ = self.try_to_keep(library, file, key);
    }

    fn try_to_keep(&self, library: &Path, file: &str, key: u64) -> std::io::Result<()> {
        fs::create_dir_all(&self.0)?;
        let unfinished = self.0.join(format!("{key:016x}-{file}.{}", std::process::id()));
        let kept = fs::copy(library, &unfinished)
            .and_then(|_| fs::File::open(&unfinished)?.sync_all())
            .and_then(|()| fs::rename(&unfinished, self.path(file, key)));
        if kept.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        self.forget_oldest()?;
        kept
    }

    /// A folder with this key; those with other keys are removed.
    pub fn sole_folder(&self, key: u64) -> std::io::Result<PathBuf> {
        let folder = self.0.join(format!("{key:016x}"));
        if !folder.is_dir() {
            fs::create_dir_all(&folder)?;
            let others = fs::read_dir(&self.0)?.filter_map(|entry| Some(entry.ok()?.path()));
            for other in others.filter(|other| *other != folder) {
                fs::remove_dir_all(other)?;
            }
        }
        Ok(folder)
    }

    fn forget_oldest(&self) -> std::io::Result<()> {
        let files = fs::read_dir(&self.0)?.filter_map(|entry| {
            let entry = entry.ok()?;
            Some((entry.metadata().ok()?.modified().ok()?, entry.path()))
        });
        let mut files: Vec<(SystemTime, PathBuf)> = files.collect();
        files.sort();
        for (_, path) in files.iter().rev().skip(MOST) {
            fs::remove_file(path)?;
        }
        Ok(())
    }
}

/// The key of what a library is built from.
pub(crate) fn key_of<'a>(parts: impl IntoIterator<Item = &'a str>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for part in parts {
        part.hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> (tempfile::TempDir, Cache) {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache(folder.path().join("built"));
        (folder, cache)
    }

    #[test]
    fn what_was_kept_is_found_by_its_key_only() {
        let (folder, cache) = cache();
        let (library, to) = (folder.path().join("one.so"), folder.path().join("job"));
        fs::create_dir(&to).unwrap();
        fs::write(&library, "built").unwrap();
        assert_eq!(cache.fetch("one.so", 1, &to), None);
        cache.keep(&library, "one.so", 1);
        assert_eq!(cache.fetch("one.so", 2, &to), None);
        assert_eq!(fs::read(cache.fetch("one.so", 1, &to).unwrap()).unwrap(), b"built");
    }

    #[test]
    fn only_the_latest_are_kept_and_a_use_counts() {
        let (folder, cache) = cache();
        let library = folder.path().join("one.so");
        fs::write(&library, "built").unwrap();
        let hour = |number: u64| SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(3600 * number);
        for key in 0..MOST as u64 {
            cache.keep(&library, "one.so", key);
            fs::File::open(cache.path("one.so", key)).unwrap().set_modified(hour(key)).unwrap();
        }
        cache.fetch("one.so", 0, folder.path()).unwrap();
        cache.keep(&library, "one.so", 99);
        let is_there = |key| cache.path("one.so", key).exists();
        assert!(is_there(0) && !is_there(1) && is_there(2) && is_there(99));
        assert_eq!(fs::read_dir(&cache.0).unwrap().count(), MOST);
    }

    #[test]
    fn of_the_folders_with_a_key_the_newest_is_left() {
        let (_folder, cache) = cache();
        let first = cache.sole_folder(1).unwrap();
        fs::write(first.join("file"), "kept").unwrap();
        assert!(cache.sole_folder(1).unwrap().join("file").exists());
        assert!(cache.sole_folder(2).unwrap().exists() && !first.exists());
    }

    #[test]
    fn parts_have_ends() {
        assert_ne!(key_of(["a", "bc"]), key_of(["ab", "c"]));
        assert_eq!(key_of(["a", "bc"]), key_of(["a", "bc"]));
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_no_failure() {
        let cache = Cache("/proc/none".into());
        cache.keep(Path::new("/proc/self/exe"), "one.so", 1);
        assert_eq!(cache.fetch("one.so", 1, Path::new("/tmp")), None);
    }
}
