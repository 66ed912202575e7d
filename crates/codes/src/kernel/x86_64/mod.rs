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

/// An instruction set that this processor has, since only [`Isa::available`] hands one out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Isa {
    Avx512Galois,
    Avx512,
    Avx2,
    Sse42,
    Portable,
}

impl Isa {
    /// All of them. Each needs what the ones after it need, and more; the last needs nothing.
    const FASTEST_FIRST: [Self; 5] = [Self::Avx512Galois, Self::Avx512, Self::Avx2, Self::Sse42, Self::Portable];

    /// The fastest first.
    pub(super) fn available() -> Vec<Self> {
        let crc = [is_x86_feature_detected!("sse4.2"), is_x86_feature_detected!("pclmulqdq")];
        let avx2 = [is_x86_feature_detected!("avx2")];
        let avx512 = [is_x86_feature_detected!("avx512f"), is_x86_feature_detected!("avx512bw")];
        let galois = [
            is_x86_feature_detected!("avx512vbmi"),
            is_x86_feature_detected!("vpclmulqdq"),
            is_x86_feature_detected!("gfni"),
        ];
        Self::of_a_processor_with([&crc, &avx2, &avx512, &galois])
    }

    /// Those of a processor that has these features: first what the slowest but one needs, then what the next one needs
    /// besides, and so on.
    fn of_a_processor_with(features: [&[bool]; 4]) -> Vec<Self> {
        let complete = features.into_iter().take_while(|features| !features.contains(&false)).count();
        Self::FASTEST_FIRST[features.len() - complete..].to_vec()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_set_needs_all_its_features_and_those_of_the_slower_ones() {
        let counts = [2, 1, 2, 3];
        let available = |lacking: Option<(usize, usize)>| {
            let has = |set| -> Vec<bool> { (0..counts[set]).map(|feature| lacking != Some((set, feature))).collect() };
            Isa::of_a_processor_with([&has(0), &has(1), &has(2), &has(3)])
        };
        assert_eq!(available(None), Isa::FASTEST_FIRST);
        for (set, count) in counts.into_iter().enumerate() {
            for feature in 0..count {
                assert_eq!(available(Some((set, feature))), Isa::FASTEST_FIRST[4 - set..], "without {set}.{feature}");
            }
        }
    }
}
