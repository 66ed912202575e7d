//! x86-64: AVX-512, AVX2, and SSE2, which every x86-64 has.

use std::arch::asm;
use std::arch::x86_64::{
    __cpuid_count, __m128i, __m256i, __m512i, _MM_HINT_T0, _MM_HINT_T1, _mm_cmpeq_epi32, _mm_lfence, _mm_mfence,
    _mm_movemask_epi8, _mm_prefetch, _mm_stream_si128, _mm256_cmpeq_epi32, _mm256_movemask_epi8, _mm256_stream_si256,
    _mm512_cmpneq_epi64_mask, _mm512_stream_si512, _rdtsc,
};

use super::caches::Caches;
use super::kernel::{Difference, Task, Vector, perform};

/// What this processor's caches do.
pub(super) fn caches() -> Caches {
    caches_of(vendor().as_flattened())
}

/// The name of the processor's vendor (Intel SDM volume 2, CPUID: leaf 0 holds it in EBX, EDX, ECX).
fn vendor() -> [[u8; 4]; 3] {
    let leaf = __cpuid_count(0, 0);
    [leaf.ebx, leaf.edx, leaf.ecx].map(u32::to_le_bytes)
}

/// Intel's caches release lines, as measured. Not all caches of other vendors do, so the worse case is assumed of them.
fn caches_of(vendor: &[u8]) -> Caches {
    if vendor == b"GenuineIntel" { Caches::Release } else { Caches::Retain }
}

/// An instruction set that this processor has, since only [`Isa::available`] makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Isa {
    Avx512,
    Avx2,
    Sse2,
}

impl Isa {
    /// The widest first.
    pub(super) fn available() -> Vec<Self> {
        let avx512 = is_x86_feature_detected!("avx512f").then_some(Self::Avx512);
        let avx2 = is_x86_feature_detected!("avx2").then_some(Self::Avx2);
        [avx512, avx2, Some(Self::Sse2)].into_iter().flatten().collect()
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Avx512 => "AVX-512",
            Self::Avx2 => "AVX2",
            Self::Sse2 => "SSE2",
        }
    }

    /// Performs a task.
    ///
    /// # Safety
    /// All lines to visit and to flush lie in one region.
    pub(super) unsafe fn perform(self, task: &Task<'_>) -> Option<Difference> {
        // SAFETY: `self` exists, so the processor has the instruction set; the rest is this function's own contract.
        unsafe {
            match self {
                Self::Avx512 => perform_avx512(task),
                Self::Avx2 => perform_avx2(task),
                Self::Sse2 => perform::<__m128i, 4>(task),
            }
        }
    }
}

/// # Safety
/// As for [`perform`].
#[target_feature(enable = "avx512f")]
unsafe fn perform_avx512(task: &Task<'_>) -> Option<Difference> {
    // SAFETY: it is the same contract.
    unsafe { perform::<__m512i, 1>(task) }
}

/// # Safety
/// As for [`perform`].
#[target_feature(enable = "avx2")]
unsafe fn perform_avx2(task: &Task<'_>) -> Option<Difference> {
    // SAFETY: it is the same contract.
    unsafe { perform::<__m256i, 2>(task) }
}

impl Vector for __m512i {
    #[inline(always)]
    unsafe fn stream(self, to: *mut Self) {
        // SAFETY: the contract of `Vector`; a line is aligned to 64 bytes.
        unsafe { _mm512_stream_si512(to, self) }
    }

    #[inline(always)]
    unsafe fn equals(self, other: Self) -> bool {
        // SAFETY: the contract of `Vector`.
        unsafe { _mm512_cmpneq_epi64_mask(self, other) == 0 }
    }
}

impl Vector for __m256i {
    #[inline(always)]
    unsafe fn stream(self, to: *mut Self) {
        // SAFETY: the contract of `Vector`; a half of a line is aligned to 32 bytes.
        unsafe { _mm256_stream_si256(to, self) }
    }

    #[inline(always)]
    unsafe fn equals(self, other: Self) -> bool {
        // SAFETY: the contract of `Vector`.
        unsafe { _mm256_movemask_epi8(_mm256_cmpeq_epi32(self, other)) == -1 }
    }
}

impl Vector for __m128i {
    #[inline(always)]
    unsafe fn stream(self, to: *mut Self) {
        // SAFETY: the contract of `Vector`; a quarter of a line is aligned to 16 bytes.
        unsafe { _mm_stream_si128(to, self) }
    }

    #[inline(always)]
    unsafe fn equals(self, other: Self) -> bool {
        // SAFETY: every x86-64 has SSE2.
        unsafe { _mm_movemask_epi8(_mm_cmpeq_epi32(self, other)) == 0xffff }
    }
}

/// How this processor removes a line from all its caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Flush {
    /// `clflushopt`: many at a time.
    Overlapping,
    /// `clflush`: one after the other.
    Serial,
}

impl Flush {
    pub(super) fn detect() -> Self {
        Self::of(__cpuid_count(0, 0).eax, __cpuid_count(7, 0).ebx)
    }

    /// That of a processor whose last leaf of CPUID is this one, and whose leaf 7 has this in EBX (Intel SDM volume 2):
    /// bit 23 is CLFLUSHOPT. A leaf that does not exist has no valid bits.
    const fn of(last_leaf: u32, leaf_7: u32) -> Self {
        if last_leaf >= 7 && leaf_7 & 1 << 23 != 0 { Self::Overlapping } else { Self::Serial }
    }

    /// Writes the line back if needed, and drops it from all caches, at the latest when [`fence`] returns.
    ///
    /// # Safety
    /// The line lies in a region.
    #[inline(always)]
    pub(super) unsafe fn line(self, line: *const u8) {
        // SAFETY: the line is mapped; flushing it changes no value. Not `nomem`, so the compiler keeps it between the
        // accesses where it stands.
        unsafe {
            match self {
                Self::Overlapping => asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags)),
                Self::Serial => asm!("clflush [{}]", in(reg) line, options(nostack, preserves_flags)),
            }
        }
    }
}

/// Never faults, whatever the address.
#[inline(always)]
pub(super) fn prefetch(line: *const u8) {
    // SAFETY: every x86-64 has SSE; a prefetch is a hint.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
}

/// The same, into the second cache only.
#[inline(always)]
pub(super) fn prefetch_into_second(line: *const u8) {
    // SAFETY: as for `prefetch`.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(line.cast()) };
}

/// All loads, stores and flushes before it are done, and none after it has begun.
pub(super) fn fence() {
    // SAFETY: every x86-64 has SSE2. Both are needed: only MFENCE waits for CLFLUSHOPT and non-temporal stores, only
    // LFENCE keeps later instructions from starting.
    unsafe {
        _mm_mfence();
        _mm_lfence();
    }
}

/// A clock that counts up some thousand times in a microsecond, read after everything before it is done.
pub(super) fn ticks() -> u64 {
    // SAFETY: every x86-64 has SSE2 and a time-stamp counter.
    unsafe {
        _mm_lfence();
        let now = _rdtsc();
        _mm_lfence();
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_intels_caches_are_trusted_to_release_lines() {
        assert_eq!(caches_of(b"GenuineIntel"), Caches::Release);
        for other in [b"AuthenticAMD", b"CentaurHauls", b"genuineintel"] {
            assert_eq!(caches_of(other), Caches::Retain);
        }
        let info = std::fs::read_to_string("/proc/cpuinfo").expect("the kernel describes its processors");
        let vendor = std::str::from_utf8(vendor().as_flattened()).expect("a name").to_owned();
        assert!(info.lines().any(|line| line.starts_with("vendor_id") && line.ends_with(&vendor)), "{vendor}");
    }

    #[test]
    fn flushes_overlap_where_the_processor_has_clflushopt() {
        const BIT: u32 = 1 << 23;
        assert_eq!(
            [(7, BIT), (7, u32::MAX), (32, BIT)].map(|(last, ebx)| Flush::of(last, ebx)),
            [Flush::Overlapping; 3]
        );
        assert_eq!([(7, !BIT), (7, 0), (6, BIT)].map(|(last, ebx)| Flush::of(last, ebx)), [Flush::Serial; 3]);
        let has_it = rampart_skips::cpu_has("clflushopt", &["clflushopt"]);
        assert_eq!(Flush::detect(), if has_it { Flush::Overlapping } else { Flush::Serial });
    }

    #[test]
    fn the_clock_counts_up() {
        let start = ticks();
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(ticks() - start > 2000, "some thousand times in a microsecond");
    }
}
