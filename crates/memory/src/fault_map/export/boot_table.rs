//! The table of memory that the kernel is given at boot.
//!
//! **Problem.** GRUB leaves frames out by splitting the entries of this table, and the kernel reads 128 of them
//! (`E820_MAX_ENTRIES_ZEROPAGE`). GRUB writes further ones all the same, over what follows, and the memory that they
//! name is lost (seen with GRUB 2.06 and Linux 6.1: 180 MiB left of 512 with 168 entries). **Idea.** The entries are
//! counted before the list is exported. **Why from the running machine.** Firmware has from 6 to 40 entries of its own.

use crate::{FRAME_BYTES, FrameRange};

/// Who hands the table to GRUB. It decides what GRUB puts in the place of a frame that it leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Firmware {
    /// A gap.
    Bios,
    /// An entry of unusable memory.
    Efi,
}

/// One entry of the table: the bytes from `first` to `last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The physical address of its first byte.
    pub first: u64,
    /// The physical address of its last byte.
    pub last: u64,
    /// Whether the kernel may use it.
    pub usable: bool,
}

/// The table, as it was at the last boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootTable {
    entries: Vec<Entry>,
    firmware: Firmware,
    /// Entries that nobody could read.
    unread: usize,
}

impl BootTable {
    /// How many entries the kernel reads.
    pub const CAPACITY: usize = 128;

    /// What GRUB may add of its own under a BIOS, for its memory hook.
    const HOOK: usize = 2;

    /// Entries of firmware where they cannot be read: more than most machines have.
    const ASSUMED: usize = 28;

    /// A table that was read.
    #[must_use]
    pub const fn new(entries: Vec<Entry>, firmware: Firmware) -> Self {
        Self { entries, firmware, unread: 0 }
    }

    /// A table that cannot be read: any frame may be memory.
    #[must_use]
    pub fn unread(firmware: Firmware) -> Self {
        let all = Entry { first: 0, last: u64::MAX, usable: true };
        Self { entries: vec![all], firmware, unread: Self::ASSUMED - 1 }
    }

    /// How many entries it has once GRUB leaves these ranges out. They ascend and have gaps between them.
    #[must_use]
    pub fn entries_without(&self, ranges: &[FrameRange]) -> usize {
        let split: usize = self.entries.iter().map(|entry| self.pieces(*entry, ranges)).sum();
        let hook = if self.firmware == Firmware::Bios { Self::HOOK } else { 0 };
        self.unread + split + hook
    }

    /// What becomes of one entry.
    fn pieces(&self, entry: Entry, ranges: &[FrameRange]) -> usize {
        if !entry.usable {
            return 1;
        }
        let mut pieces = 0;
        let mut next = Some(entry.first);
        for range in ranges {
            let first = range.start().address();
            let last = range.last().address() + (FRAME_BYTES - 1);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Frame;

    fn range(first: u64, count: u64) -> FrameRange {
        FrameRange::new(Frame::new(first).unwrap(), count).unwrap()
    }

    fn table(firmware: Firmware) -> BootTable {
        let entry = |first, last, usable| Entry { first, last, usable };
        let entries =
            vec![entry(0, 0x9_fbff, true), entry(0x9_fc00, 0xf_ffff, false), entry(0x10_0000, 0x1fff_ffff, true)];
        BootTable::new(entries, firmware)
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
    fn a_table_that_cannot_be_read_counts_as_a_full_one() {
        let unread = BootTable::unread(Firmware::Bios);
        assert_eq!(unread.entries_without(&[]), BootTable::ASSUMED + BootTable::HOOK);
        assert_eq!(unread.entries_without(&[range(7, 1), range(9, 1)]), BootTable::ASSUMED + BootTable::HOOK + 2);
        let efi = BootTable::unread(Firmware::Efi);
        assert_eq!(efi.entries_without(&[range(7, 1), range(9, 1)]), BootTable::ASSUMED + 4);
    }
}
