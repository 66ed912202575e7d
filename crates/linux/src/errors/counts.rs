//! The kernel's counts of memory errors (EDAC) at one moment, to compare before and after a test.
//!
//! Sysfs needs no daemon and no privilege; the label has the driver's knowledge of the DIMM.
//!
//! The counts of DIMMs (or ranks) are read and those of `csrow*` are not: an error is counted once for the controller
//! and once either for a DIMM or for none, and the rows of chips show the counts of the DIMMs again
//! (`edac_inc_ce_error` in drivers/edac/edac_mc.c).
//!
//! Source: Linux, Documentation/admin-guide/RAS/main.rst and Documentation/ABI/testing/sysfs-devices-edac.

use std::path::Path;

use rampart_memory::Bytes;
use serde::Serialize;

use crate::memory_state::MemInfo;
use crate::roots::{number, numbered, text};
use crate::{Absence, Roots};

/// All counts at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorCounts {
    /// By memory controller, or why nobody counts.
    pub controllers: Result<Vec<Controller>, Absence>,
    /// Memory that the kernel retired since boot; `None` on a kernel that cannot retire.
    pub hardware_corrupted: Option<Bytes>,
}

/// A count of errors, since the driver was loaded or the count last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ErrorCount {
    /// Corrected.
    pub corrected: u64,
    /// Detected and not corrected.
    pub uncorrected: u64,
}

/// A memory controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Controller {
    /// The kernel's number.
    pub number: u32,
    /// The driver's name for it; empty without one.
    pub name: String,
    /// All errors, those of no known DIMM included.
    pub errors: ErrorCount,
    /// The errors of no known DIMM.
    pub unplaced: ErrorCount,
    /// Its DIMMs.
    pub dimms: Vec<DimmCounts>,
}

/// A DIMM, or a rank if the controller does not distinguish DIMMs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DimmCounts {
    /// The board's label, such as `CPU_SrcID#0_MC#0_Chan#0_DIMM#0`.
    pub label: String,
    /// Its errors.
    pub errors: ErrorCount,
}

impl ErrorCounts {
    /// Reads all counts; missing features are part of the answer.
    #[must_use]
    pub fn read(roots: &Roots) -> Self {
        let meminfo = text(&roots.proc("meminfo")).ok().and_then(|text| MemInfo::parse(&text));
        Self { controllers: controllers(roots), hardware_corrupted: meminfo.and_then(|info| info.hardware_corrupted) }
    }

    /// The sum over all controllers; `None` if nobody counts.
    #[must_use]
    pub fn total(&self) -> Option<ErrorCount> {
        let controllers = self.controllers.as_ref().ok()?;
        Some(controllers.iter().fold(ErrorCount::default(), |sum, controller| ErrorCount {
            corrected: sum.corrected.saturating_add(controller.errors.corrected),
            uncorrected: sum.uncorrected.saturating_add(controller.errors.uncorrected),
        }))
    }
}

/// The controllers, or why there is none.
pub(crate) fn controllers(roots: &Roots) -> Result<Vec<Controller>, Absence> {
    let found: Vec<_> =
        numbered(&roots.sys("devices/system/edac/mc"), "mc").iter().map(|(n, folder)| controller(*n, folder)).collect();
    if found.is_empty() {
        return Err(Absence::new(
            "no memory controller of this machine reports errors (EDAC)",
            "load the EDAC driver of its memory controller; there is none without ECC, nor in most virtual machines",
        ));
    }
    Ok(found)
}

fn controller(number: u32, folder: &Path) -> Controller {
    let named = |prefix| numbered(folder, prefix).into_iter().map(|(n, folder)| dimm(prefix, n, &folder));
    Controller {
        number,
        name: line(&folder.join("mc_name")).unwrap_or_default(),
        errors: errors(folder, "ce_count", "ue_count"),
        unplaced: errors(folder, "ce_noinfo_count", "ue_noinfo_count"),
        dimms: named("dimm").chain(named("rank")).collect(),
    }
}

fn dimm(prefix: &str, number: u32, folder: &Path) -> DimmCounts {
    let label = line(&folder.join("dimm_label")).unwrap_or_else(|| format!("{prefix}{number}"));
    DimmCounts { label, errors: errors(folder, "dimm_ce_count", "dimm_ue_count") }
}

fn errors(folder: &Path, corrected: &str, uncorrected: &str) -> ErrorCount {
    let count = |name| number(&folder.join(name)).unwrap_or(0);
    ErrorCount { corrected: count(corrected), uncorrected: count(uncorrected) }
}

/// The text of a file of one line; `None` if there is none.
pub(super) fn line(path: &Path) -> Option<String> {
    let line = text(path).ok()?.trim().to_owned();
    (!line.is_empty()).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn errors_are_counted_by_controller_and_dimm() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::new(folder.path(), folder.path());
        for (name, content) in [
            ("mc0/mc_name", "Skylake Socket#0 IMC#0\n"),
            ("mc0/ce_count", "5\n"),
            ("mc0/ue_count", "1\n"),
            ("mc0/ce_noinfo_count", "1\n"),
            ("mc0/dimm0/dimm_label", "DIMM_A1\n"),
            ("mc0/dimm0/dimm_ce_count", "4\n"),
            ("mc0/dimm0/dimm_ue_count", "1\n"),
            ("mc0/dimm1/dimm_ce_count", "garbage"),
            ("mc1/ce_count", "2\n"),
            ("mc1/rank0/dimm_label", "\n"),
        ] {
            let path = roots.sys("devices/system/edac/mc").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        fs::write(roots.proc("meminfo"), "MemTotal: 8 kB\nMemFree: 8 kB\nHardwareCorrupted: 4 kB\n").unwrap();

        let counts = ErrorCounts::read(&roots);
        assert_eq!(counts.total(), Some(ErrorCount { corrected: 7, uncorrected: 1 }));
        assert_eq!(counts.hardware_corrupted, Some(Bytes::new(4096)));
        let controllers = counts.controllers.unwrap();
        assert_eq!(controllers[0].name, "Skylake Socket#0 IMC#0");
        assert_eq!(controllers[0].unplaced, ErrorCount { corrected: 1, uncorrected: 0 });
        let dimm = |label: &str, corrected, uncorrected| DimmCounts {
            label: label.to_owned(),
            errors: ErrorCount { corrected, uncorrected },
        };
        assert_eq!(controllers[0].dimms, [dimm("DIMM_A1", 4, 1), dimm("dimm1", 0, 0)]);
        assert_eq!(controllers[1].dimms, [dimm("rank0", 0, 0)]);
    }

    #[test]
    fn a_machine_that_counts_no_errors_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let counts = ErrorCounts::read(&Roots::new(folder.path(), folder.path()));
        assert_eq!((counts.total(), counts.hardware_corrupted), (None, None));
        assert!(counts.controllers.unwrap_err().reason.contains("EDAC"));
    }
}
