//! The sources of the kernel module.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// The sources that a module is built from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModuleSources {
    /// Those of this version of Rampart.
    Ours,
    /// Those in a folder.
    Folder(PathBuf),
}

/// The files of `kernel/`, by name.
const OURS: &[(&str, &str)] = &[
    ("COPYING", include_str!("../../../../kernel/COPYING")),
    ("Kbuild", include_str!("../../../../kernel/Kbuild")),
    ("Makefile", include_str!("../../../../kernel/Makefile")),
    ("ages.c", include_str!("../../../../kernel/ages.c")),
    ("claims.c", include_str!("../../../../kernel/claims.c")),
    ("claims.h", include_str!("../../../../kernel/claims.h")),
    ("compat.h", include_str!("../../../../kernel/compat.h")),
    ("demand.c", include_str!("../../../../kernel/demand.c")),
    ("device.c", include_str!("../../../../kernel/device.c")),
    ("dkms.conf", include_str!("../../../../kernel/dkms.conf")),
    ("first_use.c", include_str!("../../../../kernel/first_use.c")),
    ("frames.c", include_str!("../../../../kernel/frames.c")),
    ("lists.c", include_str!("../../../../kernel/lists.c")),
    ("moves.c", include_str!("../../../../kernel/moves.c")),
    ("offers.c", include_str!("../../../../kernel/offers.c")),
    ("on_demand.c", include_str!("../../../../kernel/on_demand.c")),
    ("pressure.c", include_str!("../../../../kernel/pressure.c")),
    ("rampart.h", include_str!("../../../../kernel/rampart.h")),
    ("rampart_abi.h", include_str!("../../../../kernel/rampart_abi.h")),
    ("rampart_main.c", include_str!("../../../../kernel/rampart_main.c")),
    ("recycle.c", include_str!("../../../../kernel/recycle.c")),
    ("retire.c", include_str!("../../../../kernel/retire.c")),
    ("sysfs.c", include_str!("../../../../kernel/sysfs.c")),
    ("verdicts.c", include_str!("../../../../kernel/verdicts.c")),
    ("window.c", include_str!("../../../../kernel/window.c")),
];

impl ModuleSources {
    /// Writes the sources into a folder.
    pub(super) fn write(&self, folder: &Path) -> Result<(), Error> {
        match self {
            Self::Ours => OURS
                .iter()
                .try_for_each(|(name, text)| fs::write(folder.join(name), text).map_err(Error::unwritten(folder))),
            Self::Folder(from) if from.join("Kbuild").is_file() => copy(from, folder),
            Self::Folder(from) => Err(Error::NotSources(from.clone())),
        }
    }
}

/// Whether a file in a folder of sources is one, and not a result of a build in it.
fn is_source(name: &str) -> bool {
    let is_written =
        ["COPYING", "Kbuild", "Makefile", "dkms.conf"].contains(&name) || name.ends_with(".c") || name.ends_with(".h");
    is_written && !name.ends_with(".mod.c")
}

/// Copies the sources in a folder, and none in folders below it.
fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    let unread = |cause| Error::Unread { path: from.to_owned(), cause };
    for entry in fs::read_dir(from).map_err(unread)? {
        let entry = entry.map_err(unread)?;
        if entry.path().is_file() && entry.file_name().to_str().is_some_and(is_source) {
            fs::copy(entry.path(), to.join(entry.file_name())).map_err(Error::unwritten(to))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn files(folder: &Path) -> BTreeMap<String, String> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let named = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        let sources = entries.filter(|path| path.is_file() && is_source(&named(path)));
        sources.map(|path| (named(&path), fs::read_to_string(&path).unwrap())).collect()
    }

    fn written(sources: &ModuleSources) -> Result<BTreeMap<String, String>, Error> {
        let folder = tempfile::tempdir().unwrap();
        sources.write(folder.path()).map(|()| files(folder.path()))
    }

    /// The sources are in the binary. A file that was added to `kernel/` and not to the list would be missing there.
    #[test]
    fn the_binary_carries_every_file_of_the_module() {
        let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernel");
        let expected = files(&tree);
        assert!(expected.contains_key("Kbuild"), "{expected:?}");
        assert_eq!(written(&ModuleSources::Ours).unwrap(), expected);
    }

    #[test]
    fn the_sources_of_a_named_folder_are_taken_as_they_are_and_no_results_of_a_build() {
        let folder = tempfile::tempdir().unwrap();
        let named = ModuleSources::Folder(folder.path().to_owned());
        let why = written(&named).unwrap_err().to_string();
        assert!(why.contains("has no sources of the module (no Kbuild)"), "{why}");
        fs::write(folder.path().join("Kbuild"), "obj-m := other.o\n").unwrap();
        fs::create_dir(folder.path().join("patches")).unwrap();
        for result in ["rampart.ko", "rampart.mod.c", "main.o", "Module.symvers"] {
            fs::write(folder.path().join(result), "").unwrap();
        }
        let to = tempfile::tempdir().unwrap();
        named.write(to.path()).unwrap();
        let names: Vec<_> = fs::read_dir(to.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["Kbuild"]);
        assert_eq!(written(&named).unwrap()["Kbuild"], "obj-m := other.o\n");
    }
}
