//! All faults of one RAM: which are active, how often each acted, and the commands of a scenario.

use std::ops::Range;
use std::time::Duration;

use rampart_linux::SharedWords;
use rampart_memory::{Frame, LINE_WORDS};
use rampart_trials::corruption::{Class, Donors, PAGE_BYTES, Page};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::effect::{Watcher, Words};
use crate::spec::{self, Problem, Spec};

const FRAME_WORDS: usize = PAGE_BYTES / size_of::<u64>();

/// The most places that `find` names.
const MOST_FOUND: usize = 64;

/// A guest's RAM: a file, whose first byte has this address.
#[derive(Debug)]
pub struct GuestRam {
    pub file: SharedWords,
    pub base: Base,
}

/// The physical address at which a guest's RAM begins: 0 on a PC, 1 GiB on QEMU's machine for aarch64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Base(usize);

impl Base {
    /// A hexadecimal address, of the beginning of a frame.
    pub fn parse(text: &str) -> Option<Self> {
        let address = usize::from_str_radix(text.strip_prefix("0x")?, 16).ok()?;
        address.is_multiple_of(PAGE_BYTES).then_some(Self(address))
    }

    const fn first_word(self) -> usize {
        self.0 / size_of::<u64>()
    }
}

impl Words for GuestRam {
    fn range(&self) -> Range<usize> {
        let first = self.base.first_word();
        first..first + self.file.count()
    }

    fn load(&self, word: usize) -> u64 {
        self.file.load(word - self.base.first_word())
    }

    fn store(&self, word: usize, value: u64) {
        self.file.store(word - self.base.first_word(), value);
    }

    fn set(&self, word: usize, mask: u64) {
        self.file.set(word - self.base.first_word(), mask);
    }

    fn clear(&self, word: usize, mask: u64) {
        self.file.clear(word - self.base.first_word(), mask);
    }

    fn invert(&self, word: usize, mask: u64) {
        self.file.invert(word - self.base.first_word(), mask);
    }
}

/// Faults by number, from 0, in the order of their addition.
#[derive(Debug)]
pub struct Injector<W> {
    ram: W,
    faults: Vec<Injected>,
    /// Summaries of faults that were removed.
    cleared: Vec<String>,
    chance: ChaCha8Rng,
    pace: Pace,
}

/// How close to hardware the faults come: a fault that is polled late acts late.
#[derive(Debug, Default)]
struct Pace {
    polls: u64,
    /// The previous poll, if a fault was active.
    last: Option<Duration>,
    /// Time between polls that were too far apart, as on a busy host.
    late: Duration,
    longest: Duration,
}

impl Pace {
    /// At longer distances, a guest may have written, read and written again meanwhile.
    const LATE: Duration = Duration::from_millis(1);

    fn note(&mut self, now: Duration, is_busy: bool) {
        let gap = self.last.map_or(Duration::ZERO, |last| now.saturating_sub(last));
        if is_busy && gap > Self::LATE {
            self.late += gap;
            self.longest = self.longest.max(gap);
        }
        self.polls += u64::from(is_busy);
        self.last = is_busy.then_some(now);
    }
}

#[derive(Debug)]
struct Injected {
    text: String,
    spec: Spec,
    added: Duration,
    sleeps: bool,
    /// Empty while the fault is inactive: its memory of its words would be of no use afterwards.
    watchers: Vec<Watcher>,
    acted: u64,
    span: Option<(Duration, Duration)>,
}

impl Injected {
    /// The fault's effects, in a line.
    fn summary(&self) -> String {
        match self.span {
            Some((first, last)) => {
                let (first, last) = (first.as_secs_f64(), last.as_secs_f64());
                format!("acted {} times from {first:.3} s to {last:.3} s: {}", self.acted, self.text)
            }
            None => format!("never acted: {}", self.text),
        }
    }
}

impl<W: Words> Injector<W> {
    /// A RAM without faults.
    pub fn new(ram: W) -> Self {
        Self {
            ram,
            faults: Vec::new(),
            cleared: Vec::new(),
            chance: ChaCha8Rng::seed_from_u64(0),
            pace: Pace::default(),
        }
    }

    /// Adds a fault, active unless its options say otherwise, and returns its number.
    ///
    /// # Errors
    /// If the text is wrong, or the place lies outside the RAM.
    pub fn add(&mut self, text: &str, now: Duration) -> Result<usize, Problem> {
        let spec = Spec::parse(text)?;
        if spec.faults.iter().any(|fault| Watcher::new(fault, &self.ram, now).is_none()) {
            return Err(Problem::Outside);
        }
        let text = text.to_owned();
        let watchers = Vec::new();
        self.faults.push(Injected { text, spec, added: now, sleeps: false, watchers, acted: 0, span: None });
        Ok(self.faults.len() - 1)
    }

    /// Polls the words of every active fault once. Returns whether there is one.
    pub fn poll(&mut self, now: Duration) -> bool {
        let Self { ram, faults, chance, pace, .. } = self;
        let mut is_busy = false;
        for fault in faults {
            if fault.sleeps || !fault.spec.is_due(now.saturating_sub(fault.added)) {
                fault.watchers.clear();
                continue;
            }
            is_busy = true;
            if fault.watchers.is_empty() {
                let watchers = fault.spec.faults.iter().filter_map(|placed| Watcher::new(placed, ram, now));
                fault.watchers = watchers.collect();
            }
            for watcher in &mut fault.watchers {
                if watcher.act(ram, now, chance) {
                    fault.acted += 1;
                    fault.span = Some((fault.span.map_or(now, |(first, _)| first), now));
                }
            }
        }
        pace.note(now, is_busy);
        is_busy
    }

    /// Executes one command, and returns its one-line answer.
    pub fn obey(&mut self, command: &str, now: Duration) -> String {
        let (verb, rest) = command.split_once(' ').unwrap_or((command, ""));
        match verb {
            "add" => match rest.split(' ').map(|fault| self.add(fault, now)).collect::<Result<Vec<_>, _>>() {
                Ok(numbers) => numbers.iter().fold("added".to_owned(), |line, number| format!("{line} {number}")),
                Err(problem) => format!("error: {problem}"),
            },
            "clear" => {
                self.cleared.extend(self.faults.iter().map(Injected::summary));
                self.faults.clear();
                "done".to_owned()
            }
            "sleep" => self.sleep(rest, true),
            "wake" => self.sleep(rest, false),
            "acted" => self.faults.iter().fold("acted".to_owned(), |line, fault| format!("{line} {}", fault.acted)),
            "bit" => self.bit(rest),
            "find" => self.find(rest),
            "corrupt" => match self.corrupt(rest) {
                Ok(()) => "done".to_owned(),
                Err(problem) => format!("error: {problem}"),
            },
            _ => "error: commands are add, clear, sleep, wake, acted, bit, find, corrupt".to_owned(),
        }
    }

    fn sleep(&mut self, number: &str, sleeps: bool) -> String {
        let named = if number.is_empty() {
            self.faults.iter_mut().for_each(|fault| fault.sleeps = sleeps);
            true
        } else {
            let fault = number.parse().ok().and_then(|number: usize| self.faults.get_mut(number));
            fault.map(|fault| fault.sleeps = sleeps).is_some()
        };
        (if named { "done" } else { "error: no such fault" }).to_owned()
    }

    fn bit(&self, place: &str) -> String {
        let cell = match spec::cell(place) {
            Ok(cell) => cell,
            Err(problem) => return format!("error: {problem}"),
        };
        let word = usize::try_from(cell.line.0).map_or(usize::MAX, |line| line.saturating_mul(LINE_WORDS));
        match word.checked_add(cell.bit.word()).filter(|word| self.ram.range().contains(word)) {
            Some(word) => format!("bit {}", self.ram.load(word) >> (cell.bit.index() % 64) & 1),
            None => format!("error: {}", Problem::Outside),
        }
    }

    /// The physical addresses of a word's content.
    fn find(&self, word: &str) -> String {
        let Ok(wanted) = u64::from_str_radix(word.trim_start_matches("0x"), 16) else {
            return "error: a word is up to 16 hexadecimal digits".to_owned();
        };
        let places = self.ram.range().filter(|&place| self.ram.load(place) == wanted).take(MOST_FOUND);
        places.fold("found".to_owned(), |line, place| format!("{line} {:#x}", place * size_of::<u64>()))
    }

    /// Changes a frame once, as a class of corruption does: FRAME OTHER-FRAME SEED CLASS. The guest must not use the
    /// frame meanwhile. A page here has zeros as its older content.
    fn corrupt(&self, text: &str) -> Result<(), Problem> {
        let mut parts = text.splitn(4, ' ');
        let mut part = || parts.next().ok_or(Problem::Corruption);
        let (frame, other, seed, name) = (part()?, part()?, part()?, part()?);
        let frame: Frame = frame.parse().map_err(|_| Problem::Corruption)?;
        let other: Frame = other.parse().map_err(|_| Problem::Corruption)?;
        let seed = seed.parse().map_err(|_| Problem::Corruption)?;
        let class = Class::named(name).ok_or(Problem::Corruption)?;
        let donors = Donors { other: &self.page(other)?, older: &[0; PAGE_BYTES] };
        let corrupted = class.corrupted(&self.page(frame)?, &donors, seed);
        for (word, bytes) in self.words(frame)?.zip(corrupted.as_chunks().0) {
            self.ram.store(word, u64::from_le_bytes(*bytes));
        }
        Ok(())
    }

    fn page(&self, frame: Frame) -> Result<Page, Problem> {
        let mut page = [0; PAGE_BYTES];
        for (word, bytes) in self.words(frame)?.zip(page.as_chunks_mut().0) {
            *bytes = self.ram.load(word).to_le_bytes();
        }
        Ok(page)
    }

    /// The words of a frame, by number.
    fn words(&self, frame: Frame) -> Result<Range<usize>, Problem> {
        let number = usize::try_from(frame.number()).map_err(|_| Problem::Outside)?;
        let first = number.checked_mul(FRAME_WORDS).ok_or(Problem::Outside)?;
        let (ram, end) = (self.ram.range(), first.checked_add(FRAME_WORDS).ok_or(Problem::Outside)?);
        if ram.start <= first && end <= ram.end { Ok(first..end) } else { Err(Problem::Outside) }
    }

    /// The effects of each fault, one per line, and the polling rate.
    pub fn report(&self, now: Duration) -> Vec<String> {
        let mut lines = self.cleared.clone();
        lines.extend(self.faults.iter().map(Injected::summary));
        let Pace { polls, late, longest, .. } = &self.pace;
        let (late, longest) = (late.as_secs_f64(), longest.as_secs_f64() * 1000.0);
        let seconds = now.as_secs_f64();
        lines.push(format!("{polls} polls in {seconds:.1} s; late for {late:.1} s, {longest:.1} ms at the most"));
        lines
    }
}

#[cfg(test)]
mod tests;
