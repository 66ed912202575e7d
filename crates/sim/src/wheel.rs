//! The frames that expire next.
//!
//! **Problem.** Each allocation sets a deadline, and every δ all due deadlines must be found among millions of frames.
//! **Idea.** Each stretch of time has a bucket; a deadline is appended to its bucket, and due ones are read from the
//! oldest buckets. An entry is never removed when its frame is freed: the reader checks whether it still holds. **Why
//! this way.** Both operations take constant time, where a heap or an ordered set would cost a cache miss per level at
//! each allocation.

use std::collections::VecDeque;

use rampart_memory::Timestamp;

/// Deadlines of numbered things.
#[derive(Clone, Debug)]
pub struct Wheel {
    /// Microseconds in a bucket.
    width: u64,
    /// The number of the first bucket.
    first: u64,
    buckets: VecDeque<Vec<u32>>,
}

impl Wheel {
    /// A wheel whose buckets are `width` microseconds wide; at least 1.
    #[must_use]
    pub fn new(width: u64) -> Self {
        assert!(width > 0, "a bucket covers some time");
        Self { width, first: 0, buckets: VecDeque::new() }
    }

    /// Records a deadline.
    pub fn add(&mut self, due: Timestamp, what: u32) {
        let bucket = due.micros() / self.width;
        if self.buckets.is_empty() {
            self.first = bucket;
        }
        while bucket < self.first {
            self.buckets.push_front(Vec::new());
            self.first -= 1;
        }
        let index = usize::try_from(bucket - self.first).expect("a lifetime has few buckets");
        if index >= self.buckets.len() {
            self.buckets.resize_with(index + 1, Vec::new);
        }
        self.buckets[index].push(what);
    }

    /// Removes and returns all deadlines up to `until`, and those that share the last bucket.
    pub fn take(&mut self, until: Timestamp, due: &mut Vec<u32>) {
        let last = until.micros() / self.width;
        while self.first <= last
            && let Some(mut bucket) = self.buckets.pop_front()
        {
            due.append(&mut bucket);
            self.first += 1;
        }
    }

    /// Removes all deadlines.
    pub fn clear(&mut self) {
        self.buckets.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    proptest! {
        /// The reference model: a list that is searched. No deadline is missed, none comes twice, and each comes early
        /// by less than a bucket.
        #[test]
        fn all_that_is_due_comes_once_and_no_bucket_too_early(
            width in 1_u64..50, steps in proptest::collection::vec((0_u64..400, 0_u64..20), 1..100),
        ) {
            let mut wheel = Wheel::new(width);
            let mut twin: Vec<(u64, u32)> = Vec::new();
            let mut now = 0;
            for (number, (ahead, pass)) in (0_u32..).zip(steps) {
                wheel.add(Timestamp::from_micros(now + ahead), number);
                twin.push((now + ahead, number));
                now += pass;
                let mut due = Vec::new();
                wheel.take(Timestamp::from_micros(now), &mut due);
                for what in due {
                    let at = twin.iter().position(|&(_, known)| known == what).expect("comes once");
                    prop_assert!(twin.remove(at).0 < now + width);
                }
                prop_assert!(twin.iter().all(|&(due, _)| due > now));
            }
        }
    }
}
