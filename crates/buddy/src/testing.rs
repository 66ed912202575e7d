//! Small machines for the tests.

use rampart_memory::{BlockOrder, Frame, FrameBlock, FrameRange, Node, Tested, Timestamp};

use crate::{
    BankPool, BankPools, Buddy, Cpu, End, FreeLists, HeapStorage, ListName, Migratetype, PageAllocator, Request, Zone,
    ZoneIndex, ZoneKind,
};

pub const CPU: Cpu = Cpu(0);

pub fn zone(node: u32, kind: ZoneKind, start: u64, count: u64) -> Zone {
    Zone { node: Node(node), kind, frames: FrameRange::new(frame(start), count).unwrap() }
}

/// A buddy system for tests.
pub type SmallBuddy = Buddy<'static, Tested, HeapStorage>;

/// Returns a machine of two CPUs and one zone of `frames` frames from 0 on, never tested.
pub fn machine(frames: u64) -> SmallBuddy {
    Buddy::new(&[zone(0, ZoneKind::Normal, 0, frames)], 2, Tested::NEVER).unwrap()
}

pub fn frame(number: u64) -> Frame {
    Frame::new(number).unwrap()
}

pub fn order(number: u8) -> BlockOrder {
    BlockOrder::new(number).unwrap()
}

pub fn block(first: u64, number: u8) -> FrameBlock {
    FrameBlock::new(frame(first), order(number)).unwrap()
}

pub fn at(seconds: u64) -> Tested {
    Tested::at(Timestamp::from_micros(seconds * 1_000_000))
}

pub fn request(number: u8, migratetype: Migratetype) -> Request {
    Request { order: order(number), migratetype, cpu: CPU, node: Node(0), urgent: false }
}

/// A request that no watermark stops.
pub fn urgent(number: u8, migratetype: Migratetype) -> Request {
    Request { urgent: true, ..request(number, migratetype) }
}

pub fn list(number: u8, migratetype: Migratetype) -> ListName {
    ListName { zone: ZoneIndex(0), order: order(number), migratetype }
}

/// Returns the free blocks of the first zone, sorted by their first frame, with the migratetype of their list.
pub fn free_blocks(buddy: &SmallBuddy) -> Vec<(FrameBlock, Migratetype, Tested)> {
    let of = |list| buddy.blocks(list, End::Front).map(move |(block, mark)| (block, list.migratetype, mark));
    let mut blocks: Vec<_> = buddy.lists().filter(|list| list.zone == ZoneIndex(0)).flat_map(of).collect();
    blocks.sort_unstable();
    blocks
}

/// Returns the pool of each part of a bank.
pub fn pools(allocator: &impl BankPools) -> Vec<BankPool> {
    (0..allocator.parts()).map(|part| allocator.part(part).pool).collect()
}

/// Allocates and returns the block, which there has to be.
pub fn get(allocator: &impl PageAllocator, order: u8, own: Migratetype) -> FrameBlock {
    allocator.allocate(urgent(order, own)).expect("there is a block")
}

/// Allocates blocks until a request of this kind is refused.
pub fn exhaust(allocator: &impl PageAllocator, order: u8, own: Migratetype) -> Vec<FrameBlock> {
    core::iter::from_fn(|| allocator.allocate(urgent(order, own))).collect()
}

/// Fills all banks with movable pages, then frees these blocks of them, aligned to the smallest one's size.
pub fn full_but(allocator: &impl PageAllocator, free: &[(u64, u8)]) {
    let smallest = free.iter().map(|&(_, order)| order).min().unwrap_or(10);
    let freed: Vec<FrameBlock> = free.iter().map(|&(first, order)| block(first, order)).collect();
    for held in exhaust(allocator, smallest, Migratetype::Movable) {
        if freed.iter().any(|free| free.contains(held.first())) {
            allocator.free(held, CPU);
        }
    }
}
