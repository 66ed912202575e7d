//! Bad frames in the forms that the next boot understands.
//!
//! **Problem.** The kernel forgets its retired frames at the next boot, unless the boot loader or the kernel learns of
//! them before it hands out any memory. Both have their own languages for that, neither checks its input, and a wrong
//! mask or a lost escape silently protects the wrong memory. **Idea.** Each form names exactly the bad frames, never
//! more. A list that its reader cannot hold is refused ([`ExportRefusal`]); other problems are listed ([`Obstacle`]);
//! making the list coarser is a separate step that states its cost. **Why this way.** A list that was widened or cut to
//! fit looks like a right one.
//!
//! Sources: `memmap=` in Linux' `admin-guide/kernel-parameters.txt`, `arch/x86/kernel/e820.c` (the kernel's own table
//! has room for more ranges than its command line) and `arch/x86/boot/compressed/kaslr.c` (four ranges; it notices
//! further ones only if they come in the same argument); `badram` in the GRUB 2 manual, `grub-core/mmap/mmap.c` and
//! `grub-core/loader/i386/linux.c`. `cargo xtask qemu grub` boots with exported lists. Only x86, MIPS and Xtensa
//! kernels know `memmap=`; on other machines, such as aarch64, GRUB's `badram` works where GRUB starts the kernel
//! through EFI.

mod badram;
mod boot_table;
mod memmap;

use serde::{Deserialize, Serialize};

use super::{Cause, FaultMap, MapOrigin, Retirement};
use crate::{FRAME_BYTES, Frame, FrameRange, Timestamp};

pub use badram::{AddressMask, BadRam};
pub use boot_table::{BootTable, BootTableEntry, Firmware, Purpose};
pub use memmap::Memmap;

/// The bytes that the kernel keeps of its command line: `COMMAND_LINE_SIZE` on x86, less the final zero byte.
pub const COMMAND_LINE_BYTES: usize = 2047;

/// The longest word that GRUB 2.06 reads: with one byte more, it stops with "token too large, exceeds YYLMAX".
pub const WORD_BYTES: usize = 8190;

/// The ranges that the kernel avoids when it chooses its load address (`MAX_MEMMAP_REGIONS`).
pub const LOAD_RANGES: usize = 4;

const FIRST_MIB_FRAMES: u64 = (1 << 20) / FRAME_BYTES;

/// these frames were only made to look failed, by emulated errors: nothing is exported
#[derive(Clone, Copy, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub struct Emulated;

/// Why a list is not exported: its reader at the next boot cannot hold it, and would cut it off or not boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum ExportRefusal {
    /// {ranges} ranges of bad frames make a kernel command line of {bytes} bytes, of which the kernel keeps 2047: use
    /// --ranges {fit} (it gives up sound frames between them), or `rampart map restore` early at boot
    CommandLine {
        /// The number of ranges.
        ranges: usize,
        /// The length of the command line with them.
        bytes: usize,
        /// The number of ranges that fit.
        fit: usize,
    },
    /// {ranges} ranges of bad frames make a kernel command line of {bytes} bytes, of which the kernel keeps 2047, and
    /// its other arguments leave no room for any: shorten those, or use `rampart map restore` early at boot
    NoRoom {
        /// The number of ranges.
        ranges: usize,
        /// The length of the command line with them.
        bytes: usize,
    },
    /// {ranges} ranges of bad frames make {entries} entries in the table of memory that GRUB hands to the kernel, which
    /// holds 128: use --format memmap with --ranges, or `rampart map restore` early at boot
    Table {
        /// The number of ranges.
        ranges: usize,
        /// The number of entries.
        entries: usize,
    },
    /// {frames} bad frames make {pairs} pairs of address and mask, a word of {bytes} bytes, and GRUB reads 8190: use
    /// --format memmap with --ranges, or `rampart map restore` early at boot
    Word {
        /// The number of frames.
        frames: u64,
        /// The number of pairs.
        pairs: usize,
        /// The length of the list of pairs.
        bytes: usize,
    },
}

/// Why a list may not protect all frames that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, displaydoc::Display)]
pub enum Obstacle {
    /// with more than 4 ranges ({0} here) the kernel loads itself at its default address, failed or not
    LoadAddress(usize),
    /// {0} failed frames lie below 1 MiB, where firmware and boot loader work before any list is read
    FirstMib(u64),
}

/// The bad frames as data for other programs. Whole numbers stay below 2^53, so that every reader of JSON keeps them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// The version of this schema: [`Document::SCHEMA`].
    pub schema: u32,
    /// Bytes in a frame.
    pub frame_bytes: u64,
    /// The failed frames as the fewest ranges, ascending.
    pub ranges: Vec<DocumentRange>,
    /// The failed frames, ascending.
    pub frames: Vec<DocumentFrame>,
}

/// Failed frames in a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentRange {
    /// The first frame's number.
    pub first_frame: Frame,
    /// The number of frames.
    pub frames: u64,
    /// The physical address of the first byte, in hexadecimal with 0x.
    pub address: String,
}

/// A failed frame, without its evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentFrame {
    /// Its number.
    pub frame: Frame,
    /// The physical address of its first byte, in hexadecimal with 0x.
    pub address: String,
    /// The lines that failed, 0 to 63, ascending.
    pub lines: Vec<u8>,
    /// The first cause.
    pub cause: Cause,
    /// When it first failed, in microseconds since 1970-01-01 00:00 UTC.
    pub first_seen: Timestamp,
    /// When it last failed.
    pub last_seen: Timestamp,
    /// The number of mismatches seen in it.
    pub mismatches: u64,
    /// The result of its retirement.
    pub retirement: Retirement,
}

impl Document {
    /// The version of the schema: it grows when a key changes its meaning or goes away, not when one is added.
    pub const SCHEMA: u32 = 1;

    /// All failed frames.
    ///
    /// # Errors
    /// If the map holds emulated errors.
    pub fn new(map: &FaultMap) -> Result<Self, Emulated> {
        let ranges = real_ranges(map)?.into_iter().map(|range| DocumentRange {
            first_frame: range.start(),
            frames: range.count(),
            address: format!("{:#x}", range.start().address()),
        });
        let frames = map.iter().map(|failed| DocumentFrame {
            frame: failed.frame,
            address: format!("{:#x}", failed.frame.address()),
            lines: (0..64_u8).filter(|line| failed.lines >> line & 1 == 1).collect(),
            cause: failed.cause,
            first_seen: failed.first_seen,
            last_seen: failed.last_seen,
            mismatches: failed.mismatches,
            retirement: failed.retirement.clone(),
        });
        Ok(Self { schema: Self::SCHEMA, frame_bytes: FRAME_BYTES, ranges: ranges.collect(), frames: frames.collect() })
    }
}

fn real_ranges(map: &FaultMap) -> Result<Vec<FrameRange>, Emulated> {
    match map.origin() {
        MapOrigin::Real => Ok(map.ranges()),
        MapOrigin::Emulated => Err(Emulated),
    }
}

/// Reports frames so low that no list is read in time for them.
fn low_frames(ranges: &[FrameRange]) -> Option<Obstacle> {
    let low = ranges.iter().map(|range| {
        let end = (range.last().number() + 1).min(FIRST_MIB_FRAMES);
        end.saturating_sub(range.start().number())
    });
    Some(low.sum()).filter(|low| *low > 0).map(Obstacle::FirstMib)
}

#[cfg(test)]
mod tests;
