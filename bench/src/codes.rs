//! `codes`: the speed of the page codes, beside a plain read and a memcpy in the same run.
//!
//! The targets come from another machine: one core with VPCLMULQDQ and GFNI, whose plain read reached 169 GB/s in the
//! second-level cache and 15 GB/s from the DRAM. So each target is shown as a fraction of that read, to compare with
//! ours as a fraction of our read.

use std::time::Instant;

use rampart_codes::{CodeEngine, Codec, PAGE_BYTES, Page, PageBits, PageData, Pages, Scheme};
use rampart_linux::{Block, PageKind};
use rampart_memory::Bytes;

use crate::median::median;

/// How often each figure is measured, in turns with all others; the median counts.
const ROUNDS: usize = 5;

/// The memory level that holds the pages.
#[derive(Clone, Copy)]
struct Place {
    name: &'static str,
    /// Bytes per sweep.
    bytes: usize,
    /// Sweeps per figure.
    repeats: usize,
}

const PLACES: [Place; 2] = [
    Place { name: "second cache", bytes: 256 << 10, repeats: 4000 },
    Place { name: "DRAM", bytes: 512 << 20, repeats: 1 },
];

/// The read speed behind the targets, in GB/s, at each level.
const TARGET_READ: [f64; 2] = [169.0, 15.0];

/// The measured operations.
#[derive(Clone, Copy)]
enum Work {
    Read,
    Copy,
    Verify(CodeEngine),
    Encode(CodeEngine, Scheme),
}

impl Work {
    fn all() -> Vec<Self> {
        let of_engine = |engine| {
            let encodings = Scheme::ALL.map(|scheme| Self::Encode(engine, scheme));
            [Self::Verify(engine)].into_iter().chain(encodings)
        };
        let engines = CodeEngine::all_available().into_iter().flat_map(of_engine);
        [Self::Read, Self::Copy].into_iter().chain(engines).collect()
    }

    fn name(self) -> String {
        match self {
            Self::Read => "plain read".to_owned(),
            Self::Copy => "memcpy".to_owned(),
            Self::Verify(engine) => format!("verify any, {engine}"),
            Self::Encode(engine, scheme) => format!("encode {scheme}, {engine}"),
        }
    }

    /// The target speed, in GB/s, at each level.
    fn target(self) -> Option<[f64; 2]> {
        match self {
            Self::Verify(_) | Self::Encode(_, Scheme::Crc) => Some([107.0, 17.0]),
            Self::Encode(_, Scheme::CrcSecded) => Some([49.0, 10.0]),
            // P and Q alone; our encoder computes the CRC in the same pass.
            Self::Encode(_, Scheme::CrcPq) => Some([112.0, 12.5]),
            Self::Encode(_, Scheme::CrcHamming) | Self::Read | Self::Copy => None,
        }
    }
}

/// Memory to sweep, with room for codes and for a copy.
struct Ground {
    block: Block,
    codes: Vec<u8>,
}

impl Ground {
    /// Writes the memory: otherwise it may be one zero page many times.
    fn claim() -> Result<Self, String> {
        let most = PLACES.iter().map(|place| place.bytes).max().expect("two places");
        let bytes = Bytes::new(2 * u64::try_from(most).expect("small"));
        let block = Block::claim(bytes, PageKind::Huge).map_err(|error| error.to_string())?;
        for page in 0..2 * most / PAGE_BYTES {
            // SAFETY: the page lies in the block, which is this bench's own memory, and nobody has a reference to it.
            unsafe { block.base().cast::<PageData>().add(page).write(PageData::from_seed(page as u64)) };
        }
        let codes = vec![0; most / PAGE_BYTES * Scheme::CrcSecded.code_bytes()];
        Ok(Self { block, codes })
    }

    /// Bytes per second.
    fn speed(&mut self, work: Work, place: Place) -> f64 {
        let start = Instant::now();
        for _ in 0..place.repeats {
            self.perform(work, place.bytes);
        }
        (place.bytes * place.repeats) as f64 / start.elapsed().as_secs_f64()
    }

    fn perform(&mut self, work: Work, bytes: usize) {
        let base = self.block.base();
        let count = bytes / PAGE_BYTES;
        // SAFETY: the pages lie in the first half of the block, which is private memory of this process, present until
        // it is dropped; it is borrowed mutably here, and nobody has a reference to it.
        let pages = unsafe { Pages::from_raw(base, count) };
        match work {
            Work::Read => {
                // SAFETY: as above, and the words are aligned.
                std::hint::black_box(unsafe { read(base.as_ptr().cast(), bytes / 8) });
            }
            // SAFETY: as above; the halves do not overlap.
            Work::Copy => unsafe { base.copy_to_nonoverlapping(base.add(bytes), bytes) },
            Work::Verify(engine) => {
                let codec = Codec { scheme: Scheme::Crc, engine };
                let mut wrong = 0;
                codec.verify_all(&pages, &self.codes[..count * codec.scheme.code_bytes()], |_| wrong += 1);
                std::hint::black_box(wrong);
            }
            Work::Encode(engine, scheme) => {
                let codec = Codec { scheme, engine };
                codec.encode_all(&pages, &mut self.codes[..count * scheme.code_bytes()]);
            }
        }
    }
}

/// The sum of so many words.
///
/// # Safety
/// They may be read and are aligned.
unsafe fn read(words: *const u64, count: usize) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f")]
        unsafe fn wide(words: *const u64, count: usize) -> u64 {
            // SAFETY: this function has the same contract.
            unsafe { sum(words, count) }
        }
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the check above shows that the processor has the feature; the rest is this function's own
            // contract.
            return unsafe { wide(words, count) };
        }
    }
    // SAFETY: this function has the same contract.
    unsafe { sum(words, count) }
}

/// # Safety
/// As for [`read`].
#[inline(always)]
unsafe fn sum(words: *const u64, count: usize) -> u64 {
    const AT_ONCE: usize = 64;
    let mut sums = [0_u64; AT_ONCE];
    for start in (0..count).step_by(AT_ONCE) {
        for (i, sum) in sums.iter_mut().enumerate() {
            // SAFETY: counts are multiples of the words per step.
            *sum ^= unsafe { words.add(start + i).read() };
        }
    }
    sums.into_iter().fold(0, |all, sum| all ^ sum)
}

/// Runs the bench.
pub fn run(_arguments: &[String]) -> Result<(), String> {
    let mut ground = Ground::claim()?;
    println!("codes of pages, one core, median of {ROUNDS} in turns; the engine chosen here: {}", CodeEngine::detect());
    println!("GB/s, and as % of the plain read in the same place; in brackets the target as % of the read beside it\n");
    print!("{:<34}", "");
    PLACES.iter().for_each(|place| print!("{:>28}", place.name));
    println!();
    let works = Work::all();
    let speeds = PLACES.map(|place| medians(&mut ground, &works, place));
    for (i, work) in works.iter().enumerate() {
        print!("{:<34}", work.name());
        for (place, speeds) in speeds.iter().enumerate() {
            let target = work.target().map(|target| format!("({:.0} %)", 100.0 * target[place] / TARGET_READ[place]));
            let percent = 100.0 * speeds[i] / speeds[0];
            print!("{:>11.2} {percent:>5.0} % {:>8}", speeds[i] / 1e9, target.unwrap_or_default());
        }
        println!();
    }
    corrections();
    sizes();
    drop(ground);
    threads()
}

/// [Fiala15, tab. 4.1]: what the codes of a page take.
fn sizes() {
    println!(
        "\nbytes of codes for a page ([Fiala15, tab. 4.1]: CRC 4, 0.10 %; 72/64 ECC 512, 12.5 %; both 516, 12.6 %)"
    );
    for scheme in Scheme::ALL {
        let bytes = scheme.code_bytes();
        println!("{scheme:<12} {bytes:>4} {:>6.2} %", 100.0 * bytes as f64 / PAGE_BYTES as f64);
    }
}

/// [Fiala15, tab. 4.2]: codes that correct, on 1 to all threads and on one more. Its host reaches 1.15 GB/s on one
/// thread and 17.0 on all 16; its co-processor reaches 9.6 on 244.
fn threads() -> Result<(), String> {
    let (all, work) = (
        std::thread::available_parallelism().map_or(1, usize::from),
        Work::Encode(CodeEngine::detect(), Scheme::CrcSecded),
    );
    println!(
        "\nencode {} from the DRAM ([Fiala15, tab. 4.2]: 1.15 GB/s on one thread of 16, 17.0 on all, 14.8 on 17)",
        Scheme::CrcSecded
    );
    let mut speeds = Vec::new();
    for count in 1..=all + 1 {
        let grounds: Result<Vec<Ground>, String> = (0..count).map(|_| Ground::claim()).collect();
        let together: f64 = std::thread::scope(|scope| {
            let start = |mut ground: Ground| scope.spawn(move || medians(&mut ground, &[work], PLACES[1])[0]);
            let running: Vec<_> = grounds?.into_iter().map(start).collect();
            Ok::<f64, String>(running.into_iter().map(|thread| thread.join().expect("no panic")).sum())
        })?;
        speeds.push(together);
    }
    let best = speeds.iter().copied().fold(0.0, f64::max);
    for (before, speed) in speeds.into_iter().enumerate() {
        let (count, percent) = (before + 1, 100.0 * speed / best);
        println!("{count:>4}/{all} threads {:>8.2} GB/s {percent:>5.0} %", speed / 1e9);
    }
    Ok(())
}

fn medians(ground: &mut Ground, works: &[Work], place: Place) -> Vec<f64> {
    let rounds: Vec<Vec<f64>> =
        (0..ROUNDS).map(|_| works.iter().map(|&work| ground.speed(work, place)).collect()).collect();
    (0..works.len()).map(|work| median(rounds.iter().map(|round| round[work]).collect())).collect()
}

/// The time to correct a page with one flipped bit.
fn corrections() {
    let engine = CodeEngine::detect();
    println!();
    for scheme in Scheme::ALL.into_iter().filter(|&scheme| scheme != Scheme::Crc) {
        let codec = Codec { scheme, engine };
        let mut data = PageData::from_seed(1);
        let mut codes = vec![0; scheme.code_bytes()];
        codec.encode(&Page::from(&mut data), &mut codes);
        let mut micros: Vec<f64> = (0..1001)
            .map(|bit| {
                data.flip(&PageBits::from_iter([32 * bit]));
                let start = Instant::now();
                std::hint::black_box(codec.correct(&mut Page::from(&mut data), &mut codes));
                start.elapsed().as_secs_f64() * 1e6
            })
            .collect();
        micros.sort_by(f64::total_cmp);
        println!("correct one flip, {scheme}: {:.2} µs, and {:.2} µs at most", micros[500], micros[1000]);
    }
}
