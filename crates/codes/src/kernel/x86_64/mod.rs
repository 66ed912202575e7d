//! x86-64: from SSE4.2 to AVX-512 with Galois-field instructions.

mod avx2;
mod avx512;
mod folded;
mod gfni;
mod sse;
mod streams;

use self::avx2::Ymm;
use self::avx512::Zmm;
use self::folded::Folded;
use self::gfni::ZmmGalois;
use self::sse::Xmm;
use self::streams::Streams;
use super::pass::{Job, perform};
use super::portable::{ByTables, Word};

/// An instruction set that this processor has, since only [`Isa::available`] makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Isa {
    Avx512Galois,
    Avx512,
    Avx2,
    Sse42,
    Portable,
}

impl Isa {
    /// The fastest first.
    pub(super) fn available() -> Vec<Self> {
        let crc = is_x86_feature_detected!("sse4.2") && is_x86_feature_detected!("pclmulqdq");
        let avx2 = crc && is_x86_feature_detected!("avx2");
        let avx512 = avx2 && is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
        let galois = avx512
            && is_x86_feature_detected!("avx512vbmi")
            && is_x86_feature_detected!("vpclmulqdq")
            && is_x86_feature_detected!("gfni");
        let known = [
            (galois, Self::Avx512Galois),
            (avx512, Self::Avx512),
            (avx2, Self::Avx2),
            (crc, Self::Sse42),
            (true, Self::Portable),
        ];
        known.into_iter().filter(|(has, _)| *has).map(|(_, isa)| isa).collect()
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Avx512Galois => "AVX-512 with VPCLMULQDQ and GFNI",
            Self::Avx512 => "AVX-512",
            Self::Avx2 => "AVX2",
            Self::Sse42 => "SSE4.2",
            Self::Portable => "portable",
        }
    }

    /// Performs a job; returns the state of the CRC.
    ///
    /// # Safety
    /// 1. The job's page may be read and is aligned to 64 bytes.
    /// 2. Its `check` has room for the bytes of its scheme.
    pub(super) unsafe fn perform(self, job: &Job) -> u32 {
        // SAFETY: `self` exists, so the processor has the instruction set; the rest is this function's own contract.
        unsafe {
            match self {
                Self::Avx512Galois => perform_avx512_galois(job),
                Self::Avx512 => perform_avx512(job),
                Self::Avx2 => perform_avx2(job),
                Self::Sse42 => perform_sse42(job),
                Self::Portable => perform::<ByTables, Word, 8>(job),
            }
        }
    }
}

/// # Safety
/// As for [`perform`].
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,vpclmulqdq,gfni,pclmulqdq,sse4.2")]
unsafe fn perform_avx512_galois(job: &Job) -> u32 {
    // SAFETY: it is the same contract.
    unsafe { perform::<Folded, ZmmGalois, 1>(job) }
}

/// # Safety
/// As for [`perform`].
#[target_feature(enable = "avx512f,avx512bw,avx2,pclmulqdq,sse4.2")]
unsafe fn perform_avx512(job: &Job) -> u32 {
    // SAFETY: it is the same contract.
    unsafe { perform::<Streams, Zmm, 1>(job) }
}

/// # Safety
/// As for [`perform`].
#[target_feature(enable = "avx2,pclmulqdq,sse4.2")]
unsafe fn perform_avx2(job: &Job) -> u32 {
    // SAFETY: it is the same contract.
    unsafe { perform::<Streams, Ymm, 2>(job) }
}

/// # Safety
/// As for [`perform`].
#[target_feature(enable = "pclmulqdq,sse4.2")]
unsafe fn perform_sse42(job: &Job) -> u32 {
    // SAFETY: it is the same contract.
    unsafe { perform::<Streams, Xmm, 4>(job) }
}
