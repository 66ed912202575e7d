//! The module into the kernel, and out of it.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::geteuid;
use rustix::system::{delete_module, finit_module};

use super::rules::ModuleRules;
use super::{C_NAME, LoadedModule, ModuleFile};
use crate::Roots;
use crate::roots::text;

/// Why the module was not loaded or unloaded. Each message is one line and says what to do.
#[derive(Debug, displaydoc::Display, thiserror::Error)]
pub enum ModuleRefusal {
    /// this kernel cannot load modules (there is no {0}): boot one with CONFIG_MODULES
    NoModules(PathBuf),
    /// loading modules is switched off until the next boot (kernel.modules_disabled is 1): boot, and load it earlier
    SwitchedOff,
    /// only root may load and unload modules: run as root
    NotRoot,
    /// the kernel refuses this even to root: run outside of a container, with CAP_SYS_MODULE
    NotPermitted,
    /// {path} cannot be read: {cause}
    Unread {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        cause: io::Error,
    },
    /// {0} is not Rampart's kernel module: build it by `rampart kernel build`
    NotOurs(PathBuf),
    /// {path} was built for kernel {built_for}, and {running} is running: `rampart kernel build` builds one for it
    OtherKernel {
        /// The file.
        path: PathBuf,
        /// The release that it was built for.
        built_for: String,
        /// The release that runs.
        running: String,
    },
    /// the kernel found {0} not to fit, although it is of its release: `rampart kernel build` builds it anew with the
    /// headers that are installed now
    OtherBuild(PathBuf),
    /// this kernel loads signed modules only ({why}), and {path} has no signature that it trusts: sign it with a key
    /// that is enrolled (`mokutil --import`; DKMS does both), or switch Secure Boot off
    Unsigned {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// the module is in use by {0}: end that first
    InUse(String),
    /// the kernel refused: {0}; its log (`dmesg`) may say more
    Kernel(Errno),
}

/// The release of the running kernel, as `uname -r` prints it; empty where the kernel does not show it.
#[must_use]
pub fn running_release(roots: &Roots) -> String {
    text(&roots.proc("sys/kernel/osrelease")).map(|release| release.trim().to_owned()).unwrap_or_default()
}

/// Loads the module from a file. Whether it is loaded already must be asked before.
///
/// # Errors
/// [`ModuleRefusal`]; nothing was loaded.
pub fn load(roots: &Roots, path: &Path) -> Result<(), ModuleRefusal> {
    let rules = ModuleRules::read(roots);
    admits_modules(roots, &rules)?;
    let unread = |cause| ModuleRefusal::Unread { path: path.to_owned(), cause };
    let module = ModuleFile::read(path).map_err(unread)?.ok_or_else(|| ModuleRefusal::NotOurs(path.to_owned()))?;
    fits(path, &module, &running_release(roots))?;
    if !geteuid().is_root() {
        return Err(ModuleRefusal::NotRoot);
    }
    if rules.signed_only && !module.signed {
        return Err(unsigned(path, &rules));
    }
    let file = File::open(path).map_err(unread)?;
    finit_module(&file, c"", 0).or_else(|errno| refused(errno, path, &rules))
}

/// Unloads the module. Returns whether it was loaded.
///
/// # Errors
/// [`ModuleRefusal`]; it is then still loaded.
pub fn unload(roots: &Roots) -> Result<bool, ModuleRefusal> {
    admits_modules(roots, &ModuleRules::read(roots))?;
    let Some(loaded) = LoadedModule::find(roots) else { return Ok(false) };
    if !geteuid().is_root() {
        return Err(ModuleRefusal::NotRoot);
    }
    // Without this flag the kernel would wait until nobody uses the module (delete_module(2)).
    let without_waiting = libc::O_NONBLOCK;
    match delete_module(C_NAME, without_waiting) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(Errno::AGAIN | Errno::BUSY) => Err(ModuleRefusal::InUse(loaded.users())),
        Err(Errno::PERM) => Err(ModuleRefusal::NotPermitted),
        Err(other) => Err(ModuleRefusal::Kernel(other)),
    }
}

fn admits_modules(roots: &Roots, rules: &ModuleRules) -> Result<(), ModuleRefusal> {
    if !rules.has_modules {
        return Err(ModuleRefusal::NoModules(roots.proc("modules")));
    }
    if rules.switched_off { Err(ModuleRefusal::SwitchedOff) } else { Ok(()) }
}

fn fits(path: &Path, module: &ModuleFile, running: &str) -> Result<(), ModuleRefusal> {
    if module.release() == running {
        return Ok(());
    }
    let (built_for, running) = (module.release().to_owned(), running.to_owned());
    Err(ModuleRefusal::OtherKernel { path: path.to_owned(), built_for, running })
}

fn unsigned(path: &Path, rules: &ModuleRules) -> ModuleRefusal {
    ModuleRefusal::Unsigned { path: path.to_owned(), why: rules.why_signed() }
}

/// What the kernel's error means, for root and with a module of the running release. The errors are those of
/// `load_module` and `module_sig_check`.
fn refused(errno: Errno, path: &Path, rules: &ModuleRules) -> Result<(), ModuleRefusal> {
    Err(match errno {
        // Another process was faster.
        Errno::EXIST => return Ok(()),
        Errno::PERM if rules.signed_only => unsigned(path, rules),
        Errno::PERM => ModuleRefusal::NotPermitted,
        Errno::KEYREJECTED | Errno::NOKEY | Errno::BADMSG | Errno::NOPKG => unsigned(path, rules),
        Errno::NOEXEC => ModuleRefusal::OtherBuild(path.to_owned()),
        Errno::NOSYS => ModuleRefusal::NoModules(PathBuf::from("finit_module")),
        other => ModuleRefusal::Kernel(other),
    })
}

#[cfg(test)]
mod tests {
    use super::super::file::tests::module;
    use super::super::{Lockdown, SecureBoot};
    use super::*;
    use std::fs;

    /// A machine with these files, and with the module for 6.1.0-9.
    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Roots, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let path = folder.path().join("rampart.ko");
        fs::write(&path, module("rampart", "6.1.0-9 SMP preempt ")).unwrap();
        let roots = Roots::new(folder.path(), folder.path());
        (folder, roots, path)
    }

    fn load_refused(files: &[(&str, &str)]) -> String {
        let (_folder, roots, path) = machine(files);
        load(&roots, &path).unwrap_err().to_string()
    }

    const RUNS: (&str, &str) = ("sys/kernel/osrelease", "6.1.0-9\n");
    const MODULES: (&str, &str) = ("modules", "");

    #[test]
    fn a_kernel_without_modules_loads_and_unloads_none() {
        assert!(load_refused(&[RUNS]).starts_with("this kernel cannot load modules (there is no /"));
        let (_folder, roots, _) = machine(&[RUNS]);
        assert!(unload(&roots).unwrap_err().to_string().contains("CONFIG_MODULES"));
        assert!(
            load_refused(&[RUNS, MODULES, ("sys/kernel/modules_disabled", "1\n")]).contains("modules_disabled is 1")
        );
    }

    #[test]
    fn a_module_of_another_kernel_is_refused_before_the_kernel_sees_it() {
        let why = load_refused(&[MODULES, ("sys/kernel/osrelease", "6.12.9\n")]);
        let says = "rampart.ko was built for kernel 6.1.0-9, and 6.12.9 is running: `rampart kernel build` ";
        assert!(why.contains(says) && !why.contains('\n'), "{why}");
    }

    #[test]
    fn what_is_not_our_module_is_refused() {
        let (folder, roots, path) = machine(&[RUNS, MODULES]);
        fs::write(&path, "no module").unwrap();
        assert!(load(&roots, &path).unwrap_err().to_string().contains("is not Rampart's kernel module"));
        let none = folder.path().join("none.ko");
        assert!(load(&roots, &none).unwrap_err().to_string().contains("none.ko cannot be read: No such file"));
    }

    #[test]
    fn an_unsigned_module_is_refused_where_signatures_are_demanded() {
        let locked = ("kernel/security/lockdown", "none [integrity] confidentiality\n");
        let why = load_refused(&[RUNS, MODULES, locked]);
        let expected = if crate::is_root() { "signed modules only (lockdown integrity)" } else { "only root may" };
        assert!(why.contains(expected), "{why}");
    }

    #[test]
    fn unloading_what_is_not_loaded_is_no_failure() {
        let (_folder, roots, _) = machine(&[RUNS, MODULES]);
        assert!(!unload(&roots).unwrap());
    }

    fn rules(signed_only: bool) -> ModuleRules {
        let lockdown = if signed_only { Lockdown::Integrity } else { Lockdown::None };
        ModuleRules { has_modules: true, switched_off: false, signed_only, lockdown, secure_boot: SecureBoot::On }
    }

    #[test]
    fn each_error_of_the_kernel_is_explained_in_one_line() {
        let path = Path::new("rampart.ko");
        let why = |errno, signed_only| refused(errno, path, &rules(signed_only)).unwrap_err().to_string();
        let secure = "signed modules only (lockdown integrity, since Secure Boot is on)";
        for (errno, signed_only, says) in [
            (Errno::PERM, false, "CAP_SYS_MODULE"),
            (Errno::PERM, true, secure),
            (Errno::KEYREJECTED, true, secure),
            (Errno::NOKEY, true, secure),
            (Errno::NOEXEC, false, "headers that are installed now"),
            (Errno::NOSYS, false, "cannot load modules"),
            (Errno::NOMEM, false, "dmesg"),
        ] {
            let why = why(errno, signed_only);
            assert!(why.contains(says) && !why.contains('\n'), "{errno:?}: {why}");
        }
        assert!(refused(Errno::EXIST, path, &rules(false)).is_ok(), "somebody else loaded it");
    }

    #[test]
    fn a_module_fits_the_release_that_it_was_built_for_and_no_other() {
        let module = ModuleFile { vermagic: "6.1.0-9 SMP ".to_owned(), signed: false };
        assert!(fits(Path::new("m"), &module, "6.1.0-9").is_ok());
        assert!(fits(Path::new("m"), &module, "6.1.0-90").is_err() && fits(Path::new("m"), &module, "").is_err());
    }
}
