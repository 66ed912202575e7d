//! Atomics that count what a thread does with them, for the tests of bounds and costs.

use core::cell::{Cell, RefCell};
use core::sync::atomic;
use core::sync::atomic::Ordering;

use spin::mutex::{SpinMutex as Mutex, SpinMutexGuard as MutexGuard};

/// What a thread did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtomicCounts {
    /// Words that it read or changed, each time.
    pub looks: u64,
    /// Atomic operations that read and change a word at once.
    pub changes: u64,
    /// Cache lines that it wrote, each once.
    pub lines: u64,
}

std::thread_local! {
    static COUNTS_NOW: Cell<bool> = const { Cell::new(false) };
    static COUNTS: Cell<AtomicCounts> = const { Cell::new(AtomicCounts { looks: 0, changes: 0, lines: 0 }) };
    static TOUCHED: RefCell<Vec<LineTouch>> = const { RefCell::new(Vec::new()) };
    static WRITTEN: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// A look at a word of this cache line, or a change of it.
#[derive(Clone, Copy, Debug)]
pub struct LineTouch {
    pub line: usize,
    pub writes: bool,
}

/// Returns the looks and changes of the last counted operation, one after the other.
pub fn touched() -> Vec<LineTouch> {
    TOUCHED.take()
}

fn touch<T>(at: &T, writes: bool) {
    let line = core::ptr::from_ref(at).addr() / 64;
    TOUCHED.with_borrow_mut(|touched| touched.push(LineTouch { line, writes }));
}

/// Returns what an operation on this thread does, and its result.
pub fn counted<T>(operation: impl FnOnce() -> T) -> (AtomicCounts, T) {
    COUNTS.set(AtomicCounts::default());
    WRITTEN.with_borrow_mut(Vec::clear);
    TOUCHED.with_borrow_mut(Vec::clear);
    COUNTS_NOW.set(true);
    let result = operation();
    COUNTS_NOW.set(false);
    let lines = WRITTEN.with_borrow_mut(|written| {
        written.sort_unstable();
        written.dedup();
        written.len() as u64
    });
    (AtomicCounts { lines, ..COUNTS.get() }, result)
}

#[inline]
fn look<T>(at: &T) {
    if COUNTS_NOW.get() {
        touch(at, false);
        count_look();
    }
}

fn count_look() {
    let counts = COUNTS.get();
    COUNTS.set(AtomicCounts { looks: counts.looks + 1, ..counts });
}

/// Counts that something at this address is written, and whether by one operation that reads it too.
#[inline]
fn write<T>(at: &T, changes: bool) {
    if COUNTS_NOW.get() {
        touch(at, true);
        count_write(core::ptr::from_ref(at).addr() / 64, changes);
    }
}

fn count_write(line: usize, changes: bool) {
    count_look();
    let counts = COUNTS.get();
    COUNTS.set(AtomicCounts { changes: counts.changes + u64::from(changes), ..counts });
    WRITTEN.with_borrow_mut(|written| {
        if written.last() != Some(&line) {
            written.push(line);
        }
    });
}

macro_rules! counted_atomic {
    ($name:ident, $number:ty) => {
        /// An atomic number.
        #[derive(Debug, Default)]
        pub struct $name(atomic::$name);

        #[allow(dead_code, reason = "each number is changed in some of the ways only")]
        impl $name {
            pub const fn new(value: $number) -> Self {
                Self(atomic::$name::new(value))
            }

            pub fn load(&self, ordering: Ordering) -> $number {
                look(self);
                self.0.load(ordering)
            }

            pub fn store(&self, value: $number, ordering: Ordering) {
                write(self, false);
                self.0.store(value, ordering);
            }

            pub fn swap(&self, value: $number, ordering: Ordering) -> $number {
                write(self, true);
                self.0.swap(value, ordering)
            }

            pub fn fetch_add(&self, value: $number, ordering: Ordering) -> $number {
                write(self, true);
                self.0.fetch_add(value, ordering)
            }

            pub fn fetch_sub(&self, value: $number, ordering: Ordering) -> $number {
                write(self, true);
                self.0.fetch_sub(value, ordering)
            }

            pub fn fetch_and(&self, value: $number, ordering: Ordering) -> $number {
                write(self, true);
                self.0.fetch_and(value, ordering)
            }

            pub fn fetch_or(&self, value: $number, ordering: Ordering) -> $number {
                write(self, true);
                self.0.fetch_or(value, ordering)
            }

            pub fn fetch_min(&self, value: $number, ordering: Ordering) -> $number {
                write(self, true);
                self.0.fetch_min(value, ordering)
            }

            pub fn compare_exchange(
                &self,
                old: $number,
                new: $number,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$number, $number> {
                write(self, true);
                self.0.compare_exchange(old, new, success, failure)
            }

            pub fn compare_exchange_weak(
                &self,
                old: $number,
                new: $number,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$number, $number> {
                write(self, true);
                self.0.compare_exchange_weak(old, new, success, failure)
            }

            pub fn fetch_update(
                &self,
                success: Ordering,
                failure: Ordering,
                change: impl FnMut($number) -> Option<$number>,
            ) -> Result<$number, $number> {
                look(self);
                self.0.fetch_update(success, failure, change).inspect(|_| write(self, true))
            }
        }
    };
}

counted_atomic!(AtomicI32, i32);
counted_atomic!(AtomicI64, i64);
counted_atomic!(AtomicU32, u32);
counted_atomic!(AtomicU64, u64);

/// A spin lock.
#[derive(Debug, Default)]
pub struct CountedMutex<T>(Mutex<T>);

impl<T> CountedMutex<T> {
    pub fn lock(&self) -> MutexGuard<'_, T> {
        write(self, true);
        self.0.lock()
    }

    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        write(self, true);
        self.0.try_lock()
    }
}
