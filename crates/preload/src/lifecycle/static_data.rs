//! Puts the executable's static data under the guard that is about to begin.

#![allow(unsafe_code, reason = "replaces the executable's data")]

use std::fs;
use std::ops::Range;

use crate::regions::static_data::{Executable, choose};
use crate::threads::signal_mask::Signals;
use crate::{BACKING, HEAP};

/// A window begins at the same offset in a huge page as its memory.
const HUGE: usize = 2 << 20;

/// Puts the executable's data under the guard that is about to begin, as far as possible. In the constructor.
pub(crate) fn bring_in(block: usize) {
    let found = Executable::this();
    let choice = choose(&found.writable, &found.kept, block);
    let all = choice.left + choice.blocks.iter().map(ExactSizeIterator::len).sum::<usize>();
    // A thread that a library started already may use the data now.
    let alone = fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1);
    let window = |blocks: &Range<usize>| {
        let (start, end) = (blocks.start / HUGE * HUGE, blocks.end.next_multiple_of(HUGE));
        let piece = HEAP.cut(end - start, HUGE)?;
        BACKING.window(piece.start.addr().get() + (blocks.start - start), blocks.clone())
    };
    let windows: Vec<_> = choice.blocks.iter().filter(|_| alone).filter_map(window).collect();
    let _signals = Signals::block_all();
    // SAFETY: they are of the executable's writable segments, each in one window; there is no other thread, no handler
    // runs, and neither the loader nor the C library is in the middle of anything while a constructor runs that touches
    // none of it.
    let shown = unsafe { BACKING.show(&windows) };
    BACKING.count_data(shown, all - shown);
}
