//! Many doubly linked lists in one array.
//!
//! **Problem.** A merge removes a buddy from the middle of its list, so every list operation must take the same short
//! time wherever the element is. **Idea.** Each frame's slot has two indices, of the previous and the next slot. The
//! heads of the lists are slots behind those of the frames, and each list is a ring through its head, as in Linux. So
//! an element can be removed without knowing its list, and no end is a special case.

use crate::steps::{StepKind, step};
use crate::{End, Error, Footprint, Storage};

/// A slot of the array: a frame or the head of a list.
#[derive(Clone, Copy)]
pub struct Link {
    next: u32,
    previous: u32,
}

const _: () = assert!(size_of::<Link>() == 8, "a frame's links are all that a list costs");

/// A list, by the slot of its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head(u32);

/// The links of all elements and lists of a zone.
pub struct Links<'a, S: Storage<'a>> {
    links: S::Array<Link>,
    elements: u32,
}

impl<'a, S: Storage<'a>> Links<'a, S> {
    /// Returns lists before [`Links::begin`], and elements on none of them. Using an element or a list that does not
    /// exist is a bug and panics.
    pub fn new(storage: &S, elements: u32, lists: u32) -> Result<Self, Error> {
        let slots = elements.checked_add(lists).expect("a zone is small enough for its links");
        Ok(Self { links: storage.filled(slots as usize, Link { next: 0, previous: 0 })?, elements })
    }

    /// Makes all lists empty.
    pub fn begin(&mut self) {
        for (link, head) in self.links[self.elements as usize..].iter_mut().zip(self.elements..) {
            *link = Link { next: head, previous: head };
        }
    }

    /// Returns the memory of the elements, and that of the heads.
    pub fn footprint(&self) -> Footprint {
        let (elements, heads) = (self.elements as usize, self.links.len() - self.elements as usize);
        Footprint { frames: Footprint::of_frames::<Link>(elements).frames, ..Footprint::of_heads::<Link>(heads) }
    }

    #[inline]
    pub const fn head(&self, list: u32) -> Head {
        Head(self.elements + list)
    }

    #[inline]
    pub fn is_empty(&self, list: Head) -> bool {
        step(StepKind::List);
        self.links[list.0 as usize].next == list.0
    }

    /// Returns the element at an end.
    #[inline]
    pub fn at(&self, list: Head, end: End) -> Option<u32> {
        step(StepKind::List);
        self.element(self.neighbour(list.0, end))
    }

    /// Returns all elements, from an end on.
    pub fn from(&self, list: Head, end: End) -> impl Iterator<Item = u32> {
        core::iter::successors(self.at(list, end), move |&slot| {
            step(StepKind::List);
            self.element(self.neighbour(slot, end))
        })
    }

    /// Puts an element that is on no list at an end of a list.
    #[inline]
    pub fn push(&mut self, list: Head, slot: u32, end: End) {
        step(StepKind::List);
        let neighbour = self.neighbour(list.0, end);
        let (previous, next) = match end {
            End::Front => (list.0, neighbour),
            End::Back => (neighbour, list.0),
        };
        self.links[slot as usize] = Link { next, previous };
        self.links[previous as usize].next = slot;
        self.links[next as usize].previous = slot;
    }

    /// Removes an element from its list.
    #[inline]
    pub fn remove(&mut self, slot: u32) {
        step(StepKind::List);
        let Link { next, previous } = self.links[slot as usize];
        self.links[previous as usize].next = next;
        self.links[next as usize].previous = previous;
    }

    #[inline]
    fn neighbour(&self, slot: u32, end: End) -> u32 {
        let link = self.links[slot as usize];
        match end {
            End::Front => link.next,
            End::Back => link.previous,
        }
    }

    #[inline]
    fn element(&self, slot: u32) -> Option<u32> {
        (slot < self.elements).then_some(slot)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::HeapStorage;
    use proptest::prelude::*;

    const ELEMENTS: u32 = 12;
    const LISTS: u32 = 3;

    proptest! {
        #[test]
        fn three_rings_do_what_three_deques_do(steps in prop::collection::vec((0..ELEMENTS, 0..LISTS, any::<bool>()), 0..60)) {
            let mut links = Links::new(&HeapStorage, ELEMENTS, LISTS).unwrap();
            links.begin();
            let mut model = vec![VecDeque::new(); LISTS as usize];
            for (slot, list, front) in steps {
                if let Some(deque) = model.iter_mut().find(|deque| deque.contains(&slot)) {
                    links.remove(slot);
                    deque.retain(|&other| other != slot);
                } else if front {
                    links.push(links.head(list), slot, End::Front);
                    model[list as usize].push_front(slot);
                } else {
                    links.push(links.head(list), slot, End::Back);
                    model[list as usize].push_back(slot);
                }
                for (list, deque) in (0..LISTS).zip(&model) {
                    let head = links.head(list);
                    prop_assert!(links.from(head, End::Front).eq(deque.iter().copied()));
                    prop_assert!(links.from(head, End::Back).eq(deque.iter().rev().copied()));
                    prop_assert_eq!(links.at(head, End::Back), deque.back().copied());
                    prop_assert_eq!(links.is_empty(head), deque.is_empty());
                }
            }
        }
    }
}
