//! `rampart banks restore`: brings offline blocks online again, each in its former zone.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use rampart_linux::{HotplugState, MemoryBlocks, Patience, Roots};
use rampart_memory::HotplugBlock;
use serde::Serialize;

use super::arguments::RestoreArguments;
use super::mover::{BlockMover, RestoredBlock};
use crate::error::Error;
use crate::output::text;
use crate::process::signals;

/// What was restored.
#[derive(Serialize)]
struct RestoreReport {
    schema: &'static str,
    blocks: Vec<RestoredBlock>,
    /// Offline blocks that Rampart did not take offline, and that it left.
    left: Vec<HotplugBlock>,
}

/// Brings blocks online. Returns 0, or 2 if one stayed offline or in another zone.
pub fn run(arguments: &RestoreArguments) -> Result<u8, Error> {
    let roots = Roots::default();
    let mut mover = BlockMover::open(&roots)?;
    let stop = signals::stop_flag()?;
    let patience = Patience { deadline: arguments.deadline, stops: &|| stop.load(Ordering::Relaxed) };
    let blocks = MemoryBlocks::read(&roots).map_err(Error::NoBlocks)?;
    let others = blocks
        .blocks
        .iter()
        .filter(|block| block.state == HotplugState::Offline && mover.record().of(block.number).is_none());
    let others: BTreeSet<HotplugBlock> = others.map(|block| block.number).collect();
    let (wanted, left) = if arguments.all { (others, BTreeSet::new()) } else { (BTreeSet::new(), others) };
    let restored = mover.restore(&wanted, patience)?;
    let report = RestoreReport { schema: "rampart.restore/1", blocks: restored, left: left.into_iter().collect() };
    if arguments.json {
        text::print_json(&report)?;
    } else {
        text::print(&shown(&report))?;
    }
    Ok(if report.blocks.iter().all(RestoredBlock::is_back) { 0 } else { 2 })
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
