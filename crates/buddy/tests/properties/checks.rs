//! What holds on a machine between any two steps.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use rampart_buddy::{Cpu, End, FramePlace, FreeLists, LOCAL_BATCH, LOCAL_HIGH, ListName, ZoneIndex};
use rampart_memory::{BlockOrder, Frame, FrameBlock};

use crate::world::{CPUS, World};

/// Returns all free blocks, by list.
pub fn free(world: &World) -> impl Iterator<Item = (ListName, FrameBlock)> {
    world.buddy.lists().flat_map(|list| world.buddy.blocks(list, End::Front).map(move |(block, _)| (list, block)))
}

/// The lists, from both ends, and the free frames of each zone and CPU are those of the model.
pub fn lists_and_counts(world: &World) -> Result<(), TestCaseError> {
    for list in world.buddy.lists() {
        let model = world.naive[list.zone.0].lists.get(&list).cloned().unwrap_or_default();
        prop_assert!(world.buddy.blocks(list, End::Front).eq(model.iter().copied()), "{list:?}");
        prop_assert!(world.buddy.blocks(list, End::Back).eq(model.iter().rev().copied()), "{list:?}");
        prop_assert_eq!(world.buddy.length(list), model.len() as u64);
    }
    for zone in world.zones() {
        prop_assert_eq!(world.buddy.free_frames(zone), world.naive[zone.0].free_frames());
        for cpu in (0..CPUS).map(Cpu) {
            let model = world.naive[zone.0].local_frames(cpu);
            prop_assert_eq!(world.buddy.local_frames(zone, cpu), model as u64);
        }
    }
    Ok(())
}

/// Every frame is in one place, and none is lost.
pub fn places(world: &World) -> Result<(), TestCaseError> {
    let mut places: BTreeMap<Frame, FramePlace> = BTreeMap::new();
    for (_, block) in free(world) {
        for frame in block.frames() {
            prop_assert_eq!(places.insert(frame, FramePlace::Free(block)), None, "two blocks share {}", frame);
        }
    }
    for frame in world.held.iter().flat_map(|(block, _)| block.frames()) {
        prop_assert_eq!(places.insert(frame, FramePlace::Held), None, "{} is held and free", frame);
    }
    let mut local = 0;
    for &frame in world.known.keys() {
        let place = world.buddy.place(frame);
        match places.get(&frame) {
            Some(expected) => prop_assert_eq!(place, *expected),
            None if place == FramePlace::Local => local += 1,
            None => prop_assert_eq!(place, FramePlace::Retired),
        }
    }
    let counted = world.zones().flat_map(|zone| (0..CPUS).map(move |cpu| (zone, Cpu(cpu))));
    prop_assert_eq!(local, counted.map(|(zone, cpu)| world.buddy.local_frames(zone, cpu)).sum::<u64>());
    Ok(())
}

/// No two free blocks are buddies.
pub fn buddies(world: &World) -> Result<(), TestCaseError> {
    let blocks: BTreeSet<(ZoneIndex, FrameBlock)> = free(world).map(|(list, block)| (list.zone, block)).collect();
    for &(zone, block) in blocks.iter().filter(|(_, block)| block.order() < BlockOrder::MAX) {
        let buddy = Frame::new(block.first().number() ^ block.count()).unwrap();
        let buddy = FrameBlock::new(buddy, block.order()).unwrap();
        prop_assert!(!blocks.contains(&(zone, buddy)), "{} and its buddy are apart", block);
    }
    Ok(())
}

/// A free empties a full list of a CPU; a refill, of one migratetype, ignores the lengths of the two others.
pub fn local_lists(world: &World) -> Result<(), TestCaseError> {
    for zone in world.zones() {
        for cpu in (0..CPUS).map(Cpu) {
            prop_assert!(world.buddy.local_frames(zone, cpu) < u64::from(LOCAL_HIGH + 2 * LOCAL_BATCH));
        }
    }
    Ok(())
}
