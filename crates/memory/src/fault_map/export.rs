//! Failed frames in the forms that the next boot understands.
//!
//! **Problem.** What the kernel retired at run time is forgotten at the next boot, unless the boot loader or the kernel
//! is told before any memory is given out. Both have languages of their own for that, neither checks what it is told,
//! and a wrong mask or a lost escape protects the wrong memory in silence. **Idea.** Each form says exactly the failed
//! frames, never more, and lists what stands in its way ([`Obstacle`]); making the list coarser is a step of its own
//! that says what it costs. **Why this way.** A list that was widened or cut to fit cannot be told from a right one by
//! looking.
//!
//! Sources: `memmap=` in Linux' `admin-guide/kernel-parameters.txt`, `arch/x86/kernel/e820.c` (a table of fixed size;
//! entries that do not fit are ignored with a message) and `arch/x86/boot/compressed/kaslr.c` (four ranges, and only if
//! further ones come in the same argument does it notice them); `badram` in the GRUB 2 manual and
//! `grub-core/mmap/mmap.c`. Only x86, MIPS and Xtensa kernels know `memmap=`; on other machines, aarch64 among them,
//! GRUB's `badram` works where GRUB starts the kernel through EFI.

use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

use super::{Cause, FaultMap, Origin, Retirement};
use crate::{FRAME_BYTES, Frame, FrameRange, Timestamp};

/// How many bytes the kernel keeps of its command line: `COMMAND_LINE_SIZE` on x86, less the final zero byte.
pub const COMMAND_LINE_BYTES: usize = 2047;

/// How many ranges fit the table of memory that GRUB and the kernel fill, beside 28 entries of firmware: it has 128
/// entries (`E820_MAX_ENTRIES_ZEROPAGE`), and a range inside memory adds two.
pub const TABLE_RANGES: usize = 50;

/// How many ranges the kernel avoids when it chooses where to load itself (`MAX_MEMMAP_REGIONS`).
pub const LOAD_RANGES: usize = 4;

const FIRST_MIB_FRAMES: u64 = (1 << 20) / FRAME_BYTES;

/// these frames were only made to look failed, by emulated errors: nothing is exported
#[derive(Clone, Copy, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub struct Emulated;

/// Why a list may not protect all that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, displaydoc::Display)]
pub enum Obstacle {
    /// the kernel keeps 2047 bytes of its command line and this makes {0}: the rest is cut off; use a coarser list
    CommandLine(usize),
    /// {0} ranges may overflow the boot-time table of memory, which takes 50: what does not fit is ignored
    Table(usize),
    /// with more than 4 ranges ({0} here) the kernel loads itself at its default address, failed or not
    LoadAddress(usize),
    /// {0} failed frames lie below 1 MiB, where firmware and boot loader work before any list is read
    FirstMib(u64),
}

/// A `memmap=` argument of the kernel: failed frames as reserved ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memmap {
    ranges: Vec<FrameRange>,
    sound_frames: u64,
}

impl Memmap {
    /// Exactly the failed frames, in the fewest ranges.
    ///
    /// # Errors
    /// If the map holds emulated errors.
    pub fn new(map: &FaultMap) -> Result<Self, Emulated> {
        Ok(Self { ranges: real_ranges(map)?, sound_frames: 0 })
    }

    /// At most so many ranges, closing the smallest gaps: no other way gives up fewer sound frames.
    #[must_use]
    pub fn coarser(&self, most: NonZeroUsize) -> Self {
        let mut gaps: Vec<(u64, usize)> =
            self.ranges.windows(2).zip(1..).map(|(pair, right)| (gap(pair[0], pair[1]), right)).collect();
        gaps.sort_unstable();
        gaps.truncate(self.ranges.len().saturating_sub(most.get()));
        let mut closed: Vec<usize> = gaps.iter().map(|(_, right)| *right).collect();
        closed.sort_unstable();
        let mut ranges: Vec<FrameRange> = Vec::new();
        for (place, range) in self.ranges.iter().enumerate() {
            match ranges.last_mut() {
                Some(left) if closed.binary_search(&place).is_ok() => *left = span(*left, *range),
                _ => ranges.push(*range),
            }
        }
        Self { ranges, sound_frames: self.sound_frames + gaps.iter().map(|(frames, _)| frames).sum::<u64>() }
    }

    /// The ranges, ascending.
    #[must_use]
    pub fn ranges(&self) -> &[FrameRange] {
        &self.ranges
    }

    /// How many frames that did not fail are given up with the failed ones: 0 unless the list was made coarser.
    #[must_use]
    pub const fn sound_frames(&self) -> u64 {
        self.sound_frames
    }

    /// The argument as the kernel must see it, for a boot loader that changes nothing:
    /// `memmap=4K$0x18690000,64K$0x2000000`. One argument for all ranges, since of several the kernel heeds only four
    /// when it loads itself. Empty if no frame failed.
    #[must_use]
    pub fn kernel_argument(&self) -> String {
        self.argument("$")
    }

    /// A line to append to `/etc/default/grub`, for `grub-mkconfig` or `update-grub` to read. The shell takes a
    /// backslash from `\\` and from `\$`, GRUB's own shell another from `\$`, and the kernel sees `$`. Empty if no
    /// frame failed.
    ///
    /// This holds where `grub-mkconfig` writes the kernel's arguments into `grub.cfg`. Systems with boot loader
    /// specification entries (Fedora, RHEL) keep them elsewhere: there, check `/proc/cmdline` after a boot.
    #[must_use]
    pub fn grub_default(&self) -> String {
        if self.ranges.is_empty() {
            return String::new();
        }
        format!("GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX {}\"", self.argument(r"\\\$"))
    }

    /// What stands in the way, if the rest of the command line has so many bytes.
    #[must_use]
    pub fn obstacles(&self, other_bytes: usize) -> Vec<Obstacle> {
        let bytes = other_bytes.saturating_add(1).saturating_add(self.kernel_argument().len());
        let cut = (!self.ranges.is_empty() && bytes > COMMAND_LINE_BYTES).then_some(Obstacle::CommandLine(bytes));
        let loads = (self.ranges.len() > LOAD_RANGES).then_some(Obstacle::LoadAddress(self.ranges.len()));
        cut.into_iter().chain(loads).chain(table_obstacles(&self.ranges)).collect()
    }

    fn argument(&self, at: &str) -> String {
        if self.ranges.is_empty() {
            return String::new();
        }
        let items = self.ranges.iter().map(|range| format!("{}{at}{:#x}", size(*range), range.start().address()));
        format!("memmap={}", items.collect::<Vec<_>>().join(","))
    }
}

/// GRUB's `badram`: failed frames as pairs of an address and a mask. An address is bad if all its bits that are set in
/// the mask are those of the pair's address.
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
    /// The bits that an address in the block shares with it: all above the block's size, to bit 63.
    pub mask: u64,
}

impl BadRam {
    /// Exactly the failed frames, in the fewest aligned blocks. Each block starts at a failed frame, thus in memory:
    /// GRUB drops a pair whose address no firmware entry holds. There is no coarser form for the same reason.
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

    /// The line of `/etc/default/grub`: without blanks, since GRUB takes one argument. Empty if no frame failed. GRUB
    /// refuses the command under Secure Boot.
    #[must_use]
    pub fn grub_default(&self) -> String {
        if self.pairs.is_empty() {
            return String::new();
        }
        let pairs = self.pairs.iter().map(|pair| format!("{:#x},{:#x}", pair.address, pair.mask));
        format!("GRUB_BADRAM=\"{}\"", pairs.collect::<Vec<_>>().join(","))
    }

    /// What stands in the way.
    #[must_use]
    pub fn obstacles(&self) -> Vec<Obstacle> {
        table_obstacles(&self.ranges).collect()
    }
}

/// The failed frames as data for other programs. Whole numbers stay below 2^53, so that every reader of JSON keeps
/// them.
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
    /// How many frames.
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
    /// Which of its lines failed, 0 to 63, ascending.
    pub lines: Vec<u8>,
    /// Who condemned it.
    pub cause: Cause,
    /// When it first failed, in microseconds since 1970-01-01 00:00 UTC.
    pub first_seen: Timestamp,
    /// When it last failed.
    pub last_seen: Timestamp,
    /// How many mismatches were seen in it.
    pub mismatches: u64,
    /// What became of it.
    pub retirement: Retirement,
}

impl Document {
    /// The version of the schema: it grows when a key changes its meaning or goes, not when one is added.
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
        Origin::Real => Ok(map.ranges()),
        Origin::Emulated => Err(Emulated),
    }
}

/// How many frames lie between two ranges.
fn gap(left: FrameRange, right: FrameRange) -> u64 {
    right.start().number() - left.last().number() - 1
}

/// From the first frame of one range to the last of a later one.
fn span(left: FrameRange, right: FrameRange) -> FrameRange {
    let count = right.last().number() - left.start().number() + 1;
    FrameRange::new(left.start(), count).expect("ends where a range ends")
}

/// A range's size in the largest unit that the kernel knows and that divides it.
fn size(range: FrameRange) -> String {
    let kib = range.count() * (FRAME_BYTES >> 10);
    match kib.trailing_zeros() {
        20.. => format!("{}G", kib >> 20),
        10.. => format!("{}M", kib >> 10),
        _ => format!("{kib}K"),
    }
}

/// A range as the fewest blocks that are aligned to their size: from its start, always the largest that fits.
fn blocks(range: FrameRange) -> Vec<AddressMask> {
    let mut blocks = Vec::new();
    let (mut start, end) = (range.start().number(), range.last().number() + 1);
    while start < end {
        let order = start.trailing_zeros().min((end - start).ilog2());
        blocks.push(AddressMask { address: start * FRAME_BYTES, mask: !((FRAME_BYTES << order) - 1) });
        start += 1 << order;
    }
    blocks
}

fn table_obstacles(ranges: &[FrameRange]) -> impl Iterator<Item = Obstacle> + use<> {
    let overflow = (ranges.len() > TABLE_RANGES).then_some(Obstacle::Table(ranges.len()));
    let low = ranges.iter().map(|range| {
        let end = (range.last().number() + 1).min(FIRST_MIB_FRAMES);
        end.saturating_sub(range.start().number())
    });
    let low: u64 = low.sum();
    overflow.into_iter().chain((low > 0).then_some(Obstacle::FirstMib(low)))
}

#[cfg(test)]
mod tests;
