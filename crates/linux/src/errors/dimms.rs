//! The names of the DIMMs, as EDAC has them.
//!
//! A DIMM has `dimm_label`, `dimm_location` (such as "channel 0 slot 1") and `size` in MiB, but no address: a driver
//! decodes only the addresses of errors (Linux, Documentation/ABI/testing/sysfs-devices-edac).

use rampart_memory::Bytes;

use super::counts::line;
use crate::Roots;
use crate::roots::{number, numbered};

/// A DIMM, or a rank of one where a driver knows only ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdacDimm {
    /// Its label, as the driver, the firmware or an administrator named it.
    pub label: String,
    /// Its size, if the driver knows it.
    pub size: Option<Bytes>,
}

impl EdacDimm {
    /// All that have a label, in the order of their controllers; ranks of one label are one DIMM. Without a driver,
    /// there are none.
    #[must_use]
    pub fn all(roots: &Roots) -> Vec<Self> {
        let mut dimms: Vec<Self> = Vec::new();
        let controllers = numbered(&roots.sys("devices/system/edac/mc"), "mc");
        let parts = controllers.iter().flat_map(|(_, folder)| {
            ["dimm", "rank"].map(|prefix| numbered(folder, prefix)).into_iter().flatten().map(|(_, folder)| folder)
        });
        for folder in parts {
            let Some(label) = line(&folder.join("dimm_label")) else { continue };
            let label: String = label.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect();
            let mib = number(&folder.join("size"));
            let size = mib.and_then(|mib| mib.checked_mul(1 << 20)).map(Bytes::new);
            match dimms.iter_mut().find(|dimm| dimm.label == label) {
                Some(dimm) => dimm.size = dimm.size.zip(size).and_then(|(one, other)| sum(one, other)),
                None => dimms.push(Self { label, size }),
            }
        }
        dimms
    }
}

fn sum(one: Bytes, other: Bytes) -> Option<Bytes> {
    one.get().checked_add(other.get()).map(Bytes::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn dimms_have_the_labels_and_sizes_of_edac_and_ranks_of_one_label_are_one() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::new(folder.path(), folder.path());
        assert_eq!(EdacDimm::all(&roots), []);
        for (name, content) in [
            ("mc0/dimm0/dimm_label", "CPU_SrcID#0_MC#0_Chan#0_DIMM#0\n"),
            ("mc0/dimm0/size", "8192\n"),
            ("mc0/dimm0/dimm_location", "channel 0 slot 0\n"),
            ("mc0/dimm2/dimm_label", "a\tb\n"),
            ("mc0/dimm3/dimm_label", "\n"),
            ("mc1/rank0/dimm_label", "A1\n"),
            ("mc1/rank0/size", "1024\n"),
            ("mc1/rank1/dimm_label", "A1\n"),
            ("mc1/rank1/size", "1024\n"),
            ("mc1/rank2/dimm_label", "B1\n"),
            ("mc1/rank2/size", "1024\n"),
            ("mc1/rank3/dimm_label", "B1\n"),
            ("mc1/rank3/size", "99999999999999999\n"),
        ] {
            let path = roots.sys("devices/system/edac/mc").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let dimm = |label: &str, mib: Option<u64>| EdacDimm { label: label.to_owned(), size: mib.map(Bytes::from_mib) };
        assert_eq!(
            EdacDimm::all(&roots),
            [
                dimm("CPU_SrcID#0_MC#0_Chan#0_DIMM#0", Some(8192)),
                dimm("a?b", None),
                dimm("A1", Some(2048)),
                dimm("B1", None)
            ]
        );
    }
}
