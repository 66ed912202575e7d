//! aarch64: NEON, which every 64-bit Arm processor under Linux has.

use std::arch::aarch64::{uint8x16_t, vandq_u8, vceqq_u8, vminvq_u8};
use std::arch::asm;

use super::caches::Caches;
use super::kernel::{Difference, Task, Vector, perform};

/// `stnp` is only a hint, and nothing was measured, so the worse case is assumed.
pub(super) fn caches() -> Caches {
    Caches::Retain
}

/// The instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Isa {
    Neon,
}

impl Isa {
    /// The widest first.
    pub(super) fn available() -> Vec<Self> {
        vec![Self::Neon]
    }

    pub(super) const fn name(self) -> &'static str {
        "NEON"
    }

    /// Performs a task.
    ///
    /// # Safety
    /// All lines to visit and to flush lie in one region.
    pub(super) unsafe fn perform(self, task: &Task<'_>) -> Option<Difference> {
        // SAFETY: NEON is part of the target; the rest is this function's own contract.
        unsafe { perform::<Pair, 2>(task) }
    }
}

/// Two registers: `stnp` stores two at once.
#[derive(Clone, Copy)]
#[repr(C)]
struct Pair(uint8x16_t, uint8x16_t);

impl Vector for Pair {
    #[inline(always)]
    unsafe fn stream(self, to: *mut Self) {
        // SAFETY: `to` is half a line of a region, 32 bytes. Not `nomem`: it writes.
        unsafe {
            asm!("stnp {0:q}, {1:q}, [{2}]", in(vreg) self.0, in(vreg) self.1, in(reg) to,
                options(nostack, preserves_flags));
        }
    }

    #[inline(always)]
    unsafe fn equals(self, other: Self) -> bool {
        // SAFETY: NEON is part of the target.
        unsafe { vminvq_u8(vandq_u8(vceqq_u8(self.0, other.0), vceqq_u8(self.1, other.1))) == u8::MAX }
    }
}

/// How this processor removes a line from its caches: `dc civac`, which Linux lets every program use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Flush;

impl Flush {
    pub(super) fn detect() -> Self {
        Self
    }

    /// Writes the line back if needed, and drops it from all caches down to the point of coherency, at the latest when
    /// [`fence`] returns.
    ///
    /// # Safety
    /// The line lies in a region.
    #[inline(always)]
    pub(super) unsafe fn line(self, line: *const u8) {
        // SAFETY: the line is mapped; flushing it changes no value. Not `nomem`, so the compiler keeps it between the
        // accesses where it stands.
        unsafe { asm!("dc civac, {}", in(reg) line, options(nostack, preserves_flags)) };
    }
}

/// Never faults, whatever the address.
#[inline(always)]
pub(super) fn prefetch(line: *const u8) {
    // SAFETY: a prefetch is a hint.
    unsafe { asm!("prfm pldl1keep, [{}]", in(reg) line, options(nostack, preserves_flags, readonly)) };
}

/// The same, into the second cache only.
#[inline(always)]
pub(super) fn prefetch_into_second(line: *const u8) {
    // SAFETY: a prefetch is a hint.
    unsafe { asm!("prfm pldl2keep, [{}]", in(reg) line, options(nostack, preserves_flags, readonly)) };
}

/// All loads, stores and flushes before it are done, and none after it has begun.
pub(super) fn fence() {
    // SAFETY: barriers change no value.
    unsafe { asm!("dsb sy", "isb", options(nostack, preserves_flags)) };
}

/// A clock that counts up, read after everything before it is done. Many processors have a coarse one: 40 ns and more.
pub(super) fn ticks() -> u64 {
    let now: u64;
    // SAFETY: Linux lets every program read the virtual counter.
    unsafe { asm!("dsb sy", "isb", "mrs {}, cntvct_el0", "isb", out(reg) now, options(nostack, preserves_flags)) };
    now
}
