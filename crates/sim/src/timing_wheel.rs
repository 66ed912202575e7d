//! A timing wheel: which frames expire next.
//!
//! **Problem.** Each allocation sets a deadline, and every δ the frames that are due must be found among millions.
//! **Idea.** Keep a bucket per time slot. Adding appends a deadline to its bucket, and taking empties the oldest
//! buckets. An entry stays when its frame is freed: the reader checks whether it is still valid. **Why this way.** Both
//! operations take constant time. A heap or an ordered set would cost one cache miss per level at each allocation.

use std::collections::VecDeque;

use rampart_memory::Timestamp;

/// Deadlines of numbered items.
#[derive(Clone, Debug)]
pub struct TimingWheel {
    /// Microseconds per bucket.
    width: u64,
    /// The number of the first bucket.
    first: u64,
    buckets: VecDeque<Vec<u32>>,
}

impl TimingWheel {
    /// Returns a wheel whose buckets are `width` microseconds wide, at least 1.
    #[must_use]
    pub fn new(width: u64) -> Self {
        assert!(width > 0, "a bucket covers some time");
        Self { width, first: 0, buckets: VecDeque::new() }
    }

    /// Adds the deadline of an item.
    pub fn add(&mut self, due: Timestamp, item: u32) {
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
        self.buckets[index].push(item);
    }

    /// Removes all items that may be due by `until`: those that are due, and the others in their buckets.
    pub fn take(&mut self, until: Timestamp, due: &mut Vec<u32>) {
        let last = until.micros() / self.width;
        while self.first <= last
            && let Some(mut bucket) = self.buckets.pop_front()
        {
            due.append(&mut bucket);
            self.first += 1;
        }
    }

    /// Removes all items.
    pub fn clear(&mut self) {
        self.buckets.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    proptest! {
        /// The reference model is a list that is searched. Nothing due is missed, nothing is returned twice, and no
        /// item is early by a bucket or more.
        #[test]
        fn all_that_is_due_comes_once_and_no_bucket_too_early(
            width in 1_u64..50, steps in proptest::collection::vec((0_u64..400, 0_u64..20), 1..100),
        ) {
            let mut wheel = TimingWheel::new(width);
            let mut model: Vec<(u64, u32)> = Vec::new();
            let mut now = 0;
            for (number, (ahead, pass)) in (0_u32..).zip(steps) {
                wheel.add(Timestamp::from_micros(now + ahead), number);
                model.push((now + ahead, number));
                now += pass;
                let mut due = Vec::new();
                wheel.take(Timestamp::from_micros(now), &mut due);
                for item in due {
                    let at = model.iter().position(|&(_, known)| known == item).expect("comes once");
                    prop_assert!(model.remove(at).0 < now + width);
                }
                prop_assert!(model.iter().all(|&(due, _)| due > now));
            }
        }
    }
}
