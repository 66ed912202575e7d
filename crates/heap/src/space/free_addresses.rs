//! The addresses that are free for large objects.
//!
//! **Problem.** A large object needs contiguous addresses. The first range that is long enough is taken, so that
//! addresses of dead objects are used again before new ones. **Idea.** A sorted array of ranges. **Why this way.**
//! Usually there are a few hundred of 8 B each. To search them in order, or to move them when one comes or goes,
//! touches a few KiB of contiguous memory: that was faster than a tree.

use crate::geometry::PAGE;

/// A range of free addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FreeRun {
    at: u32,
    pages: u32,
}

impl FreeRun {
    /// The address behind it; of 64 bits, as it may be 4 GiB.
    const fn end(self) -> u64 {
        self.at as u64 + self.pages as u64 * PAGE as u64
    }
}

/// The free addresses, sorted; ranges that touch are one.
#[derive(Debug)]
pub(super) struct FreeAddresses {
    runs: Vec<FreeRun>,
}

impl FreeAddresses {
    /// So many pages are free.
    pub fn new(at: u32, pages: u32) -> Self {
        Self { runs: vec![FreeRun { at, pages }] }
    }

    /// Takes the first addresses of so many pages.
    pub fn take(&mut self, pages: u32) -> Option<u32> {
        let first = self.runs.iter().position(|run| run.pages >= pages)?;
        let run = &mut self.runs[first];
        let at = run.at;
        if run.pages == pages {
            self.runs.remove(first);
        } else {
            *run = FreeRun { at: at + pages * PAGE, pages: run.pages - pages };
        }
        Some(at)
    }

    /// Gives back addresses that were taken.
    pub fn release(&mut self, at: u32, pages: u32) {
        let released = FreeRun { at, pages };
        let behind = self.runs.partition_point(|run| run.at < at);
        let joins_behind = self.runs.get(behind).is_some_and(|run| u64::from(run.at) == released.end());
        let before = behind.checked_sub(1).filter(|before| self.runs[*before].end() == u64::from(at));
        match (before, joins_behind) {
            (None, false) => self.runs.insert(behind, released),
            (None, true) => {
                let run = &mut self.runs[behind];
                *run = FreeRun { at, pages: pages + run.pages };
            }
            (Some(before), false) => self.runs[before].pages += pages,
            (Some(before), true) => self.runs[before].pages += pages + self.runs.remove(behind).pages,
        }
    }

    /// The bytes of the table.
    pub const fn metadata_bytes(&self) -> usize {
        self.runs.capacity() * size_of::<FreeRun>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_join_what_is_free_beside_them_up_to_the_end_of_the_region() {
        // Up to 4 GiB.
        let all = FreeRun { at: 1 << 20, pages: (1 << 20) - (1 << 8) };
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut free = FreeAddresses::new(all.at, all.pages);
            let sizes = [3, 5, all.pages - 8];
            let taken = sizes.map(|pages| (free.take(pages).unwrap(), pages));
            assert_eq!((free.take(1), &free.runs[..]), (None, &[][..]));
            order.into_iter().for_each(|which| free.release(taken[which].0, taken[which].1));
            assert_eq!(free.runs, [all], "{order:?}");
        }
    }
}
