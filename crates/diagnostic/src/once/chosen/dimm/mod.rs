//! The frames of one DIMM, by its name.
//!
//! **Problem.** A person knows a DIMM by the name on the board; which frames are on it, only the memory controller
//! knows for certain. **Idea.** Three may say it: a file that the user names; a machine that has no other DIMM; the
//! firmware, in its table of mapped addresses (SMBIOS, type 20), unless it contradicts what is online. Otherwise the
//! test is refused. **Why not EDAC.** It names DIMMs, and finds the one of an error, but shows no addresses of a DIMM
//! ([`EdacDimm`]); so it only tells which names there are.

mod names;
mod sharing;

use std::fmt;

use rampart_linux::{
    EdacDimm, Error as LinuxError, HotplugState, MemoryBlocks, MemoryState, SmbiosMemory, SmbiosRange,
};
use rampart_memory::{Bytes, Frame, FrameRange};
use serde::Serialize;

use self::names::{DimmNames, find, list, same};
use self::sharing::{DimmFrames, share};
use crate::error::Error;
use crate::machine::MachineUnderTest;

/// The DIMM whose frames are to be tested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DimmChoice {
    /// Its name, as the machine or the file has it.
    pub name: String,
    /// Who says which frames are on it.
    pub map: DimmMap,
    /// The frames that are at least partly on it; if empty, all.
    #[serde(skip)]
    pub ranges: Vec<FrameRange>,
    /// How much of them is on it, about.
    pub percent: u8,
    /// The DIMMs on which the rest is.
    pub shared_with: Vec<String>,
}

/// Who says which frames are on a DIMM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DimmMap {
    /// A file of the user.
    File,
    /// The firmware, in SMBIOS type 20.
    Smbios,
    /// Nobody needs to: the machine has no other DIMM.
    OnlyDimm,
}

impl DimmChoice {
    /// Finds a DIMM of this machine, and its frames.
    ///
    /// # Errors
    /// If there is no such DIMM, or nobody knows its frames.
    pub fn of_machine(name: &str, machine: &MachineUnderTest) -> Result<Self, Error> {
        let facts = DimmFacts {
            smbios: SmbiosMemory::read(machine.roots()),
            edac: EdacDimm::all(machine.roots()),
            total: MemoryState::read(machine.roots())?.machine.total,
            online: machine.memory_blocks().map(|blocks| online(&blocks)).unwrap_or_default(),
        };
        facts.find(name)
    }

    /// Finds a DIMM in a list of the user: each name, and a range of frames that is at least partly on it.
    ///
    /// # Errors
    /// If it is not in the list.
    pub fn of_list(name: &str, ranges: &[(String, FrameRange)]) -> Result<Self, Error> {
        let mut known: Vec<DimmNames> = Vec::new();
        let mut frames = Vec::new();
        for (name, range) in ranges {
            let dimm = known.iter().position(|dimm| dimm.name == *name).unwrap_or(known.len());
            if dimm == known.len() {
                known.push(DimmNames::one(name));
            }
            frames.push(DimmFrames { dimm, frames: *range, interleave: None });
        }
        let dimm = find(name, &known)?;
        Ok(Self::placed(dimm, &known, DimmMap::File, &frames).expect("it has a range"))
    }

    /// A DIMM with frames in a map; `None` if it has none there.
    fn placed(dimm: usize, known: &[DimmNames], map: DimmMap, all: &[DimmFrames]) -> Option<Self> {
        let share = share(dimm, all)?;
        let shared_with = share.others.iter().map(|&other| known[other].name.clone()).collect();
        Some(Self { name: known[dimm].name.clone(), map, ranges: share.ranges, percent: share.percent, shared_with })
    }

    /// The only DIMM of the machine.
    fn only(name: &str) -> Self {
        let (ranges, shared_with) = (Vec::new(), Vec::new());
        Self { name: name.to_owned(), map: DimmMap::OnlyDimm, ranges, percent: 100, shared_with }
    }
}

impl fmt::Display for DimmChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, ", self.name)?;
        match self.map {
            DimmMap::File => write!(f, "as the file of --dimm-map says")?,
            DimmMap::Smbios => write!(f, "as the firmware says (SMBIOS type 20)")?,
            DimmMap::OnlyDimm => write!(f, "the only one of this machine")?,
        }
        if !self.shared_with.is_empty() {
            let (percent, others) = (self.percent, self.shared_with.join(", "));
            write!(f, ": about {percent} % of this memory is on it, the rest on {others}")?;
        }
        Ok(())
    }
}

/// What this machine shows of its DIMMs.
struct DimmFacts {
    smbios: Result<Option<SmbiosMemory>, LinuxError>,
    edac: Vec<EdacDimm>,
    /// All memory that the kernel manages.
    total: Bytes,
    /// The memory blocks that are online.
    online: Vec<FrameRange>,
}

impl DimmFacts {
    fn find(&self, name: &str) -> Result<DimmChoice, Error> {
        match &self.smbios {
            Ok(Some(memory)) if !memory.devices.is_empty() => self.find_by_firmware(name, memory),
            Ok(Some(_)) => self.find_by_edac(name, "the firmware's table SMBIOS has no memory"),
            Ok(None) => self.find_by_edac(name, "the firmware has no table SMBIOS"),
            Err(LinuxError::Read { path, cause }) => {
                self.find_by_edac(name, &format!("cannot read {}: {cause}", path.display()))
            }
            Err(other) => self.find_by_edac(name, &other.to_string()),
        }
    }

    fn find_by_firmware(&self, name: &str, memory: &SmbiosMemory) -> Result<DimmChoice, Error> {
        let known = DimmNames::of_devices(&memory.devices);
        let only = known.len() == 1 && self.edac.len() <= 1 && self.is_all(memory.devices[0].size);
        let is_label = self.edac.iter().any(|dimm| same(&dimm.label, name));
        let dimm = match find(name, &known) {
            Err(Error::UnknownDimm { .. }) if is_label && only => 0,
            Err(Error::UnknownDimm { .. }) if is_label => {
                let why = format!("EDAC has its name only; the firmware's names are {}", list(&known));
                return Err(unplaced(name, why));
            }
            found => found?,
        };
        if only {
            return Ok(DimmChoice::only(&known[dimm].name));
        }
        let index = |handle| memory.devices.iter().position(|device| device.handle == handle);
        let place = |range: &SmbiosRange| {
            let interleave = range.is_interleaved.then_some(range.area);
            Some(DimmFrames { dimm: index(range.device)?, frames: range.frames, interleave })
        };
        let all: Vec<DimmFrames> = memory.ranges.iter().filter_map(place).collect();
        if all.is_empty() {
            return Err(unplaced(name, "the firmware has no table of them (SMBIOS type 20)"));
        }
        if let Some(frame) = self.left_out(&all) {
            let why =
                "memory that is online and on no DIMM by the firmware's table (SMBIOS type 20), which is wrong then";
            return Err(unplaced(name, format!("frame {frame} is in {why}")));
        }
        let placed = DimmChoice::placed(dimm, &known, DimmMap::Smbios, &all);
        placed.ok_or_else(|| unplaced(name, "the firmware's table (SMBIOS type 20) has none on it"))
    }

    /// Where the firmware says nothing, and why.
    fn find_by_edac(&self, name: &str, why: &str) -> Result<DimmChoice, Error> {
        let known: Vec<_> = self.edac.iter().map(|dimm| DimmNames::one(&dimm.label)).collect();
        if known.is_empty() {
            return Err(unplaced(name, format!("{why}, and no EDAC driver names a DIMM")));
        }
        let dimm = find(name, &known)?;
        if known.len() == 1 && self.is_all(self.edac[dimm].size) {
            return Ok(DimmChoice::only(&known[dimm].name));
        }
        Err(unplaced(name, format!("{why}, and EDAC has its name only")))
    }

    /// Whether all memory fits on a DIMM of this size.
    fn is_all(&self, size: Option<Bytes>) -> bool {
        size.is_some_and(|size| size >= self.total)
    }

    /// The first frame of a memory block that is online and wholly on no DIMM: firmware that forgets the hole below
    /// 4 GiB, beyond which memory goes on, shows so.
    fn left_out(&self, all: &[DimmFrames]) -> Option<Frame> {
        let touches =
            |block: &FrameRange, range: FrameRange| block.start() <= range.last() && range.start() <= block.last();
        let left_out = self.online.iter().find(|block| !all.iter().any(|range| touches(block, range.frames)));
        left_out.map(|block| block.start())
    }
}

/// The frames of each block that is online.
fn online(blocks: &MemoryBlocks) -> Vec<FrameRange> {
    let size = blocks.frames().get();
    let online = blocks.blocks.iter().filter(|block| block.state == HotplugState::Online);
    online.filter_map(|block| FrameRange::new(Frame::new(u64::from(block.number.0) * size)?, size)).collect()
}

fn unplaced(name: &str, why: impl Into<String>) -> Error {
    Error::UnplacedDimm { name: name.to_owned(), why: why.into() }
}

#[cfg(test)]
mod tests;
