//! Whether the kernel may hand out a frame at this moment.
//!
//! **Problem.** The store's record of a bad frame was right when it was written: since then the machine may have booted
//! again, with the frame in use or left out. **Idea.** The kernel shows the present state: its mark on a retired frame
//! (`/proc/kpageflags`), and the addresses that it took for memory at boot (`/proc/iomem`). **Why both.** A frame that
//! `memmap=` reserved has no mark, and a retired one stays "System RAM".
//!
//! Source: Linux, Documentation/admin-guide/mm/pagemap.rst and kernel/resource.c.

use rampart_memory::Frame;
use rampart_memory::fault_map::FrameUse;

use crate::frame_flags::FlagTable;
use crate::iomem::Iomem;
use crate::{FrameClass, Roots};

/// Answers for one frame after another.
#[derive(Debug)]
pub struct FrameUses {
    flags: Option<FlagTable>,
    memory: Option<Iomem>,
}

impl FrameUses {
    /// Reads the kernel's present state; parts that this user may not read stay unknown.
    #[must_use]
    pub fn read(roots: &Roots) -> Self {
        Self { flags: FlagTable::open(roots).ok(), memory: Iomem::read(roots) }
    }

    /// The kernel's present use of a frame.
    #[must_use]
    pub fn of(&self, frame: Frame) -> FrameUse {
        let class = self.flags.as_ref().and_then(|table| match table.of(frame) {
            Ok(Some(flags)) => Some(flags.class()),
            Ok(None) => Some(FrameClass::Absent),
            Err(_) => None,
        });
        let place = self.memory.as_ref().map(|memory| Place::of(frame, memory));
        match (class, place) {
            (Some(FrameClass::Poisoned), _) => FrameUse::Retired,
            (_, Some(Place::Reserved)) => FrameUse::Reserved,
            (_, Some(Place::Beyond)) => FrameUse::BeyondMemory,
            (Some(FrameClass::Absent), Some(Place::Memory)) => FrameUse::Offline,
            (Some(_), Some(Place::Memory)) => FrameUse::InUse,
            (None, _) | (_, None) => FrameUse::Unknown,
        }
    }
}

/// The location of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In memory that the kernel uses.
    Memory,
    /// Between such memory, or with another name.
    Reserved,
    /// Above all of it, and without a name.
    Beyond,
}

impl Place {
    fn of(frame: Frame, iomem: &Iomem) -> Self {
        let (first, last) = (frame.address(), frame.address() + 4095);
        let meets = |ranges: &[(u64, u64)]| ranges.iter().any(|range| range.0 <= last && first <= range.1);
        let end = iomem.memory.iter().map(|range| range.1).max().unwrap_or_default();
        // The kernel uses whole frames only, so it reserves a frame that is partly something else.
        if meets(&iomem.reserved) {
            Self::Reserved
        } else if meets(&iomem.memory) {
            Self::Memory
        } else if first < end {
            Self::Reserved
        } else {
            Self::Beyond
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const IOMEM: &str = "\
00000000-00000fff : Reserved
00001000-0009fbff : System RAM
0009fc00-000fffff : Reserved
  000f0000-000fffff : System ROM
00100000-00103fff : System RAM
  00101000-00101fff : Kernel code
00104000-00104fff : Reserved
00105000-00105fff : System RAM
00107000-00107fff : Unusable memory
00108000-00109fff : System RAM
0010b000-0010bfff : System RAM
0010c000-0010dfff : virtio0
  0010c000-0010cfff : System RAM (virtio_mem)
b0000000-bfffffff : PCI MMCONFIG 0000 [bus 00-ff]
";

    fn uses(iomem: Option<&str>, flags: Option<&[(u64, u32)]>) -> (tempfile::TempDir, FrameUses) {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::new(folder.path(), folder.path());
        if let Some(text) = iomem {
            fs::write(roots.proc("iomem"), text).unwrap();
        }
        if let Some(flags) = flags {
            let mut entries = vec![0_u64; 0x110];
            flags.iter().for_each(|&(frame, bit)| entries[usize::try_from(frame).unwrap()] = 1 << bit);
            let bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.to_ne_bytes()).collect();
            fs::write(roots.proc("kpageflags"), bytes).unwrap();
        }
        let uses = FrameUses::read(&roots);
        (folder, uses)
    }

    fn of(uses: &FrameUses, frame: u64) -> FrameUse {
        uses.of(Frame::new(frame).unwrap())
    }

    #[test]
    fn what_the_kernel_shows_of_a_frame_is_what_is_so_now() {
        const HWPOISON: u32 = 19;
        const NOPAGE: u32 = 20;
        let (_folder, uses) = uses(Some(IOMEM), Some(&[(0x102, HWPOISON), (0x109, NOPAGE), (0x106, NOPAGE)]));
        assert_eq!(of(&uses, 0x100), FrameUse::InUse);
        assert_eq!(of(&uses, 0x101), FrameUse::InUse, "a part of memory that has a name of its own");
        assert_eq!(of(&uses, 0x102), FrameUse::Retired);
        assert_eq!(of(&uses, 0x104), FrameUse::Reserved, "by memmap=");
        assert_eq!(of(&uses, 0x106), FrameUse::Reserved, "a gap that badram left");
        assert_eq!(of(&uses, 0x107), FrameUse::Reserved, "by badram under EFI");
        assert_eq!(of(&uses, 0x109), FrameUse::Offline);
        assert_eq!(of(&uses, 0x9f), FrameUse::Reserved, "half a frame is none");
        assert_eq!(of(&uses, 0x10c), FrameUse::InUse, "the host gave it by virtio-mem");
        assert_eq!(of(&uses, 0x10d), FrameUse::BeyondMemory, "the host may give it yet");
        assert_eq!(of(&uses, 0xb_0000), FrameUse::BeyondMemory, "a device");
        assert_eq!(of(&uses, Frame::MAX.number()), FrameUse::BeyondMemory);
    }

    #[test]
    fn without_privilege_nothing_is_claimed() {
        // Addresses that are hidden read as 0, and the flags cannot be opened.
        let hidden = "00000000-00000000 : Reserved\n00000000-00000000 : System RAM\n";
        let (_folder, uses_hidden) = uses(Some(hidden), None);
        assert_eq!(of(&uses_hidden, 0x100), FrameUse::Unknown);
        let (_folder, no_flags) = uses(Some(IOMEM), None);
        assert_eq!(of(&no_flags, 0x100), FrameUse::Unknown, "it may be retired");
        assert_eq!(of(&no_flags, 0x104), FrameUse::Reserved);
        let (_folder, no_iomem) = uses(None, Some(&[(0x102, 19)]));
        assert_eq!(of(&no_iomem, 0x102), FrameUse::Retired);
        assert_eq!(of(&no_iomem, 0x100), FrameUse::Unknown, "it may be reserved");
    }
}
