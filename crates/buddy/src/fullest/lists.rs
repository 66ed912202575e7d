//! The parts of a zone by pool and fullness, on linked lists behind one lock.
//!
//! They are a hint: which part to try next. A part may be fuller or emptier than its bucket says.

use rampart_memory::BlockOrder;

use super::part::{BUCKETS, CHUNK_ORDER, NONE, PartState};
use super::sync::Ordering::{Relaxed, SeqCst};
use crate::BankPool;

/// The most parts that one look at the lists returns.
pub const CANDIDATES: usize = 16;

/// The most parts that it sees.
const SEEN: usize = 256;

/// The first and the last part of each bucket of each pool.
#[derive(Debug)]
pub struct PartLists {
    ends: [[(u32, u32); BUCKETS as usize]; 3],
}

impl PartLists {
    pub const EMPTY: Self = Self { ends: [[(NONE, NONE); BUCKETS as usize]; 3] };

    /// Puts a part that is on no list at the end of the one that it belongs to.
    pub fn link(&mut self, parts: &[PartState], part: u32) {
        let state = &parts[part as usize];
        // All of an offline part is free, even if a thread has not counted that yet.
        let is_offline = state.flags().pool() == BankPool::Offline;
        let bucket = if is_offline { BUCKETS - 1 } else { state.fullness() };
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

    /// Takes a part off its list; its pool is still that of the list.
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

    /// Returns parts of a pool that may have a block of this order, the fullest or the emptiest first.
    pub fn candidates(
        &self,
        parts: &[PartState],
        pool: BankPool,
        order: BlockOrder,
        fullest: bool,
    ) -> ([u32; CANDIDATES], usize) {
        let chunks = u32::from(order.number() >= CHUNK_ORDER) + u32::from(order.number() > CHUNK_ORDER);
        let may_have = |part: &PartState| part.free_chunks() >= chunks && !part.seems_to_lack(order);
        let (mut found, mut count, mut seen) = ([NONE; CANDIDATES], 0, 0);
        for step in 0..BUCKETS as usize {
            let bucket = if fullest { step } else { BUCKETS as usize - 1 - step };
            let mut part = self.ends[pool as usize][bucket].0;
            while part != NONE && count < CANDIDATES && seen < SEEN {
                seen += 1;
                if may_have(&parts[part as usize]) {
                    found[count] = part;
                    count += 1;
                }
                part = parts[part as usize].next.load(Relaxed);
            }
        }
        (found, count)
    }

    /// Returns the first or the last empty part.
    pub fn offline(&self, last: bool) -> Option<u32> {
        let (front, back) = self.ends[BankPool::Offline as usize][BUCKETS as usize - 1];
        let part = if last { back } else { front };
        (part != NONE).then_some(part)
    }
}
