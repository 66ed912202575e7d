//! Counters of the guard's work, which another process can read during and after it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::ser::{Serialize, SerializeMap, Serializer};

/// One of the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Faults of the program.
    Faults,
    /// Blocks unlocked that were never used before.
    FirstUses,
    /// Pending blocks unlocked: locked ones whose codes were not made yet.
    PendingUnlocked,
    /// Blocks unlocked by the prefetcher.
    Prefetched,
    /// Pages verified.
    Verified,
    /// Pages whose codes were made.
    Encoded,
    /// Pages locked that were not written while unlocked, and keep their codes.
    Unwritten,
    /// Blocks locked.
    Locked,
    /// Times that a block could not be locked, because a device or another process uses it.
    Pinned,
    /// Pages corrected.
    Corrected,
    /// Pages of which only the codes were wrong.
    CodesWrong,
    /// Pages beyond correction.
    Uncorrectable,
    /// Pages in use now.
    Pages,
    /// Of these, unlocked ones.
    Unlocked,
    /// The most pages in use at once.
    MostPages,
    /// Sum over time of pages in use, in pages times microseconds.
    PageMicros,
    /// The same for unlocked pages.
    UnlockedMicros,
    /// Nanoseconds spent verifying.
    VerifyNanos,
    /// Nanoseconds spent making codes.
    EncodeNanos,
    /// Times that the unlocked limit grew.
    LimitRaised,
    /// Pages with injected faults.
    Injected,
    /// Microseconds since the guard's start.
    Micros,
    /// Nanoseconds of work that the program waited for: faults served, and everything unlocked before a fork.
    ServeNanos,
    /// Nanoseconds of requests that make the kernel interrupt the program: blocks locked, and prefetched.
    InterruptNanos,
    /// Frames tested, each time counted.
    Tested,
    /// Pages that were first used on tested frames.
    Supplied,
    /// Pages that were first used on untested frames.
    Untested,
    /// Locked pages moved to tested frames (re-placement).
    RePlaced,
    /// Frames that failed a test, and are not used again.
    Retired,
    /// Known bad frames that were kept from the program.
    Avoided,
    /// Nanoseconds spent testing frames.
    TestNanos,
    /// The most pages of the program's own mappings under guard at once.
    MostMapped,
    /// Mappings that are large enough to be guarded and cannot be.
    UnguardedMappings,
    /// Pages of the executable's data under guard.
    Data,
    /// Pages of the executable's writable data that are not guarded, including those guarded in part.
    UnguardedData,
    /// Children that are not guarded, because they were made without fork(3).
    UnguardedChildren,
    /// Pages that were wrong at the first read, and right at the second.
    Transient,
    /// Times that the re-placement of a locked block was refused.
    Refused,
}

impl Counter {
    /// All counters, in their order in memory.
    pub const ALL: [Self; COUNTERS] = [
        Self::Faults,
        Self::FirstUses,
        Self::PendingUnlocked,
        Self::Prefetched,
        Self::Verified,
        Self::Encoded,
        Self::Unwritten,
        Self::Locked,
        Self::Pinned,
        Self::Corrected,
        Self::CodesWrong,
        Self::Uncorrectable,
        Self::Pages,
        Self::Unlocked,
        Self::MostPages,
        Self::PageMicros,
        Self::UnlockedMicros,
        Self::VerifyNanos,
        Self::EncodeNanos,
        Self::LimitRaised,
        Self::Injected,
        Self::Micros,
        Self::ServeNanos,
        Self::InterruptNanos,
        Self::Tested,
        Self::Supplied,
        Self::Untested,
        Self::RePlaced,
        Self::Retired,
        Self::Avoided,
        Self::TestNanos,
        Self::MostMapped,
        Self::UnguardedMappings,
        Self::Data,
        Self::UnguardedData,
        Self::UnguardedChildren,
        Self::Transient,
        Self::Refused,
    ];

    /// Its name in a report.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Faults => "faults",
            Self::FirstUses => "first_uses",
            Self::PendingUnlocked => "pending_unlocked",
            Self::Prefetched => "prefetched",
            Self::Verified => "verified",
            Self::Encoded => "encoded",
            Self::Unwritten => "unwritten",
            Self::Locked => "locked",
            Self::Pinned => "pinned",
            Self::Corrected => "corrected",
            Self::CodesWrong => "codes_wrong",
            Self::Uncorrectable => "uncorrectable",
            Self::Pages => "pages",
            Self::Unlocked => "unlocked",
            Self::MostPages => "most_pages",
            Self::PageMicros => "page_micros",
            Self::UnlockedMicros => "unlocked_micros",
            Self::VerifyNanos => "verify_nanos",
            Self::EncodeNanos => "encode_nanos",
            Self::LimitRaised => "limit_raised",
            Self::Injected => "injected",
            Self::Micros => "micros",
            Self::ServeNanos => "serve_nanos",
            Self::InterruptNanos => "interrupt_nanos",
            Self::Tested => "tested",
            Self::Supplied => "supplied",
            Self::Untested => "untested",
            Self::RePlaced => "re_placed",
            Self::Retired => "retired",
            Self::Avoided => "avoided",
            Self::TestNanos => "test_nanos",
            Self::MostMapped => "most_mapped",
            Self::UnguardedMappings => "unguarded_mappings",
            Self::Data => "data",
            Self::UnguardedData => "unguarded_data",
            Self::UnguardedChildren => "unguarded_children",
            Self::Transient => "transient",
            Self::Refused => "refused",
        }
    }
}

/// The number of counters.
pub(crate) const COUNTERS: usize = Counter::Refused as usize + 1;

/// Counters, which the guard writes and anybody may read. They start as zeros, so zeroed memory will do.
#[derive(Debug)]
#[repr(transparent)]
pub struct GuardCounts([AtomicU64; COUNTERS]);

const _: () = assert!(size_of::<GuardCounts>() == GuardCounts::BYTES);

impl Default for GuardCounts {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; COUNTERS])
    }
}

impl GuardCounts {
    /// Their length in memory: 64-bit words, in the order of [`Counter::ALL`].
    pub const BYTES: usize = 8 * COUNTERS;

    /// The present value of one.
    #[must_use]
    pub fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize].load(Ordering::Relaxed)
    }

    /// Sets one.
    pub fn set(&self, counter: Counter, to: u64) {
        self.0[counter as usize].store(to, Ordering::Relaxed);
    }

    /// Adds to one.
    pub fn add(&self, counter: Counter, more: u64) {
        self.0[counter as usize].fetch_add(more, Ordering::Relaxed);
    }

    /// Adds to one that counts nanoseconds.
    pub fn add_time(&self, counter: Counter, more: Duration) {
        self.add(counter, u64::try_from(more.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Subtracts from one.
    pub fn subtract(&self, counter: Counter, less: u64) {
        self.0[counter as usize].fetch_sub(less, Ordering::Relaxed);
    }

    /// The present values of all.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(Counter::ALL.map(|counter| self.get(counter)))
    }
}

/// All counters at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot([u64; COUNTERS]);

impl Default for Snapshot {
    fn default() -> Self {
        Self([0; COUNTERS])
    }
}

impl Snapshot {
    /// Counters in a mapped file; `None` if the file is too short.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (words, _) = bytes.as_chunks::<8>();
        let words: [[u8; 8]; COUNTERS] = words.get(..COUNTERS)?.try_into().ok()?;
        Some(Self(words.map(u64::from_ne_bytes)))
    }

    /// Counters in the order of [`Counter::ALL`]; `None` if there are too few.
    pub fn from_words(mut words: impl Iterator<Item = u64>) -> Option<Self> {
        let mut counts = [0; COUNTERS];
        for count in &mut counts {
            *count = words.next()?;
        }
        Some(Self(counts))
    }

    /// All, in the order of [`Counter::ALL`].
    pub(crate) const fn words(&self) -> &[u64; COUNTERS] {
        &self.0
    }

    /// The value of one.
    #[must_use]
    pub const fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }

    /// The same, with one of them raised to a known value.
    #[must_use]
    pub fn at_least(mut self, counter: Counter, known: u64) -> Self {
        self.0[counter as usize] = self.get(counter).max(known);
        self
    }

    /// The sum for two processes.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|index| self.0[index].saturating_add(other.0[index])))
    }

    /// The locked share of the pages in use, averaged over time, 0 to 1; `None` if none was in use for long enough.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    pub fn locked_share(&self) -> Option<f64> {
        let all = self.get(Counter::PageMicros);
        (all > 0).then(|| 1.0 - self.get(Counter::UnlockedMicros) as f64 / all as f64)
    }

    /// The overhead of the guard, as a part of the time that the program would have taken without it: the time of
    /// served faults and of interrupts over the rest, as if the whole program waits whenever one of its threads does.
    /// `None` without any time.
    ///
    /// This is an estimate. It does not include a fault's time before the guard gets it and after the guard's answer,
    /// nor the program's loss by the guard's use of caches and memory; a program with other running threads loses less.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    pub fn overhead(&self) -> Option<f64> {
        let all = self.get(Counter::Micros) as f64 * 1e3;
        let lost = self.get(Counter::ServeNanos).saturating_add(self.get(Counter::InterruptNanos)) as f64;
        (all > lost).then(|| lost / (all - lost))
    }
}

/// As an object, each counter by its name.
impl Serialize for Snapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(COUNTERS))?;
        for counter in Counter::ALL {
            map.serialize_entry(counter.name(), &self.get(counter))?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn counters_lie_in_the_order_of_the_list_and_have_names_of_their_own() {
        assert!(Counter::ALL.iter().enumerate().all(|(index, &counter)| counter as usize == index));
        assert_eq!(Counter::ALL.map(Counter::name).into_iter().collect::<BTreeSet<_>>().len(), COUNTERS);
    }

    #[test]
    fn what_lies_in_memory_is_read_back() {
        let counts = GuardCounts::default();
        counts.add(Counter::Faults, 3);
        counts.set(Counter::Injected, 7);
        let bytes: Vec<u8> = Counter::ALL.iter().flat_map(|&counter| counts.get(counter).to_ne_bytes()).collect();
        assert_eq!(Snapshot::from_bytes(&bytes), Some(counts.snapshot()));
        assert_eq!(Snapshot::from_bytes(&bytes[1..]), None);
        assert_eq!(counts.snapshot().plus(&counts.snapshot()).get(Counter::Injected), 14);
        assert_eq!(Snapshot::from_words(counts.snapshot().words().iter().copied()), Some(counts.snapshot()));
        let raised = [2, 3, 4].map(|known| counts.snapshot().at_least(Counter::Faults, known));
        assert_eq!(raised.map(|counts| counts.get(Counter::Faults)), [3, 3, 4]);
        assert!(raised.iter().all(|counts| counts.get(Counter::Injected) == 7), "the others stay");
    }

    #[test]
    fn a_program_that_loses_a_fifth_of_its_time_would_have_taken_a_quarter_less() {
        let counts = GuardCounts::default();
        assert_eq!((counts.snapshot().overhead(), counts.snapshot().locked_share()), (None, None));
        counts.set(Counter::Micros, 1000);
        counts.set(Counter::ServeNanos, 150_000);
        counts.set(Counter::InterruptNanos, 50_000);
        assert_eq!(counts.snapshot().overhead(), Some(0.25));
    }
}
