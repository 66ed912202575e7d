//! Slots whose objects are being prefetched.
//!
//! **Problem.** A marker waits for the memory whenever it reads an object that no cache holds. **Idea.** It prefetches
//! the object, and reads it a few slots later [Cher04, abstract]. **Why this way.** First in, first out: objects move
//! in the order in which their slots came.

const SLOTS: usize = if cfg!(shuttle) { 2 } else { 16 };

/// The slots, first in, first out.
#[derive(Debug, Default)]
pub(super) struct SlotQueue {
    slots: [u32; SLOTS],
    /// Of all that ever came, how many have left.
    left: usize,
    came: usize,
}

impl SlotQueue {
    /// Adds a slot; if there is no room, the oldest comes out.
    #[inline]
    pub fn push(&mut self, slot: u32) -> Option<u32> {
        let oldest = if self.came - self.left == SLOTS { self.pop() } else { None };
        self.slots[self.came % SLOTS] = slot;
        self.came += 1;
        oldest
    }

    /// Removes the oldest.
    #[inline]
    pub fn pop(&mut self) -> Option<u32> {
        if self.left == self.came {
            return None;
        }
        let oldest = self.slots[self.left % SLOTS];
        self.left += 1;
        Some(oldest)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn slots_come_out_in_their_order_and_no_later_than_there_is_room(
            steps in prop::collection::vec(prop::option::weighted(0.6, any::<u32>()), 0..200),
        ) {
            let (mut queue, mut model) = (SlotQueue::default(), VecDeque::new());
            for step in steps {
                match step {
                    None => prop_assert_eq!(queue.pop(), model.pop_front()),
                    Some(slot) => {
                        let oldest = if model.len() == SLOTS { model.pop_front() } else { None };
                        model.push_back(slot);
                        prop_assert_eq!(queue.push(slot), oldest);
                    }
                }
            }
        }
    }
}
