//! Where compiled code allocates: the hole at hand, and those behind it.
//!
//! **Problem.** With half of the lines failed at random, a hole ends after two lines. A call of the runtime at each end
//! costs more than the objects in between. **Idea.** The runtime writes down all holes of the block. At the end of one,
//! compiled code takes the next by itself, for objects that fit any hole. **Why this way.** The path of code that finds
//! room stays as it is; only what is done at the end of a hole changes.

use std::mem::offset_of;

use crate::geometry::{HeapBlock, MEMORY_LINE, narrow};
use crate::space::allocator::LocalAllocator;
use crate::space::free_lines::{BLOCK_LINES, FreeLines};
use crate::space::ranges::BumpRange;

/// More holes than this cannot be in a block.
const MOST_HOLES: usize = BLOCK_LINES / 2;

/// What compiled code uses: it reads and writes these fields.
#[repr(C)]
#[derive(Debug)]
pub struct CompiledAllocator {
    /// The hole at hand.
    bump: BumpRange,
    /// The number of the next hole.
    next: u32,
    /// How many there are; only for the runtime.
    count: u32,
    /// The holes of the block. One that begins at 0 is the end of the list.
    ahead: [BumpRange; MOST_HOLES + 1],
    /// The block and its free lines to which the list belongs.
    of: Option<(HeapBlock, FreeLines)>,
}

/// Where compiled code finds the number of the next hole.
pub const NEXT_HOLE: usize = offset_of!(CompiledAllocator, next);

/// Where it finds the holes.
pub const HOLES_AHEAD: usize = offset_of!(CompiledAllocator, ahead);

/// The size of an entry there: the offset of the hole in the heap, and of its end.
pub const HOLE_BYTES: usize = size_of::<BumpRange>();

/// The largest object, in bytes, for which compiled code takes the next hole: it fits all.
pub const MOST_INLINE: u32 = MEMORY_LINE;

const _: () = assert!(offset_of!(CompiledAllocator, bump) == 0 && HOLE_BYTES == 8);

impl Default for CompiledAllocator {
    fn default() -> Self {
        let none = BumpRange::default();
        Self { bump: none, next: 0, count: 0, ahead: [none; MOST_HOLES + 1], of: None }
    }
}

impl CompiledAllocator {
    /// The runtime goes on from where compiled code is.
    pub fn hand_over(&self, local: &mut LocalAllocator) {
        local.went_on(self.bump);
    }

    /// Compiled code goes on from where the runtime is.
    pub fn take_back(&mut self, local: &LocalAllocator) {
        self.bump = local.bump;
        let Some((block, free, from)) = local.at_hand() else { return self.forget_holes() };
        if self.of != Some((block, free)) {
            self.list_holes(block, free);
        }
        let start = block.line_at(from);
        let ahead = &self.ahead[..self.count as usize];
        // The runtime has taken few since.
        let passed =
            ahead[(self.next as usize).min(ahead.len())..].iter().take_while(|hole| hole.cursor < start).count();
        self.next += narrow(passed);
    }

    /// Nothing is at hand any more.
    pub fn clear(&mut self) {
        self.bump = BumpRange::default();
        self.forget_holes();
    }

    fn forget_holes(&mut self) {
        (self.next, self.count, self.of) = (0, 0, None);
        self.ahead[0] = BumpRange::default();
    }

    fn list_holes(&mut self, block: HeapBlock, free: FreeLines) {
        let mut count = 0;
        for (place, hole) in self.ahead.iter_mut().zip(free.holes()) {
            *place = BumpRange { cursor: block.line_at(hole.start), limit: block.line_at(hole.end) };
            count += 1;
        }
        self.ahead[count] = BumpRange::default();
        (self.next, self.count, self.of) = (0, narrow(count), Some((block, free)));
    }

    /// What compiled code does: memory for an object, or `None` if it calls the runtime.
    #[cfg(test)]
    fn allocate(&mut self, bytes: u32) -> Option<u32> {
        if let Some(at) = self.bump.take(bytes) {
            return Some(at);
        }
        let hole = self.ahead[self.next as usize];
        if bytes > MOST_INLINE || hole.cursor == 0 {
            return None;
        }
        self.next += 1;
        self.bump = hole;
        self.bump.take(bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wear::{ClusterBytes, FailureShare, RegionPages, cluster_failures, draw_failures};
    use crate::{Collection, HeapSettings, LineSize, ManagedHeap, NativeModel, RootSet, Shape};

    #[derive(Default)]
    struct Roots(Vec<u32>);

    impl RootSet for Roots {
        fn visit(&mut self, visit: &mut dyn FnMut(u32) -> u32) {
            self.0.iter_mut().for_each(|root| *root = visit(*root));
        }
    }

    /// A heap, and what fills it: the runtime alone, or compiled code before it.
    struct Program {
        heap: ManagedHeap<NativeModel>,
        local: LocalAllocator,
        compiled: Option<CompiledAllocator>,
        roots: Roots,
        calls: usize,
    }

    impl Program {
        fn new(failed: &[crate::wear::FailedLines], line: LineSize, is_compiled: bool) -> Self {
            let settings = HeapSettings { line, ..HeapSettings::default() };
            let heap = ManagedHeap::new(NativeModel, settings, failed.to_vec()).unwrap();
            let compiled = is_compiled.then(CompiledAllocator::default);
            Self { heap, local: LocalAllocator::default(), compiled, roots: Roots::default(), calls: 0 }
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
                self.roots.0.resize(500, 0);
                self.roots.0[place] = kept;
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
            compiled.heap.verify(compiled.roots.0.iter().copied().filter(|root| *root > 0)).unwrap();
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
}
