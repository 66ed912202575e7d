//! Memory blocks, the kernel's unit of hotplug: `/sys/devices/system/memory`.
//!
//! **Problem.** Memory goes offline by blocks of 128 MiB to 2 GiB, and only from blocks that lie in one zone. **Idea.**
//! Read the state, the zones and the node of each block from sysfs, under the numbers that `lsmem` shows. **Why this
//! way.** The file `removable` is left out: it reads 1 always, since Linux 5.8. The kernel's answer to "can this go?"
//! is `valid_zones`, and the attempt.
//!
//! Source: Linux, Documentation/admin-guide/mm/memory-hotplug.rst.

use std::num::NonZero;
use std::path::Path;

use rampart_memory::{Bytes, FRAME_BYTES, Frame, HotplugBlock, Node};
use serde::Serialize;

use crate::roots::{numbered, text};
use crate::{Absence, Roots};

/// All memory blocks of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryBlocks {
    /// The size of each block.
    pub size: Bytes,
    /// The blocks, ascending. Numbers without a block are holes in the machine's memory.
    pub blocks: Vec<MemoryBlock>,
}

/// One memory block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryBlock {
    /// The kernel's number: the physical address divided by the size.
    pub number: HotplugBlock,
    /// Whether programs may have it.
    pub state: HotplugState,
    /// Its zones, or those that it may go to.
    pub zones: BlockZones,
    /// Its node; `None` if the kernel has no NUMA.
    pub node: Option<Node>,
}

/// The state of a memory block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, displaydoc::Display)]
#[serde(rename_all = "snake_case")]
pub enum HotplugState {
    /// online
    Online,
    /// offline
    Offline,
    /// going offline
    GoingOffline,
}

/// The zones of a memory block (`valid_zones`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockZones {
    /// It is online in this zone, whole.
    In(String),
    /// It is online, and lies in several zones or has a hole: the kernel does not offline it.
    Several,
    /// It is offline, and may go online in one of these, the first by default.
    Choices(Vec<String>),
    /// The kernel does not say.
    Unknown,
}

impl MemoryBlocks {
    /// Whether a frame lies in a block that is online. A hole between blocks may have flags, but has no memory.
    #[must_use]
    pub fn is_online(&self, frame: Frame) -> bool {
        self.of(frame).is_some_and(|block| block.state == HotplugState::Online)
    }

    /// The block in which a frame lies; `None` in a hole.
    #[must_use]
    pub fn of(&self, frame: Frame) -> Option<&MemoryBlock> {
        let number = u32::try_from(frame.address() / self.size.get()).ok()?;
        self.find(HotplugBlock(number))
    }

    /// The block with this number; `None` if there is none.
    #[must_use]
    pub fn find(&self, number: HotplugBlock) -> Option<&MemoryBlock> {
        let found = self.blocks.binary_search_by_key(&number, |block| block.number);
        found.ok().map(|place| &self.blocks[place])
    }

    /// Reads them.
    ///
    /// # Errors
    /// [`Absence`] if the kernel has no memory blocks, or this machine does not show them.
    pub fn read(roots: &Roots) -> Result<Self, Absence> {
        let folder = roots.sys("devices/system/memory");
        let size = text(&folder.join("block_size_bytes")).ok().and_then(|text| hexadecimal(&text));
        let Some(size) = size.filter(|size| *size >= FRAME_BYTES && size.is_power_of_two()) else {
            return Err(Absence::new(
                format!("{} does not say how large a memory block is", folder.display()),
                "use a kernel with CONFIG_MEMORY_HOTPLUG",
            ));
        };
        let blocks = numbered(&folder, "memory").into_iter().filter_map(|(number, path)| read_block(number, &path));
        Ok(Self { size: Bytes::new(size), blocks: blocks.collect() })
    }

    /// All memory that is offline.
    #[must_use]
    pub fn offline(&self) -> Bytes {
        let offline = self.blocks.iter().filter(|block| block.state == HotplugState::Offline).count();
        Bytes::new(self.size.get() * offline as u64)
    }

    /// The frames of a block.
    #[must_use]
    pub fn frames(&self) -> NonZero<u64> {
        NonZero::new(self.size.get() / FRAME_BYTES).expect("a block has a frame at least")
    }
}

impl MemoryBlock {
    /// Whether it takes only memory that can move (`ZONE_MOVABLE`).
    #[must_use]
    pub fn is_movable_only(&self) -> bool {
        self.state != HotplugState::Offline && matches!(&self.zones, BlockZones::In(zone) if zone == "Movable")
    }
}

/// Reads a block; `None` if it went away meanwhile.
fn read_block(number: u32, folder: &Path) -> Option<MemoryBlock> {
    let state = match text(&folder.join("state")).ok()?.trim() {
        "online" => HotplugState::Online,
        "offline" => HotplugState::Offline,
        _ => HotplugState::GoingOffline,
    };
    let node = numbered(folder, "node").first().map(|(number, _)| Node(*number));
    let zones = text(&folder.join("valid_zones")).map_or(BlockZones::Unknown, |text| zones(state, &text));
    Some(MemoryBlock { number: HotplugBlock(number), state, zones, node })
}

fn zones(state: HotplugState, text: &str) -> BlockZones {
    let mut names = text.split_whitespace().map(str::to_owned);
    match (state, names.next()) {
        (_, None) => BlockZones::Unknown,
        (HotplugState::Offline, Some(first)) => {
            BlockZones::Choices(std::iter::once(first).chain(names).filter(|name| name != "none").collect())
        }
        (_, Some(name)) if name == "none" => BlockZones::Several,
        (_, Some(name)) => BlockZones::In(name),
    }
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Roots) {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::new(folder.path(), folder.path());
        for (name, content) in files {
            let path = roots.sys("devices/system/memory").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        (folder, roots)
    }

    #[test]
    fn blocks_are_read_as_the_kernel_shows_them() {
        let (_folder, roots) = machine(&[
            ("block_size_bytes", "8000000\n"),
            ("auto_online_blocks", "offline\n"),
            ("memory0/state", "online\n"),
            ("memory0/valid_zones", "none\n"),
            ("memory0/node0/x", ""),
            ("memory10/state", "offline\n"),
            ("memory10/valid_zones", "Normal Movable\n"),
            ("memory10/node1/x", ""),
            ("memory9/state", "going-offline\n"),
            ("memory9/valid_zones", "Movable\n"),
            ("memory11/valid_zones", "Movable\n"),
        ]);
        let read = MemoryBlocks::read(&roots).unwrap();
        assert_eq!((read.size, read.frames().get()), (Bytes::from_mib(128), 32_768));
        let block = |number, state, zones, node: Option<u32>| MemoryBlock {
            number: HotplugBlock(number),
            state,
            zones,
            node: node.map(Node),
        };
        let choices = ["Normal", "Movable"].map(str::to_owned).to_vec();
        let expected = [
            block(0, HotplugState::Online, BlockZones::Several, Some(0)),
            block(9, HotplugState::GoingOffline, BlockZones::In("Movable".to_owned()), None),
            block(10, HotplugState::Offline, BlockZones::Choices(choices), Some(1)),
        ];
        assert_eq!(read.blocks, expected, "block 11 has no state: it went away");
        let online = |number| read.is_online(Frame::new(number).unwrap());
        assert_eq!([0, 32_767, 32_768, 9 << 15, 10 << 15].map(online), [true, true, false, false, false]);
        let movable = |number| read.of(Frame::new(number).unwrap()).map(MemoryBlock::is_movable_only);
        assert_eq!([0, 32_768, (10 << 15) - 1, 10 << 15].map(movable), [Some(false), None, Some(true), Some(false)]);
    }

    #[test]
    fn a_kernel_without_memory_blocks_is_said_to_have_none() {
        for size in [None, Some("0"), Some("garbage"), Some("7fffff")] {
            let files: Vec<_> = size.map(|size| ("block_size_bytes", size)).into_iter().collect();
            let (_folder, roots) = machine(&files);
            let absence = MemoryBlocks::read(&roots).unwrap_err().to_string();
            assert!(absence.contains("how large a memory block is"), "{size:?}: {absence}");
        }
    }
}
