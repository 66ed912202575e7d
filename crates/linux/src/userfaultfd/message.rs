//! Messages: the kernel's reports to the handler of a range.
//!
//! Source: include/uapi/linux/userfaultfd.h, `struct uffd_msg`.

const MESSAGE_BYTES: usize = 32;

/// The most messages of one read.
const BATCH: usize = 32;

/// Room for a batch of messages, and the last batch. Lives on the stack; reading allocates nothing.
#[derive(Debug)]
pub struct Messages {
    bytes: [u8; BATCH * MESSAGE_BYTES],
    count: usize,
}

impl Default for Messages {
    fn default() -> Self {
        Self { bytes: [0; BATCH * MESSAGE_BYTES], count: 0 }
    }
}

impl Messages {
    /// The kernel writes here.
    pub(super) fn room(&mut self) -> &mut [u8] {
        self.count = 0;
        &mut self.bytes
    }

    /// The kernel wrote so many bytes; always whole messages.
    pub(super) fn filled(&mut self, bytes: usize) {
        self.count = bytes / MESSAGE_BYTES;
    }

    /// The number of messages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Each, in the order in which they were read.
    pub fn iter(&self) -> impl Iterator<Item = UffdMessage> + '_ {
        let (messages, _) = self.bytes.as_chunks();
        messages[..self.count].iter().map(UffdMessage::parse)
    }
}

/// An event in a registered range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UffdMessage {
    /// A thread waits at a page.
    Fault(UffdFault),
    /// Pages moved to other addresses ([`super::Features::EVENT_REMAP`]).
    Remapped {
        /// The old first address.
        from: usize,
        /// The new first address.
        to: usize,
        /// The number of bytes.
        bytes: usize,
    },
    /// Pages were given back to the kernel ([`super::Features::EVENT_REMOVE`]).
    Removed {
        /// The first address.
        start: usize,
        /// The address after the last.
        end: usize,
    },
    /// Addresses were given back to the kernel ([`super::Features::EVENT_UNMAP`]).
    Unmapped {
        /// The first address.
        start: usize,
        /// The address after the last.
        end: usize,
    },
    /// An event that this program never requested.
    Unknown(u8),
}

/// A thread waits at a page until the fault is resolved or it is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UffdFault {
    /// The first address of the page.
    pub address: usize,
    /// Whether the thread writes.
    pub write: bool,
    /// The cause.
    pub cause: FaultCause,
    /// The thread, as `gettid(2)` numbers it; `None` without [`super::Features::THREAD_ID`].
    pub thread: Option<u32>,
}

/// Why a thread stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultCause {
    /// The page is absent.
    Missing,
    /// The page is write-protected, and the thread writes.
    Protected,
    /// The page is in the file and not in the page table.
    Minor,
}

impl UffdMessage {
    fn parse(bytes: &[u8; MESSAGE_BYTES]) -> Self {
        let (words, _) = bytes.as_chunks();
        let [_, first, second, third] = words else { unreachable!("a message is four words") };
        let [first, second, third] = [first, second, third].map(|word| u64::from_ne_bytes(*word));
        match bytes[0] {
            0x12 => {
                Self::Fault(UffdFault::new(first, second, u32::from_ne_bytes(*bytes[24..].first_chunk().expect("8"))))
            }
            0x14 => Self::Remapped { from: address(first), to: address(second), bytes: address(third) },
            0x15 => Self::Removed { start: address(first), end: address(second) },
            0x16 => Self::Unmapped { start: address(first), end: address(second) },
            unknown => Self::Unknown(unknown),
        }
    }
}

impl UffdFault {
    /// From `UFFD_PAGEFAULT_FLAG_*`.
    fn new(flags: u64, at: u64, thread: u32) -> Self {
        let cause = match flags >> 1 & 3 {
            0 => FaultCause::Missing,
            1 => FaultCause::Protected,
            _ => FaultCause::Minor,
        };
        Self { address: address(at), write: flags & 1 != 0, cause, thread: (thread != 0).then_some(thread) }
    }
}

fn address(word: u64) -> usize {
    usize::try_from(word).expect("an address of this process")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message in the kernel's form.
    fn message(event: u8, words: [u64; 3]) -> UffdMessage {
        let mut messages = Messages::default();
        let room = messages.room();
        room[0] = event;
        for (place, word) in room[8..].chunks_mut(8).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        messages.filled(MESSAGE_BYTES);
        assert_eq!(messages.len(), 1);
        messages.iter().next().unwrap()
    }

    #[test]
    fn a_fault_says_where_and_why_and_who() {
        for (flags, write, cause) in [
            (0, false, FaultCause::Missing),
            (1, true, FaultCause::Missing),
            (3, true, FaultCause::Protected),
            (4, false, FaultCause::Minor),
            (5, true, FaultCause::Minor),
        ] {
            let fault = UffdFault { address: 0x7f00_1000, write, cause, thread: Some(77) };
            assert_eq!(message(0x12, [flags, 0x7f00_1000, 77]), UffdMessage::Fault(fault));
        }
        let UffdMessage::Fault(fault) = message(0x12, [0, 0x1000, 0]) else { panic!("no fault") };
        assert_eq!(fault.thread, None, "the kernel was not asked for it");
    }

    #[test]
    fn the_other_events_say_which_addresses() {
        assert_eq!(
            message(0x14, [0x1000, 0x9000, 0x2000]),
            UffdMessage::Remapped { from: 0x1000, to: 0x9000, bytes: 0x2000 }
        );
        assert_eq!(message(0x15, [0x1000, 0x3000, 0]), UffdMessage::Removed { start: 0x1000, end: 0x3000 });
        assert_eq!(message(0x16, [0x1000, 0x3000, 0]), UffdMessage::Unmapped { start: 0x1000, end: 0x3000 });
        assert_eq!(message(0x99, [0; 3]), UffdMessage::Unknown(0x99));
    }

    #[test]
    fn room_that_is_handed_out_again_holds_nothing() {
        let mut messages = Messages::default();
        messages.room();
        messages.filled(3 * MESSAGE_BYTES);
        assert_eq!(messages.iter().count(), 3);
        messages.room();
        assert!(messages.is_empty() && messages.iter().next().is_none());
    }
}
