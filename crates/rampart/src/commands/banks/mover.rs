//! Changes of memory blocks, each with its way back on record before.

use std::collections::BTreeSet;

use rampart_banks::OfflineRecord;
use rampart_linux::{
    BlockZones, HotplugRefusal, HotplugState, MemoryBlock, MemoryBlocks, OnlineUse, Patience, Roots, hotplug,
};
use rampart_memory::HotplugBlock;
use serde::Serialize;

use super::record::RecordFile;
use crate::error::Error;

/// A block that cannot be emptied to go to its former zone is tried so often.
const ROUNDS: u32 = 3;

/// The only one who changes blocks, as long as it lives.
pub struct BlockMover<'a> {
    roots: &'a Roots,
    file: RecordFile,
}

/// A block that was to be restored.
#[derive(Serialize)]
pub struct RestoredBlock {
    /// Its number.
    pub block: HotplugBlock,
    /// The former zone, if it is on record.
    pub former: Option<String>,
    /// The zone in which it is now; `None` if it is still offline.
    pub zone: Option<String>,
    /// Why it is still offline, or not in its former zone.
    pub refusal: Option<String>,
}

impl<'a> BlockMover<'a> {
    /// # Errors
    /// [`Error::BanksBusy`] if another process changes blocks, [`Error::OfflineRecord`].
    pub fn open(roots: &'a Roots) -> Result<Self, Error> {
        RecordFile::open().map(|file| Self { roots, file })
    }

    /// What is on record.
    pub const fn record(&self) -> &OfflineRecord {
        &self.file.record
    }

    /// Takes a block offline.
    ///
    /// # Errors
    /// [`Error::OfflineRecord`]: then nothing was tried. A refusal of the kernel is the inner result.
    pub fn take_offline(
        &mut self,
        block: &MemoryBlock,
        patience: Patience<'_>,
    ) -> Result<Result<(), HotplugRefusal>, Error> {
        self.file.record.add(block);
        self.file.write()?;
        Ok(hotplug::take_offline(self.roots, block.number, patience))
    }

    /// Brings a block online; if not for this use, then for any: memory in the wrong zone is better than none.
    pub fn bring_online(&self, block: HotplugBlock, for_: OnlineUse) -> Result<(), HotplugRefusal> {
        hotplug::bring_online(self.roots, block, for_)
            .or_else(|refusal| hotplug::bring_online(self.roots, block, OnlineUse::Any).and(Err(refusal)))
    }

    /// Brings each block of the record online in its former zone, and all offline blocks of `others` in any. Blocks
    /// that are offline come first, since they make room.
    ///
    /// # Errors
    /// [`Error::NoBlocks`], [`Error::OfflineRecord`].
    pub fn restore(
        &mut self,
        others: &BTreeSet<HotplugBlock>,
        patience: Patience<'_>,
    ) -> Result<Vec<RestoredBlock>, Error> {
        let mut restored = Vec::new();
        for block in self.blocks()?.blocks.iter().filter(|block| block.state == HotplugState::Offline) {
            let former = self.file.record.of(block.number);
            if former.is_none() && !others.contains(&block.number) {
                continue;
            }
            let for_ = former.map_or(OnlineUse::Any, rampart_banks::OfflineBlock::online_use);
            let refusal = self.bring_online(block.number, for_).err();
            restored.push(RestoredBlock::new(block.number, former.map(|former| former.zone.clone()), refusal));
        }
        for round in 0..ROUNDS {
            if !self.put_back(&mut restored, round, patience)? {
                break;
            }
        }
        let after = self.blocks()?;
        restored.iter_mut().for_each(|block| block.zone = zone_of(&after, block.block));
        self.end(&after)?;
        Ok(restored)
    }

    /// Empties the blocks of the record that are online in another zone than before, and puts them back. Returns
    /// whether another round could do more.
    fn put_back(
        &mut self,
        restored: &mut Vec<RestoredBlock>,
        round: u32,
        patience: Patience<'_>,
    ) -> Result<bool, Error> {
        let mut is_left = false;
        let astray: Vec<MemoryBlock> =
            self.blocks()?.blocks.into_iter().filter(|block| self.is_astray(block)).collect();
        for block in astray {
            let Some(former) = self.file.record.of(block.number).cloned() else { continue };
            if (patience.stops)() {
                return Ok(false);
            }
            let refusal = self
                .take_offline(&block, patience)?
                .and_then(|()| self.bring_online(block.number, former.online_use()))
                .err();
            is_left |= refusal.is_some();
            let entry = RestoredBlock::new(block.number, Some(former.zone), refusal);
            match restored.iter_mut().find(|other| other.block == block.number) {
                Some(earlier) if round > 0 || earlier.refusal.is_none() => *earlier = entry,
                Some(_) => {}
                None => restored.push(entry),
            }
        }
        Ok(is_left)
    }

    /// Whether a block on record is online in another zone.
    fn is_astray(&self, block: &MemoryBlock) -> bool {
        block.state == HotplugState::Online
            && self.file.record.of(block.number).is_some_and(|former| !former.is_back(block))
    }

    /// Drops blocks from the record that are back.
    ///
    /// # Errors
    /// [`Error::OfflineRecord`].
    pub fn end(&mut self, now: &MemoryBlocks) -> Result<(), Error> {
        self.file.record.drop_returned(now);
        self.file.write()
    }

    fn blocks(&self) -> Result<MemoryBlocks, Error> {
        MemoryBlocks::read(self.roots).map_err(Error::NoBlocks)
    }
}

impl RestoredBlock {
    fn new(block: HotplugBlock, former: Option<String>, refusal: Option<HotplugRefusal>) -> Self {
        Self { block, former, zone: None, refusal: refusal.map(|refusal| refusal.to_string()) }
    }

    /// Whether it is online, in its former zone if that is known.
    pub fn is_back(&self) -> bool {
        self.zone.is_some() && (self.former.is_none() || self.former == self.zone)
    }
}

/// The zone of an online block.
fn zone_of(blocks: &MemoryBlocks, number: HotplugBlock) -> Option<String> {
    let found = blocks.find(number).filter(|block| block.state == HotplugState::Online)?;
    Some(match &found.zones {
        BlockZones::In(zone) => zone.clone(),
        BlockZones::Several => "several".to_owned(),
        BlockZones::Choices(_) | BlockZones::Unknown => "unknown".to_owned(),
    })
}
