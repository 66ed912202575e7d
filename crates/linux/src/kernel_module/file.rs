//! A module in a file.

use std::fs;
use std::io;
use std::path::Path;

use super::NAME;

/// The start of an ELF file (elf(5)).
const ELF: &[u8] = b"\x7fELF";

/// The end of a module with a signature (Linux, include/linux/module_signature.h).
const SIGNED: &[u8] = b"~Module signature appended~\n";

/// What a module says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleFile {
    /// The kernel that it was built for, and options that must be the kernel's own.
    pub vermagic: String,
    /// Whether a signature is appended; the kernel alone knows whether it is good.
    pub signed: bool,
}

impl ModuleFile {
    /// Reads a file; `None` if it is not Rampart's module.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        Ok(Self::parse(&fs::read(path)?))
    }

    /// The release of the kernel that it was built for, the first word of its vermagic.
    #[must_use]
    pub fn release(&self) -> &str {
        self.vermagic.split(' ').next().unwrap_or_default()
    }

    /// Reads the content of a file; `None` if it is not Rampart's module. A module says what it is in strings
    /// `key=value`, each ended by a zero byte (its section `.modinfo`).
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let texts = || bytes.strip_prefix(ELF).into_iter().flat_map(|rest| rest.split(|&byte| byte == 0));
        let value = |key: &str| texts().find_map(|text| std::str::from_utf8(text).ok()?.strip_prefix(key));
        (value("name=") == Some(NAME)).then_some(())?;
        let module = Self { vermagic: value("vermagic=")?.to_owned(), signed: bytes.ends_with(SIGNED) };
        // It names a folder, and must not name another one than it seems to.
        let is_release = !module.release().starts_with('.') && !module.release().contains('/');
        (is_release && !module.release().is_empty()).then_some(module)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The parts of a module's file that are looked at.
    pub fn module(name: &str, vermagic: &str) -> Vec<u8> {
        format!("\x7fELF\u{2}\0code\0license=GPL\0depends=\0name={name}\0vermagic={vermagic}\0\0rest").into_bytes()
    }

    #[test]
    fn a_module_says_for_which_kernel_it_was_built() {
        let file = ModuleFile::parse(&module("rampart", "6.1.0-9-amd64 SMP preempt mod_unload ")).unwrap();
        assert_eq!((file.release(), file.signed), ("6.1.0-9-amd64", false));
        assert_eq!(file.vermagic, "6.1.0-9-amd64 SMP preempt mod_unload ");
        let signed = [&module("rampart", "6.1.0-9-amd64 SMP ")[..], SIGNED].concat();
        assert!(ModuleFile::parse(&signed).unwrap().signed);
    }

    #[test]
    fn another_module_and_what_is_no_module_are_none() {
        assert_eq!(ModuleFile::parse(&module("loop", "6.1.0 SMP ")), None);
        assert_eq!(ModuleFile::parse(b"name=rampart\0vermagic=6.1.0 SMP \0"), None);
        assert_eq!(ModuleFile::parse(b"\x7fELF\0name=rampart\0"), None);
        assert_eq!(ModuleFile::parse(b""), None);
        for release in ["", "..", "../../etc", "a/b"] {
            assert_eq!(ModuleFile::parse(&module("rampart", &format!("{release} SMP "))), None, "{release}");
        }
    }
}
