//! Whether something is written to failed lines.
//!
//! **Problem.** A simulated failure hurts nothing: who writes to a failed line would not notice. **Idea.** Each failed
//! line gets a known content, and is looked at after the next collection. **Why this way.** It sees all writes, of
//! programs, collectors and runtimes, without a change to any of them.

use std::collections::HashSet;

use crate::geometry::MEMORY_LINE;
use crate::heap::ManagedHeap;
use crate::object::ObjectModel;

/// What a failed line contains.
const CANARY: u64 = 0xa5a5_a5a5_a5a5_a5a5;

/// The failed lines that have the known content.
#[derive(Debug, Default)]
pub struct Canaries {
    /// Lines by their offsets, each with its page: another page may be there meanwhile.
    lines: HashSet<(u32, u32)>,
    checked: u64,
}

/// The failed line at offset {0:#x} of the heap was written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub struct FailedLineWritten(pub u32);

impl Canaries {
    /// Looks at the failed lines after a collection, and writes the known content to those that have not got it yet. As
    /// long as objects lie on failed lines, nothing is looked at, and it begins anew.
    ///
    /// # Errors
    /// If one of them was written to since the last collection.
    pub fn check<M: ObjectModel>(&mut self, heap: &ManagedHeap<M>) -> Result<(), FailedLineWritten> {
        let known = std::mem::take(&mut self.lines);
        if heap.vacating().is_some() {
            return Ok(());
        }
        let region = heap.region();
        for line in heap.failed_lines() {
            let words = (line.0..line.0 + MEMORY_LINE).step_by(size_of::<u64>());
            if known.contains(&line) {
                if words.clone().any(|at| region.read_double(at) != CANARY) {
                    return Err(FailedLineWritten(line.0));
                }
                self.checked += 1;
            } else {
                words.for_each(|at| region.write_double(at, CANARY));
            }
            self.lines.insert(line);
        }
        Ok(())
    }

    /// The line at an offset is to be written to, on purpose: it begins anew.
    pub fn forget(&mut self, line: u32) {
        self.lines.retain(|(known, _)| *known != line);
    }

    /// How many looks have found the known content.
    pub const fn checked(&self) -> u64 {
        self.checked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Collection, HeapSettings, LineFailure, LocalAllocator, NativeModel, Shape};

    #[test]
    fn a_write_to_a_failed_line_is_seen_once_it_is_vacated() {
        let failed = vec![crate::wear::FailedLines::NONE; 64];
        let mut heap = ManagedHeap::new(NativeModel, HeapSettings::default(), failed).unwrap();
        let (mut local, mut canaries, shape) =
            (LocalAllocator::default(), Canaries::default(), Shape::new(0, 200).unwrap());
        let at = heap.allocate(&mut local, shape.size()).unwrap();
        let mut root = [NativeModel::initialize(heap.region(), at, shape).offset()];
        let line = at / MEMORY_LINE * MEMORY_LINE + MEMORY_LINE;
        assert!(matches!(heap.fail_line(line, &mut [&mut local]), LineFailure::InUse(..)));
        heap.region().write(line, 1);
        canaries.check(&heap).unwrap();
        heap.collect(Collection::Nursery, &mut [&mut local], &mut root, &mut |_| {});
        canaries.check(&heap).unwrap();
        canaries.check(&heap).unwrap();
        assert_eq!(canaries.checked(), 1);
        heap.region().write(line + 60, 1);
        assert_eq!(canaries.check(&heap), Err(FailedLineWritten(line)));
    }
}
