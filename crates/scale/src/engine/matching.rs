//! Which message is for which receive.
//!
//! **Problem.** A message goes to the first receive posted that fits it, a receive takes the first message that came and fits
//! it, with wildcards on either side of a receive (MPI 4.1, 3.5 and 3.2.4). **Idea.** Two lists a rank, in order: receives
//! without a message, messages without a receive; whatever comes looks through the other list from its front. **Why this way.**
//! A list is some few entries long in a program that scales, and they lie side by side; order is exact without any care.

use crate::operation::{ANY, COLLECTIVES, OpId, Operation};
use crate::time::Time;

/// A receive that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Posted {
    pub from: u32,
    pub tag: u32,
    pub id: OpId,
}

/// A message that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    /// The send, with the sender as its peer.
    pub send: Operation,
    /// When the CPU has it.
    pub ready: Time,
}

/// The two lists of a rank. One of them has nothing that would fit the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Matching {
    posted: Vec<Posted>,
    arrived: Vec<Arrived>,
}

impl Matching {
    /// A message came: the receive that takes it, or it waits.
    pub fn arrive(&mut self, message: Arrived) -> Option<Posted> {
        let Operation { peer, tag, .. } = message.send;
        match self.posted.iter().position(|receive| fits(receive.from, receive.tag, peer, tag)) {
            Some(place) => Some(self.posted.remove(place)),
            None => {
                self.arrived.push(message);
                None
            }
        }
    }

    /// A receive is posted: the message that it takes, or it waits.
    pub fn post(&mut self, receive: Operation) -> Option<Arrived> {
        let fitting = |message: &Arrived| fits(receive.peer, receive.tag, message.send.peer, message.send.tag);
        match self.arrived.iter().position(fitting) {
            Some(place) => Some(self.arrived.remove(place)),
            None => {
                self.posted.push(Posted { from: receive.peer, tag: receive.tag, id: receive.id });
                None
            }
        }
    }

    /// The first receive that still waits.
    pub fn first_posted(&self) -> Option<&Posted> {
        self.posted.first()
    }

    /// The first message that nobody received.
    pub fn first_arrived(&self) -> Option<&Arrived> {
        self.arrived.first()
    }
}

fn fits(from: u32, wanted: u32, sender: u32, tag: u32) -> bool {
    (from == ANY || from == sender) && (wanted == tag || wanted == ANY && tag != COLLECTIVES.0)
}
