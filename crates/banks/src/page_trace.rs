//! Traces of page allocation: what the kernel gave out and got back.
//!
//! **Problem.** Which banks a machine can do without depends on where its allocator puts pages, and a real load does
//! not come twice in the same way. **Idea.** Record each allocation and each free of a whole machine once, and let any
//! allocator serve them. **Why this way.** An event takes 16 bytes, so that a machine under load, with 50,000 events a
//! second, writes less than a megabyte a second, and a trace is read in one pass.

use std::collections::HashSet;
use std::io::{self, Read};
use std::ops::Range;

use rampart_buddy::Migratetype;
use rampart_memory::{BlockOrder, Bytes, FRAME_BYTES, Frame};

use crate::Error;

/// An allocation or a free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageEvent {
    /// Time since the beginning, below 2^40 µs.
    pub micros: u64,
    /// The first frame, below 2^36.
    pub frame: Frame,
    /// The size.
    pub order: BlockOrder,
    /// What happened.
    pub change: PageChange,
    /// The CPU.
    pub cpu: u8,
    /// The thread that ran, below 2^28; [`PageEvent::BEFORE`] for memory that was in use before.
    pub process: u32,
}

/// What happened to a block of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageChange {
    /// The kernel gave it out.
    Allocated(Migratetype),
    /// It came back.
    Freed,
}

/// The bytes of an event.
pub const EVENT_BYTES: usize = 16;

const ORDER: u32 = 40;
const MIGRATETYPE: u32 = 44;
const ALLOCATED: u32 = 47;
const CPU: u32 = 48;
const UNUSED: u32 = 56;
const PROCESS: u32 = 36;

/// The kernel's numbers: not in the order of [`Migratetype::ALL`] by chance, but the same.
const _: () = assert!(Migratetype::Movable.index() == 1 && Migratetype::Reclaimable.index() == 2);

/// So many bits of a word, from `shift` on.
const fn bits(word: u64, shift: u32, count: u32) -> u64 {
    word >> shift & ((1 << count) - 1)
}

impl PageEvent {
    /// Instead of a process: what allocated it is unknown, as it was in use when the recording began. Numbers of Linux
    /// are below 2^22.
    pub const BEFORE: u32 = (1 << 28) - 1;

    fn frame_numbers(&self) -> Range<u64> {
        self.frame.number()..self.frame.number() + self.order.frames()
    }

    /// Time is below this.
    pub const TIME_LIMIT: u64 = 1 << ORDER;

    /// Frames are below this.
    pub const FRAME_LIMIT: u64 = 1 << PROCESS;

    /// Reads an event.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_bytes(bytes: [u8; EVENT_BYTES]) -> Result<Self, &'static str> {
        let (first, second) = bytes.split_at(8);
        let [first, second] = [first, second].map(|half| u64::from_le_bytes(half.try_into().expect("eight bytes")));
        if first >> UNUSED != 0 {
            return Err("bits 56 to 63 are not 0");
        }
        #[expect(clippy::cast_possible_truncation, reason = "a few bits each")]
        let (order, migratetype, cpu, process) = (
            bits(first, ORDER, 4) as u8,
            bits(first, MIGRATETYPE, 3) as usize,
            bits(first, CPU, 8) as u8,
            bits(second, PROCESS, 28) as u32,
        );
        let change = match (bits(first, ALLOCATED, 1), Migratetype::ALL.get(migratetype)) {
            (0, _) => PageChange::Freed,
            (_, Some(migratetype)) => PageChange::Allocated(*migratetype),
            (_, None) => return Err("its migratetype is not 0, 1 or 2"),
        };
        Ok(Self {
            micros: bits(first, 0, ORDER),
            frame: Frame::new(bits(second, 0, PROCESS)).expect("36 bits are a frame"),
            order: BlockOrder::new(order).ok_or("its order is above 10")?,
            change,
            cpu,
            process,
        })
    }

    /// Writes the event; a time, frame or process that is too large loses its highest bits.
    #[must_use]
    pub fn to_bytes(self) -> [u8; EVENT_BYTES] {
        let (allocated, migratetype) = match self.change {
            PageChange::Allocated(migratetype) => (1, migratetype.index() as u64),
            PageChange::Freed => (0, 0),
        };
        let first = bits(self.micros, 0, ORDER)
            | u64::from(self.order.number()) << ORDER
            | migratetype << MIGRATETYPE
            | allocated << ALLOCATED
            | u64::from(self.cpu) << CPU;
        let second = bits(self.frame.number(), 0, PROCESS) | u64::from(self.process) << PROCESS;
        let mut bytes = [0; EVENT_BYTES];
        bytes[..8].copy_from_slice(&first.to_le_bytes());
        bytes[8..].copy_from_slice(&second.to_le_bytes());
        bytes
    }
}

/// Returns the events at the beginning of a trace that say what was in use when its recording began.
#[must_use]
pub fn warm_start(trace: &[PageEvent]) -> &[PageEvent] {
    let is_warm = |event: &PageEvent| event.process == PageEvent::BEFORE && event.change != PageChange::Freed;
    &trace[..trace.iter().take_while(|event| is_warm(event)).count()]
}

/// Returns what of its [`warm_start`] was really in use: not the blocks of which the trace allocates a frame before it
/// frees one. Each free is in a trace, so these were free. They looked like the kernel's memory because they lay ready
/// for one CPU.
pub(crate) fn in_use_before(trace: &[PageEvent]) -> Vec<PageEvent> {
    let warm = warm_start(trace);
    let mut untouched: HashSet<u64> = warm.iter().flat_map(PageEvent::frame_numbers).collect();
    let mut free = HashSet::new();
    for event in &trace[warm.len()..] {
        let first_touched = event.frame_numbers().filter(|frame| untouched.remove(frame));
        if event.change == PageChange::Freed { first_touched.for_each(drop) } else { free.extend(first_touched) }
    }
    let is_in_use = |event: &&PageEvent| !event.frame_numbers().any(|frame| free.contains(&frame));
    warm.iter().filter(is_in_use).copied().collect()
}

/// Returns the most memory that the trace has in use at one moment.
pub(crate) fn most_in_use(trace: &[PageEvent]) -> Bytes {
    let (mut in_use, mut most) = (HashSet::new(), 0);
    for event in trace {
        for frame in event.frame_numbers() {
            match event.change {
                PageChange::Allocated(_) => in_use.insert(frame),
                PageChange::Freed => in_use.remove(&frame),
            };
        }
        most = most.max(in_use.len() as u64);
    }
    Bytes::new(most * FRAME_BYTES)
}

/// Reads a trace to its end.
///
/// # Errors
/// [`Error::Read`], [`Error::CutOff`], [`Error::Event`], [`Error::NoEvent`].
pub fn read_page_trace(mut reader: impl Read) -> Result<Vec<PageEvent>, Error> {
    let mut events = Vec::new();
    loop {
        let mut bytes = [0; EVENT_BYTES];
        match read_whole(&mut reader, &mut bytes).map_err(Error::Read)? {
            EVENT_BYTES => {}
            0 if events.is_empty() => return Err(Error::NoEvent),
            0 => return Ok(events),
            _ => return Err(Error::CutOff),
        }
        let event = PageEvent::from_bytes(bytes);
        events.push(event.map_err(|what| Error::Event(events.len() as u64, what))?);
    }
}

/// Fills the bytes, and returns how many there were before the end.
fn read_whole(reader: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match reader.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event() -> impl Strategy<Value = PageEvent> {
        let change = prop_oneof![
            Just(PageChange::Freed),
            (0..Migratetype::COUNT).prop_map(|kind| PageChange::Allocated(Migratetype::ALL[kind])),
        ];
        (0_u64..1 << 40, 0_u64..1 << 36, 0_u8..=10, change, any::<u8>(), 0_u32..1 << 28).prop_map(
            |(micros, frame, order, change, cpu, process)| PageEvent {
                micros,
                frame: Frame::new(frame).unwrap(),
                order: BlockOrder::new(order).unwrap(),
                change,
                cpu,
                process,
            },
        )
    }

    proptest! {
        #[test]
        fn a_written_trace_is_read_back(events in proptest::collection::vec(event(), 1..50)) {
            let bytes: Vec<u8> = events.iter().flat_map(|event| event.to_bytes()).collect();
            prop_assert_eq!(read_page_trace(&*bytes).unwrap(), events);
        }

        #[test]
        fn any_bytes_are_an_event_that_is_written_alike_or_an_error(bytes: [u8; EVENT_BYTES]) {
            if let Ok(event) = PageEvent::from_bytes(bytes) {
                prop_assert_eq!(PageEvent::from_bytes(event.to_bytes()), Ok(event));
            }
        }
    }

    /// The first event of a compilation on Linux 6.18: an order-0 page for a program, on CPU 1.
    #[test]
    fn the_fields_have_their_places() {
        let first = 7_u64 | 1 << 44 | 1 << 47 | 1 << 48;
        let second = 0x0012_3456_u64 | 4242 << 36;
        let bytes: Vec<u8> = [first, second].iter().flat_map(|word| word.to_le_bytes()).collect();
        let event = PageEvent::from_bytes(bytes.try_into().unwrap()).unwrap();
        assert_eq!(
            (event.micros, event.frame.number(), event.order.number(), event.cpu, event.process),
            (7, 0x0012_3456, 0, 1, 4242)
        );
        assert_eq!(event.change, PageChange::Allocated(Migratetype::Movable));
    }

    #[test]
    fn a_trace_of_a_running_machine_begins_with_what_is_in_use() {
        let event = |process, change| PageEvent {
            micros: 0,
            frame: Frame::new(7).unwrap(),
            order: BlockOrder::ZERO,
            change,
            cpu: 0,
            process,
        };
        let allocated = PageChange::Allocated(Migratetype::Movable);
        let trace = [
            (PageEvent::BEFORE, allocated),
            (PageEvent::BEFORE, allocated),
            (9, allocated),
            (PageEvent::BEFORE, allocated),
        ];
        let trace = trace.map(|(process, change)| event(process, change));
        assert_eq!(warm_start(&trace).len(), 2);
        assert_eq!(warm_start(&[event(PageEvent::BEFORE, PageChange::Freed)]).len(), 0);
    }

    /// Frames of 0 to 9 that were in use, of a trace that begins with all of them and goes on with these events.
    fn in_use_of_ten(events: &[(u64, u8, PageChange)]) -> Vec<u64> {
        let of = |process, &(frame, order, change): &(u64, u8, PageChange)| PageEvent {
            micros: 0,
            frame: Frame::new(frame).unwrap(),
            order: BlockOrder::new(order).unwrap(),
            change,
            cpu: 0,
            process,
        };
        let kernel = PageChange::Allocated(Migratetype::Unmovable);
        let warm = [(0, 0, kernel), (1, 0, kernel), (2, 1, kernel), (4, 2, kernel), (8, 0, kernel), (9, 0, kernel)];
        let before = warm.iter().map(|block| of(PageEvent::BEFORE, block));
        let trace: Vec<PageEvent> = before.chain(events.iter().map(|event| of(7, event))).collect();
        in_use_before(&trace).iter().flat_map(PageEvent::frame_numbers).collect()
    }

    #[test]
    fn a_frame_that_is_allocated_before_it_is_freed_was_not_in_use() {
        let movable = PageChange::Allocated(Migratetype::Movable);
        assert_eq!(in_use_of_ten(&[]), (0..10).collect::<Vec<_>>());
        assert_eq!(in_use_of_ten(&[(0, 0, movable), (9, 0, movable)]), (1..9).collect::<Vec<_>>());
        assert_eq!(in_use_of_ten(&[(0, 0, PageChange::Freed), (0, 0, movable)]), (0..10).collect::<Vec<_>>());
        assert_eq!(in_use_of_ten(&[(0, 0, movable), (0, 0, PageChange::Freed)]), (1..10).collect::<Vec<_>>());
        // A block that the kernel allocates as a whole is in use, or it is not.
        assert_eq!(in_use_of_ten(&[(5, 0, movable)]), [0, 1, 2, 3, 8, 9]);
        assert_eq!(in_use_of_ten(&[(0, 2, movable)]), [4, 5, 6, 7, 8, 9]);
        assert_eq!(in_use_of_ten(&[(2, 1, PageChange::Freed), (0, 2, movable)]), (2..10).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_no_trace_is_refused() {
        let refused = |bytes: &[u8]| read_page_trace(bytes).unwrap_err().to_string();
        assert_eq!(refused(&[]), "the trace has no event");
        assert_eq!(refused(&[0; 20]), "the trace ends within an event: its length is no multiple of 16 bytes");
        let mut order_11 = [0; 16];
        order_11[5] = 11;
        assert_eq!(refused(&order_11), "event 0 of the trace is malformed: its order is above 10");
        assert_eq!(refused(&[0xff; 16]), "event 0 of the trace is malformed: bits 56 to 63 are not 0");
    }
}
