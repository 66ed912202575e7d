//! The table of memory that this machine booted with: `/sys/firmware/memmap`.
//!
//! Source: Linux, Documentation/ABI/testing/sysfs-firmware-memmap.

use std::path::Path;

use rampart_memory::fault_map::export::{BootTable, BootTableEntry, Firmware, Purpose};

use crate::Roots;
use crate::roots::{numbered, text};

/// The table, or a substitute if the kernel does not show it.
#[must_use]
pub fn boot_table(roots: &Roots) -> BootTable {
    let firmware = if roots.sys("firmware/efi").exists() { Firmware::Efi } else { Firmware::Bios };
    let entries: Option<Vec<BootTableEntry>> =
        numbered(&roots.sys("firmware/memmap"), "").iter().map(|(_, folder)| entry(folder)).collect();
    match entries {
        Some(entries) if !entries.is_empty() => BootTable::new(entries, firmware),
        _ => BootTable::unread(firmware),
    }
}

fn entry(folder: &Path) -> Option<BootTableEntry> {
    let address = |name| u64::from_str_radix(text(&folder.join(name)).ok()?.trim().strip_prefix("0x")?, 16).ok();
    // The names are those of `e820_type_to_string` in Linux' arch/x86/kernel/e820.c.
    let purpose = match text(&folder.join("type")).ok()?.trim() {
        "System RAM" => Purpose::Memory,
        "Unusable memory" => Purpose::LeftOut,
        _ => Purpose::Other,
    };
    Some(BootTableEntry { first: address("start")?, last: address("end")?, purpose })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn machine(entries: &[(&str, &str, &str)]) -> (tempfile::TempDir, Roots) {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::new(folder.path(), folder.path());
        for (number, (start, end, kind)) in entries.iter().enumerate() {
            let entry = roots.sys(format!("firmware/memmap/{number}"));
            fs::create_dir_all(&entry).unwrap();
            for (name, value) in [("start", start), ("end", end), ("type", kind)] {
                fs::write(entry.join(name), format!("{value}\n")).unwrap();
            }
        }
        (folder, roots)
    }

    #[test]
    fn the_table_is_read_entry_by_entry() {
        let (_folder, roots) = machine(&[
            ("0x0", "0x9fbff", "System RAM"),
            ("0xf0000", "0xfffff", "Reserved"),
            ("0xc000000", "0xc000fff", "Unusable memory"),
        ]);
        let ram = BootTableEntry { first: 0, last: 0x9_fbff, purpose: Purpose::Memory };
        let reserved = BootTableEntry { first: 0xf_0000, last: 0xf_ffff, purpose: Purpose::Other };
        let left_out = BootTableEntry { first: 0xc00_0000, last: 0xc00_0fff, purpose: Purpose::LeftOut };
        let entries = vec![ram, reserved, left_out];
        assert_eq!(boot_table(&roots), BootTable::new(entries.clone(), Firmware::Bios));
        fs::create_dir_all(roots.sys("firmware/efi")).unwrap();
        assert_eq!(boot_table(&roots), BootTable::new(entries, Firmware::Efi));
    }

    #[test]
    fn a_table_that_is_not_there_or_garbled_counts_as_unread() {
        let (_folder, roots) = machine(&[]);
        assert_eq!(boot_table(&roots), BootTable::unread(Firmware::Bios));
        let (_folder, roots) = machine(&[("0x0", "end", "System RAM")]);
        assert_eq!(boot_table(&roots), BootTable::unread(Firmware::Bios));
    }
}
