//! The heap against a model, and the place of its memory.

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::thread;

use proptest::prelude::*;

use super::*;
use crate::heap::range_size::SMALLEST_RANGE;
use crate::{Outside, Plain};

/// A heap for one test. Each test has a thread of its own, and so has each heap here.
fn heap(range: Bytes) -> &'static Heap {
    let heap: &'static Heap = Box::leak(Box::new(Heap::new(&Plain)));
    heap.start(range).unwrap();
    heap
}

/// Runs on a thread of its own, which is bound to no heap yet.
fn on_a_new_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(work).join().unwrap())
}

/// The operations of a program on its heap.
#[derive(Clone, Debug)]
enum Step {
    Allocate(usize),
    Zeroed(usize),
    Aligned(u32, usize),
    Resize(prop::sample::Index, usize),
    Release(prop::sample::Index),
}

fn size() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0_usize..300, 4 => 0_usize..40_000, 1 => 0_usize..3 << 20]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => size().prop_map(Step::Allocate),
        1 => size().prop_map(Step::Zeroed),
        1 => (3_u32..22, size()).prop_map(|(log, size)| Step::Aligned(log, size)),
        2 => (any::<prop::sample::Index>(), size()).prop_map(|(index, size)| Step::Resize(index, size)),
        3 => any::<prop::sample::Index>().prop_map(Step::Release),
    ]
}

/// A live block whose bytes are all `filling`.
#[derive(Debug)]
struct Block {
    start: *mut c_void,
    size: usize,
    filling: u8,
}

impl Block {
    fn filled(start: *mut c_void, size: usize, filling: u8) -> Self {
        // SAFETY: the heap gave us `size` bytes here.
        unsafe { start.cast::<u8>().write_bytes(filling, size) };
        Self { start, size, filling }
    }

    fn holds(&self, size: usize) -> bool {
        holds(self.start, size, self.filling)
    }
}

fn holds(start: *const c_void, size: usize, filling: u8) -> bool {
    // SAFETY: callers ask about bytes of a live block, which were written or zeroed, and which nobody writes meanwhile.
    unsafe { std::slice::from_raw_parts(start.cast::<u8>(), size) == vec![filling; size] }
}

fn run(heap: &'static Heap, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut blocks: Vec<Block> = Vec::new();
    for (number, step) in steps.into_iter().enumerate() {
        let filling = u8::try_from(number % 255).unwrap() + 1;
        match step {
            Step::Allocate(size) => blocks.push(Block::filled(heap.allocate(size), size, filling)),
            Step::Zeroed(size) => {
                let start = heap.allocate_zeroed(size);
                prop_assert!(holds(start, size, 0), "zeroed memory holds zeros");
                blocks.push(Block::filled(start, size, filling));
            }
            Step::Aligned(log, size) => {
                let start = heap.allocate_aligned(1 << log, size);
                prop_assert!(start.addr().is_multiple_of(1 << log), "it is aligned");
                blocks.push(Block::filled(start, size, filling));
            }
            Step::Resize(index, size) if !blocks.is_empty() => {
                let block = blocks.swap_remove(index.index(blocks.len()));
                // SAFETY: the block is live, and gone from the list.
                let start = unsafe { heap.resize(block.start, size) };
                prop_assert_eq!(start.is_null(), size == 0, "resizing to nothing frees, and else there is memory");
                if size > 0 {
                    prop_assert!(holds(start, size.min(block.size), block.filling), "what fits is kept");
                    blocks.push(Block::filled(start, size, filling));
                }
            }
            Step::Release(index) if !blocks.is_empty() => {
                let block = blocks.swap_remove(index.index(blocks.len()));
                prop_assert!(block.holds(block.size), "nobody else wrote here");
                // SAFETY: the block is live, and gone from the list.
                unsafe { heap.release(block.start) };
            }
            Step::Resize(..) | Step::Release(_) => {}
        }
        if let Some(block) = blocks.last() {
            let last = block.start.wrapping_byte_add(block.size.saturating_sub(1));
            prop_assert!(heap.owns(block.start) && heap.owns(last), "{block:?} is in the range");
            // SAFETY: the block is live.
            let usable = unsafe { heap.usable_size(block.start) };
            prop_assert!(usable >= block.size);
        }
    }
    for block in blocks {
        prop_assert!(block.holds(block.size), "nobody else wrote here");
        // SAFETY: the block is live.
        unsafe { heap.release(block.start) };
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Blocks keep their content, do not overlap, are aligned and in the range, whatever the order of calls.
    #[test]
    fn a_heap_does_what_the_model_does(steps in prop::collection::vec(step(), 1..300)) {
        let heap = heap(Bytes::from_mib(2048));
        on_a_new_thread(move || run(heap, steps))?;
        prop_assert_eq!(heap.usage().outside, 0);
    }
}

#[test]
fn the_first_allocation_of_a_thread_is_in_the_range() {
    let heap = heap(Bytes::from_mib(1024));
    for size in [0, 1, 100, 5000, 1 << 20, 100 << 20] {
        assert!(heap.owns(on_a_new_thread(|| heap.allocate(size).addr()) as *const c_void), "{size} bytes");
        let zeroed = on_a_new_thread(|| {
            let start = heap.allocate_zeroed(size);
            assert!(holds(start, size, 0));
            start.addr()
        });
        assert!(heap.owns(zeroed as *const c_void), "{size} zeros");
    }
}

#[test]
fn a_heap_that_was_not_started_serves_memory_outside_and_counts_it() {
    let heap: &'static Heap = Box::leak(Box::new(Heap::new(&Plain)));
    heap.fail();
    let start = heap.allocate(100);
    assert!(!start.is_null() && !heap.owns(start));
    assert_eq!(heap.usage().outside, 1);
    assert_eq!(heap.range(), None);
    // SAFETY: it is live.
    unsafe { heap.release(start) };
}

#[test]
fn memory_from_before_the_start_moves_into_the_range_when_it_is_resized() {
    let heap: &'static Heap = Box::leak(Box::new(Heap::new(&Plain)));
    let early = {
        let _outside = Outside::enter().unwrap();
        Block::filled(heap.allocate(100), 100, 7)
    };
    assert!(!heap.owns(early.start));
    heap.start(SMALLEST_RANGE).unwrap();
    // SAFETY: it is live, and not used under its old address.
    let moved = unsafe { heap.resize(early.start, 200) };
    assert!(heap.owns(moved) && holds(moved, 100, 7));
}

#[test]
fn what_was_freed_outside_does_not_come_back_inside() {
    let heap = heap(SMALLEST_RANGE);
    let outside: Vec<_> = {
        let _outside = Outside::enter().unwrap();
        (0..200).map(|_| heap.allocate(64)).collect()
    };
    assert!(outside.iter().all(|&start| !start.is_null() && !heap.owns(start)));
    // SAFETY: each is live.
    outside.into_iter().for_each(|start| unsafe { heap.release(start) });
    assert!((0..200).all(|_| heap.owns(heap.allocate(64))));
}

#[test]
fn a_private_thread_allocates_outside_even_what_it_freed_inside() {
    let heap = heap(SMALLEST_RANGE);
    let inside: Vec<_> = (0..100).map(|_| heap.allocate(64).addr()).collect();
    on_a_new_thread(|| {
        let outside = Outside::enter().unwrap();
        for start in inside {
            // SAFETY: it is live, and the other thread waits for us.
            unsafe { heap.release(ptr::with_exposed_provenance_mut(start)) };
            assert!(!heap.owns(heap.allocate(64)));
        }
        assert!(!heap.owns(heap.allocate_zeroed(1 << 20)));
        assert!(!heap.owns(heap.allocate_aligned(PAGE_BYTES, 10)));
        drop(Outside::enter().unwrap());
        assert!(!heap.owns(heap.allocate(64)), "the inner one did not end the outer one");
        drop(outside);
        assert!(heap.owns(heap.allocate(64)), "it is a thread of the program again");
    });
    assert_eq!(heap.usage().outside, 0, "what was meant to be outside does not count");
}

#[test]
fn a_program_that_enters_and_leaves_goes_on_in_its_arena() {
    let heap = heap(SMALLEST_RANGE);
    heap.allocate(64);
    let before = jemalloc::thread_arena();
    drop(Outside::enter().unwrap());
    assert_eq!(jemalloc::thread_arena(), before);
    assert!(heap.owns(heap.allocate(64)));
}

#[test]
fn a_gibibyte_and_alignments_up_to_a_gibibyte_are_in_the_range() {
    let heap = heap(Bytes::from_mib(16 << 10));
    let gibibyte = heap.allocate(1 << 30);
    assert!(heap.owns(gibibyte) && heap.owns(gibibyte.wrapping_byte_add((1 << 30) - 1)));
    for log in 0..=30 {
        let start = heap.allocate_aligned(1 << log, 1 << 20);
        assert!(heap.owns(start) && start.addr().is_multiple_of(1 << log), "2^{log}");
    }
}

#[test]
fn an_exhausted_range_refuses_says_enomem_and_serves_again_after_a_release() {
    let heap = heap(SMALLEST_RANGE);
    let mut blocks = BTreeSet::new();
    loop {
        let start = heap.allocate(1 << 20);
        if start.is_null() {
            break;
        }
        assert!(heap.owns(start) && blocks.insert(start.addr()));
    }
    assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ENOMEM));
    assert!((32..=64).contains(&blocks.len()), "at least half of 64 MiB was served: {}", blocks.len());
    assert!(heap.allocate_aligned(1 << 30, 1).is_null() && heap.allocate_zeroed(usize::MAX).is_null());
    let kept = Block { start: ptr::with_exposed_provenance_mut(*blocks.first().unwrap()), size: 1 << 20, filling: 9 };
    let kept = Block::filled(kept.start, kept.size, kept.filling);
    // SAFETY: the block is live; a resize that fails leaves it so.
    assert!(unsafe { heap.resize(kept.start, 1 << 30) }.is_null());
    assert!(kept.holds(kept.size), "a resize that fails leaves the block as it was");
    let freed = blocks.pop_last().unwrap();
    // SAFETY: it is live.
    unsafe { heap.release(ptr::with_exposed_provenance_mut(freed)) };
    assert!(heap.owns(heap.allocate(1 << 20)));
    assert_eq!(heap.usage().outside, 0);
}

#[test]
fn threads_that_come_and_go_use_memory_again() {
    let heap = heap(Bytes::from_mib(512));
    let mut cut = Vec::new();
    for _ in 0..20 {
        let barrier = Barrier::new(8);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    barrier.wait();
                    let blocks: Vec<_> = (0..1000).map(|i| heap.allocate(i)).collect();
                    assert!(blocks.iter().all(|&start| heap.owns(start)));
                    // SAFETY: each is live.
                    blocks.into_iter().for_each(|start| unsafe { heap.release(start) });
                });
            }
        });
        cut.push(heap.usage().cut);
    }
    assert_eq!(cut[9], cut[19], "nothing new is needed once every arena was used: {cut:?}");
}

#[test]
fn unused_memory_is_forgotten_and_reads_as_zeros_when_it_is_given_out_zeroed() {
    let heap = heap(SMALLEST_RANGE);
    let block = Block::filled(heap.allocate(8 << 20), 8 << 20, 5);
    // SAFETY: it is live.
    unsafe { heap.release(block.start) };
    jemalloc::purge();
    let again = heap.allocate_zeroed(8 << 20);
    assert!(heap.owns(again) && holds(again, 8 << 20, 0));
}

#[test]
fn allocating_and_freeing_touch_no_page_of_the_range() {
    let heap = heap(Bytes::from_mib(1024));
    let sizes = [1, 64, 1000, 5000, 20_000, 100_000, 5 << 20];
    let blocks: Vec<_> = sizes.into_iter().cycle().take(400).map(|size| heap.allocate(size)).collect();
    assert!(blocks.iter().all(|&block| heap.owns(block)));
    assert_eq!(resident_pages(heap), 0, "what jemalloc notes about its memory is elsewhere");
    // SAFETY: each is live.
    blocks.iter().skip(1).for_each(|&block| unsafe { heap.release(block) });
    assert_eq!(resident_pages(heap), 0);
    Block::filled(blocks[0], 1, 1);
    assert_eq!(resident_pages(heap), 1, "a page that is touched is seen");
}

/// The number of pages of the range that are in memory.
fn resident_pages(heap: &Heap) -> usize {
    let span = heap.range().unwrap();
    let length = crate::heap::backing::length(heap.usage().cut);
    let mut pages = vec![0; length / PAGE_BYTES];
    // SAFETY: the range stays mapped, and there is a byte for each page of it that was cut.
    let refused = unsafe { libc::mincore(span.start.as_ptr().cast(), length, pages.as_mut_ptr()) };
    assert_eq!(refused, 0);
    pages.into_iter().filter(|&page| page & 1 == 1).count()
}

#[test]
fn freeing_changes_not_a_byte_of_the_block() {
    let heap = heap(SMALLEST_RANGE);
    for size in [8, 64, 1000, 20_000] {
        let block = Block::filled(heap.allocate(size), size, 3);
        // SAFETY: the block is live when it is freed. Afterwards the bytes are still mapped: nothing is forgotten
        // before ten seconds of disuse, and no one else is on this heap.
        unsafe { heap.release(block.start) };
        assert!(block.holds(size), "{size} bytes");
    }
}

#[test]
fn memory_of_the_c_library_is_the_c_librarys() {
    let heap = heap(SMALLEST_RANGE);
    for size in [1, 100, 1 << 20] {
        // SAFETY: here the C library's own functions are called; each allocation is alive until it is freed, once.
        unsafe {
            let start = libc::malloc(size);
            start.cast::<u8>().write_bytes(7, size);
            assert_eq!(heap.usable_size(start), libc::malloc_usable_size(start));
            let moved = heap.resize(start, 3 * size);
            assert!(!heap.owns(moved) && holds(moved, size, 7), "{size}");
            assert_eq!(heap.usable_size(moved), libc::malloc_usable_size(moved));
            heap.release(moved);
            heap.release(libc::malloc(size));
        }
    }
}
