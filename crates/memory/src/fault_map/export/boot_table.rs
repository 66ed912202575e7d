//! The table of memory that the kernel gets at boot.
//!
//! **Problem.** GRUB leaves frames out by splitting the entries of this table, of which the kernel reads 128
//! (`E820_MAX_ENTRIES_ZEROPAGE`). GRUB writes further entries all the same, over the following data, and their memory
//! is lost (seen with GRUB 2.06 and Linux 6.1: 180 MiB left of 512 with 168 entries). **Idea.** Entries are counted
//! before the list is exported. **Why from the running machine.** Firmware has 6 to 40 entries of its own.

use crate::{FRAME_BYTES, FrameRange};

/// The firmware that hands the table to GRUB. It determines how GRUB marks a frame that it leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Firmware {
    /// A gap.
    Bios,
    /// An entry of unusable memory.
    Efi,
}

/// One entry of the table: the bytes from `first` to `last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BootTableEntry {
    /// The physical address of its first byte.
    pub first: u64,
    /// The physical address of its last byte.
    pub last: u64,
    /// Its purpose.
    pub purpose: Purpose,
}

/// The purpose of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The kernel may use it.
    Memory,
    /// Memory that must not be used: frames that GRUB left out at the last boot, under UEFI.
    LeftOut,
    /// Anything else.
    Other,
}

/// The table, as it was at the last boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootTable {
    entries: Vec<BootTableEntry>,
    firmware: Firmware,
    /// The number of unreadable entries.
    unread: usize,
}

impl BootTable {
    /// The number of entries that the kernel reads.
    pub const CAPACITY: usize = 128;

    /// Entries that GRUB may add under a BIOS, for its memory hook.
    const HOOK: usize = 2;

    /// The assumed number of firmware entries if they cannot be read: more than most machines have.
    const ASSUMED: usize = 28;

    /// A table that was read.
    #[must_use]
    pub const fn new(entries: Vec<BootTableEntry>, firmware: Firmware) -> Self {
        Self { entries, firmware, unread: 0 }
    }

    /// An unreadable table: any frame may be memory.
    #[must_use]
    pub fn unread(firmware: Firmware) -> Self {
        let all = BootTableEntry { first: 0, last: u64::MAX, purpose: Purpose::Memory };
        Self { entries: vec![all], firmware, unread: Self::ASSUMED - 1 }
    }

    /// The number of entries once GRUB leaves these ranges out. They ascend and have gaps between them.
    #[must_use]
    pub fn entries_without(&self, ranges: &[FrameRange]) -> usize {
        let split: usize = self.before_grub(ranges).into_iter().map(|entry| self.pieces(entry, ranges)).sum();
        let hook = if self.firmware == Firmware::Bios { Self::HOOK } else { 0 };
        self.unread + split + hook
    }

    /// The table as firmware hands it to GRUB: memory that was left out at the last boot and will be again counts as
    /// memory, merged with its neighbours.
    fn before_grub(&self, ranges: &[FrameRange]) -> Vec<BootTableEntry> {
        let mut table: Vec<BootTableEntry> = Vec::new();
        let mut goes_on = false;
        for &entry in &self.entries {
            let was_split = entry.purpose == Purpose::LeftOut && ranges.iter().any(|range| covers(*range, entry));
            let is_memory = was_split || entry.purpose == Purpose::Memory;
            let before = table.last_mut().filter(|before| {
                let touches = before.last.checked_add(1) == Some(entry.first);
                touches && is_memory && (was_split || goes_on) && before.purpose == Purpose::Memory
            });
            match before {
                Some(before) => before.last = entry.last,
                None if was_split => table.push(BootTableEntry { purpose: Purpose::Memory, ..entry }),
                None => table.push(entry),
            }
            goes_on = was_split;
        }
        table
    }

    /// The number of entries that one entry becomes.
    fn pieces(&self, entry: BootTableEntry, ranges: &[FrameRange]) -> usize {
        if entry.purpose != Purpose::Memory {
            return 1;
        }
        let mut pieces = 0;
        let mut next = Some(entry.first);
        for range in ranges {
            let (first, last) = (range.start().address(), last_byte(*range));
            if first > entry.last || last < entry.first {
                continue;
            }
            pieces += usize::from(next.is_some_and(|next| next < first));
            pieces += usize::from(self.firmware == Firmware::Efi);
            next = last.checked_add(1).filter(|next| *next <= entry.last);
        }
        pieces + usize::from(next.is_some())
    }
}

fn last_byte(range: FrameRange) -> u64 {
    range.last().address() + (FRAME_BYTES - 1)
}

fn covers(range: FrameRange, entry: BootTableEntry) -> bool {
    range.start().address() <= entry.first && entry.last <= last_byte(range)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Frame;

    fn range(first: u64, count: u64) -> FrameRange {
        FrameRange::new(Frame::new(first).unwrap(), count).unwrap()
    }

    fn table(firmware: Firmware) -> BootTable {
        let ram = entry(0x10_0000, 0x1fff_ffff, Purpose::Memory);
        BootTable::new([FIRST_MIB.to_vec(), vec![ram]].concat(), firmware)
    }

    const FIRST_MIB: [BootTableEntry; 2] =
        [entry(0, 0x9_fbff, Purpose::Memory), entry(0x9_fc00, 0xf_ffff, Purpose::Other)];

    const fn entry(first: u64, last: u64, purpose: Purpose) -> BootTableEntry {
        BootTableEntry { first, last, purpose }
    }

    #[test]
    fn under_a_bios_a_range_inside_memory_splits_its_entry() {
        let bios = table(Firmware::Bios);
        let entries = |ranges: &[FrameRange]| bios.entries_without(ranges) - BootTable::HOOK;
        assert_eq!(entries(&[]), 3);
        assert_eq!(entries(&[range(0x200, 1)]), 4);
        assert_eq!(entries(&[range(0x200, 1), range(0x210, 9)]), 5);
        assert_eq!(entries(&[range(0x100, 1), range(0x1_ffff, 1)]), 3, "at either end nothing is split");
        assert_eq!(entries(&[range(0x100, 0x1_ff00)]), 2, "an entry that goes whole");
        assert_eq!(entries(&[range(0xa0, 2), range(0x2_0000, 5)]), 3, "not memory");
        assert_eq!(entries(&[range(0x90, 0x100)]), 3, "across what is not memory");
    }

    #[test]
    fn under_efi_it_leaves_an_entry_of_its_own_too() {
        let efi = table(Firmware::Efi);
        assert_eq!(efi.entries_without(&[]), 3);
        assert_eq!(efi.entries_without(&[range(0x200, 1)]), 5);
        assert_eq!(efi.entries_without(&[range(0x100, 1), range(0x1_ffff, 1)]), 5);
        assert_eq!(efi.entries_without(&[range(0x100, 0x1_ff00)]), 3);
    }

    #[test]
    fn what_the_last_boot_left_out_is_not_counted_twice() {
        let split = [
            entry(0x10_0000, 0x1f_ffff, Purpose::Memory),
            entry(0x20_0000, 0x20_0fff, Purpose::LeftOut),
            entry(0x20_1000, 0x1fff_ffff, Purpose::Memory),
        ];
        let booted = BootTable::new([FIRST_MIB.to_vec(), split.to_vec()].concat(), Firmware::Efi);
        for (ranges, what) in [
            (vec![range(0x200, 1)], "the same frame"),
            (vec![range(0x200, 2)], "its neighbour too"),
            (vec![range(0x1ff, 2), range(0x300, 1)], "and another"),
        ] {
            assert_eq!(booted.entries_without(&ranges), table(Firmware::Efi).entries_without(&ranges), "{what}");
        }
        assert_eq!(booted.entries_without(&[]), 5, "what is no more on the list may be firmware's own");
    }

    #[test]
    fn a_table_that_cannot_be_read_counts_as_a_full_one() {
        let unread = BootTable::unread(Firmware::Bios);
        assert_eq!(unread.entries_without(&[]), BootTable::ASSUMED + BootTable::HOOK);
        assert_eq!(unread.entries_without(&[range(7, 1), range(9, 1)]), BootTable::ASSUMED + BootTable::HOOK + 2);
        let efi = BootTable::unread(Firmware::Efi);
        assert_eq!(efi.entries_without(&[range(7, 1), range(9, 1)]), BootTable::ASSUMED + 4);
    }
}
