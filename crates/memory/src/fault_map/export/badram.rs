//! GRUB's `badram`.
//!
//! **Problem.** For each region of memory above a block, GRUB 2.06 (`badram_iter` in `grub-core/mmap/mmap.c`) bisects
//! from 0 to 2^64 - 1 for the first address in the region that the mask matches, with `(low + high) / 2`. If the mask
//! also sets bit 63, no such address exists, `low` rises, the sum overflows, and GRUB never ends: the machine does not
//! boot. **Idea.** Masks leave bit 63 out. The search then ends at once at 2^63 or more, where no memory is. **Why one
//! bit is enough.** The search varies the bits that the mask leaves out; with bit 63 alone, every odd number matches.

use super::{BootTable, Emulated, ExportRefusal, Obstacle, WORD_BYTES, low_frames, real_ranges};
use crate::fault_map::FaultMap;
use crate::{FRAME_BYTES, FrameRange};

/// The bits that a mask may set.
const MASK_BITS: u64 = u64::MAX >> 1;

/// GRUB's `badram`: bad frames as pairs of an address and a mask. An address is bad if it agrees with the pair's
/// address in all bits of the mask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRam {
    ranges: Vec<FrameRange>,
    pairs: Vec<AddressMask>,
}

/// A block of memory, aligned to its size, which is a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressMask {
    /// The physical address of its first byte.
    pub address: u64,
    /// The bits that an address in the block shares with it: all above the block's size, up to bit 62.
    pub mask: u64,
}

impl BadRam {
    /// Exactly the bad frames, in the fewest aligned blocks. Each block starts at a bad frame, and so in memory: GRUB
    /// drops a pair whose address is in no firmware entry. For the same reason there is no coarser form.
    ///
    /// # Errors
    /// If the map holds emulated errors.
    pub fn new(map: &FaultMap) -> Result<Self, Emulated> {
        let ranges = real_ranges(map)?;
        let pairs = ranges.iter().flat_map(|range| blocks(*range)).collect();
        Ok(Self { ranges, pairs })
    }

    /// The pairs, ascending.
    #[must_use]
    pub fn pairs(&self) -> &[AddressMask] {
        &self.pairs
    }

    /// The line of `/etc/default/grub`: without blanks, because GRUB takes one argument. Empty without bad frames. GRUB
    /// refuses the command under Secure Boot.
    #[must_use]
    pub fn grub_default(&self) -> String {
        if self.pairs.is_empty() {
            return String::new();
        }
        format!("GRUB_BADRAM=\"{}\"", self.word())
    }

    /// Checks that GRUB reads the whole list, and the kernel all entries that GRUB makes of it, on a machine that boots
    /// with this table.
    ///
    /// # Errors
    /// [`ExportRefusal::Word`] or [`ExportRefusal::Table`].
    pub fn check(&self, table: &BootTable) -> Result<(), ExportRefusal> {
        let (ranges, pairs, bytes) = (self.ranges.len(), self.pairs.len(), self.word().len());
        let entries = table.entries_without(&self.ranges);
        if ranges > 0 && entries > BootTable::CAPACITY {
            return Err(ExportRefusal::Table { ranges, entries });
        }
        if bytes > WORD_BYTES {
            let frames = self.ranges.iter().map(|range| range.count()).sum();
            return Err(ExportRefusal::Word { frames, pairs, bytes });
        }
        Ok(())
    }

    /// The obstacles to this list.
    #[must_use]
    pub fn obstacles(&self) -> Vec<Obstacle> {
        low_frames(&self.ranges).into_iter().collect()
    }

    fn word(&self) -> String {
        let pairs = self.pairs.iter().map(|pair| format!("{:#x},{:#x}", pair.address, pair.mask));
        pairs.collect::<Vec<_>>().join(",")
    }
}

/// A range as the fewest blocks that are aligned to their size: from its start, always the largest that fits.
pub(super) fn blocks(range: FrameRange) -> Vec<AddressMask> {
    let mut blocks = Vec::new();
    let (mut start, end) = (range.start().number(), range.last().number() + 1);
    while start < end {
        let order = start.trailing_zeros().min((end - start).ilog2());
        blocks.push(AddressMask { address: start * FRAME_BYTES, mask: MASK_BITS & !((FRAME_BYTES << order) - 1) });
        start += 1 << order;
    }
    blocks
}

#[cfg(test)]
mod tests;
