//! Where objects go: holes before blocks, blocks before perfect pages, and how much a collection may take to move them.

use std::collections::BTreeMap;

use rampart_heap::wear::FailedLines;
use rampart_heap::{BLOCK_BYTES, Collection, FailureGrain, HeapSettings, LineFailure, LineSize, ObjectRef, Shape};

use super::{HEADER, Program, drawn};

const PAGE: u64 = 4096;

/// On so many pages, in each of which these lines have failed.
fn start(pages: usize, failed: FailedLines, line: LineSize) -> Program {
    Program::new(HeapSettings { line, ..HeapSettings::default() }, vec![failed; pages])
}

/// An object of `size` bytes, with its header, if there is room without a collection.
fn add(program: &mut Program, size: u32) -> Option<u32> {
    program.try_add(Shape::new(0, size - HEADER).unwrap())
}

#[test]
fn medium_objects_fill_the_holes_between_old_ones() {
    let mut program = start(256, FailedLines::NONE, LineSize::L256);
    program.fill(2048);
    program.collect(Collection::Full);
    // Nothing moves any more: what is live in a block does not fit the little that is set aside.
    program.thin_out();
    program.collect(Collection::Full);
    // A collection of young objects leaves the holes between old ones as they are.
    program.collect(Collection::Nursery);
    let kept = program.roots.len();
    let more = program.fill(1536);
    assert!(more > kept * 9 / 10, "{more} in the holes between {kept}");
    assert_eq!(program.heap.demand().requested, 0, "none needs a perfect page");
}

#[test]
fn an_object_larger_than_a_line_leaves_the_hole_at_hand_to_smaller_ones() {
    for (line, is_left) in [(LineSize::L64, true), (LineSize::L128, false), (LineSize::L256, false)] {
        let mut program = start(256, FailedLines::NONE, line);
        let first = add(&mut program, 32).unwrap();
        (1..BLOCK_BYTES / 32 - 3).for_each(|_| _ = add(&mut program, 32));
        // 96 B are left of the block.
        let medium = add(&mut program, 112).unwrap();
        assert_ne!(medium / BLOCK_BYTES, first / BLOCK_BYTES);
        let small = add(&mut program, 32).unwrap();
        let next = if is_left { first + BLOCK_BYTES - 96 } else { medium + 112 };
        assert_eq!(small, next, "{line:?}");
    }
}

#[test]
fn an_object_of_a_line_or_less_takes_the_next_hole() {
    for line in LineSize::ALL {
        let mut program = start(256, FailedLines::NONE, line);
        let first = add(&mut program, 32).unwrap();
        (1..BLOCK_BYTES / 32 - 1).for_each(|_| _ = add(&mut program, 32));
        // 32 B are left of the block.
        let next = add(&mut program, line.bytes()).unwrap();
        assert_ne!(next / BLOCK_BYTES, first / BLOCK_BYTES);
        assert_eq!(add(&mut program, 32), Some(next + line.bytes()), "{line:?}");
    }
}

#[test]
fn between_failed_lines_a_hole_is_kept_if_a_line_of_the_memory_is_left_of_it() {
    // Holes of seven lines of 64 B.
    let failed = FailedLines::from_bits(0x0101_0101_0101_0101);
    for (bytes, is_kept) in [(192, true), (208, false)] {
        let mut program = start(256, failed, LineSize::L256);
        let [first, second, third] = std::array::from_fn(|_| add(&mut program, bytes).unwrap());
        assert_eq!((first % 512, second), (64, first + bytes));
        let small = add(&mut program, 64).unwrap();
        if is_kept {
            assert_eq!(small, second + bytes, "64 B are left");
            assert_ne!(third / BLOCK_BYTES, first / BLOCK_BYTES);
        } else {
            assert_eq!((third, small), (first + 512, third + bytes), "32 B are left");
        }
    }
}

#[test]
fn an_object_that_fits_a_hole_needs_no_perfect_page_because_a_larger_one_did() {
    // Holes of seven lines of 64 B.
    let mut program = start(256, FailedLines::from_bits(0x0101_0101_0101_0101), LineSize::L64);
    add(&mut program, 3008).unwrap();
    assert_eq!(program.heap.demand().requested, 1);
    (0..50).for_each(|_| _ = add(&mut program, 320).unwrap());
    assert_eq!(program.heap.demand().requested, 1);
    assert_eq!(program.objects(), 51);
}

#[test]
fn objects_that_fit_no_hole_lie_on_perfect_pages_one_behind_the_other() {
    // Holes of one line, and no perfect page: each is borrowed.
    let every_second = FailedLines::from_bits(0x5555_5555_5555_5555);
    let mut program = start(256, every_second, LineSize::L64);
    let mut blocks: Vec<u32> = Vec::new();
    for number in 1..=12 {
        let at = add(&mut program, 3008).unwrap();
        blocks.push(at / BLOCK_BYTES);
        // Ten fit a block, in part across pages; the next two begin another one.
        let of_first = (number.min(10) * 3008_u64).div_ceil(PAGE);
        let of_second = (number.saturating_sub(10) * 3008).div_ceil(PAGE);
        assert_eq!(program.heap.demand().requested, of_first + of_second, "after {number}");
    }
    blocks.dedup();
    assert_eq!(blocks.len(), 2);
    // The third block is the one in which the first object found no hole.
    assert_eq!(program.heap.snapshot().len(), 3);
    program.collect(Collection::Full);
    assert_eq!(program.objects(), 12);
}

#[test]
fn a_collection_moves_objects_to_what_is_set_aside_but_for_a_block_that_compaction_needs() {
    // A fortieth of the pages is set aside, a block at least: 8 pages, 12, and 25. What the program finds is whole
    // blocks, so 8, 16, and 32 are left. Only the last one sets aside two blocks or more, and leaves one to compaction.
    for (pages, takes) in [(256, 8), (480, 16), (1024, 24)] {
        let mut program = start(pages, FailedLines::NONE, LineSize::L256);
        program.fill(64);
        program.collect(Collection::Nursery);
        let moved = program.heap.counts().moved_bytes;
        assert_eq!(moved, takes * PAGE, "of {pages} pages");
        assert_eq!(program.objects(), program.roots.len() as u64);
    }
}

#[test]
fn a_handler_gets_half_of_what_is_set_aside_if_that_is_one_block() {
    let mut program = start(256, FailedLines::NONE, LineSize::L256);
    program.fill(64);
    assert_eq!(program.fill(2048), 0);
    program.heap.open_reserve();
    assert_eq!(program.fill(2048), 8, "four pages, as perfect ones: they are no block");
    assert_eq!(program.heap.demand().requested, 4);
    assert_eq!(program.fill(64), 0);
    program.roots.clear();
    program.collect(Collection::Full);
    program.fill(64);
    assert_eq!(program.fill(2048), 0, "it is set aside again");
}

#[test]
fn what_medium_objects_leave_of_a_block_is_there_for_small_ones() {
    let mut program = start(256, FailedLines::NONE, LineSize::L256);
    let blocks = program.fill(7 << 10) / 4;
    // In each block, 4 KiB are left; the last block is full or still at hand.
    let small = program.fill(64);
    assert!(blocks > 25 && (blocks - 1) * 64 <= small && small <= blocks * 64, "{small} in what {blocks} have left");
}

#[test]
fn the_pages_and_addresses_of_dead_large_objects_are_there_for_others() {
    for kind in [Collection::Nursery, Collection::Full] {
        let mut program = start(256, FailedLines::NONE, LineSize::L256);
        let all = program.fill(5 * 4096);
        // In all, many times what there are addresses for, and of all sizes: free addresses must be put together.
        for pages in (3..=20).chain((3..=20).rev()) {
            program.roots.clear();
            program.collect(kind);
            // The heap keeps 8 of its pages for collections.
            assert_eq!(program.fill(pages * 4096), 248 / pages as usize, "{kind:?}, {pages}");
        }
        program.roots.clear();
        program.collect(Collection::Full);
        assert_eq!(program.fill(5 * 4096), all);
    }
}

#[test]
fn only_the_pages_below_an_object_that_cannot_move_are_replaced() {
    // Each page has a failed line. In the second case, each object begins behind it and ends with its page.
    for (failed, bytes) in [(1 << 63, 992), (1, 4032)] {
        let mut program = start(256, FailedLines::from_bits(failed), LineSize::L64);
        let objects: Vec<u32> = (0..20).map(|_| add(&mut program, bytes).unwrap()).collect();
        let object = ObjectRef::new(objects[6]).unwrap();
        assert!(object.offset() % BLOCK_BYTES > 4096, "its page is not the first of its block");
        program.heap.pin(object);
        program.fail(object.offset());
        program.collect(Collection::Full);
        assert_eq!(program.heap.counts().replaced, 1, "{bytes}");
        assert!(program.roots.contains(&object.offset()));
        let page = object.offset() / 4096 * 4096;
        assert!(program.heap.failed_lines().all(|(line, _)| !(page..page + 4096).contains(&line)));
        assert_eq!(program.objects(), 20);
    }
}

#[test]
fn nothing_is_allocated_on_a_line_that_has_failed_before_a_collection() {
    let every_second = FailedLines::from_bits(0x5555_5555_5555_5555);
    let one_perfect = [vec![FailedLines::NONE], vec![every_second; 255]].concat();
    // In the hole at hand, in that of medium objects, and on perfect pages, of which one is the heap's own.
    for (bytes, failed) in
        [(64, vec![FailedLines::NONE; 256]), (2048, vec![FailedLines::NONE; 256]), (3008, one_perfect)]
    {
        let mut program = Program::new(HeapSettings { line: LineSize::L64, ..HeapSettings::default() }, failed);
        let line = add(&mut program, bytes).unwrap() + bytes + 64;
        let failure = program.fail(line);
        assert!(matches!(failure, LineFailure::InUse(_, Collection::Nursery)), "{bytes}: {failure:?}");
        for _ in 0..10 {
            let at = add(&mut program, bytes).unwrap();
            assert!(at + bytes <= line || line + 64 <= at, "{bytes}: {at:#x}, and {line:#x} has failed");
        }
        program.collect(Collection::Nursery);
        assert_eq!(program.objects(), 11);
    }
}

/// Fills all blocks with objects. Of those in every fourth block, only the first stays, of the others every second one.
/// Returns which of the roots are alone in their blocks.
fn sparse(program: &mut Program, bytes: u32) -> Vec<bool> {
    program.fill(bytes);
    program.collect(Collection::Full);
    let mut of_block = (0, 0);
    let blocks: Vec<u32> = program.roots.iter().map(|root| root / BLOCK_BYTES).collect();
    let mut is_alone = Vec::new();
    let kept = std::mem::take(&mut program.roots).into_iter().zip(blocks).filter(|(_, block)| {
        of_block = if of_block.0 == *block { (*block, of_block.1 + 1) } else { (*block, 0) };
        let is_kept = if block % 4 == 0 { of_block.1 == 0 } else { of_block.1 % 2 == 0 };
        is_alone.extend(is_kept.then_some(block % 4 == 0));
        is_kept
    });
    program.roots = kept.map(|(root, _)| root).collect();
    program.collect(Collection::Nursery);
    // It finds out what is in each block.
    program.collect(Collection::Full);
    is_alone
}

/// How many of those that are alone a full collection moves, and how many others.
fn moved(program: &mut Program, is_alone: &[bool]) -> (usize, usize) {
    let before = program.roots.clone();
    program.collect(Collection::Full);
    let moved: Vec<bool> = before.iter().zip(&program.roots).map(|(before, now)| before != now).collect();
    let of =
        |alone: bool| moved.iter().zip(is_alone).filter(|(moved, is_alone)| **moved && **is_alone == alone).count();
    (of(true), of(false))
}

#[test]
fn a_full_collection_empties_the_blocks_with_the_fewest_live_lines_as_far_as_there_is_room() {
    let mut program = start(256, FailedLines::NONE, LineSize::L256);
    let is_alone = sparse(&mut program, 2048);
    let alone = is_alone.iter().filter(|is_alone| **is_alone).count();
    // One block is free: seven objects of 2 KiB fit, and the eight of one more block.
    assert_eq!((alone, moved(&mut program, &is_alone)), (7, (7, 8)));
}

#[test]
fn a_full_collection_empties_the_blocks_with_most_holes_first_while_many_pages_are_borrowed() {
    // Many are more than one in sixteen.
    for (borrowed, is_many) in [(0, false), (16, false), (24, true)] {
        let mut program = start(256, FailedLines::from_bits(1), LineSize::L64);
        if borrowed > 0 {
            add(&mut program, borrowed * 4096).unwrap();
        }
        let is_alone = sparse(&mut program, 1344);
        assert_eq!(program.heap.demand().borrowed, u64::from(borrowed));
        let alone = is_alone.iter().filter(|is_alone| **is_alone).count();
        let (of_alone, others) = moved(&mut program, &is_alone);
        assert!(others > 10 && alone > 4, "{others} {alone}");
        assert_eq!(of_alone, if is_many { 0 } else { alone }, "{borrowed} borrowed");
    }
}

/// How many objects of each block a compacting collection moves in one pass. It makes `most` objects of `bytes`, or as
/// many as fit; `lives` says which of a block live.
fn compacted(bytes: u32, most: usize, lives: impl Fn(u32, usize) -> bool) -> BTreeMap<u32, usize> {
    // With this share, memory is never tight, and there is one pass.
    let settings = HeapSettings { full_below: 0.0, ..HeapSettings::default() };
    let mut program = Program::new(settings, vec![FailedLines::NONE; 256]);
    (0..most).take_while(|_| add(&mut program, bytes).is_some()).count();
    program.collect(Collection::Full);
    let mut seen: BTreeMap<u32, usize> = BTreeMap::new();
    program.roots.retain(|root| {
        let number = seen.entry(root / BLOCK_BYTES).or_default();
        *number += 1;
        lives(root / BLOCK_BYTES, *number - 1)
    });
    program.collect(Collection::Full);
    let before = program.roots.clone();
    program.collect(Collection::Compacting);
    assert_eq!(program.objects(), before.len() as u64);
    let mut moved = BTreeMap::new();
    for (before, now) in before.iter().zip(&program.roots) {
        *moved.entry(before / BLOCK_BYTES).or_default() += usize::from(before != now);
    }
    moved
}

#[test]
fn a_compacting_collection_empties_the_blocks_with_the_fewest_bytes_as_far_as_four_fifths_of_what_is_free() {
    // A block of 32 KiB is free. Objects of 32 B: in each fourth block one in 512 B, which leaves every second line
    // free; in the others one on each line of 256 B, which leaves nothing free. 7 * 16 KiB + 32 KiB are free in all,
    // and each of the emptier blocks takes 18 KiB: its objects, and what was free in it.
    let moved = compacted(32, usize::MAX, |block, number| number % if block % 4 == 0 { 16 } else { 8 } == 0);
    let emptied: Vec<u32> = moved.iter().filter(|(_, moved)| **moved == 64).map(|(block, _)| *block).collect();
    assert_eq!((moved.len(), emptied), (31, vec![4, 8, 12, 16, 20, 24]));
    assert_eq!(moved.values().sum::<usize>(), 6 * 64);
    // 31 * 16 KiB + 32 KiB are free, and each block takes 32 KiB.
    let moved = compacted(2048, usize::MAX, |_, number| number % 2 == 0);
    assert_eq!(moved.values().filter(|moved| **moved == 8).count(), 13);
    assert_eq!(moved.values().sum::<usize>(), 13 * 8);
}

#[test]
fn a_compacting_collection_leaves_blocks_of_which_an_eighth_or_less_is_not_used() {
    for used in [14, 15, 16] {
        let moved = compacted(32, 15 * 1024, |block, number| match block % 3 {
            0 => number % 8 == 0,
            1 => number % 16 < used,
            _ => number % 16 < 13,
        });
        let expected = moved.keys().map(|block| (*block, [128, 0, 832][*block as usize % 3])).collect();
        assert_eq!(moved, expected, "{used} of 16");
    }
}

#[test]
fn a_compacting_collection_frees_the_blocks_that_hold_few_objects_while_many_pages_are_borrowed() {
    let mut program = Program::new(HeapSettings::default(), drawn(1024, 0.1, 1));
    add(&mut program, 80 * 4096).unwrap();
    // A block with failed lines has one hole or two for such an object. One stays in each block.
    program.fill(2072);
    let mut block = 0;
    program.roots.retain(|root| std::mem::replace(&mut block, root / BLOCK_BYTES) != root / BLOCK_BYTES);
    program.collect(Collection::Full);
    let kept = program.objects();
    assert!(kept > 50, "{kept}");
    // It costs 200 of the heap's own pages, a fifth.
    let large = Shape::new(0, 100 * 4096).unwrap();
    assert_eq!(program.try_add(large), None);
    program.collect(Collection::Compacting);
    assert!(program.try_add(large).is_some(), "{:?}", program.heap.demand());
    assert_eq!(program.objects(), kept + 1);
}

#[test]
fn a_compacting_collection_moves_small_objects_together_while_large_ones_lie_on_many_borrowed_pages() {
    // If one in eight stays, nearly each line of 256 B has one. If every second one stays, their bytes fit no free page
    // twice, but they fit holes.
    for (every, free) in [(8, 100), (2, 40)] {
        let mut program = Program::new(HeapSettings::default(), drawn(512, 0.1, 1));
        add(&mut program, 80 * 4096).unwrap();
        program.fill(32);
        program.collect(Collection::Full);
        program.keep(|number| number == 0 || (number + 1) % every == 0);
        program.collect(Collection::Full);
        let large = Shape::new(0, free * 4096).unwrap();
        assert_eq!(program.try_add(large), None);
        program.collect(Collection::Compacting);
        assert!(program.try_add(large).is_some(), "one in {every}");
    }
}

#[test]
fn of_the_old_objects_in_a_block_only_those_on_a_line_that_fails_move() {
    let mut program = start(256, FailedLines::NONE, LineSize::L256);
    (0..20).for_each(|_| _ = add(&mut program, 992).unwrap());
    program.collect(Collection::Nursery);
    let (before, counts) = (program.roots.clone(), program.heap.counts());
    assert_eq!((counts.marked, counts.moved, counts.moved_bytes), (0, 20, 20 * 992), "young ones move, and get old");
    program.fail(before[6] + 512);
    program.collect(Collection::Full);
    let moved: Vec<usize> = (0..20).filter(|root| before[*root] != program.roots[*root]).collect();
    assert_eq!(moved, [6]);
    let after = program.heap.counts();
    assert_eq!((after.marked, after.moved, after.moved_bytes), (19, 21, 21 * 992));
    assert_eq!(after.replaced, 0, "there is room for it elsewhere");
}

/// On a heap of pages of which these lines have failed, and which borrows none.
fn without_borrowing(line: LineSize, failed: Vec<FailedLines>) -> Program {
    Program::new(HeapSettings { line, borrowable: 0, ..HeapSettings::default() }, failed)
}

#[test]
fn an_object_that_fits_no_hole_of_the_first_new_block_gets_one_of_another_if_no_page_can_be_borrowed() {
    // Every sixteenth line of some pages, which come first, as the others have more failed lines: the first eight.
    let failed =
        [vec![FailedLines::from_bits(0x0001_0001_0001_0001); 8], vec![FailedLines::from_bits(255); 56]].concat();
    let mut program = without_borrowing(LineSize::L64, failed);
    let shape = Shape::new(0, 17 * 64 - HEADER).unwrap();
    let first = program.try_add(shape).expect("a later block has room");
    assert_eq!(program.fill(17 * 64), 6 * 8 * 3 - 1, "three in each page, but for a block of the collector");
    assert!(program.roots.iter().all(|root| root / BLOCK_BYTES >= first / BLOCK_BYTES));
}

#[test]
fn before_memory_is_out_an_object_gets_a_later_hole_of_the_block_at_hand() {
    // In each page, a hole of two lines and one of four work, in this order.
    let failed = FailedLines::from_bits(!(0b11 | 0b1111 << 4));
    let mut program = without_borrowing(LineSize::L256, vec![failed; 40]);
    let (small, more) = (Shape::new(0, 64 - HEADER).unwrap(), Shape::new(0, 192 - HEADER).unwrap());
    // One line of the hole at hand is left, which is kept as long as there are other blocks.
    program.try_add(small).unwrap();
    let blocks = (40 - 8) / 8;
    let pages = std::iter::from_fn(|| program.try_add(more)).count();
    assert_eq!(pages, blocks * 8, "one in each page");
}

#[test]
fn a_small_object_leaves_a_line_that_fails_although_there_is_no_room_for_a_larger_one() {
    // Four perfect pages, and others with holes of 15 lines.
    let failed = [vec![FailedLines::NONE; 4], vec![FailedLines::from_bits(0x0001_0001_0001_0001); 60]].concat();
    let mut program = without_borrowing(LineSize::L64, failed);
    let [larger, small] = [6000, 100].map(|bytes| program.add(1, bytes));
    let others = program.add(1, 8000);
    program.collect(Collection::Full);
    let at = program.roots.clone();
    for root in [larger, small] {
        assert!(matches!(program.fail(at[root]), LineFailure::InUse(_, Collection::Full)));
    }
    program.collect(Collection::Full);
    assert_eq!(program.roots[larger], at[larger], "another page is below it");
    assert_ne!(program.roots[small], at[small]);
    assert_eq!((program.heap.counts().replaced, program.objects(), others), (1, 3, 2));
}

#[test]
fn what_is_left_of_a_hole_is_kept_only_where_the_next_one_may_be_shorter_than_a_line() {
    // Every second line of 256 B works.
    let failed = FailedLines::from_bits(0xf0f0_f0f0_f0f0_f0f0);
    for (grain, is_kept) in [(FailureGrain::MemoryLine, true), (FailureGrain::HeapLine, false)] {
        let settings = HeapSettings { grain, ..HeapSettings::default() };
        let mut program = Program::new(settings, vec![failed; 64]);
        let first = add(&mut program, 192).unwrap();
        let second = add(&mut program, 104).unwrap();
        assert_eq!((second == first + 512, second / BLOCK_BYTES != first / BLOCK_BYTES), (!is_kept, is_kept));
    }
}
