//! The headers and makefiles of a kernel.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// The headers of a kernel, with its makefiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelHeaders {
    /// Their folder, without links in its path.
    pub(super) folder: PathBuf,
}

impl KernelHeaders {
    /// The folder of modules of each kernel, where its headers are linked.
    pub const MODULES: &str = "/lib/modules";

    /// The headers of a release that is installed below `modules`.
    ///
    /// # Errors
    /// [`Error::NoHeaders`] if they are not.
    pub fn of_release(modules: &Path, release: &str) -> Result<Self, Error> {
        let path = modules.join(release).join("build");
        // A link whose headers were removed counts as none.
        if !path.is_dir() {
            return Err(Error::NoHeaders { path, release: release.to_owned() });
        }
        Self::named(&path)
    }

    /// The headers in a folder.
    ///
    /// # Errors
    /// [`Error::NotHeaders`] if the folder has none.
    pub fn named(folder: &Path) -> Result<Self, Error> {
        let has = folder.join("Makefile").is_file();
        let whole = folder.canonicalize().ok().filter(|_| has);
        whole.map(|folder| Self { folder }).ok_or_else(|| Error::NotHeaders(folder.to_owned()))
    }

    /// Their folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether Clang built the kernel: its modules need Clang too (Linux, Documentation/kbuild/llvm.rst).
    pub(super) fn is_of_clang(&self) -> bool {
        let configuration = fs::read_to_string(self.folder.join("include/config/auto.conf")).unwrap_or_default();
        configuration.lines().any(|line| line == "CONFIG_CC_IS_CLANG=y")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_that_are_not_there_are_named_with_the_package_to_install() {
        let modules = tempfile::tempdir().unwrap();
        let why = || KernelHeaders::of_release(modules.path(), "6.1.0-9").unwrap_err().to_string();
        assert!(why().contains("build does not exist): install linux-headers-6.1.0-9 (Debian"), "{}", why());
        fs::create_dir(modules.path().join("6.1.0-9")).unwrap();
        std::os::unix::fs::symlink("/none/such", modules.path().join("6.1.0-9/build")).unwrap();
        assert!(why().contains("build does not exist"), "{}", why());
    }

    #[test]
    fn a_folder_without_a_makefile_has_no_headers() {
        let folder = tempfile::tempdir().unwrap();
        let why = KernelHeaders::named(folder.path()).unwrap_err().to_string();
        assert!(why.contains("has no headers of a kernel (no Makefile)"), "{why}");
        fs::write(folder.path().join("Makefile"), "").unwrap();
        assert_eq!(KernelHeaders::named(folder.path()).unwrap().folder(), folder.path().canonicalize().unwrap());
    }
}
