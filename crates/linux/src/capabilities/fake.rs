//! Fake machines for the tests of the probes.

use std::fs;

use crate::Roots;

/// A fake machine whose `/proc` and `/sys` are one folder.
pub(super) fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Roots) {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let roots = Roots::new(folder.path(), folder.path());
    (folder, roots)
}
