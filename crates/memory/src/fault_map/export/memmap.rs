//! The kernel's `memmap=`.

use std::num::NonZeroUsize;

use super::{COMMAND_LINE_BYTES, Emulated, ExportRefusal, LOAD_RANGES, Obstacle, low_frames, real_ranges};
use crate::fault_map::FaultMap;
use crate::{FRAME_BYTES, FrameRange};

/// The shortest range of the argument: `4K$0x0` and a comma.
const SHORTEST_ITEM: usize = 7;

/// The kernel's argument `memmap=`: bad frames as reserved ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memmap {
    ranges: Vec<FrameRange>,
    sound_frames: u64,
}

impl Memmap {
    /// Exactly the bad frames, in the fewest ranges.
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

    /// The number of sound frames that are given up with the bad ones: 0 unless the list was made coarser.
    #[must_use]
    pub const fn sound_frames(&self) -> u64 {
        self.sound_frames
    }

    /// The argument as the kernel must see it, for a boot loader that changes nothing:
    /// `memmap=4K$0x18690000,64K$0x2000000`. All ranges are in one argument: of several arguments, the kernel heeds
    /// only four when it chooses its load address. Empty without bad frames.
    #[must_use]
    pub fn kernel_argument(&self) -> String {
        self.argument("$")
    }

    /// A line to append to `/etc/default/grub`, for `grub-mkconfig` or `update-grub` to read. The shell removes a
    /// backslash from `\\` and from `\$`, GRUB's own shell another from `\$`, and the kernel sees `$`. Empty without
    /// bad frames.
    ///
    /// This works where `grub-mkconfig` writes the kernel's arguments into `grub.cfg`. Systems with boot loader
    /// specification entries (Fedora, RHEL) keep them elsewhere: there, check `/proc/cmdline` after a boot.
    #[must_use]
    pub fn grub_default(&self) -> String {
        if self.ranges.is_empty() {
            return String::new();
        }
        format!("GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX {}\"", self.argument(r"\\\$"))
    }

    /// Checks that the kernel keeps the whole argument, if the rest of its command line has so many bytes.
    ///
    /// # Errors
    /// [`ExportRefusal::CommandLine`] with the most ranges that fit, [`ExportRefusal::NoRoom`] if none do.
    pub fn check(&self, other_bytes: usize) -> Result<(), ExportRefusal> {
        let (ranges, bytes) = (self.ranges.len(), self.line_bytes(other_bytes));
        if ranges == 0 || bytes <= COMMAND_LINE_BYTES {
            return Ok(());
        }
        let counts = (1..ranges.min(COMMAND_LINE_BYTES / SHORTEST_ITEM)).rev().filter_map(NonZeroUsize::new);
        let mut fitting = counts.filter(|count| self.coarser(*count).line_bytes(other_bytes) <= COMMAND_LINE_BYTES);
        Err(match fitting.next() {
            Some(fit) => ExportRefusal::CommandLine { ranges, bytes, fit: fit.get() },
            None => ExportRefusal::NoRoom { ranges, bytes },
        })
    }

    /// The kernel's command line with a blank and this argument.
    fn line_bytes(&self, other_bytes: usize) -> usize {
        other_bytes.saturating_add(1).saturating_add(self.kernel_argument().len())
    }

    /// The obstacles to this list.
    #[must_use]
    pub fn obstacles(&self) -> Vec<Obstacle> {
        let loads = (self.ranges.len() > LOAD_RANGES).then_some(Obstacle::LoadAddress(self.ranges.len()));
        loads.into_iter().chain(low_frames(&self.ranges)).collect()
    }

    fn argument(&self, at: &str) -> String {
        if self.ranges.is_empty() {
            return String::new();
        }
        let items = self.ranges.iter().map(|range| format!("{}{at}{:#x}", size(*range), range.start().address()));
        format!("memmap={}", items.collect::<Vec<_>>().join(","))
    }
}

/// The number of frames between two ranges.
pub(super) fn gap(left: FrameRange, right: FrameRange) -> u64 {
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
