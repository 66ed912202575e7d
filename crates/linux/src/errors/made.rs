//! Corrected errors that the firmware makes when it is asked to.
//!
//! **Problem.** What a corrected error takes from a machine's CPUs is seen only when one comes, which is once in
//! months. **Idea.** Firmware with an error injection table (ACPI's EINJ) makes one in the memory that it is told of.
//! **Why this way.** It goes the way of a real one: the controller corrects it, the firmware or the kernel logs it. It
//! is made in a page of this process, so that what goes wrong hits nobody else.
//!
//! Source: Linux, Documentation/firmware-guide/acpi/apei/einj.rst; [Ferreira21, III-A and IV-B].

use std::fs;
use std::path::PathBuf;

use rampart_memory::{Bytes, FRAME_BYTES, Frame};

use crate::roots::text;
use crate::{Absence, Block, Error, PageKind, Pagemap, Roots};

/// The type of a corrected memory error (ACPI 6.5, table 18.30).
const CORRECTED: u64 = 0x8;

/// That the address and its mask are meant, and no CPU (`SET_ERROR_TYPE_WITH_ADDRESS`, ACPI 6.5, table 18.31).
const AT_ADDRESS: u64 = 0x2;

/// Where they are asked for, below `/sys`.
const FOLDER: &str = "kernel/debug/apei/einj";

/// A machine that can be asked for them lacks nothing of this.
const KERNEL: &str = "CONFIG_ACPI_APEI_EINJ, on firmware with EINJ, with the module einj and debugfs mounted";

/// The file that lists what errors can be made, one a line.
pub(crate) fn types(roots: &Roots) -> Result<String, Absence> {
    let path = roots.sys(FOLDER).join("available_error_type");
    text(&path).map_err(|cause| Absence::of_file(&path, &cause, KERNEL))
}

/// Makes corrected errors in a page of its own.
#[derive(Debug)]
pub struct EinjInjector {
    folder: PathBuf,
    pagemap: Pagemap,
    block: Block,
}

impl EinjInjector {
    /// Finds out whether errors can be made, and makes nothing yet.
    ///
    /// # Errors
    /// Why none can be made here.
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
        let mut block = Block::claim(Bytes::new(FRAME_BYTES), PageKind::Base).map_err(absence)?;
        // How well does not matter: its frame is asked for anew each time.
        let _held = block.pin();
        let pagemap = Pagemap::open(roots).map_err(absence)?;
        let maker = Self { folder: roots.sys(FOLDER), pagemap, block };
        maker.address().map_err(absence)?;
        Ok(maker)
    }

    /// Tells the firmware what to make, which by itself makes nothing.
    ///
    /// # Errors
    /// [`Error::Make`] if the kernel or the firmware refuses.
    pub fn prepare(&self) -> Result<(), Error> {
        let address = self.address()?;
        self.write("error_type", CORRECTED)?;
        self.write("flags", AT_ADDRESS)?;
        self.write("param1", address)?;
        self.write("param2", !(FRAME_BYTES - 1))?;
        self.write("notrigger", 0)
    }

    /// Has the firmware make what it was told of last.
    ///
    /// # Errors
    /// [`Error::Make`] if the kernel or the firmware refuses.
    pub fn make(&self) -> Result<(), Error> {
        self.write("error_inject", 1)
    }

    /// Where errors are made, as the hardware counts.
    fn address(&self) -> Result<u64, Error> {
        let frame = self.block.frame_of(0, &self.pagemap)?;
        frame.map(Frame::address).ok_or_else(|| {
            Error::Absent(Absence::new(
                "this process may not know where its memory is",
                "run as root, outside of a container",
            ))
        })
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

    /// A firmware that makes these; what processes are is the machine's own affair.
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
        let maker = match EinjInjector::open(&roots) {
            Ok(maker) => maker,
            Err(absence) => {
                assert!(!crate::is_root() && absence.remedy.contains("root"), "{absence}");
                return;
            }
        };
        let read = |name: &str| fs::read_to_string(maker.folder.join(name)).unwrap();
        maker.prepare().unwrap();
        let frame = maker.block.frame_of(0, &maker.pagemap).unwrap().unwrap();
        let told = ["error_type", "flags", "param1", "param2"].map(|name| hexadecimal(read(name).trim()).unwrap());
        assert_eq!(told, [8, 2, frame.address(), 0xffff_ffff_ffff_f000]);
        assert!(!maker.folder.join("error_inject").exists(), "to be told makes nothing");
        maker.make().unwrap();
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
