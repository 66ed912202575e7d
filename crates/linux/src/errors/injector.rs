//! Corrected errors that the firmware injects on request (EINJ).
//!
//! **Problem.** The cost of a corrected error shows only when one comes, once in months. **Idea.** Firmware with an
//! error injection table (ACPI's EINJ) makes one at a given address. **Why this way.** It takes the path of a real one:
//! the controller corrects it, the firmware or the kernel logs it. It is injected into a page of this process, so that
//! it affects nobody else.
//!
//! Source: Linux, Documentation/firmware-guide/acpi/apei/einj.rst; [Ferreira21, III-A and IV-B].

use std::fs;
use std::path::PathBuf;

use rampart_memory::{Bytes, FRAME_BYTES, Frame};

use crate::roots::text;
use crate::{Absence, Block, Error, PageKind, Pagemap, Roots};

/// The type of a corrected memory error (ACPI 6.5, table 18.30).
const CORRECTED: u64 = 0x8;

/// The flag that the address and its mask are valid, and no CPU (`SET_ERROR_TYPE_WITH_ADDRESS`, ACPI 6.5, table 18.31).
const AT_ADDRESS: u64 = 0x2;

/// The kernel's interface for them, below `/sys`.
const FOLDER: &str = "kernel/debug/apei/einj";

/// The requirements of the interface.
const KERNEL: &str = "CONFIG_ACPI_APEI_EINJ, on firmware with EINJ, with the module einj and debugfs mounted";

/// The file that lists the errors that can be injected, one per line.
pub(crate) fn types(roots: &Roots) -> Result<String, Absence> {
    let path = roots.sys(FOLDER).join("available_error_type");
    text(&path).map_err(|cause| Absence::of_file(&path, &cause, KERNEL))
}

/// The page of this process into which errors are injected.
#[derive(Debug)]
pub struct InjectionTarget {
    pagemap: Pagemap,
    block: Block,
}

impl InjectionTarget {
    /// The type of the injected errors, as the firmware numbers them.
    pub const ERROR_TYPE: u64 = CORRECTED;

    /// Claims the page, and injects nothing.
    ///
    /// # Errors
    /// Why this process cannot have one whose address it knows.
    pub fn claim(roots: &Roots) -> Result<Self, Absence> {
        let mut block = Block::claim(Bytes::new(FRAME_BYTES), PageKind::Base).map_err(absence)?;
        // A weak pin is enough: the frame is looked up anew each time.
        let _held = block.pin();
        let pagemap = Pagemap::open(roots).map_err(absence)?;
        let target = Self { pagemap, block };
        target.address()?;
        Ok(target)
    }

    /// Its physical address now.
    ///
    /// # Errors
    /// If this process may not know it.
    pub fn address(&self) -> Result<u64, Absence> {
        let frame = self.block.frame_of(0, &self.pagemap).map_err(absence)?;
        frame.map(Frame::address).ok_or_else(|| {
            Absence::new("this process may not know where its memory is", "run as root, outside of a container")
        })
    }
}

/// Injects corrected errors into a page of its own.
#[derive(Debug)]
pub struct EinjInjector {
    folder: PathBuf,
    target: InjectionTarget,
}

impl EinjInjector {
    /// Checks whether errors can be injected, and injects nothing yet.
    ///
    /// # Errors
    /// Why none can be injected here.
    pub fn open(roots: &Roots) -> Result<Self, Absence> {
        let types = types(roots)?;
        if !types
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .any(|word| hexadecimal(word) == Some(CORRECTED))
        {
            return Err(Absence::new(
                "this firmware makes no corrected memory errors",
                "use a machine whose firmware does",
            ));
        }
        Ok(Self { folder: roots.sys(FOLDER), target: InjectionTarget::claim(roots)? })
    }

    /// Passes the error's parameters to the firmware, which injects nothing yet.
    ///
    /// # Errors
    /// [`Error::Make`] if the kernel or the firmware refuses.
    pub fn prepare(&self) -> Result<(), Error> {
        let address = self.target.address().map_err(Error::Absent)?;
        self.write("error_type", CORRECTED)?;
        self.write("flags", AT_ADDRESS)?;
        self.write("param1", address)?;
        self.write("param2", !(FRAME_BYTES - 1))?;
        self.write("notrigger", 0)
    }

    /// Makes the firmware inject the last prepared error.
    ///
    /// # Errors
    /// [`Error::Make`] if the kernel or the firmware refuses.
    pub fn make(&self) -> Result<(), Error> {
        self.write("error_inject", 1)
    }

    fn write(&self, name: &str, value: u64) -> Result<(), Error> {
        let path = self.folder.join(name);
        fs::write(&path, format!("{value:#x}\n")).map_err(|cause| Error::Make { path, cause })
    }
}

fn absence(error: Error) -> Absence {
    match error {
        Error::Absent(absence) => absence,
        other => Absence::new(other.to_string(), "run as root, outside of a container"),
    }
}

fn hexadecimal(word: &str) -> Option<u64> {
    u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fake firmware with these types; processes are the machine's own affair.
    fn firmware(types: &str) -> (tempfile::TempDir, Roots) {
        let folder = tempfile::tempdir().unwrap();
        let einj = folder.path().join(FOLDER);
        fs::create_dir_all(&einj).unwrap();
        fs::write(einj.join("available_error_type"), types).unwrap();
        let roots = Roots::new("/proc", folder.path());
        (folder, roots)
    }

    #[test]
    fn an_error_is_made_in_a_page_of_this_process() {
        let (_folder, roots) = firmware("0x00000008\tMemory Correctable\n0x00000010\tMemory Uncorrectable non-fatal\n");
        let injector = match EinjInjector::open(&roots) {
            Ok(injector) => injector,
            Err(absence) => {
                assert!(!crate::is_root() && absence.remedy.contains("root"), "{absence}");
                return;
            }
        };
        let read = |name: &str| fs::read_to_string(injector.folder.join(name)).unwrap();
        injector.prepare().unwrap();
        let frame = injector.target.block.frame_of(0, &injector.target.pagemap).unwrap().unwrap();
        let written = ["error_type", "flags", "param1", "param2"].map(|name| hexadecimal(read(name).trim()).unwrap());
        assert_eq!(written, [8, 2, frame.address(), 0xffff_ffff_ffff_f000]);
        assert!(!injector.folder.join("error_inject").exists(), "configuring injects nothing");
        injector.make().unwrap();
        assert_eq!(read("error_inject"), "0x1\n");
    }

    #[test]
    fn firmware_that_makes_no_corrected_errors_is_told_so() {
        let (_folder, roots) = firmware("0x00000010\tMemory Uncorrectable non-fatal\n0x00000080\tPCI Express\n");
        assert!(EinjInjector::open(&roots).unwrap_err().reason.contains("no corrected memory errors"));
    }

    #[test]
    fn a_machine_without_such_firmware_is_told_what_it_lacks() {
        let roots = Roots::new("/proc", "/nowhere");
        assert!(EinjInjector::open(&roots).unwrap_err().remedy.contains("EINJ"));
    }
}
