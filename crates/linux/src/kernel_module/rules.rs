//! What this kernel demands of modules.

use serde::Serialize;

use crate::Roots;
use crate::roots::{number, text};

/// How much the kernel keeps from root (kernel_lockdown(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, displaydoc::Display)]
#[serde(rename_all = "snake_case")]
pub enum Lockdown {
    /// none
    None,
    /// integrity
    Integrity,
    /// confidentiality
    Confidentiality,
    /// unknown
    Unknown,
}

/// Whether the firmware starts signed programs only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, displaydoc::Display)]
#[serde(rename_all = "snake_case")]
pub enum SecureBoot {
    /// on
    On,
    /// off
    Off,
    /// unknown
    Unknown,
}

/// What decides whether this kernel loads a module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModuleRules {
    /// Whether it can load modules at all.
    pub has_modules: bool,
    /// Whether loading was switched off until the next boot.
    pub switched_off: bool,
    /// Whether it loads signed modules only.
    pub signed_only: bool,
    /// Its lockdown.
    pub lockdown: Lockdown,
    /// Secure Boot, the usual reason for a lockdown.
    pub secure_boot: SecureBoot,
}

/// The variable of UEFI (UEFI Specification 2.10, 3.3), after which four bytes of attributes come first.
const SECURE_BOOT: &str = "firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";

impl ModuleRules {
    /// Reads them.
    #[must_use]
    pub fn read(roots: &Roots) -> Self {
        let lockdown = lockdown(roots);
        let enforced = text(&roots.sys("module/module/parameters/sig_enforce")).is_ok_and(|value| value.trim() == "Y");
        Self {
            has_modules: roots.proc("modules").exists(),
            switched_off: number(&roots.proc("sys/kernel/modules_disabled")) == Some(1),
            signed_only: enforced || matches!(lockdown, Lockdown::Integrity | Lockdown::Confidentiality),
            lockdown,
            secure_boot: secure_boot(roots),
        }
    }

    /// Why only signed modules are loaded, in a few words.
    #[must_use]
    pub fn why_signed(&self) -> String {
        let secure = if self.secure_boot == SecureBoot::On { ", since Secure Boot is on" } else { "" };
        match self.lockdown {
            Lockdown::Integrity | Lockdown::Confidentiality => format!("lockdown {}{secure}", self.lockdown),
            Lockdown::None | Lockdown::Unknown => format!("module.sig_enforce=1{secure}"),
        }
    }
}

/// The choice in brackets, as in `none [integrity] confidentiality`. A kernel without the file has no lockdown, or its
/// securityfs is not mounted.
fn lockdown(roots: &Roots) -> Lockdown {
    let chosen = text(&roots.sys("kernel/security/lockdown")).ok();
    let chosen = chosen.as_deref().and_then(|text| text.split_once('[')?.1.split_once(']'));
    match chosen {
        Some(("none", _)) => Lockdown::None,
        Some(("integrity", _)) => Lockdown::Integrity,
        Some(("confidentiality", _)) => Lockdown::Confidentiality,
        _ => Lockdown::Unknown,
    }
}

fn secure_boot(roots: &Roots) -> SecureBoot {
    if !roots.sys("firmware/efi").exists() {
        return SecureBoot::Off;
    }
    match std::fs::read(roots.sys(SECURE_BOOT)).as_deref() {
        Ok([_, _, _, _, 1]) => SecureBoot::On,
        Ok([_, _, _, _, 0]) => SecureBoot::Off,
        _ => SecureBoot::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn rules(files: &[(&str, &[u8])]) -> ModuleRules {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        ModuleRules::read(&Roots::new(folder.path(), folder.path()))
    }

    #[test]
    fn a_kernel_that_shows_nothing_has_no_modules_and_demands_nothing_that_is_known() {
        let rules = rules(&[]);
        assert!(!rules.has_modules && !rules.switched_off && !rules.signed_only, "{rules:?}");
        assert_eq!((rules.lockdown, rules.secure_boot), (Lockdown::Unknown, SecureBoot::Off));
    }

    #[test]
    fn a_lockdown_demands_signatures_and_secure_boot_explains_it() {
        let secure: (&str, &[u8]) = (SECURE_BOOT, &[6, 0, 0, 0, 1]);
        let locked: (&str, &[u8]) = ("kernel/security/lockdown", b"none [integrity] confidentiality\n");
        let both = rules(&[secure, locked, ("modules", b"")]);
        assert!(both.has_modules && both.signed_only, "{both:?}");
        assert_eq!(both.why_signed(), "lockdown integrity, since Secure Boot is on");
        let most = rules(&[("kernel/security/lockdown", b"none integrity [confidentiality]\n")]);
        assert!(most.signed_only && most.lockdown == Lockdown::Confidentiality, "{most:?}");
        let alone = rules(&[secure, ("kernel/security/lockdown", b"[none] integrity confidentiality\n")]);
        assert!(!alone.signed_only && alone.lockdown == Lockdown::None, "the kernel decides, not the firmware");
        assert_eq!((alone.secure_boot, both.secure_boot), (SecureBoot::On, SecureBoot::On));
        assert_eq!(rules(&[(SECURE_BOOT, &[6, 0, 0, 0, 0])]).secure_boot, SecureBoot::Off);
        assert_eq!(rules(&[(SECURE_BOOT, &[6])]).secure_boot, SecureBoot::Unknown);
    }

    #[test]
    fn signatures_may_be_demanded_without_a_lockdown() {
        let enforced = rules(&[("module/module/parameters/sig_enforce", b"Y\n")]);
        assert!(enforced.signed_only, "{enforced:?}");
        assert_eq!(enforced.why_signed(), "module.sig_enforce=1");
        assert!(!rules(&[("module/module/parameters/sig_enforce", b"N\n")]).signed_only);
    }

    #[test]
    fn loading_can_be_switched_off() {
        assert!(rules(&[("sys/kernel/modules_disabled", b"1\n")]).switched_off);
        assert!(!rules(&[("sys/kernel/modules_disabled", b"0\n")]).switched_off);
    }
}
