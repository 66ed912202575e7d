//! Receives that wait for a message.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::{Pattern, SHORT, fits, patterns};
use crate::model::operation::OpId;

/// A receive that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::simulator::engine) struct Posted {
    pub from: u32,
    pub tag: u32,
    pub id: OpId,
}

/// Receives in the order in which they were posted.
#[derive(Clone, Debug, Default)]
pub(super) struct PostedReceives {
    kept: Kept,
    #[cfg(test)]
    pub looked_at: u64,
}

#[derive(Clone, Debug)]
enum Kept {
    /// In order.
    Short(Vec<Posted>),
    Long(Box<Queues>),
}

impl Default for Kept {
    fn default() -> Self {
        Self::Short(Vec::new())
    }
}

/// A queue for each pattern in use.
#[derive(Clone, Debug, Default)]
struct Queues {
    /// Each receive with its number.
    of: HashMap<Pattern, VecDeque<(u64, OpId)>>,
    /// The patterns in use, by the number of the first receive of each.
    firsts: BTreeMap<u64, Pattern>,
    /// The next number.
    next: u64,
}

impl PostedReceives {
    pub fn add(&mut self, receive: Posted) {
        match &mut self.kept {
            Kept::Short(list) if list.len() < SHORT => list.push(receive),
            Kept::Short(list) => {
                let mut queues = Box::<Queues>::default();
                list.drain(..).chain([receive]).for_each(|receive| queues.add(receive));
                self.kept = Kept::Long(queues);
            }
            Kept::Long(queues) => queues.add(receive),
        }
    }

    /// Removes and returns the first receive that takes this message.
    pub fn take(&mut self, sender: u32, tag: u32) -> Option<Posted> {
        match &mut self.kept {
            Kept::Short(list) => {
                let place = list.iter().position(|receive| fits((receive.from, receive.tag), sender, tag));
                #[cfg(test)]
                {
                    self.looked_at += place.map_or(list.len(), |place| place + 1) as u64;
                }
                place.map(|place| list.remove(place))
            }
            Kept::Long(queues) => {
                #[cfg(test)]
                {
                    self.looked_at += patterns(sender, tag).count() as u64;
                }
                let taken = queues.take(sender, tag);
                if queues.of.is_empty() {
                    self.kept = Kept::default();
                }
                taken
            }
        }
    }

    pub fn first(&self) -> Option<Posted> {
        match &self.kept {
            Kept::Short(list) => list.first().copied(),
            Kept::Long(queues) => {
                let (from, tag) = *queues.firsts.first_key_value()?.1;
                Some(Posted { from, tag, id: queues.of[&(from, tag)].front()?.1 })
            }
        }
    }
}

impl Queues {
    fn add(&mut self, receive: Posted) {
        let pattern = (receive.from, receive.tag);
        let queue = self.of.entry(pattern).or_default();
        if queue.is_empty() {
            self.firsts.insert(self.next, pattern);
        }
        queue.push_back((self.next, receive.id));
        self.next += 1;
    }

    fn take(&mut self, sender: u32, tag: u32) -> Option<Posted> {
        let first = |pattern| Some((self.of.get(&pattern)?.front()?.0, pattern));
        let (number, pattern) = patterns(sender, tag).filter_map(first).min()?;
        let queue = self.of.get_mut(&pattern)?;
        let (_, id) = queue.pop_front()?;
        self.firsts.remove(&number);
        match queue.front() {
            Some((next, _)) => drop(self.firsts.insert(*next, pattern)),
            None => drop(self.of.remove(&pattern)),
        }
        Some(Posted { from: pattern.0, tag: pattern.1, id })
    }
}
