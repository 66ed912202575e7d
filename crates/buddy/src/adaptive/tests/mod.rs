//! Small machines of banks of 4 MiB, the size of the largest block, if not said otherwise.

mod frames;
mod isolation;
mod pools;
mod sets;

use std::collections::BTreeSet;

use rampart_memory::Node;

use super::*;
use crate::Migratetype::{Movable, Reclaimable, Unmovable};
use crate::testing::{CPU, block, exhaust, frame, full_but, get, pools, request, urgent, zone};
use crate::{
    BankPool::{Kernel, Offline, User},
    BankPools, FramePlace, PageAllocator, Request, ZoneIndex,
    ZoneKind::{Dma32, Normal},
};

const ZONE: ZoneIndex = ZoneIndex(0);
const BANK: BankSize = BankSize::of_frames(1024).unwrap();

/// Returns a machine of one zone of so many banks.
fn banks(count: u64) -> AdaptiveBuddy<'static, HeapStorage> {
    of_sets(count, &BankSets::plain())
}

fn of_sets(count: u64, sets: &BankSets<'_>) -> AdaptiveBuddy<'static, HeapStorage> {
    AdaptiveBuddy::new(&[zone(0, Normal, 0, count * 1024)], BANK, sets, StealRule::MostFree).unwrap()
}
