//! Options of `rampart run`.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use rampart_codes::Scheme;
use rampart_guard::GuardSettingsError;
use rampart_guard::engine_choice::usual_unit_pages;
use rampart_guard::{EngineKind, FrameSettings, GuardSettings, OnError, Protect, Untested};
use rampart_march::MarchChoice;
use rampart_march::execute;
use rampart_memory::fault::{InjectionSpec, ParseInjectionError};
use rampart_memory::{Bytes, FRAME_BYTES};

use crate::error::Error;
use crate::parsing::{parse_march_test, parse_time};

/// Options of `rampart run`.
#[derive(Clone, Debug, Args)]
pub struct RunArguments {
    /// How pages are locked [default: move if the kernel can, else mprotect]
    #[arg(long, value_enum)]
    pub engine: Option<EngineChoice>,
    /// The integrity codes of each page: crc, crc+pq, crc+hamming or crc+secded
    #[arg(long, value_name = "NAME", default_value = "crc+pq", value_parser = parse_scheme)]
    pub codes: Scheme,
    /// The most that one access unlocks, in a sequential access pattern: a power of two from 4KiB to 2MiB
    #[arg(long, value_name = "SIZE", default_value = "2MiB", value_parser = parse_size)]
    pub block: Bytes,
    /// The least that one access unlocks, in other access patterns: a power of two from a 64th of a block to a block
    /// [default: 64KiB, or a block if that is smaller or a huge page of the kernel's pool]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub unit: Option<Bytes>,
    /// The unlocked limit: at most so much of the heap is unlocked, and of a small heap at most a twentieth or four
    /// blocks, whichever is more. It grows while the program cannot make progress otherwise
    #[arg(long, value_name = "SIZE", default_value = "32MiB", value_parser = parse_size)]
    pub cap: Bytes,
    /// The overhead that the guard may have, as a share of the program's own time, such as 20%: more is unlocked if it
    /// costs more, less if it costs less [default: --cap alone sets the unlocked limit]
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    pub overhead: Option<u32>,
    /// Lock memory again that has been unlocked for so long, such as 50ms [default: only memory beyond the unlocked
    /// limit]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub interval: Option<Duration>,
    /// Verify up to so many blocks ahead of a sequential or strided access pattern
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub prefetch: u32,
    /// What to do about a page that cannot be corrected: stop (the program ends before it sees the page, with exit code
    /// 86), continue (it goes on with the wrong content), or checkpoint-command CMD (`sh` runs CMD with RAMPART_PID,
    /// RAMPART_PAGE, RAMPART_OFFSET and RAMPART_FRAME; then stop)
    #[arg(long, num_args = 1..=2, value_names = ["WHAT", "CMD"], default_value = "stop")]
    pub on_error: Vec<OsString>,
    /// Test each frame before the program gets it (engine move): the name of a march test (`rampart march list`), a
    /// test in march notation, or none [default: March C-]
    #[arg(long, value_name = "TEST", value_parser = parse_test)]
    pub test: Option<TestChoice>,
    /// How long a test of a frame stays good; then locked pages move to other frames, and theirs are tested
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = parse_time)]
    pub lifetime: Duration,
    /// What to do when no tested frame is ready
    #[arg(long, value_enum, default_value_t = UntestedChoice::Allow)]
    pub untested: UntestedChoice,
    /// The most tested memory that is kept ready
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_spare)]
    pub spare: Bytes,
    /// Inject errors at a rate: bit flips in locked pages, such as 'flip:locked:rate=10/s,seed=3', or the loss of
    /// locked pages, 'poison:locked:rate=1/s' (engine move); or emulate faults in frames, which their tests find, such
    /// as 'stuck-at:20,seed=3'
    #[arg(long, value_name = "FAULTS", value_parser = parse_faults)]
    pub inject: Option<Faults>,
    /// Stop the program if `rampart run` is killed, since only that keeps what the guards find
    #[arg(long)]
    pub require_server: bool,
    /// Exit with code 2 if no process of the program could be guarded [default: only warn]
    #[arg(long)]
    pub require_guard: bool,
    /// Which memory to guard, as a list such as heap,bss,mmap: the heap; the executable's static data; its anonymous
    /// private mappings of at least 1MiB, or of at least SIZE with mmap=SIZE
    #[arg(long, value_name = "WHAT", default_value = "heap", value_parser = parse_protect)]
    pub protect: Protect,
    /// Write a report to this file: an HTML page with drawings if its name ends in .html, else one JSON document
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Record which memory was unlocked when in this file, for `rampart access`
    #[arg(long, value_name = "FILE")]
    pub trace_access: Option<PathBuf>,
    /// Print one JSON document instead of text, on standard error: standard output is the program's
    #[arg(long)]
    pub json: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// How pages are locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EngineChoice {
    /// Locked pages move out of the program's sight (Linux 6.8; as root, or with vm.unprivileged_userfaultfd=1)
    Move,
    /// Pages belong to a file in memory, and locked ones leave the program's page table: less work with many threads,
    /// more at a fork (Linux 5.14; as for move). Blocks of 2 MiB are huge pages of the kernel's pool, if it has any
    Minor,
    /// Locked pages lose their access rights: works everywhere, but a system call that is not wrapped fails on them
    Mprotect,
}

impl From<EngineChoice> for EngineKind {
    fn from(choice: EngineChoice) -> Self {
        match choice {
            EngineChoice::Move => Self::Move,
            EngineChoice::Minor => Self::Minor,
            EngineChoice::Mprotect => Self::Mprotect,
        }
    }
}

/// How frames are tested if nothing else is said.
const USUAL_TEST: &str = "March C-";

/// How frames are tested, if they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TestChoice {
    /// They are not.
    None,
    /// By this test.
    March(MarchChoice),
}

/// What is done when no tested memory lies ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UntestedChoice {
    /// The program gets untested frames; they are counted, and tested later
    Allow,
    /// The program waits for the test
    Wait,
}

/// Memory errors that are injected.
#[derive(Clone, Debug, PartialEq)]
pub enum Faults {
    /// In locked pages.
    InPages(PageErrors),
    /// In frames, as `rampart test --inject` has it.
    InFrames(InjectionSpec),
}

/// Errors in locked pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PageErrors {
    /// What happens to them.
    pub error: PageError,
    /// How long it is from one to the next.
    pub every: Duration,
    /// What their places are drawn from.
    pub seed: u64,
}

/// What happens to a locked page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageError {
    /// A bit of it flips.
    Flip,
    /// The hardware gives it up.
    Poison,
}

impl PageError {
    /// What it is called, on the command line and for the guard.
    const fn name(self) -> &'static str {
        match self {
            Self::Flip => "flip",
            Self::Poison => "poison",
        }
    }
}

/// As the guard reads it.
impl fmt::Display for PageErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},every={},seed={}", self.error.name(), self.every.as_micros(), self.seed)
    }
}

impl RunArguments {
    /// Whether the report is a page.
    pub fn wants_page(&self) -> bool {
        let extension = self.report.as_ref().and_then(|path| path.extension());
        extension.is_some_and(|extension| extension.eq_ignore_ascii_case("html"))
    }

    /// What the guard is to write down, as its environment says it.
    pub fn recorded(&self) -> &'static str {
        match (self.wants_page(), self.trace_access.is_some()) {
            (true, _) => "samples,accesses",
            (false, true) => "accesses",
            (false, false) => "",
        }
    }

    /// What is done about a page that cannot be corrected, and the command for it.
    ///
    /// # Errors
    /// [`Error::Uncorrectable`] if that was not said.
    pub fn on_error(&self) -> Result<(OnError, Option<OsString>), Error> {
        let named = |word: &OsString| OnError::ALL.iter().find(|(name, _)| word == name).map(|(_, value)| *value);
        match &self.on_error[..] {
            [word] => named(word).filter(|value| *value != OnError::Checkpoint).map(|value| (value, None)),
            [word, command] => {
                named(word).filter(|value| *value == OnError::Checkpoint).map(|value| (value, Some(command.clone())))
            }
            _ => None,
        }
        .ok_or(Error::Uncorrectable)
    }

    /// The guard's settings, for a method that was chosen, where the kernel's pool has huge pages or not.
    ///
    /// # Errors
    /// What does not make sense together.
    pub fn settings(&self, method: EngineKind, has_huge_pages: bool) -> Result<GuardSettings, Error> {
        let block_pages = pages(self.block);
        let settings = GuardSettings {
            method,
            scheme: self.codes,
            block_pages,
            unit_pages: self.unit.map_or_else(|| usual_unit_pages(method, block_pages, has_huge_pages), pages),
            interval: self.interval,
            cap: self.cap,
            prefetch: self.prefetch,
            overhead: self.overhead,
            on_error: self.on_error()?.0,
            protect: self.protect,
        };
        let in_frames = matches!(self.inject, Some(Faults::InFrames(_)));
        if in_frames && (self.test == Some(TestChoice::None) || method != EngineKind::Move) {
            return Err(GuardSettingsError::NothingTested.into());
        }
        let is_lost = |errors: &PageErrors| errors.error == PageError::Poison;
        if method != EngineKind::Move && matches!(&self.inject, Some(Faults::InPages(errors)) if is_lost(errors)) {
            return Err(GuardSettingsError::NothingLost.into());
        }
        Ok(settings.checked()?)
    }

    /// Whether an option says that frames must be tested.
    pub fn asks_for_tests(&self) -> bool {
        let is_named = matches!(self.test, Some(TestChoice::March(_)));
        is_named || self.untested == UntestedChoice::Wait || matches!(self.inject, Some(Faults::InFrames(_)))
    }

    /// The settings about frames, if they are to be tested and the method that guards the program can; `reach` says how
    /// tests reach the DRAM, if they do.
    ///
    /// # Errors
    /// Those of `reach`.
    pub fn frame_settings(
        &self,
        method: EngineKind,
        reach: impl FnOnce() -> Result<Option<execute::Method>, Error>,
    ) -> Result<Option<FrameSettings>, Error> {
        let test = match &self.test {
            Some(TestChoice::None) => return Ok(None),
            Some(TestChoice::March(test)) => test.clone(),
            None => USUAL_TEST.parse().expect("it is a named test"),
        };
        if method != EngineKind::Move {
            return Ok(None);
        }
        Ok(reach()?.map(|reach| FrameSettings {
            test,
            method: reach,
            untested: match self.untested {
                UntestedChoice::Allow => Untested::Allow,
                UntestedChoice::Wait => Untested::Wait,
            },
            lifetime: self.lifetime,
            spare: self.spare,
        }))
    }
}

/// So many pages; 0 if they are not whole.
fn pages(size: Bytes) -> u32 {
    let whole = size.get().is_multiple_of(FRAME_BYTES);
    if whole { u32::try_from(size.get() / FRAME_BYTES).unwrap_or(u32::MAX) } else { 0 }
}

fn parse_test(text: &str) -> Result<TestChoice, String> {
    if text == "none" { Ok(TestChoice::None) } else { parse_march_test(text).map(TestChoice::March) }
}

/// None, or at least one huge page.
fn parse_spare(text: &str) -> Result<Bytes, String> {
    if text == "0" {
        return Ok(Bytes::ZERO);
    }
    let spare = parse_size(text)?;
    if spare < Bytes::from_mib(2) { Err("say 0, or 2MiB or more".to_owned()) } else { Ok(spare) }
}

fn parse_percent(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse().ok();
    number
        .filter(|percent| (1..=1000).contains(percent))
        .ok_or_else(|| "say a whole number of per cent from 1 to 1000, such as 20%".to_owned())
}

fn parse_scheme(text: &str) -> Result<Scheme, String> {
    text.parse().map_err(|error: rampart_codes::UnknownScheme| error.to_string())
}

fn parse_protect(text: &str) -> Result<Protect, String> {
    text.parse().map_err(|error: rampart_guard::ProtectError| error.to_string())
}

fn parse_size(text: &str) -> Result<Bytes, String> {
    text.parse().map_err(|error: rampart_memory::ParseSizeError| error.to_string())
}

fn parse_faults(text: &str) -> Result<Faults, String> {
    for error in [PageError::Flip, PageError::Poison] {
        if let Some(rest) = text.strip_prefix(error.name()) {
            return page_errors(error, rest).map(Faults::InPages);
        }
    }
    let wrong = |error: ParseInjectionError| format!("{error}; or write flips such as 'flip:locked:rate=10/s,seed=3'");
    text.parse().map(Faults::InFrames).map_err(wrong)
}

/// What follows the name of an error: `:locked:rate=R/s` and a seed.
fn page_errors(error: PageError, text: &str) -> Result<PageErrors, String> {
    let name = error.name();
    let wrong = || format!("'{name}{text}' is no such fault: write '{name}:locked:rate=10/s,seed=3'");
    let settings = text.strip_prefix(":locked:").ok_or_else(wrong)?;
    let mut page_errors = PageErrors { error, every: Duration::ZERO, seed: 1 };
    for setting in settings.split(',') {
        match setting.split_once('=') {
            Some(("rate", rate)) => {
                let rate: f64 = rate.strip_suffix("/s").and_then(|rate| rate.parse().ok()).ok_or_else(wrong)?;
                let seconds = 1.0 / rate;
                if !(1e-6..=1e9).contains(&seconds) {
                    return Err("a rate is from 1e-9/s to 1e6/s".to_owned());
                }
                page_errors.every = Duration::from_secs_f64(seconds);
            }
            Some(("seed", seed)) => page_errors.seed = seed.parse().map_err(|_| wrong())?,
            _ => return Err(wrong()),
        }
    }
    if page_errors.every.is_zero() { Err(wrong()) } else { Ok(page_errors) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_pages(text: &str) -> Option<PageErrors> {
        match parse_faults(text) {
            Ok(Faults::InPages(page_errors)) => Some(page_errors),
            _ => None,
        }
    }

    #[test]
    fn a_rate_of_errors_is_read_and_what_is_none_is_refused() {
        let flips = in_pages("flip:locked:rate=1e-3/s,seed=3").unwrap();
        assert_eq!(flips, PageErrors { error: PageError::Flip, every: Duration::from_secs(1000), seed: 3 });
        let lost = in_pages("poison:locked:rate=20/s").unwrap();
        assert_eq!(lost.to_string(), "poison,every=50000,seed=1");
        for bad in
            ["flip", "flip:locked:", "flip:locked:seed=3", "flip:locked:rate=1", "poison:locked:rate=-1/s", "poison:20"]
        {
            assert_eq!(in_pages(bad), None, "{bad}");
        }
        assert_eq!(in_pages("flip:locked:rate=1e9/s").or(in_pages("flip:locked:rate=NaN/s")), None);
    }
}
