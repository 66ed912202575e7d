//! Blocks with holes, by the size of the largest.
//!
//! **Problem.** A small object fits any hole and a medium one few; where lines have failed, hardly any. **Idea.**
//! Blocks are kept by their longest hole: medium objects ask for one that is long enough, and small ones take the
//! blocks that are of no use to others first. [Gao13, 4.2] asks for whole blocks, then for perfect pages.

use crate::geometry::HeapBlock;
use crate::space::free_lines::BLOCK_LINES;

const CLASSES: usize = BLOCK_LINES.ilog2() as usize + 1;

/// The blocks. Class *n* has those whose longest hole has 2^n lines of the memory or more, but not twice as many.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecyclableBlocks {
    classes: [Vec<Recyclable>; CLASSES],
}

/// A block, and the lines of its longest hole.
#[derive(Clone, Copy, Debug)]
struct Recyclable {
    block: HeapBlock,
    longest: u32,
}

impl RecyclableBlocks {
    /// Adds a block whose longest hole has so many lines, at least one.
    pub fn push(&mut self, block: HeapBlock, longest: u32) {
        self.classes[longest.ilog2() as usize].push(Recyclable { block, longest });
    }

    /// Takes a block with the shortest holes.
    pub fn pop(&mut self) -> Option<HeapBlock> {
        self.classes.iter_mut().find_map(Vec::pop).map(|found| found.block)
    }

    /// Takes a block of a class whose blocks all have a hole of so many lines, at least one.
    pub fn pop_with(&mut self, lines: usize) -> Option<HeapBlock> {
        let least = lines.next_power_of_two().ilog2() as usize;
        self.classes.get_mut(least..)?.iter_mut().find_map(Vec::pop).map(|found| found.block)
    }

    /// Takes a block with a hole of so many lines of the class in which only some blocks have one. This is a search,
    /// and leaves little of the hole: it is for when [`Self::pop_with`] has none, and there are no free blocks.
    pub fn search_with(&mut self, lines: usize) -> Option<HeapBlock> {
        let class = self.classes.get_mut(lines.ilog2() as usize)?;
        let place = class.iter().rposition(|block| block.longest as usize >= lines)?;
        Some(class.swap_remove(place).block)
    }

    /// The blocks.
    pub fn iter(&self) -> impl Iterator<Item = HeapBlock> {
        self.classes.iter().flatten().map(|known| known.block)
    }

    /// Removes those that do not fulfil a condition.
    pub fn retain(&mut self, keep: impl Fn(HeapBlock) -> bool) {
        self.classes.iter_mut().for_each(|class| class.retain(|known| keep(known.block)));
    }

    /// Removes all.
    pub fn clear(&mut self) {
        self.classes.iter_mut().for_each(Vec::clear);
    }

    /// The bytes of the lists.
    pub fn metadata_bytes(&self) -> u64 {
        self.classes.iter().map(|class| (class.capacity() * size_of::<Recyclable>()) as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_objects_get_what_is_of_no_use_to_others() {
        let block = HeapBlock::new;
        let mut recyclable = RecyclableBlocks::default();
        for (number, longest) in [(1, 512), (2, 1), (3, 7), (4, 8), (5, 9)] {
            recyclable.push(block(number), longest);
        }
        assert_eq!(recyclable.pop_with(5), Some(block(5)), "one with 8 lines or more, the shortest of them first");
        assert_eq!(recyclable.pop(), Some(block(2)));
        assert_eq!(
            [9, 512, 1, 2].map(|lines| recyclable.pop_with(lines)),
            [Some(block(1)), None, Some(block(3)), Some(block(4))]
        );
        assert_eq!(recyclable.pop(), None);
    }

    #[test]
    fn a_block_with_a_hole_that_fits_is_found_among_those_with_shorter_ones() {
        let mut recyclable = RecyclableBlocks::default();
        for (number, longest) in [(1, 4), (2, 7), (3, 5), (4, 6), (5, 4)] {
            recyclable.push(HeapBlock::new(number), longest);
        }
        assert_eq!(recyclable.pop_with(5), None);
        let numbers = [8, 6, 7, 5, 5, 4].map(|lines| recyclable.search_with(lines).map(HeapBlock::number));
        assert_eq!(numbers, [None, Some(4), Some(2), Some(3), None, Some(5)]);
    }
}
