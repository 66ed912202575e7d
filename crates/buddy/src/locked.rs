//! An allocator of one owner, shared between threads by one lock.
//!
//! **Problem.** An operation on a buddy system changes several of its lists. **Idea.** One spin lock for all of them,
//! as a zone of Linux has one for its lists. **Why this way.** It is simple and right, and the baseline for allocators
//! without a lock.

use core::fmt;

use rampart_memory::{Frame, FrameBlock};
use spin::mutex::SpinMutex;

use crate::{
    AllocatorStatistics, Cpu, End, FramePlace, FreeLists, Mark, PageAllocator, Request, Watermarks, Zone, ZoneIndex,
};

/// An allocator behind a spin lock.
pub struct Locked<A>(SpinMutex<A>);

impl<A> Locked<A> {
    /// Returns an allocator that threads can share.
    pub const fn new(allocator: A) -> Self {
        Self(SpinMutex::new(allocator))
    }

    /// Returns the allocator, for the one owner that it has now.
    pub fn get_mut(&mut self) -> &mut A {
        self.0.get_mut()
    }
}

impl<A: FreeLists + Send> PageAllocator for Locked<A> {
    fn allocate(&self, request: Request) -> Option<FrameBlock> {
        self.0.lock().allocate(request).map(|allocated| allocated.block)
    }

    fn free(&self, block: FrameBlock, cpu: Cpu) {
        self.0.lock().free(block, cpu, A::Mark::UNKNOWN, End::Front);
    }

    fn claim(&self, block: FrameBlock) -> bool {
        let mut lists = self.0.lock();
        lists.carve(block).is_some() || (lists.drain() > 0 && lists.carve(block).is_some())
    }

    fn retire(&self, frame: Frame) -> FramePlace {
        self.0.lock().retire(frame)
    }

    fn place(&self, frame: Frame) -> FramePlace {
        self.0.lock().place(frame)
    }

    fn zone(&self, zone: ZoneIndex) -> Option<Zone> {
        self.0.lock().zones().find(|(index, _)| *index == zone).map(|(_, zone)| zone)
    }

    fn free_frames(&self, zone: ZoneIndex) -> u64 {
        self.0.lock().free_frames(zone)
    }

    fn watermarks(&self, zone: ZoneIndex) -> Watermarks {
        self.0.lock().watermarks(zone)
    }

    fn statistics(&self) -> AllocatorStatistics {
        self.0.lock().statistics()
    }
}

impl<A> fmt::Debug for Locked<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an allocator behind a lock")
    }
}

#[cfg(test)]
mod tests {
    use super::Locked;
    use crate::testing::{CPU, SmallBuddy, block, frame, machine, request, urgent};
    use crate::{FramePlace, Migratetype::Movable, PageAllocator as _, ZoneIndex};

    const ZONE: ZoneIndex = ZoneIndex(0);

    #[test]
    fn a_claim_takes_exactly_these_frames_and_leaves_the_rest_free() {
        let shared = Locked::new(machine(2048));
        assert!(shared.claim(block(256, 5)));
        assert_eq!(shared.free_frames(ZONE), 2048 - 32);
        assert_eq!(shared.place(frame(256)), FramePlace::Held);
        assert_eq!(shared.place(frame(288)), FramePlace::Free(block(288, 5)));
        assert!(!shared.claim(block(256, 0)), "it is held");
        shared.free(block(256, 5), CPU);
        assert_eq!(shared.place(frame(256)), FramePlace::Free(block(0, 10)), "all has merged");
    }

    #[test]
    fn a_frame_on_the_list_of_a_cpu_can_be_claimed() {
        let shared = Locked::new(machine(1024));
        let held = shared.allocate(request(0, Movable)).unwrap();
        shared.free(held, CPU);
        assert_eq!(shared.place(held.first()), FramePlace::Local);
        assert!(shared.claim(block(0, 10)), "no frame is in use");
    }

    #[test]
    fn two_threads_share_it_and_nothing_is_lost() {
        let shared = Locked::new(machine(4096));
        std::thread::scope(|scope| {
            for cpu in 0..2 {
                let shared: &Locked<SmallBuddy> = &shared;
                scope.spawn(move || {
                    for number in 0..20_000_u32 {
                        let order = u8::try_from(number % 4).unwrap();
                        let asked = crate::Request { cpu: crate::Cpu(cpu), ..urgent(order, Movable) };
                        let held = shared.allocate(asked).expect("there is enough for two");
                        shared.free(held, crate::Cpu(cpu));
                    }
                });
            }
        });
        assert!((0..4).all(|number| shared.claim(block(number * 1024, 10))), "every frame is free again");
        assert_eq!(shared.statistics().allocated, 40_000);
    }
}
