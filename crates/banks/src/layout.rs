//! The boundaries of banks.
//!
//! **Problem.** The size of a bank is seldom known, but where firmware names the parts of memory that are switched
//! together, they have any size and place. **Idea.** Memory is cut into banks of one size, except where the firmware
//! names a bank; all are numbered by ascending addresses. **Why this way.** A block lies in banks of adjacent numbers,
//! whoever named them; and no list of all banks is needed.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use rampart_linux::{CxlWindow, MemoryTables, PowerNode};
use rampart_memory::{Bank, Bytes, FrameRange, HotplugBlock};
use serde::Serialize;

/// Banks, from address 0 on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BankLayout {
    /// The size of a bank that the firmware does not name.
    pub size: Bytes,
    /// Where the boundaries come from.
    pub source: BankSource,
    /// The banks that the firmware names, ascending.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub named: Vec<NamedBank>,
}

impl fmt::Display for BankLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.source {
            BankSource::Firmware => {
                let count = self.named.len();
                write!(
                    f,
                    "{count} banks are {}, elsewhere banks of {} ({})",
                    self.source,
                    self.size,
                    BankSource::Assumed
                )
            }
            source => write!(f, "banks of {} ({source})", self.size),
        }
    }
}

/// Where the boundaries of banks come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, displaydoc::Display)]
#[serde(rename_all = "snake_case")]
pub enum BankSource {
    /// assumed
    Assumed,
    /// as requested
    Requested,
    /// named by the firmware
    Firmware,
}

/// A bank that the firmware names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NamedBank {
    /// Its number.
    pub bank: Bank,
    /// Its physical addresses, the last one included.
    pub addresses: (u64, u64),
    /// Which table names it.
    pub table: FirmwareTable,
    /// The lowest of the banks that are switched only together with it; `None` if it is alone.
    pub set: Option<Bank>,
    /// How it is interleaved over devices; `None` if that is unknown.
    pub interleave: Option<BankInterleave>,
}

/// A table of the firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, displaydoc::Display)]
#[serde(rename_all = "UPPERCASE")]
pub enum FirmwareTable {
    /// MPST
    Mpst,
    /// CEDT
    Cedt,
}

/// How a bank is interleaved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BankInterleave {
    /// Over how many devices.
    pub ways: u8,
    /// How much lies on one device before the next has its turn.
    pub granularity: Bytes,
}

/// A part of memory of a table, and the number of its node in MPST.
struct Part {
    frames: FrameRange,
    node: Option<u16>,
    interleave: Option<BankInterleave>,
}

impl BankLayout {
    /// Banks of a size that the caller wants.
    #[must_use]
    pub const fn requested(size: Bytes) -> Self {
        Self { size, source: BankSource::Requested, named: Vec::new() }
    }

    /// The banks that [Panwar15, 5.1] assumes: of 256 MiB, and of 128 MiB on a machine with up to 4 GiB.
    #[must_use]
    pub fn assumed(memory: Bytes) -> Self {
        let size = if memory > Bytes::from_mib(4 << 10) { Bytes::from_mib(256) } else { Bytes::from_mib(128) };
        Self { size, source: BankSource::Assumed, named: Vec::new() }
    }

    /// The banks that the firmware's tables name: the nodes of MPST, and the windows of CEDT that lie in none of them.
    /// All other memory is in banks of the assumed size.
    #[must_use]
    pub fn of_firmware(tables: &MemoryTables, memory: Bytes) -> Self {
        let mut layout = Self::assumed(memory);
        // How often a node occurs, and its first bank.
        let mut nodes: BTreeMap<u16, (u32, Option<Bank>)> = BTreeMap::new();
        tables.nodes.iter().for_each(|node| nodes.entry(node.id).or_default().0 += 1);
        for part in parts(&tables.nodes, &tables.windows) {
            let addresses = (part.frames.start().address(), last_address(part.frames));
            // The memory below is numbered already.
            let bank = layout.after(addresses.0);
            let set = part.node.and_then(|node| match nodes.get_mut(&node) {
                Some((2.., first)) => Some(*first.get_or_insert(bank)),
                _ => None,
            });
            let table = if part.node.is_some() { FirmwareTable::Mpst } else { FirmwareTable::Cedt };
            layout.named.push(NamedBank { bank, addresses, table, set, interleave: part.interleave });
            layout.source = BankSource::Firmware;
        }
        layout
    }

    /// The banks in which a block of `size` bytes lies.
    #[must_use]
    pub fn of(&self, block: HotplugBlock, size: Bytes) -> RangeInclusive<Bank> {
        let start = u64::from(block.0) * size.get();
        self.at(start)..=self.at(start + (size.get() - 1))
    }

    /// The set of a bank: itself, or the lowest of the banks that are switched only together with it.
    #[must_use]
    pub fn set_of(&self, bank: Bank) -> Bank {
        self.shared_set_of(bank).unwrap_or(bank)
    }

    /// The same; `None` if the bank is alone.
    #[must_use]
    pub fn shared_set_of(&self, bank: Bank) -> Option<Bank> {
        let found = self.named.binary_search_by_key(&bank, |named| named.bank);
        self.named[found.ok()?].set
    }

    /// The bank of an address.
    fn at(&self, address: u64) -> Bank {
        match self.below(address + 1) {
            Some(named) if address <= named.addresses.1 => named.bank,
            // The bank that would begin after this byte, less one.
            _ => Bank(self.after(address + 1).0 - 1),
        }
    }

    /// The number of a bank that would begin at `address`, which lies in no named bank.
    fn after(&self, address: u64) -> Bank {
        let (first, start) =
            self.below(address).map_or((0, 0), |named| (u64::from(named.bank.0) + 1, named.addresses.1 + 1));
        let banks = if start == address { 0 } else { (address - 1) / self.size.get() - start / self.size.get() + 1 };
        Bank(u32::try_from(first + banks).unwrap_or(u32::MAX))
    }

    /// The last named bank that begins below an address.
    fn below(&self, address: u64) -> Option<&NamedBank> {
        let count = self.named.partition_point(|named| named.addresses.0 < address);
        count.checked_sub(1).map(|last| &self.named[last])
    }
}

fn parts(nodes: &[PowerNode], windows: &[CxlWindow]) -> Vec<Part> {
    let mut parts: Vec<Part> =
        nodes.iter().map(|node| Part { frames: node.frames, node: Some(node.id), interleave: None }).collect();
    for window in windows {
        let overlaps = |node: &PowerNode| {
            node.frames.start() <= window.frames.last() && window.frames.start() <= node.frames.last()
        };
        if !nodes.iter().any(overlaps) {
            let interleave = BankInterleave { ways: window.ways, granularity: window.granularity };
            parts.push(Part { frames: window.frames, node: None, interleave: Some(interleave) });
        }
    }
    parts.sort_by_key(|part| part.frames.start());
    parts
}

fn last_address(frames: FrameRange) -> u64 {
    frames.start().address() + (frames.bytes().get() - 1)
}

#[cfg(test)]
mod tests;
