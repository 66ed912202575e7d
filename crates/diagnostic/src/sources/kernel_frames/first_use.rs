//! Memory that came online and is tested before its first use.
//!
//! **Problem.** Memory that was just added was tested by nobody, and a program may get it a moment later. **Idea.** The
//! module withholds it, and shows how much waits; testers claim it block by block, before anything else. **Why this
//! way.** Whoever added memory needs it soon, so it counts as a demand for all of it within a second.

/// The most blocks that are asked for at once, of up to 4 MiB each.
const MOST_OUT: u64 = 16;

/// The most frames of a block.
const MOST_FRAMES: u64 = 1024;

/// What waits on a node, in frames.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewMemory {
    waiting: u64,
    /// Requests so far.
    begun: u64,
    /// Those in the hands of testers.
    out: u64,
}

impl NewMemory {
    /// Learns how many frames wait.
    pub const fn see(&mut self, waiting: u64) {
        self.waiting = waiting;
    }

    /// Frames per second that must be tested.
    #[expect(clippy::cast_precision_loss, reason = "a rate need not be exact")]
    pub const fn rate(self) -> f64 {
        self.waiting as f64
    }

    /// How many blocks are to be asked for now, each of which must [`end`](Self::end). One is at the beginning: the
    /// module withholds memory only from the first request on.
    pub fn begin(&mut self) -> u64 {
        let wanted = self.waiting.div_ceil(MOST_FRAMES).clamp(u64::from(self.begun == 0), MOST_OUT);
        let more = wanted.saturating_sub(self.out);
        self.begun += more;
        self.out += more;
        more
    }

    /// A tester is done with a request.
    pub const fn end(&mut self) {
        self.out -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_asked_for_once_and_not_too_much_at_a_time() {
        let mut memory = NewMemory::default();
        memory.see(0);
        assert_eq!((memory.begin(), memory.begin()), (1, 0), "the first request");
        memory.end();
        memory.see(0);
        assert_eq!(memory.begin(), 0);
        memory.see(1025);
        assert_eq!((memory.begin(), memory.begin()), (2, 0));
        memory.end();
        assert_eq!(memory.begin(), 1, "it still waits: the module had none, or gave it back untested");
        memory.see(1 << 30);
        assert_eq!((memory.begin(), memory.out), (14, MOST_OUT));
    }
}
