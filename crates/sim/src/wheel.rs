//! Which frames expire next.
//!
//! **Problem.** Each allocation sets a deadline, and every δ all that is due must be found among millions of frames.
//! **Idea.** A bucket for each stretch of time; a deadline is appended to its bucket, and what is due is read off the
//! oldest buckets. An entry is never removed when its frame is freed: who reads it looks whether it still holds. **Why
//! this way.** Both are constant time, where a heap or an ordered set would cost a cache miss a level at each
//! allocation.

use std::collections::VecDeque;

use rampart_memory::Timestamp;

/// Deadlines of things that are numbered.
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

    /// Notes that something is due.
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

    /// Takes out all that may be due by `until`: whatever is due by then, and what shares its bucket.
    pub fn take(&mut self, until: Timestamp, due: &mut Vec<u32>) {
        let last = until.micros() / self.width;
        while self.first <= last
            && let Some(mut bucket) = self.buckets.pop_front()
        {
            due.append(&mut bucket);
            self.first += 1;
        }
    }

    /// Takes out everything.
    pub fn clear(&mut self) {
        self.buckets.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    proptest! {
        /// The slow twin: a list that is searched. Nothing due is missed, nothing comes twice, and what comes early is
        /// early by less than a bucket.
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
