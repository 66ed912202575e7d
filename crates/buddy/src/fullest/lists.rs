//! The units of a zone by pool and fullness, on linked lists behind one lock.
//!
//! They are a hint: which unit to try next. A unit may be fuller or emptier than its bucket says.

use super::part::{BUCKETS, NONE, PartState};
use super::sync::Ordering::{Relaxed, SeqCst};
use crate::BankPool;

/// The most units that [`PartLists::emptiest`] returns.
const CANDIDATES: usize = 16;

/// The most units that it sees.
const SEEN: usize = 256;

/// The first and the last unit of each bucket of each pool.
#[derive(Debug)]
pub struct PartLists {
    ends: [[(u32, u32); BUCKETS as usize]; 3],
}

impl Default for PartLists {
    fn default() -> Self {
        Self { ends: [[(NONE, NONE); BUCKETS as usize]; 3] }
    }
}

impl PartLists {
    /// Puts a unit that is on no list at the end of that of this bucket.
    pub fn link(&mut self, parts: &[PartState], part: u32, bucket: u32) {
        let state = &parts[part as usize];
        let (first, last) = &mut self.ends[state.flags().pool() as usize][bucket as usize];
        state.previous.store(*last, Relaxed);
        state.next.store(NONE, Relaxed);
        match *last {
            NONE => *first = part,
            last => parts[last as usize].next.store(part, Relaxed),
        }
        *last = part;
        state.bucket.store(bucket, SeqCst);
    }

    /// Takes a unit off its list; its pool is still that of the list.
    pub fn unlink(&mut self, parts: &[PartState], part: u32) {
        let state = &parts[part as usize];
        let bucket = state.bucket.swap(NONE, SeqCst);
        if bucket == NONE {
            return;
        }
        let (first, last) = &mut self.ends[state.flags().pool() as usize][bucket as usize];
        let (previous, next) = (state.previous.load(Relaxed), state.next.load(Relaxed));
        match previous {
            NONE => *first = next,
            previous => parts[previous as usize].next.store(next, Relaxed),
        }
        match next {
            NONE => *last = previous,
            next => parts[next as usize].previous.store(previous, Relaxed),
        }
    }

    /// Returns the first unit of a pool that may have what is wanted, the fullest or the emptiest first.
    pub fn candidate(
        &self,
        parts: &[PartState],
        (pool, fullest): (BankPool, bool),
        may_have: impl Fn(&PartState) -> bool,
    ) -> Option<u32> {
        let mut seen = 0;
        for step in 0..BUCKETS as usize {
            let bucket = if fullest { step } else { BUCKETS as usize - 1 - step };
            let mut part = self.ends[pool as usize][bucket].0;
            while part != NONE && seen < SEEN {
                seen += 1;
                if may_have(&parts[part as usize]) {
                    return Some(part);
                }
                part = parts[part as usize].next.load(Relaxed);
            }
        }
        None
    }

    /// Returns the units of a pool with most free frames, most first, of those for which `free` has a count. After the
    /// last come [`NONE`]s.
    pub fn emptiest(
        &self,
        parts: &[PartState],
        pool: BankPool,
        free: impl Fn(usize) -> Option<i64>,
    ) -> [u32; CANDIDATES] {
        let (mut best, mut seen) = ([(i64::MIN, NONE); CANDIDATES], 0);
        for (mut part, _) in self.ends[pool as usize].iter().rev().copied() {
            while part != NONE && seen < SEEN {
                seen += 1;
                let free = free(part as usize).unwrap_or(i64::MIN);
                let place = best.partition_point(|(more, _)| *more >= free);
                if place < CANDIDATES {
                    best[place..].rotate_right(1);
                    best[place] = (free, part);
                }
                part = parts[part as usize].next.load(Relaxed);
            }
        }
        best.map(|(_, part)| part)
    }

    /// Returns the first or the last empty unit.
    pub fn offline(&self, last: bool) -> Option<u32> {
        let (front, back) = self.ends[BankPool::Offline as usize][BUCKETS as usize - 1];
        let part = if last { back } else { front };
        (part != NONE).then_some(part)
    }
}
