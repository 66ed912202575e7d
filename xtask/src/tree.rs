//! The files of a checkout, read once, so that every rule is a pure function of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

use crate::error::Error;

/// All files by path, relative to the root and with `/` between folders. A file that is not text is kept as empty.
#[derive(Debug, Default)]
pub struct Tree {
    files: BTreeMap<String, String>,
}

impl Tree {
    /// Reads the tree below `root`, without `.git` and without the full paths that the root's `.gitignore` names.
    pub fn read(root: &Path) -> Result<Self, Error> {
        let ignored = match fs::read_to_string(root.join(".gitignore")) {
            Ok(text) => text.lines().filter_map(|line| line.strip_prefix('/')).map(str::to_owned).collect(),
            Err(_) => BTreeSet::new(),
        };
        let mut tree = Self::default();
        tree.read_folder(root, "", &ignored)?;
        Ok(tree)
    }

    fn read_folder(&mut self, root: &Path, folder: &str, ignored: &BTreeSet<String>) -> Result<(), Error> {
        let unreadable = |cause: io::Error| Error::Read { path: root.join(folder), cause };
        for entry in fs::read_dir(root.join(folder)).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let name = entry.file_name();
            let path = if folder.is_empty() { String::new() } else { format!("{folder}/") } + &name.to_string_lossy();
            if path == ".git" || ignored.contains(&path) {
                continue;
            }
            let kind = entry.file_type().map_err(unreadable)?;
            if kind.is_dir() {
                self.read_folder(root, &path, ignored)?;
            } else if kind.is_file() {
                let bytes = fs::read(entry.path()).map_err(unreadable)?;
                self.files.insert(path, String::from_utf8(bytes).unwrap_or_default());
            }
        }
        Ok(())
    }

    /// The text of a file, if it is there.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// All files, as path and text.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The Rust sources.
    pub fn rust(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter(|(path, _)| path.ends_with(".rs"))
    }

    /// The folders that hold a file, at any depth.
    pub fn folders(&self) -> BTreeSet<&str> {
        self.files.keys().flat_map(|path| path.match_indices('/').map(|(end, _)| &path[..end])).collect()
    }

    /// The folders of crates, with the text of each manifest. The root's manifest, which only names members, is none.
    pub fn crates(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter_map(|(path, text)| Some((path.strip_suffix("/Cargo.toml")?, text)))
    }
}

#[cfg(test)]
impl<P: Into<String>, T: Into<String>, const N: usize> From<[(P, T); N]> for Tree {
    /// A tree for a rule's own test.
    fn from(files: [(P, T); N]) -> Self {
        Self { files: files.into_iter().map(|(path, text)| (path.into(), text.into())).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_read_without_what_git_ignores() {
        let root = tempfile::tempdir().unwrap();
        for (path, bytes) in [
            (".gitignore", "/target\n/fuzz/target\n".as_bytes()),
            (".git/config", b"[core]"),
            ("target/debug/x.rs", b"built"),
            ("fuzz/target/y.rs", b"built"),
            ("crates/sim/Cargo.toml", b"[package]"),
            ("crates/sim/src/lib.rs", b"//! Sim."),
            ("crates/target/z.rs", b"kept"),
            ("picture.png", b"\xff\xfe"),
        ] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        let tree = Tree::read(root.path()).unwrap();
        let paths: Vec<_> = tree.files().map(|(path, _)| path).collect();
        assert_eq!(
            paths,
            [".gitignore", "crates/sim/Cargo.toml", "crates/sim/src/lib.rs", "crates/target/z.rs", "picture.png"]
        );
        assert_eq!(tree.text("picture.png"), Some(""));
        assert_eq!(
            tree.folders().into_iter().collect::<Vec<_>>(),
            ["crates", "crates/sim", "crates/sim/src", "crates/target"]
        );
        assert_eq!(tree.crates().collect::<Vec<_>>(), [("crates/sim", "[package]")]);
    }

    #[test]
    fn a_tree_that_cannot_be_read_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        assert!(matches!(Tree::read(&root.path().join("absent")), Err(Error::Read { .. })));
    }
}
