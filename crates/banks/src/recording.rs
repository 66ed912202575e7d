//! Recording: the kernel's page events become a trace.
//!
//! **Problem.** Each CPU has its own buffer of events, so events come by CPU and not by time; and memory that was
//! allocated before the recording began has no event at all. **Idea.** Events wait until none can come that is older,
//! and are then written by time. The trace begins with allocations, at time 0, of all that is in use
//! ([`PageEvent::BEFORE`]). **Why this way.** Nothing must stop while the memory in use is read: events are recorded
//! already before that, so an event and the reading may both know of one allocation. What replay does with frames that
//! are allocated twice, or freed though they are free, makes it right: the last event of a frame decides.
//!
//! What was in use is written as compound pages, which the kernel allocates as a whole, and as single frames otherwise:
//! nothing tells which frames were allocated together, and replay knows how to free a block of several of them.

use rampart_buddy::Migratetype;
use rampart_linux::{KernelPageChange, KernelPageEvent, PageUnit};
use rampart_memory::{BlockOrder, Frame};
use serde::Serialize;

use crate::page_trace::{PageChange, PageEvent};
use crate::survey::can_move;

/// Blocks by migratetype.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MigratetypeCounts {
    /// Of the kernel.
    pub unmovable: u64,
    /// Of programs and files.
    pub movable: u64,
    /// Of the kernel, such as cached names of files.
    pub reclaimable: u64,
}

impl MigratetypeCounts {
    fn add(&mut self, migratetype: Migratetype) {
        let count = match migratetype {
            Migratetype::Unmovable => &mut self.unmovable,
            Migratetype::Movable => &mut self.movable,
            Migratetype::Reclaimable => &mut self.reclaimable,
        };
        *count += 1;
    }

    /// All of them.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.unmovable + self.movable + self.reclaimable
    }
}

/// What a trace holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RecordedCounts {
    /// Blocks that were in use when it began.
    pub in_use: MigratetypeCounts,
    /// Their frames.
    pub frames_in_use: u64,
    /// Allocated blocks.
    pub allocated: MigratetypeCounts,
    /// Freed blocks.
    pub freed: u64,
    /// Events that were written later than younger ones, under the time of those.
    pub late: u64,
    /// Events of frames beyond 2^36, which a trace cannot name.
    pub beyond: u64,
}

impl RecordedCounts {
    /// Events in the trace.
    #[must_use]
    pub const fn events(&self) -> u64 {
        self.in_use.total() + self.allocated.total() + self.freed
    }
}

/// A trace that is being recorded.
#[derive(Debug)]
pub struct PageRecording {
    /// Time 0 of the trace.
    begin: u64,
    /// Events that wait for older ones.
    waiting: Vec<KernelPageEvent>,
    /// The last time that was written, in µs.
    last: u64,
    counts: RecordedCounts,
}

impl PageRecording {
    /// Begins a trace at this time of the events' clock, in ns.
    #[must_use]
    pub fn new(begin: u64) -> Self {
        Self { begin, waiting: Vec::new(), last: 0, counts: RecordedCounts::default() }
    }

    /// Passes the allocations to `write` that stand for memory in use; none for what is not.
    pub fn in_use(&mut self, unit: PageUnit, mut write: impl FnMut(PageEvent)) {
        let Some(can_move) = can_move(unit.class) else { return };
        let migratetype = if can_move { Migratetype::Movable } else { Migratetype::Unmovable };
        let (mut next, end) = (unit.first.number(), unit.first.number() + unit.frames);
        while next < end {
            let largest = next.trailing_zeros().min((end - next).ilog2()).min(BlockOrder::MAX.number().into());
            let order = u8::try_from(largest).ok().and_then(BlockOrder::new).expect("at most the largest order");
            let Some(frame) = nameable(next) else {
                self.counts.beyond += 1;
                return;
            };
            let change = PageChange::Allocated(migratetype);
            write(PageEvent { micros: 0, frame, order, change, cpu: 0, process: PageEvent::BEFORE });
            self.counts.in_use.add(migratetype);
            self.counts.frames_in_use += order.frames();
            next += order.frames();
        }
    }

    /// Takes an event of any CPU.
    pub fn add(&mut self, event: KernelPageEvent) {
        self.waiting.push(event);
    }

    /// Passes the events to `write` that are older than this time, by time. Those of one CPU at the same time stay in
    /// their order.
    pub fn write_until(&mut self, nanos: u64, mut write: impl FnMut(PageEvent)) {
        self.waiting.sort_by_key(|event| event.nanos);
        let older = self.waiting.partition_point(|event| event.nanos < nanos);
        let waiting = self.waiting.split_off(older);
        for event in std::mem::replace(&mut self.waiting, waiting) {
            let Some(frame) = nameable(event.frame.number()) else {
                self.counts.beyond += 1;
                continue;
            };
            let micros = event.nanos.saturating_sub(self.begin) / 1000;
            self.counts.late += u64::from(micros < self.last);
            self.last = micros.clamp(self.last, PageEvent::TIME_LIMIT - 1);
            write(self.converted(event, frame));
        }
    }

    fn converted(&mut self, event: KernelPageEvent, frame: Frame) -> PageEvent {
        let change = match event.change {
            KernelPageChange::Freed => {
                self.counts.freed += 1;
                PageChange::Freed
            }
            KernelPageChange::Allocated(number) => {
                let migratetype = requested(number);
                self.counts.allocated.add(migratetype);
                PageChange::Allocated(migratetype)
            }
        };
        PageEvent {
            micros: self.last,
            frame,
            order: event.order,
            change,
            cpu: u8::try_from(event.cpu).unwrap_or(u8::MAX),
            process: event.thread.min(PageEvent::BEFORE - 1),
        }
    }

    /// Returns what was written so far.
    #[must_use]
    pub const fn counts(&self) -> RecordedCounts {
        self.counts
    }
}

/// The frame, if a trace can name it.
fn nameable(number: u64) -> Option<Frame> {
    Frame::new(number).filter(|_| number < PageEvent::FRAME_LIMIT)
}

/// The migratetype of a request. The kernel derives it from the request's flags, so that it is one of three; of any
/// other number it is only known that its memory has to stay.
fn requested(number: u32) -> Migratetype {
    let known = usize::try_from(number).ok().and_then(|number| Migratetype::ALL.get(number));
    known.copied().unwrap_or(Migratetype::Unmovable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rampart_linux::FrameClass;

    fn event(nanos: u64, cpu: u32, frame: u64, change: KernelPageChange) -> KernelPageEvent {
        let frame = Frame::new(frame).unwrap();
        KernelPageEvent { nanos, cpu, thread: 7, frame, order: BlockOrder::ZERO, change }
    }

    const MOVABLE: KernelPageChange = KernelPageChange::Allocated(1);

    fn written(recording: &mut PageRecording, until: u64) -> Vec<PageEvent> {
        let mut events = Vec::new();
        recording.write_until(until, |event| events.push(event));
        events
    }

    #[test]
    fn events_wait_for_older_ones_of_other_cpus() {
        let mut recording = PageRecording::new(1_000_000);
        recording.add(event(1_005_000, 0, 1, MOVABLE));
        recording.add(event(1_009_999, 0, 2, MOVABLE));
        recording.add(event(1_002_000, 1, 3, KernelPageChange::Freed));
        let seen =
            |events: &[PageEvent]| events.iter().map(|e| (e.micros, e.frame.number(), e.cpu)).collect::<Vec<_>>();
        assert_eq!(seen(&written(&mut recording, 1_009_999)), [(2, 3, 1), (5, 1, 0)]);
        // One that comes too late keeps its place in the file, and not its time.
        recording.add(event(1_004_000, 300, 4, MOVABLE));
        assert_eq!(seen(&written(&mut recording, u64::MAX)), [(5, 4, 255), (9, 2, 0)]);
        let counts = recording.counts();
        assert_eq!((counts.allocated.movable, counts.freed, counts.late, counts.events()), (3, 1, 1, 4));
    }

    #[test]
    fn each_field_has_its_bounds() {
        let mut recording = PageRecording::new(0);
        for (number, migratetype) in [(0, 0), (1, 1), (2, 2), (3, 0), (5, 0), (u32::MAX, 0)] {
            assert_eq!(requested(number), Migratetype::ALL[migratetype], "{number}");
        }
        let late = KernelPageEvent { thread: u32::MAX, ..event(u64::MAX, 0, (1 << 36) - 1, MOVABLE) };
        recording.add(late);
        recording.add(event(5, 0, 1 << 36, MOVABLE));
        recording.add(event(u64::MAX - 1, 0, 0, KernelPageChange::Freed));
        recording.waiting[0].nanos -= 1;
        let events = written(&mut recording, u64::MAX);
        assert!(events.iter().all(|event| PageEvent::from_bytes(event.to_bytes()) == Ok(*event)), "{events:?}");
        assert_eq!((events.len(), recording.counts().beyond), (2, 1));
        assert!(crate::warm_start(&events).is_empty());
    }

    fn in_use(first: u64, frames: u64, class: FrameClass) -> (Vec<(u64, u8)>, RecordedCounts) {
        let mut recording = PageRecording::new(0);
        let mut blocks = Vec::new();
        let unit = PageUnit { first: Frame::new(first).unwrap(), frames, class };
        recording.in_use(unit, |event| {
            assert_eq!((event.micros, event.process), (0, PageEvent::BEFORE));
            blocks.push((event.frame.number(), event.order.number()));
        });
        (blocks, recording.counts())
    }

    #[test]
    fn memory_in_use_is_allocated_as_the_kernel_did() {
        let (huge, counts) = in_use(512, 512, FrameClass::Anonymous);
        assert_eq!((huge, counts.in_use.movable, counts.frames_in_use), (vec![(512, 9)], 1, 512));
        assert_eq!(in_use(7, 1, FrameClass::PageTable).1.in_use.unmovable, 1);
        // A gigantic page has more frames than the largest block.
        assert_eq!(in_use(1 << 18, 1 << 18, FrameClass::HugeTlb).0.len(), 256);
        // One that changed while it was read.
        assert_eq!(in_use(6, 7, FrameClass::Slab).0, [(6, 1), (8, 2), (12, 0)]);
        for class in [FrameClass::Free, FrameClass::Poisoned, FrameClass::Absent] {
            assert_eq!(in_use(7, 9, class).0, []);
        }
        assert_eq!(in_use((1 << 36) - 1, 3, FrameClass::File).1.beyond, 1);
    }

    proptest! {
        /// However events are divided among polls, the trace is that of all events, sorted.
        #[test]
        fn the_trace_is_sorted_and_complete(
            events in proptest::collection::vec((0_u64..1_000_000, 0_u32..4), 0..200),
            polls in proptest::collection::vec(0_u64..1_000_000, 0..6)
        ) {
            let mut polls = polls;
            polls.sort_unstable();
            polls.push(u64::MAX);
            let (mut recording, mut trace, mut from) = (PageRecording::new(0), Vec::new(), 0);
            for poll in polls {
                for (frame, (nanos, cpu)) in (0..).zip(&events).filter(|(_, (nanos, _))| (from..poll).contains(nanos)) {
                    recording.add(event(*nanos, *cpu, frame, MOVABLE));
                }
                trace.extend(written(&mut recording, poll));
                from = poll;
            }
            let mut expected: Vec<(u64, u64)> = (0..).zip(&events).map(|(frame, (nanos, _))| (*nanos, frame)).collect();
            expected.sort_unstable();
            let seen: Vec<(u64, u64)> = trace.iter().map(|event| (event.micros, event.frame.number())).collect();
            let expected: Vec<(u64, u64)> = expected.into_iter().map(|(nanos, frame)| (nanos / 1000, frame)).collect();
            prop_assert_eq!(seen, expected);
            prop_assert_eq!(recording.counts().late, 0);
        }
    }
}
