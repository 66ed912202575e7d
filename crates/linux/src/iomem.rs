//! What the kernel says of physical addresses: `/proc/iomem`.
//!
//! **Problem.** The number of a frame or of a memory block says nothing of where its memory comes from. **Idea.** The
//! kernel lists all ranges with a name each: "System RAM", and that of virtio-mem with a note of it. **Why this way.**
//! No other file has it; a block of virtio-mem looks in sysfs like any other.
//!
//! Source: Linux, kernel/resource.c and drivers/virtio/virtio_mem.c.

use rampart_memory::{Bytes, HotplugBlock};
use serde::Serialize;

use crate::{Roots, roots};

/// How the kernel names memory that the host of this machine gives by virtio-mem.
const VIRTIO_MEM: &str = "system ram (virtio_mem)";

/// Where the memory of a block comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryOrigin {
    /// The machine, or its host for as long as it runs.
    Machine,
    /// The host, by virtio-mem: it can take the memory back.
    VirtioMem,
    /// The kernel shows no addresses to this user.
    Unknown,
}

/// The origin of all memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryOrigins {
    /// The ranges of virtio-mem; `None` if they are unknown.
    virtio_mem: Option<Vec<(u64, u64)>>,
}

impl MemoryOrigins {
    /// Reads it.
    #[must_use]
    pub fn read(roots: &Roots) -> Self {
        roots::text(&roots.proc("iomem")).map_or_else(|_| Self::default(), |text| Self::parse(&text))
    }

    /// The origins that a text as that of `/proc/iomem` states.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        Self { virtio_mem: Iomem::parse(text).map(|iomem| iomem.virtio_mem) }
    }

    /// The origin of a block of this size. virtio-mem only ever has whole ones.
    #[must_use]
    pub fn of(&self, block: HotplugBlock, size: Bytes) -> MemoryOrigin {
        let Some(ranges) = &self.virtio_mem else { return MemoryOrigin::Unknown };
        let address = u64::from(block.0).saturating_mul(size.get());
        if ranges.iter().any(|(first, last)| (*first..=*last).contains(&address)) {
            MemoryOrigin::VirtioMem
        } else {
            MemoryOrigin::Machine
        }
    }
}

/// The ranges that are memory, or were before the boot loader or the kernel left them out. Each is the first and the
/// last address.
#[derive(Debug)]
pub(crate) struct Iomem {
    pub memory: Vec<(u64, u64)>,
    pub reserved: Vec<(u64, u64)>,
    /// Those of `memory` that virtio-mem gave.
    pub virtio_mem: Vec<(u64, u64)>,
}

impl Iomem {
    /// `None` where the file or its addresses are hidden from this user.
    pub fn read(roots: &Roots) -> Option<Self> {
        roots::text(&roots.proc("iomem")).ok().and_then(|text| Self::parse(&text))
    }

    /// `None` where the addresses are hidden: without privilege all of them read as 0.
    fn parse(text: &str) -> Option<Self> {
        let mut iomem = Self { memory: Vec::new(), reserved: Vec::new(), virtio_mem: Vec::new() };
        for line in text.lines() {
            let (range, name) = line.trim_start().split_once(" : ")?;
            let (first, last) = range.split_once('-')?;
            let range = (u64::from_str_radix(first, 16).ok()?, u64::from_str_radix(last, 16).ok()?);
            let name = name.to_ascii_lowercase();
            // An indented line is inside of an earlier range: hotplugged memory inside of its device. What is inside
            // of memory is a part of it with another name.
            if name.starts_with("system ram") {
                iomem.memory.push(range);
                if name == VIRTIO_MEM {
                    iomem.virtio_mem.push(range);
                }
            } else if !line.starts_with(' ') && is_reserved(&name) {
                iomem.reserved.push(range);
            }
        }
        iomem.memory.iter().any(|(_, last)| *last > 0).then_some(iomem)
    }
}

fn is_reserved(name: &str) -> bool {
    ["reserved", "unusable", "soft reserved", "acpi"].iter().any(|word| name.starts_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// As Linux 6.1 shows it, abridged.
    const IOMEM: &str = "\
00000000-00000fff : Reserved
00001000-0009fbff : System RAM
00100000-3fffffff : System RAM
  01000000-01ffffff : Kernel code
80000000-ffffffff : PCI Bus 0000:00
  febf8000-febfbfff : virtio-pci-modern
100000000-13fffffff : virtio0
  100000000-10fffffff : System RAM (virtio_mem)
  120000000-127ffffff : System RAM (virtio_mem)
140000000-14fffffff : dax0.0
  140000000-147ffffff : System RAM (kmem)
";

    fn origins(text: Option<&str>) -> MemoryOrigins {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::new(folder.path(), folder.path());
        if let Some(text) = text {
            fs::write(roots.proc("iomem"), text).unwrap();
        }
        MemoryOrigins::read(&roots)
    }

    #[test]
    fn the_blocks_of_virtio_mem_are_those_of_its_ranges() {
        let origins = origins(Some(IOMEM));
        let of = |block| origins.of(HotplugBlock(block), Bytes::from_mib(128));
        assert_eq!([0, 7, 31].map(of), [MemoryOrigin::Machine; 3]);
        assert_eq!([32, 33, 36].map(of), [MemoryOrigin::VirtioMem; 3]);
        assert_eq!([34, 35, 37, 40, u32::MAX].map(of), [MemoryOrigin::Machine; 5]);
    }

    #[test]
    fn where_addresses_are_hidden_the_origin_is_unknown() {
        let hidden = "00000000-00000000 : System RAM\n00000000-00000000 : virtio0\n";
        for text in [None, Some(hidden), Some("nonsense\n"), Some("0-z : System RAM\n")] {
            let origin = origins(text).of(HotplugBlock(0), Bytes::from_mib(128));
            assert_eq!(origin, MemoryOrigin::Unknown, "{text:?}");
        }
    }

    #[test]
    fn hotplugged_memory_inside_of_its_device_is_memory() {
        let iomem = Iomem::parse(IOMEM).unwrap();
        assert_eq!(iomem.memory.len(), 5, "not the kernel's code: it is a part of memory");
        assert_eq!((iomem.virtio_mem.len(), iomem.reserved.len()), (2, 1));
        assert!(iomem.memory.contains(&(0x1_4000_0000, 0x1_47ff_ffff)), "that of another driver too");
    }
}
