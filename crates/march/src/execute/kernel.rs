//! The inner loop: one read, one write, or both, on each of a stretch of lines.
//!
//! ```text
//! for each line:
//!     prefetch the line some visits ahead
//!     load it; if it is not as expected, stop before anything is written
//!     store it, through the caches or past them
//!     flush the line some visits behind
//! ```
//!
//! Or some lines are visited in a row, and then as many are flushed ([`Way::InGroups`]).
//!
//! **Problem.** The loop must run as fast as the DRAM on every processor, and stop at exactly the line that is wrong.
//! **Idea.** It is written once, over [`Vector`]. Instruction sets differ in the width of a register, in its
//! comparison, and in the store past the caches. **Why this way.** The DRAM is slower than one comparison and one
//! branch per line, so there is no need to gather differences and search for the line later.

use rampart_memory::LineData;

use super::arch::{self, Flush};

/// A register of one instruction set, or a few that are stored at once.
pub(super) trait Vector: Copy {
    /// Stores past the caches, as far as the instruction set allows.
    ///
    /// # Safety
    /// The processor has the instruction set, and `to` is a part of a line of a region.
    unsafe fn stream(self, to: *mut Self);

    /// Whether all bits are the same.
    ///
    /// # Safety
    /// The processor has the instruction set.
    unsafe fn equals(self, other: Self) -> bool;
}

/// A task of the inner loop. From one line to the next, all three addresses advance by `stride`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task<'a> {
    /// The first line to visit.
    pub here: *mut u8,
    /// The first line to prefetch.
    pub ahead: *const u8,
    /// The first line to flush; `None` for no flush.
    pub behind: Option<*const u8>,
    /// In bytes.
    pub stride: isize,
    /// The number of lines to visit, to prefetch and to flush.
    pub count: usize,
    /// The expected content of a read; `None` for no read.
    pub read: Option<&'a LineData>,
    /// The content to write; `None` for no write.
    pub write: Option<&'a LineData>,
    pub way: Way,
    /// How to flush.
    pub flush: Flush,
}

/// How lines come into the caches and leave them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// They are written into the caches, and each visit flushes a line.
    EachLine,
    /// The same, but [`GROUP`] visits are followed by as many flushes, so that these do not delay loads. Lines are
    /// prefetched into the second cache only, which can wait for more of them at once than the first.
    InGroups,
    /// They are written past the caches.
    PastTheCaches,
}

/// Visits between two groups of flushes: of 16, 32, 64 and more, the fastest on Zen 4.
const GROUP: usize = 32;

/// A line that is not as expected. It was not written, and no line after it was visited.
#[derive(Clone, Copy, Debug)]
pub(super) struct Difference {
    /// The number of lines visited, and flushed behind, before it.
    pub after: usize,
    /// The content that the load returned.
    pub found: LineData,
}

/// Performs a task with lines of `N` vectors.
///
/// # Safety
/// 1. The processor has the instruction set of `V`.
/// 2. All lines to visit and to flush lie in one region; those to prefetch may lie anywhere.
#[inline(always)]
pub(super) unsafe fn perform<V: Vector, const N: usize>(task: &Task<'_>) -> Option<Difference> {
    const { assert!(N * size_of::<V>() == size_of::<LineData>(), "the vectors of a line are the line") };
    let expected = (&raw const *task.read.unwrap_or(&LineData::ZERO)).cast();
    let value = (&raw const *task.write.unwrap_or(&LineData::ZERO)).cast();
    // SAFETY: `expected` and `value` point at lines of ours; the rest is this function's own contract.
    unsafe {
        let (expected, value) = (load::<V, N>(expected), load::<V, N>(value));
        match (task.read.is_some(), task.write.is_some(), task.way) {
            (true, true, Way::EachLine) => visit::<V, N, true, true, false, false>(task, expected, value),
            (true, true, Way::InGroups) => in_groups::<V, N, true, true>(task, expected, value),
            (true, true, Way::PastTheCaches) => visit::<V, N, true, true, true, false>(task, expected, value),
            (true, false, Way::InGroups) => in_groups::<V, N, true, false>(task, expected, value),
            (true, false, _) => visit::<V, N, true, false, false, false>(task, expected, value),
            (false, _, Way::EachLine) => visit::<V, N, false, true, false, false>(task, expected, value),
            (false, _, Way::InGroups) => in_groups::<V, N, false, true>(task, expected, value),
            (false, _, Way::PastTheCaches) => visit::<V, N, false, true, true, false>(task, expected, value),
        }
    }
}

/// Flushes lines that are `stride` bytes apart.
///
/// # Safety
/// They lie in a region.
#[inline(always)]
pub(super) unsafe fn flush(how: Flush, first: *const u8, stride: isize, count: usize) {
    let mut line = first;
    for _ in 0..count {
        // SAFETY: it is this function's own contract.
        unsafe { how.line(line) };
        line = line.wrapping_offset(stride);
    }
}

/// # Safety
/// As for [`perform`].
#[inline(always)]
unsafe fn in_groups<V: Vector, const N: usize, const READ: bool, const WRITE: bool>(
    task: &Task<'_>,
    expected: [V; N],
    value: [V; N],
) -> Option<Difference> {
    let mut done = 0;
    while done < task.count {
        let offset = task.stride.wrapping_mul(done.cast_signed());
        let group = Task {
            here: task.here.wrapping_offset(offset),
            ahead: task.ahead.wrapping_offset(offset),
            behind: None,
            count: GROUP.min(task.count - done),
            ..*task
        };
        // SAFETY: the lines of the group are lines of the task, so it is this function's own contract.
        let difference = unsafe { visit::<V, N, READ, WRITE, false, true>(&group, expected, value) };
        let visited = difference.map_or(group.count, |difference| difference.after);
        if let Some(behind) = task.behind {
            // SAFETY: as many lines as were visited lie behind, and in the region.
            unsafe { flush(task.flush, behind.wrapping_offset(offset), task.stride, visited) };
        }
        if let Some(difference) = difference {
            return Some(Difference { after: done + difference.after, ..difference });
        }
        done += visited;
    }
    None
}

/// # Safety
/// As for [`perform`].
#[inline(always)]
unsafe fn visit<
    V: Vector,
    const N: usize,
    const READ: bool,
    const WRITE: bool,
    const STREAM: bool,
    const INTO_SECOND: bool,
>(
    task: &Task<'_>,
    expected: [V; N],
    value: [V; N],
) -> Option<Difference> {
    let mut offset = 0;
    for after in 0..task.count {
        let line = task.here.wrapping_offset(offset);
        // A line that is only written past the caches must not be fetched into them.
        if READ || !STREAM {
            let ahead = task.ahead.wrapping_offset(offset);
            if INTO_SECOND {
                arch::prefetch_into_second(ahead);
            } else {
                arch::prefetch(ahead);
            }
        }
        // SAFETY: by the contract of `perform`, both lines lie in a region, and the instruction set is there.
        unsafe {
            if READ {
                let found = load(line);
                if !equal(found, expected) {
                    return Some(Difference { after, found: spilled(found) });
                }
            }
            if WRITE && STREAM {
                stream(line, value);
            } else if WRITE {
                store(line, value);
            }
            if let Some(behind) = task.behind {
                task.flush.line(behind.wrapping_offset(offset));
            }
        }
        offset = offset.wrapping_add(task.stride);
    }
    None
}

/// # Safety
/// `line` is a line of a region, or of ours.
#[inline(always)]
unsafe fn load<V: Vector, const N: usize>(line: *const u8) -> [V; N] {
    let line = line.cast::<V>();
    // SAFETY: a line is `N` vectors and aligned for each of them; the reads are volatile, so whatever the line holds is
    // returned, and no bit pattern is invalid.
    unsafe {
        let mut data = [line.read_volatile(); N];
        for (i, part) in data.iter_mut().enumerate().skip(1) {
            *part = line.add(i).read_volatile();
        }
        data
    }
}

/// # Safety
/// `line` is a line of a region, or of ours.
#[inline(always)]
unsafe fn store<V: Vector, const N: usize>(line: *mut u8, data: [V; N]) {
    for (i, part) in data.into_iter().enumerate() {
        // SAFETY: a line is `N` vectors and aligned for each of them.
        unsafe { line.cast::<V>().add(i).write_volatile(part) };
    }
}

/// # Safety
/// `line` is a line of a region, and the processor has the instruction set.
#[inline(always)]
unsafe fn stream<V: Vector, const N: usize>(line: *mut u8, data: [V; N]) {
    for (i, part) in data.into_iter().enumerate() {
        // SAFETY: a line is `N` vectors and aligned for each of them; the instruction set is there.
        unsafe { part.stream(line.cast::<V>().add(i)) };
    }
}

/// # Safety
/// The processor has the instruction set.
#[inline(always)]
unsafe fn equal<V: Vector, const N: usize>(one: [V; N], other: [V; N]) -> bool {
    let mut equal = true;
    for (one, other) in one.into_iter().zip(other) {
        // SAFETY: the instruction set is there.
        equal &= unsafe { one.equals(other) };
    }
    equal
}

/// The content of the registers.
#[inline(always)]
fn spilled<V: Vector, const N: usize>(data: [V; N]) -> LineData {
    let mut line = LineData::ZERO;
    // SAFETY: it is a line of ours.
    unsafe { store((&raw mut line).cast(), data) };
    line
}
