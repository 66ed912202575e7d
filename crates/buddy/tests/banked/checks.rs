//! What holds on a machine between any two steps.

use std::collections::BTreeMap;
use std::ops::Range;

use proptest::prelude::*;
use rampart_buddy::{BankPool, FramePlace, Migratetype, ZoneIndex};
use rampart_memory::{Frame, FrameBlock};

use crate::world::World;

/// The pool and the free frames of each part, the free frames of each zone and all counts are those of the model.
pub fn pools_and_counts(world: &World) -> Result<(), TestCaseError> {
    prop_assert_eq!(world.allocator.parts(), world.naive.parts.len());
    for (index, part) in world.naive.parts.iter().enumerate() {
        let state = world.allocator.part(index);
        let frames = state.frames.start().number()..state.frames.last().number() + 1;
        prop_assert_eq!((state.zone.0, &frames, state.is_partial), (part.zone, &part.frames, part.is_partial));
        prop_assert_eq!((state.free, state.pool), (world.naive.free_in(&frames), world.naive.pools[&part.set]));
    }
    for (zone, given) in world.naive.zones.iter().enumerate() {
        prop_assert_eq!(world.allocator.free_frames(ZoneIndex(zone)), world.naive.free_of_zone(zone));
        prop_assert_eq!(world.allocator.zone(ZoneIndex(zone)), Some(*given));
    }
    let counts = world.allocator.statistics();
    prop_assert_eq!((counts.allocated, counts.refused, counts.freed), (world.allocated, world.refused, world.freed));
    prop_assert_eq!((counts.steals, counts.retired), (world.naive.stolen_banks, world.naive.retired.len() as u64));
    Ok(())
}

/// Of one frame in seven and of the retired ones, the place is that of the model.
pub fn places(world: &World) -> Result<(), TestCaseError> {
    let mut expected = vec![FramePlace::Absent; 14_000];
    let mut expect = |frames: Range<u64>, place| expected[frames.start as usize..frames.end as usize].fill(place);
    for part in &world.naive.parts {
        expect(part.frames.clone(), FramePlace::Retired);
        for (first, order) in world.naive.blocks(&part.frames) {
            let block = FrameBlock::new(Frame::new(first).unwrap(), order).unwrap();
            expect(first..first + order.frames(), FramePlace::Free(block));
        }
    }
    for (held, _) in &world.naive.held {
        expect(held.first().number()..held.first().number() + held.count(), FramePlace::Held);
    }
    for number in (0..14_000).step_by(7).chain(world.naive.retired.iter().copied()) {
        let place = world.allocator.place(Frame::new(number).unwrap());
        prop_assert_eq!(place, expected[number as usize], "{}", number);
    }
    Ok(())
}

/// A bank of the user pool has no unmovable page, an offline one no page.
pub fn pages_of_pools(world: &World) -> Result<(), TestCaseError> {
    for (held, own) in &world.naive.held {
        let number = held.first().number();
        let part = world.naive.parts.iter().position(|part| part.frames.contains(&number)).unwrap();
        let pool = world.allocator.part(part).pool;
        prop_assert!(pool != BankPool::Offline);
        prop_assert!(pool == BankPool::Kernel || own.is_none_or(|own| own == Migratetype::Movable));
    }
    Ok(())
}

/// The banks of a set are in one pool, and partial ones in the kernel's.
pub fn pools_of_sets(world: &World) -> Result<(), TestCaseError> {
    let mut pools: BTreeMap<u64, BankPool> = BTreeMap::new();
    for (index, part) in world.naive.parts.iter().enumerate() {
        let pool = world.allocator.part(index).pool;
        prop_assert_eq!(*pools.entry(part.set).or_insert(pool), pool);
        prop_assert!(pool == BankPool::Kernel || !part.is_partial);
    }
    Ok(())
}
