//! The kernel module, `rampart.ko`.
//!
//! **Problem.** A module fits one build of one kernel: its structures, its options, the compiler. **Idea.** The
//! kernel's headers bring the makefiles that know all of this (Linux, Documentation/kbuild/modules.rst); they get our
//! sources and nothing else. **Why this way.** It is how distributions and DKMS build modules. What is missing is
//! found by trying: only the makefiles know which compiler they call.

mod headers;
mod sources;

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub use self::headers::KernelHeaders;
pub use self::sources::ModuleSources;
use crate::error::Error;
use crate::tool::{first_error, missing, runs};

const MAKE: &str = "make";

/// The file that is built.
const MODULE: &str = "rampart.ko";

/// The file with what `make` and the compiler print.
const LOG: &str = "build.log";

/// Variables of a `make` around this process, which would change the build: as options, or as other rules.
const OF_MAKE: [&str; 5] = ["MAKEFLAGS", "MAKEFILES", "MAKELEVEL", "MFLAGS", "GNUMAKEFLAGS"];

/// A build of the kernel module that can begin.
#[derive(Debug)]
pub struct ModuleBuild {
    headers: KernelHeaders,
    folder: PathBuf,
}

impl ModuleBuild {
    /// Writes the sources into a folder, without links in its path, where the module is then built.
    ///
    /// # Errors
    /// [`Error::NoTool`] if there is no `make`; [`Error::Sources`] if the folder cannot be written to;
    /// [`Error::Unread`] or [`Error::NotSources`] if other sources than ours cannot be used.
    pub fn prepare(sources: &ModuleSources, headers: KernelHeaders, folder: &Path) -> Result<Self, Error> {
        if !runs(MAKE.as_ref()) {
            return Err(Error::NoTool(MAKE.to_owned()));
        }
        sources.write(folder)?;
        Ok(Self { headers, folder: folder.to_owned() })
    }

    /// The command that builds the module. It prints nothing: all goes into the log.
    ///
    /// # Errors
    /// [`Error::Sources`] if the log cannot be written.
    pub fn command(&self) -> Result<Command, Error> {
        let unwritten = Error::unwritten(&self.folder);
        let log = File::create(self.log()).map_err(&unwritten)?;
        let mut command = Command::new(MAKE);
        command.arg("-C").arg(&self.headers.folder).arg(assignment("M=", &self.folder));
        if self.headers.is_of_clang() {
            command.arg("LLVM=1");
        }
        // The module needs no BTF, and what makes it (pahole) is often not installed.
        command.args(["CONFIG_DEBUG_INFO_BTF_MODULES=", "modules"]).env("LC_ALL", "C");
        for variable in OF_MAKE {
            command.env_remove(variable);
        }
        command.stdin(Stdio::null()).stdout(log.try_clone().map_err(&unwritten)?).stderr(log);
        Ok(command)
    }

    /// The log of the build.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.folder.join(LOG)
    }

    /// Returns the module after the command has ended, and whether it succeeded.
    ///
    /// # Errors
    /// [`Error::NoTool`] if a compiler is missing, [`Error::Make`] if there is no module for another reason; the log is
    /// then at `log_kept`, if that can be written.
    pub fn module(&self, succeeded: bool, log_kept: &Path) -> Result<PathBuf, Error> {
        let module = self.folder.join(MODULE);
        if succeeded && module.is_file() {
            return Ok(module);
        }
        let messages = fs::read(self.log()).unwrap_or_default();
        let messages = String::from_utf8_lossy(&messages);
        if let Some(tool) = missing(&messages) {
            return Err(Error::NoTool(tool.to_owned()));
        }
        let why = if succeeded { format!("make built no {MODULE}") } else { first_error(&messages) };
        let log = if fs::copy(self.log(), log_kept).is_ok() { log_kept.to_owned() } else { self.log() };
        Err(Error::Make { why, log })
    }
}

fn assignment(name: &str, value: &Path) -> OsString {
    let mut word = OsString::from(name);
    word.push(value);
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of headers whose makefile has this recipe for `modules`.
    fn headers(recipe: &str, configuration: &str) -> (tempfile::TempDir, KernelHeaders) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("Makefile"), format!("modules:\n\t{recipe}\n")).unwrap();
        fs::create_dir_all(folder.path().join("include/config")).unwrap();
        fs::write(folder.path().join("include/config/auto.conf"), configuration).unwrap();
        let headers = KernelHeaders::named(folder.path()).unwrap();
        (folder, headers)
    }

    /// What a build with this recipe ends with, and the log that was kept.
    fn built(recipe: &str) -> (Result<String, Error>, Option<String>) {
        let (_headers, headers) = headers(recipe, "");
        let folder = tempfile::tempdir().unwrap();
        let kept = folder.path().join("kept.log");
        let build = ModuleBuild::prepare(&ModuleSources::Ours, headers, folder.path()).unwrap();
        let status = build.command().unwrap().status().unwrap();
        let module = build.module(status.success(), &kept).map(|module| fs::read_to_string(module).unwrap());
        (module, fs::read_to_string(kept).ok())
    }

    #[test]
    fn the_kernel_s_makefile_gets_the_folder_with_our_sources() {
        let (module, log) = built("@test -f $(M)/Kbuild && echo $(LLVM) > $(M)/rampart.ko");
        assert_eq!((module.unwrap().as_str(), log), ("\n", None));
    }

    /// A variable that a makefile only asks for by `ifdef` is switched off by an empty one of the command line.
    #[test]
    fn nothing_is_built_that_the_module_does_not_need() {
        let (module, _) = built("@echo '$(origin CONFIG_DEBUG_INFO_BTF_MODULES)' > $(M)/rampart.ko");
        assert_eq!(module.unwrap(), "command line\n");
    }

    #[test]
    fn a_kernel_that_clang_built_gets_a_module_of_clang() {
        let (_headers, headers) = headers("", "CONFIG_CC_IS_CLANG=y\n");
        let folder = tempfile::tempdir().unwrap();
        let build = ModuleBuild::prepare(&ModuleSources::Ours, headers, folder.path()).unwrap();
        let command = build.command().unwrap();
        assert!(command.get_args().any(|word| word == "LLVM=1"), "{command:?}");
    }

    #[test]
    fn a_make_around_this_process_does_not_change_the_build() {
        let (_headers, headers) = headers("", "");
        let folder = tempfile::tempdir().unwrap();
        let build = ModuleBuild::prepare(&ModuleSources::Ours, headers, folder.path()).unwrap();
        let command = build.command().unwrap();
        let removed: Vec<_> = command.get_envs().filter(|(_, value)| value.is_none()).map(|(name, _)| name).collect();
        assert!(OF_MAKE.iter().all(|name| removed.contains(&name.as_ref())), "{removed:?}");
    }

    #[test]
    fn a_compiler_that_is_missing_is_named() {
        let (module, _) = built("no-such-gcc -c main.c");
        let why = module.unwrap_err().to_string();
        assert!(why.starts_with("the kernel's build needs \"no-such-gcc\", which is not here: install "), "{why}");
    }

    #[test]
    fn a_build_that_fails_leaves_its_log_and_says_its_first_error() {
        let (module, log) = built("@echo 'a.c:1: error: no'; echo more; false");
        let why = module.unwrap_err().to_string();
        assert!(why.starts_with("the module cannot be built: a.c:1: error: no; the whole log is in "), "{why}");
        assert!(why.ends_with("kept.log"), "{why}");
        assert!(log.unwrap().contains("more\n"));
    }

    #[test]
    fn a_build_without_a_module_is_no_success() {
        let (module, _) = built("@true");
        let why = module.unwrap_err().to_string();
        assert!(why.starts_with("the module cannot be built: make built no rampart.ko; "), "{why}");
    }
}
