//! Small machines of banks of 4 MiB, the size of the largest block, if not said otherwise.

mod frames;
mod isolation;
mod pools;
mod sets;

use std::collections::BTreeSet;

use rampart_memory::{FrameBlock, Node};

use super::*;
use crate::Migratetype::{Movable, Reclaimable, Unmovable};
use crate::testing::{CPU, block, frame, request, urgent, zone};
use crate::{
    BankPool,
    BankPool::{Kernel, Offline, User},
    Migratetype,
    ZoneKind::{Dma32, Normal},
};

const ZONE: ZoneIndex = ZoneIndex(0);
const BANK: BankSize = BankSize::of_frames(1024).unwrap();

/// Returns a machine of one zone of so many banks.
fn banks(count: u64) -> AdaptiveBuddy {
    of_sets(count, &BankSets::plain())
}

fn of_sets(count: u64, sets: &BankSets) -> AdaptiveBuddy {
    AdaptiveBuddy::new(&[zone(0, Normal, 0, count * 1024)], BANK, sets, StealRule::MostFree).unwrap()
}

fn pools(adaptive: &AdaptiveBuddy) -> Vec<BankPool> {
    (0..adaptive.parts()).map(|part| adaptive.part(part).pool).collect()
}

/// Allocates and returns the block, which there has to be.
fn get(adaptive: &AdaptiveBuddy, order: u8, own: Migratetype) -> FrameBlock {
    adaptive.allocate(urgent(order, own)).expect("there is a block")
}

/// Allocates blocks until a request of this kind is refused.
fn exhaust(adaptive: &AdaptiveBuddy, order: u8, own: Migratetype) -> Vec<FrameBlock> {
    core::iter::from_fn(|| adaptive.allocate(urgent(order, own))).collect()
}

/// Fills all banks with movable pages, then frees these blocks of them, aligned to the smallest one's size.
fn full_but(adaptive: &AdaptiveBuddy, free: &[(u64, u8)]) {
    let smallest = free.iter().map(|&(_, order)| order).min().unwrap_or(10);
    let freed: Vec<FrameBlock> = free.iter().map(|&(first, order)| block(first, order)).collect();
    for held in exhaust(adaptive, smallest, Movable) {
        if freed.iter().any(|free| free.contains(held.first())) {
            adaptive.free(held, CPU);
        }
    }
}
