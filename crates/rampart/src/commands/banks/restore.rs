//! `rampart banks restore`: brings offline blocks online again, each in its former zone.

use std::fmt::Write as _;

use rampart_linux::{BlockZones, HotplugState, MemoryBlock, MemoryBlocks, OnlineUse, Roots, hotplug};
use rampart_memory::HotplugBlock;
use serde::Serialize;

use super::arguments::RestoreArguments;
use super::record::RecordFile;
use crate::error::Error;
use crate::output::text;

/// What was restored.
#[derive(Serialize)]
struct RestoreReport {
    schema: &'static str,
    blocks: Vec<RestoredBlock>,
    /// Offline blocks that Rampart did not take offline, and that it left.
    left: Vec<HotplugBlock>,
}

#[derive(Serialize)]
struct RestoredBlock {
    block: HotplugBlock,
    /// The former zone, if it is on record.
    former: Option<String>,
    /// The zone in which it is now; `None` if it is still offline.
    zone: Option<String>,
    /// Why it is still offline, or not in its former zone.
    refusal: Option<String>,
}

/// Brings blocks online. Returns 0, or 2 if one stayed offline or came into another zone.
pub fn run(arguments: &RestoreArguments) -> Result<u8, Error> {
    let roots = Roots::default();
    let mut file = RecordFile::open()?;
    let blocks = MemoryBlocks::read(&roots).map_err(Error::NoBlocks)?;
    let mut report = RestoreReport { schema: "rampart.restore/1", blocks: Vec::new(), left: Vec::new() };
    for block in blocks.blocks.iter().filter(|block| block.state == HotplugState::Offline) {
        match file.record.of(block.number) {
            Some(former) => report.blocks.push(bring_back(&roots, block, former.online_use(), Some(&former.zone))),
            None if arguments.all => report.blocks.push(bring_back(&roots, block, OnlineUse::Any, None)),
            None => report.left.push(block.number),
        }
    }
    let after = MemoryBlocks::read(&roots).map_err(Error::NoBlocks)?;
    report.blocks.iter_mut().for_each(|block| block.zone = zone_of(&after, block.block));
    file.record.keep_offline(&after);
    file.write()?;
    if arguments.json {
        text::print_json(&report)?;
    } else {
        text::print(&shown(&report))?;
    }
    Ok(if report.blocks.iter().all(RestoredBlock::is_back) { 0 } else { 2 })
}

/// Brings a block online, if not in its former zone, then in any: memory in the wrong zone is better than none.
fn bring_back(roots: &Roots, block: &MemoryBlock, for_: OnlineUse, former: Option<&str>) -> RestoredBlock {
    let refusal = hotplug::bring_online(roots, block.number, for_)
        .or_else(|refusal| hotplug::bring_online(roots, block.number, OnlineUse::Any).and(Err(refusal)));
    RestoredBlock {
        block: block.number,
        former: former.map(str::to_owned),
        zone: None,
        refusal: refusal.err().map(|refusal| refusal.to_string()),
    }
}

/// The zone of an online block.
fn zone_of(blocks: &MemoryBlocks, number: HotplugBlock) -> Option<String> {
    let found = blocks.blocks.iter().find(|block| block.number == number && block.state == HotplugState::Online)?;
    Some(match &found.zones {
        BlockZones::In(zone) => zone.clone(),
        BlockZones::Several => "several".to_owned(),
        BlockZones::Choices(_) | BlockZones::Unknown => "unknown".to_owned(),
    })
}

impl RestoredBlock {
    fn is_back(&self) -> bool {
        self.zone.is_some() && (self.former.is_none() || self.former == self.zone)
    }
}

fn shown(report: &RestoreReport) -> String {
    let mut text = String::new();
    for block in &report.blocks {
        let number = block.block.0;
        let refusal = block.refusal.as_deref().unwrap_or("the kernel chose so");
        let _ = match (&block.zone, &block.former) {
            (None, _) => writeln!(text, "block {number} stays offline: {refusal}"),
            (Some(zone), Some(former)) if zone != former => {
                writeln!(text, "block {number} is online in zone {zone}, not in {former} as before: {refusal}")
            }
            (Some(zone), _) => writeln!(text, "block {number} is online in zone {zone}"),
        };
    }
    if report.blocks.is_empty() {
        text.push_str("nothing to bring back: Rampart has taken no block offline\n");
    }
    if !report.left.is_empty() {
        let numbers: Vec<String> = report.left.iter().map(|block| block.0.to_string()).collect();
        let _ = writeln!(text, "offline by others: {}; --all brings these online too", numbers.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_back_only_in_its_former_zone() {
        let block = |former: Option<&str>, zone: Option<&str>| RestoredBlock {
            block: HotplugBlock(5),
            former: former.map(str::to_owned),
            zone: zone.map(str::to_owned),
            refusal: None,
        };
        let line = |block| shown(&RestoreReport { schema: "", blocks: vec![block], left: Vec::new() });
        assert!(block(Some("Normal"), Some("Normal")).is_back() && block(None, Some("Movable")).is_back());
        assert!(!block(Some("Normal"), Some("Movable")).is_back() && !block(None, None).is_back());
        assert_eq!(line(block(None, Some("Normal"))), "block 5 is online in zone Normal\n");
        assert_eq!(
            line(block(Some("Normal"), Some("Movable"))),
            "block 5 is online in zone Movable, not in Normal as before: the kernel chose so\n"
        );
        let nothing = RestoreReport { schema: "", blocks: Vec::new(), left: vec![HotplugBlock(3), HotplugBlock(4)] };
        assert_eq!(
            shown(&nothing),
            "nothing to bring back: Rampart has taken no block offline\n\
             offline by others: 3, 4; --all brings these online too\n"
        );
    }
}
