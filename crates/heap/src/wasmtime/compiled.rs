//! Where compiled code allocates: the hole at hand, and those behind it.
//!
//! **Problem.** With half of the lines failed at random, a hole ends after two lines. A call of the runtime at each end
//! costs more than the objects in between. **Idea.** The runtime writes down all holes of the block. At the end of one,
//! compiled code takes the next by itself, for objects that fit any hole. **Why this way.** The path of code that finds
//! room stays as it is; only what is done at the end of a hole changes.

use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::geometry::{HeapBlock, MEMORY_LINE, narrow};
use crate::space::allocator::LocalAllocator;
use crate::space::free_lines::{BLOCK_LINES, FreeLines};
use crate::space::ranges::BumpRange;

/// More holes than this cannot be in a block.
const MOST_HOLES: usize = BLOCK_LINES / 2;

/// A hole: the offset of its start in the heap, and of its end.
type HoleWords = [AtomicU32; 2];

/// What compiled code reads and writes.
#[repr(C)]
#[derive(Debug)]
struct CompiledView {
    /// Where the next object goes.
    cursor: AtomicU32,
    /// The end of the hole at hand; and the number of the next hole, or 0.
    limit_and_next: [AtomicU32; 2],
    /// While compiled code throws in the place of a lost object: the type that it expected, or [`ANY_TYPE`]. Else
    /// [`NO_TYPE`].
    expected_type: AtomicU32,
    /// The holes of the block, from number 1. One that begins at 0 is the end of the list, and so is number 0.
    ahead: [HoleWords; MOST_HOLES + 2],
}

/// Where compiled code allocates, as the runtime has it. It and compiled code never run at the same time.
#[derive(Debug)]
pub struct CompiledAllocator {
    /// At a place of its own: others have its address.
    view: Box<CompiledView>,
    /// How many holes are listed.
    count: u32,
    /// The block and its free lines to which the list belongs.
    of: Option<(HeapBlock, FreeLines)>,
}

/// Where compiled code finds the end of the hole at hand.
pub const HOLE_LIMIT: usize = offset_of!(CompiledView, limit_and_next);

/// Where it finds the number of the next hole.
pub const NEXT_HOLE: usize = HOLE_LIMIT + size_of::<AtomicU32>();

/// Where it finds the holes, by their numbers.
pub const HOLES_AHEAD: usize = offset_of!(CompiledView, ahead);

/// The size of an entry there: the offset of the hole in the heap, and that of its end.
pub const HOLE_BYTES: usize = size_of::<HoleWords>();

/// Where it says which type it expected of a lost object.
pub const EXPECTED_TYPE: usize = offset_of!(CompiledView, expected_type);

/// What it says if it throws and expected none.
pub const ANY_TYPE: u32 = u32::MAX - 1;

/// Compiled code does not throw.
const NO_TYPE: u32 = u32::MAX;

/// The largest object, in bytes, for which compiled code takes the next hole: it fits all.
pub const MOST_INLINE: u32 = MEMORY_LINE;

const _: () = assert!(offset_of!(CompiledView, cursor) == 0 && HOLE_LIMIT == 4 && HOLE_BYTES == 8);

impl Default for CompiledAllocator {
    fn default() -> Self {
        let view = CompiledView {
            cursor: AtomicU32::default(),
            limit_and_next: Default::default(),
            expected_type: AtomicU32::new(NO_TYPE),
            ahead: std::array::from_fn(|_| HoleWords::default()),
        };
        Self { view: Box::new(view), count: 0, of: None }
    }
}

impl CompiledAllocator {
    /// What compiled code is given.
    pub fn data(&self) -> NonNull<u8> {
        NonNull::from(&*self.view).cast()
    }

    /// The words that make compiled code call the runtime at the next allocation, once both are 0. If they become 0
    /// just while it goes to another hole, it overwrites them, and calls the runtime at the end of the block.
    pub fn words(&self) -> NonNull<[AtomicU32; 2]> {
        NonNull::from(&self.view.limit_and_next)
    }

    /// Makes compiled code call the runtime at the next allocation.
    pub fn close(&self) {
        self.view.limit_and_next.iter().for_each(|word| word.store(0, Ordering::SeqCst));
    }

    /// The runtime goes on from where compiled code is. If it was closed, nobody knows which hole that was in: the rest
    /// of it is left until the next collection.
    pub fn hand_over(&self, local: &mut LocalAllocator) {
        let [limit, next] = self.view.limit_and_next.each_ref().map(|word| word.load(Ordering::SeqCst));
        if limit == 0 || (next == 0 && self.of.is_some()) {
            local.leave_hole();
        } else {
            local.went_on(BumpRange { cursor: self.view.cursor.load(Ordering::Relaxed), limit });
        }
    }

    /// Compiled code goes on from where the runtime is.
    pub fn take_back(&mut self, local: &LocalAllocator) {
        let [limit, next] = &self.view.limit_and_next;
        self.view.cursor.store(local.bump.cursor, Ordering::Relaxed);
        limit.store(local.bump.limit, Ordering::SeqCst);
        let Some((block, free, from)) = local.at_hand() else {
            self.of = None;
            return next.store(0, Ordering::SeqCst);
        };
        let known = next.load(Ordering::SeqCst);
        let is_listed = self.of == Some((block, free)) && known > 0;
        if !is_listed {
            self.list_holes(block, free);
        }
        let (first, start) = (if is_listed { known } else { 1 }, block.line_at(from));
        // Those that the runtime has taken since: few, if the list is known.
        let holes = &self.view.ahead[first as usize..=self.count as usize];
        let passed = holes.iter().take_while(|hole| hole[0].load(Ordering::Relaxed) < start).count();
        self.view.limit_and_next[1].store(first + narrow(passed), Ordering::SeqCst);
    }

    /// The type that compiled code expected, if any, when it was about to throw; `None` if it was not. Reading this
    /// resets it.
    pub fn take_expected_type(&self) -> Option<Option<u32>> {
        match self.view.expected_type.swap(NO_TYPE, Ordering::Relaxed) {
            NO_TYPE => None,
            ANY_TYPE => Some(None),
            ty => Some(Some(ty)),
        }
    }

    /// Nothing is at hand any more.
    pub fn clear(&mut self) {
        self.close();
        self.of = None;
    }

    fn list_holes(&mut self, block: HeapBlock, free: FreeLines) {
        let places = &self.view.ahead[1..];
        let ends = free.holes().map(|hole| [hole.start, hole.end].map(|line| block.line_at(line)));
        let mut count = 0;
        for (place, ends) in places.iter().zip(ends) {
            place.iter().zip(ends).for_each(|(word, end)| word.store(end, Ordering::Relaxed));
            count += 1;
        }
        places[count][0].store(0, Ordering::Relaxed);
        (self.count, self.of) = (narrow(count), Some((block, free)));
    }

    /// What compiled code does: memory for an object, or `None` if it calls the runtime.
    #[cfg(test)]
    fn allocate(&self, bytes: u32) -> Option<u32> {
        let CompiledView { cursor, limit_and_next: [limit, next], ahead, .. } = &*self.view;
        let load = |word: &AtomicU32| word.load(Ordering::Relaxed);
        let mut at = load(cursor);
        if at + bytes > load(limit) {
            let hole = &ahead[load(next) as usize];
            if bytes > MOST_INLINE || load(&hole[0]) == 0 {
                return None;
            }
            next.fetch_add(1, Ordering::Relaxed);
            limit.store(load(&hole[1]), Ordering::Relaxed);
            at = load(&hole[0]);
        }
        cursor.store(at + bytes, Ordering::Relaxed);
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wear::{ClusterBytes, FailureShare, RegionPages, cluster_failures, draw_failures};
    use crate::{Collection, HeapSettings, LineSize, ManagedHeap, NativeModel, Shape};

    /// A heap, and what fills it: the runtime alone, or compiled code before it.
    struct Program {
        heap: ManagedHeap<NativeModel>,
        local: LocalAllocator,
        compiled: Option<CompiledAllocator>,
        roots: Vec<u32>,
        calls: usize,
    }

    impl Program {
        fn new(failed: &[crate::wear::FailedLines], line: LineSize, is_compiled: bool) -> Self {
            let settings = HeapSettings { line, ..HeapSettings::default() };
            let heap = ManagedHeap::new(NativeModel, settings, failed.to_vec()).unwrap();
            let compiled = is_compiled.then(CompiledAllocator::default);
            Self { heap, local: LocalAllocator::default(), compiled, roots: Vec::new(), calls: 0 }
        }

        fn allocate(&mut self, bytes: u32) -> Option<u32> {
            let Some(compiled) = &mut self.compiled else { return self.heap.allocate(&mut self.local, bytes) };
            if let Some(at) = compiled.allocate(bytes) {
                return Some(at);
            }
            self.calls += 1;
            compiled.hand_over(&mut self.local);
            let at = self.heap.allocate(&mut self.local, bytes);
            compiled.take_back(&self.local);
            at
        }

        /// Allocates an object, keeps one in four, and collects if need be. Returns where it is.
        fn step(&mut self, bytes: u32, number: usize) -> u32 {
            let shape = Shape::new(0, bytes).unwrap();
            let mut due = self.heap.due();
            let at = loop {
                if let Some(at) = self.allocate(shape.size()) {
                    break at;
                }
                self.heap.collect(due, &mut [&mut self.local], &mut self.roots, &mut |_| {});
                self.compiled.iter_mut().for_each(CompiledAllocator::clear);
                due = due.next().unwrap_or(Collection::Compacting);
            };
            let object = NativeModel::initialize(self.heap.region(), at, shape);
            if number.is_multiple_of(4) {
                let (place, kept) = (number / 4 % 500, object.offset());
                self.roots.resize(500, 0);
                self.roots[place] = kept;
            }
            at
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn compiled_code_fills_the_holes_that_the_runtime_would_fill(
            share in 0.0..0.6_f64,
            is_clustered in any::<bool>(),
            line in prop::sample::select(vec![LineSize::L64, LineSize::L128, LineSize::L256]),
            seed in any::<u64>(),
        ) {
            let drawn = draw_failures(512, FailureShare::new(share).unwrap(), ClusterBytes::LINE, seed);
            let failed = if is_clustered { cluster_failures(&drawn, RegionPages::Two) } else { drawn };
            let [mut alone, mut compiled] = [false, true].map(|is_compiled| Program::new(&failed, line, is_compiled));
            let mut draw = seed | 1;
            for number in 0..20_000 {
                draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let bytes = match draw >> 58 {
                    0 => 300 + (draw >> 40 & 0x7ff) as u32,
                    1..16 => 56 + (draw >> 40 & 0xff) as u32,
                    _ => 8 + (draw >> 40 & 0x1f) as u32,
                };
                prop_assert_eq!(alone.step(bytes, number), compiled.step(bytes, number));
            }
            prop_assert_eq!(alone.heap.counts(), compiled.heap.counts());
            compiled.heap.verify(compiled.roots.iter().copied().filter(|root| *root > 0)).unwrap();
            prop_assert!(compiled.calls < 9000, "{} calls", compiled.calls);
        }
    }

    #[test]
    fn a_hole_behind_the_one_at_hand_costs_no_call() {
        let failed = draw_failures(512, FailureShare::new(0.5).unwrap(), ClusterBytes::LINE, 1);
        let mut program = Program::new(&failed, LineSize::L256, true);
        for number in 0..10_000 {
            program.step(24, number);
        }
        // 32 B each: about a block of 128 free lines in each call.
        assert!(program.calls < 10_000 / 200, "{} calls", program.calls);
    }
    #[test]
    fn a_closed_allocator_is_not_used_and_what_is_in_its_hole_stays() {
        let failed = draw_failures(512, FailureShare::new(0.3).unwrap(), ClusterBytes::LINE, 1);
        let mut program = Program::new(&failed, LineSize::L256, true);
        let mut places = std::collections::BTreeSet::new();
        for number in 0..1000 {
            if number % 37 == 0 {
                program.compiled.as_ref().unwrap().close();
                assert_eq!(program.compiled.as_ref().unwrap().allocate(16), None);
            }
            assert!(places.insert(program.step(24, number)), "no memory is given out twice");
        }
        assert_eq!(program.heap.counts().full + program.heap.counts().nursery, 0);
    }

    #[test]
    fn the_type_that_was_expected_is_told_once() {
        let compiled = CompiledAllocator::default();
        assert_eq!(compiled.take_expected_type(), None);
        for (stored, told) in [(7, Some(Some(7))), (ANY_TYPE, Some(None))] {
            compiled.view.expected_type.store(stored, Ordering::Relaxed);
            assert_eq!([compiled.take_expected_type(), compiled.take_expected_type()], [told, None]);
        }
    }
}
