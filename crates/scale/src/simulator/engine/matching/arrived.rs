//! Messages that wait for a receive.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Pattern, SHORT, fits, patterns};
use crate::model::operation::Operation;
use crate::time::Time;

/// A message that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::simulator::engine) struct Arrived {
    /// The send, with the sender as its peer.
    pub send: Operation,
    /// The time at which the CPU has it.
    pub ready: Time,
}

/// Messages in the order of their arrival.
#[derive(Clone, Debug, Default)]
pub(super) struct ArrivedMessages {
    kept: Kept,
    #[cfg(test)]
    pub looked_at: u64,
}

#[derive(Clone, Debug)]
enum Kept {
    /// In order.
    Short(Vec<Arrived>),
    Long(Box<Queues>),
}

impl Default for Kept {
    fn default() -> Self {
        Self::Short(Vec::new())
    }
}

/// A queue for each pattern that matches one of the messages; each message is in up to four queues.
#[derive(Clone, Debug, Default)]
struct Queues {
    /// Numbers of messages.
    of: HashMap<Pattern, BTreeSet<u64>>,
    messages: BTreeMap<u64, Arrived>,
    /// The next number.
    next: u64,
}

impl ArrivedMessages {
    pub fn add(&mut self, message: Arrived) {
        match &mut self.kept {
            Kept::Short(list) if list.len() < SHORT => list.push(message),
            Kept::Short(list) => {
                let mut queues = Box::<Queues>::default();
                list.drain(..).chain([message]).for_each(|message| queues.add(message));
                self.kept = Kept::Long(queues);
            }
            Kept::Long(queues) => queues.add(message),
        }
    }

    /// Removes and returns the first message that matches.
    pub fn take(&mut self, pattern: Pattern) -> Option<Arrived> {
        match &mut self.kept {
            Kept::Short(list) => {
                let place = list.iter().position(|message| fits(pattern, message.send.peer, message.send.tag));
                #[cfg(test)]
                {
                    self.looked_at += place.map_or(list.len(), |place| place + 1) as u64;
                }
                place.map(|place| list.remove(place))
            }
            Kept::Long(queues) => {
                #[cfg(test)]
                {
                    self.looked_at += 4;
                }
                let taken = queues.take(pattern);
                if queues.messages.is_empty() {
                    self.kept = Kept::default();
                }
                taken
            }
        }
    }

    pub fn first(&self) -> Option<Arrived> {
        match &self.kept {
            Kept::Short(list) => list.first().copied(),
            Kept::Long(queues) => queues.messages.first_key_value().map(|(_, message)| *message),
        }
    }
}

impl Queues {
    fn add(&mut self, message: Arrived) {
        for pattern in patterns(message.send.peer, message.send.tag) {
            self.of.entry(pattern).or_default().insert(self.next);
        }
        self.messages.insert(self.next, message);
        self.next += 1;
    }

    fn take(&mut self, pattern: Pattern) -> Option<Arrived> {
        let number = *self.of.get(&pattern)?.first()?;
        let message = self.messages.remove(&number)?;
        for pattern in patterns(message.send.peer, message.send.tag) {
            let queue = self.of.get_mut(&pattern)?;
            queue.remove(&number);
            if queue.is_empty() {
                self.of.remove(&pattern);
            }
        }
        Some(message)
    }
}
