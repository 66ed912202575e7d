//! What is held of each bank.
//!
//! An allocator may have to count the free frames of a bank; this knows them at once.

use rampart_buddy::{BankPools, BankSize, Zone};
use rampart_memory::{Frame, FrameBlock, FrameRange, Node};

/// The part of a bank that lies in one zone.
#[derive(Clone, Copy, Debug)]
struct PartUsage {
    frames: FrameRange,
    node: Node,
    /// Whether it can go offline.
    is_whole: bool,
    /// Its held frames.
    held: u64,
    /// Its retired frames that came back.
    lost: u64,
}

/// All parts of banks.
#[derive(Clone, Debug)]
pub struct BankUsage {
    bank: BankSize,
    parts: Vec<PartUsage>,
    /// The frames of each zone, with the number of its first part.
    zones: Vec<(FrameRange, usize)>,
    /// The parts of each node.
    nodes: Vec<Vec<usize>>,
    /// Empty parts that went offline or will, whose tests are not forgotten yet.
    emptied: Vec<usize>,
    /// Parts that were used again before they were seen offline.
    reopened: Vec<usize>,
}

impl BankUsage {
    /// Returns the usage of an allocator none of whose frames is held.
    pub fn new(allocator: &impl BankPools, zones: &[Zone], bank: BankSize) -> Self {
        let mut usage = Self {
            bank,
            parts: Vec::new(),
            zones: Vec::new(),
            nodes: Vec::new(),
            emptied: Vec::new(),
            reopened: Vec::new(),
        };
        for part in (0..allocator.parts()).map(|part| allocator.part(part)) {
            let zone = zones[part.zone.0];
            if part.frames.start() == zone.frames.start() {
                usage.zones.push((zone.frames, usage.parts.len()));
            }
            let node = usize::try_from(zone.node.0).expect("a handful of nodes");
            usage.nodes.resize(usage.nodes.len().max(node + 1), Vec::new());
            usage.nodes[node].push(usage.parts.len());
            usage.parts.push(PartUsage {
                frames: part.frames,
                node: zone.node,
                is_whole: !part.is_partial,
                held: 0,
                lost: 0,
            });
        }
        usage
    }

    pub fn parts(&self) -> std::ops::Range<usize> {
        0..self.parts.len()
    }

    pub fn of_node(&self, node: Node) -> &[usize] {
        usize::try_from(node.0).ok().and_then(|node| self.nodes.get(node)).map_or(&[], Vec::as_slice)
    }

    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    pub fn frames(&self, part: usize) -> FrameRange {
        self.parts[part].frames
    }

    pub fn free(&self, part: usize) -> u64 {
        let PartUsage { frames, held, lost, .. } = self.parts[part];
        frames.count() - held - lost
    }

    /// Returns the part that a frame lies in.
    pub fn part_of(&self, frame: Frame) -> Option<usize> {
        let (zone, first) = self.zones.iter().find(|(zone, _)| zone.contains(frame))?;
        let banks = self.bank.bank_of(frame) - self.bank.bank_of(zone.start());
        Some(first + usize::try_from(banks).expect("a zone has few banks"))
    }

    pub fn node_of(&self, frame: Frame) -> Node {
        self.parts[self.part_of(frame).expect("a frame of the machine")].node
    }

    /// A block is held from now on. If the allocator chose it, it may have opened its bank.
    pub fn take(&mut self, block: FrameBlock, allocator_chose: bool) {
        let part = self.part_of(block.first()).expect("a block of the machine");
        let is_first = self.parts[part].held == 0;
        self.parts[part].held += block.count();
        if is_first && !self.emptied.is_empty() {
            let known = self.emptied.iter().position(|&emptied| emptied == part);
            if let Some(at) = known {
                self.emptied.swap_remove(at);
                if allocator_chose {
                    self.reopened.push(part);
                }
            }
        }
    }

    /// A held block came back, `lost` of whose frames are retired.
    pub fn give(&mut self, block: FrameBlock, lost: u64) {
        let number = self.part_of(block.first()).expect("a block of the machine");
        let part = &mut self.parts[number];
        part.held -= block.count();
        part.lost += lost;
        if part.held == 0 && part.is_whole {
            self.emptied.push(number);
        }
    }

    /// Returns the frames of a part that has gone offline since the last call.
    pub fn gone_offline(&mut self, is_offline: impl Fn(usize) -> bool) -> Option<FrameRange> {
        let part = match self.reopened.pop() {
            Some(part) => part,
            None => {
                let at = self.emptied.iter().position(|&part| is_offline(part))?;
                self.emptied.swap_remove(at)
            }
        };
        Some(self.parts[part].frames)
    }
}
