//! Lines that fail while a program runs.
//!
//! **Problem.** Hardware reports a failed line at any time. The heap can deal with it only where the references of the
//! program are known. **Idea.** A report is queued. The runtime looks at the queue whenever compiled code calls it to
//! allocate, which is at the end of each hole. **Why this way.** Compiled code pays nothing. Until a line is vacated,
//! the failure buffer of the hardware keeps it readable and writable [Gao13, 3.1.1], so there is no haste.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::lock;
use crate::canaries::{Canaries, FailedLineWritten};
use crate::collection::Collection;
use crate::geometry::{BLOCK_BYTES, MEMORY_LINE};
use crate::heap::ManagedHeap;
use crate::object::ObjectModel;
use crate::space::LineFailure;
use crate::space::allocator::LocalAllocator;

/// The failures of a run.
#[derive(Debug, Default)]
pub struct LineFailures {
    raised: Mutex<Vec<RaisedFailure>>,
    /// Whether there are raised ones.
    is_any: AtomicBool,
    /// The program is in the allocator or the collector.
    is_inside: AtomicBool,
    heeded: Mutex<HeededFailures>,
}

/// A failure that nobody has dealt with.
#[derive(Clone, Copy, Debug)]
struct RaisedFailure {
    /// Chooses the line.
    place: u64,
    at: Instant,
}

#[derive(Debug, Default)]
struct HeededFailures {
    log: FailureLog,
    /// When those were raised whose lines still have objects.
    vacating: Vec<Instant>,
    /// `None` if nobody wants to know.
    canaries: Option<Canaries>,
}

/// What became of lines that failed while a program ran.
#[derive(Clone, Debug, Default)]
pub struct FailureLog {
    /// All.
    pub raised: u64,
    /// Those that were raised while the program was neither in the allocator nor in the collector.
    pub raised_outside: u64,
    /// Lines without objects.
    pub free: u64,
    /// Lines that may have had objects: only young ones.
    pub young: u64,
    /// The same with old ones.
    pub old: u64,
    /// Lines of large objects.
    pub large: u64,
    /// Failures for which no line was found that works and that the heap uses.
    pub without_line: u64,
    /// How long the heap took to deal with each, without the collection.
    pub up_calls: Vec<Duration>,
    /// How long after each failure no object was left in its line.
    pub vacated: Vec<Duration>,
    /// The collections that moved objects out of failed lines.
    pub evacuating: Vec<Duration>,
    /// How often a failed line was found to be as it was.
    pub canaries_checked: u64,
}

/// How often another line is drawn, if the heap does not use that memory.
const TRIES: usize = 100;

impl LineFailures {
    /// A line fails now: one of those that the heap uses, chosen by a random number. Any thread may call this.
    pub fn raise(&self, place: u64, now: Instant) {
        let is_outside = !self.is_inside.load(Ordering::Relaxed);
        let mut heeded = lock(&self.heeded);
        heeded.log.raised += 1;
        heeded.log.raised_outside += u64::from(is_outside);
        drop(heeded);
        lock(&self.raised).push(RaisedFailure { place, at: now });
        self.is_any.store(true, Ordering::Release);
    }

    /// From now on, failed lines are checked after each collection.
    pub fn watch(&self) {
        lock(&self.heeded).canaries = Some(Canaries::default());
    }

    /// The program enters or leaves the allocator or the collector.
    pub fn set_inside(&self, is_inside: bool) {
        self.is_inside.store(is_inside, Ordering::Relaxed);
    }

    /// Whether there are raised failures.
    #[inline]
    pub fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Acquire)
    }

    /// Whether the program is in the allocator or the collector.
    pub fn is_inside(&self) -> bool {
        self.is_inside.load(Ordering::Relaxed)
    }

    /// Deals with the failures that were raised. Returns whether a collection must move objects out of failed lines.
    pub fn heed<M: ObjectModel>(
        &self,
        heap: &mut ManagedHeap<M>,
        local: &mut LocalAllocator,
        clock: fn() -> Instant,
    ) -> bool {
        // Those that are raised from here on are seen the next time.
        self.is_any.store(false, Ordering::Relaxed);
        let raised = std::mem::take(&mut *lock(&self.raised));
        let mut heeded = lock(&self.heeded);
        for failure in raised {
            let began = clock();
            let outcome = fail_somewhere(failure.place, heap, local);
            heeded.note(outcome, failure.at, began, clock());
        }
        heap.vacating().is_some()
    }

    /// A collection that has begun at one time has ended at another.
    ///
    /// # Errors
    /// If a failed line was written to, and failed lines are watched.
    pub fn collected<M: ObjectModel>(
        &self,
        heap: &ManagedHeap<M>,
        began: Instant,
        ended: Instant,
    ) -> Result<(), FailedLineWritten> {
        let mut heeded = lock(&self.heeded);
        heeded.collected(heap.vacating().is_some(), began, ended);
        let HeededFailures { log, canaries, .. } = &mut *heeded;
        let Some(canaries) = canaries else { return Ok(()) };
        canaries.check(heap)?;
        log.canaries_checked = canaries.checked();
        Ok(())
    }

    /// What became of the failures so far.
    pub fn log(&self) -> FailureLog {
        let heeded: MutexGuard<'_, HeededFailures> = lock(&self.heeded);
        heeded.log.clone()
    }
}

impl HeededFailures {
    fn note(&mut self, outcome: Option<LineFailure>, raised: Instant, began: Instant, now: Instant) {
        let log = &mut self.log;
        let count = match outcome {
            Some(LineFailure::InUse(_, Collection::Nursery)) => &mut log.young,
            Some(LineFailure::InUse(..) | LineFailure::Lost) => &mut log.old,
            Some(LineFailure::Replaced) => &mut log.large,
            Some(LineFailure::Free) => &mut log.free,
            Some(LineFailure::NotThere | LineFailure::Known) | None => &mut log.without_line,
        };
        *count += 1;
        log.up_calls.push(now - began);
        match outcome {
            Some(LineFailure::InUse(..) | LineFailure::Lost) => self.vacating.push(raised),
            Some(LineFailure::Replaced) => log.vacated.push(now - raised),
            _ => {}
        }
    }

    fn collected(&mut self, is_vacating: bool, began: Instant, ended: Instant) {
        if is_vacating || self.vacating.is_empty() {
            return;
        }
        self.log.evacuating.push(ended - began);
        self.log.vacated.extend(self.vacating.drain(..).map(|raised| ended - raised));
    }
}

/// Makes one of the lines fail that the heap uses; `None` if none is found.
fn fail_somewhere<M: ObjectModel>(
    place: u64,
    heap: &mut ManagedHeap<M>,
    local: &mut LocalAllocator,
) -> Option<LineFailure> {
    let lines = u64::from((heap.space().end() - BLOCK_BYTES) / MEMORY_LINE);
    let places = std::iter::successors(Some(place), |place| Some(scramble(*place))).take(TRIES);
    places.into_iter().find_map(|place| {
        let line = u32::try_from(place % lines).expect("less than the lines of 4 GiB");
        let failure = heap.fail_line(BLOCK_BYTES + line * MEMORY_LINE, &mut [local]);
        (!matches!(failure, LineFailure::NotThere | LineFailure::Known)).then_some(failure)
    })
}

/// Another number (SplitMix64, Steele et al. 2014).
const fn scramble(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wear::{FailedLines, FailureRate};
    use crate::{HeapSettings, NativeModel, Shape};

    fn new_object(
        heap: &mut ManagedHeap<NativeModel>,
        local: &mut LocalAllocator,
        roots: &mut Vec<u32>,
        failures: &LineFailures,
        bytes: u32,
    ) -> u32 {
        let shape = Shape::new(0, bytes).unwrap();
        let mut due = failures.heed(heap, local, Instant::now).then_some(heap.due());
        loop {
            if let Some(kind) = due {
                let began = Instant::now();
                heap.collect(kind, &mut [local], roots, &mut |_| {});
                failures.collected(heap, began, Instant::now()).unwrap();
            }
            if let Some(at) = heap.allocate(local, shape.size()) {
                return NativeModel::initialize(heap.region(), at, shape).offset();
            }
            due = Some(due.map_or_else(|| heap.due(), |kind| kind.next().expect("there is room")));
        }
    }

    #[test]
    fn lines_fail_while_a_program_allocates_and_nothing_is_written_to_them() {
        let mut heap = ManagedHeap::new(NativeModel, HeapSettings::default(), vec![FailedLines::NONE; 2048]).unwrap();
        let (mut local, failures) = (LocalAllocator::default(), LineFailures::default());
        failures.watch();
        let mut roots = vec![0; 400];
        for (step, (_, place)) in FailureRate::new(1.0).unwrap().times(5).take(3000).enumerate() {
            for more in 0..8 {
                let slot = (step * 7 + more * 31) % roots.len();
                let bytes = if slot == 0 { 20_000 } else { 40 + 8 * u32::try_from(slot).unwrap() };
                let at = new_object(&mut heap, &mut local, &mut roots, &failures, bytes);
                roots[slot] = at;
                heap.region().write(at + 8, u32::try_from(slot).unwrap());
            }
            failures.set_inside(step % 2 == 0);
            failures.raise(place, Instant::now());
        }
        for (slot, at) in roots.iter().enumerate() {
            assert_eq!(heap.region().read(at + 8) as usize, slot);
        }
        let log = failures.log();
        assert_eq!((log.raised, log.raised_outside), (3000, 1500));
        // The last one waits for the next allocation.
        assert_eq!(log.free + log.young + log.old + log.large + log.without_line, 2999);
        assert!(log.free > 100 && log.young > 10 && log.old > 10 && log.large > 0, "{log:?}");
        assert_eq!(log.vacated.len() as u64, log.young + log.old + log.large);
        assert!(log.canaries_checked > 10_000 && log.evacuating.len() > 10, "{}", log.canaries_checked);
        heap.verify(roots.iter().copied().filter(|root| *root != 0)).unwrap();
    }
}
