//! What the testers and the watching thread share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rampart_linux::{Block, Pinning};
use rampart_march::execute::limit::Limit;
use rampart_memory::{Bytes, Frame};

use super::prepare::Prepared;
use super::{Progress, Request, Witness};
use crate::Machine;
use crate::findings::Findings;
use crate::ledger::{Goal, Ledger, Next};
use crate::planted::{Planted, Tally};
use crate::polite::{Advice, Politeness};
use crate::record::Recorder;
use crate::seen::Seen;

/// A claimed block that is not under test.
#[derive(Debug)]
pub struct HeldBlock {
    /// The `index`th of the test.
    pub index: u64,
    pub block: Block,
    /// Its emulated faults.
    pub planted: Planted,
    /// Its pages whose frames are bad and could not be retired.
    pub bad: Vec<u64>,
}

/// Why no more is begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The person asked for it.
    Asked,
    /// `--for` is over.
    TimeUp,
}

/// What testers add up.
#[derive(Debug, Default)]
pub struct Sums {
    /// Frames tested whole at least once.
    pub frames: Seen,
    /// Pages tested whole in the first pass whose frames are unknown.
    pub unknown_pages: u64,
    /// Frames whose page moved while it was tested.
    pub moved: u64,
    /// Pages of blocks given back in the middle of their first test.
    pub given_back: u64,
    /// Pages of blocks that could not be claimed.
    pub refused: u64,
    /// Bytes tested, each pass counted.
    pub bytes: u64,
    /// Time that testers spent testing, added up.
    pub busy: Duration,
    /// Each tester's limit.
    pub limits: Vec<Limit>,
    /// What became of emulated faults, block by block.
    pub tallies: BTreeMap<u64, Tally>,
    /// How blocks were pinned; of different ways, the weakest.
    pub pinning: Option<Pinning>,
    /// Bad frames still held because they could not be retired.
    pub kept: Vec<Block>,
    /// The pass under way, and the bytes tested whole in it.
    pub in_pass: (u32, u64),
}

/// Everything that is shared.
pub struct Shared<'a> {
    pub request: &'a Request,
    pub machine: &'a Machine,
    pub prepared: &'a Prepared,
    pub witness: &'a dyn Witness,
    pub findings: Mutex<Findings>,
    pub recorder: Mutex<Recorder<'a>>,
    pub sums: Mutex<Sums>,
    /// When facts were last written, since the start.
    written: Mutex<Duration>,
    ledger: Mutex<Ledger<HeldBlock>>,
    politeness: Mutex<Politeness>,
    stopped: Mutex<Option<Stopped>>,
    halt: AtomicBool,
    wanted_back: AtomicBool,
    own_bytes: AtomicU64,
    start: Instant,
}

/// How often the counts of frames that are known to be bad already are written.
const COUNTS_WRITTEN_EVERY: Duration = Duration::from_secs(5);

/// A poisoned lock means that a tester panicked: a bug of ours, and the scope will panic too.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no tester panicked")
}

impl<'a> Shared<'a> {
    pub fn new(
        request: &'a Request,
        machine: &'a Machine,
        prepared: &'a Prepared,
        recorder: Recorder<'a>,
        witness: &'a dyn Witness,
    ) -> Self {
        let passes = match (request.passes, request.duration) {
            (Some(passes), _) => Some(passes.get()),
            (None, Some(_)) => None,
            (None, None) => Some(1),
        };
        Self {
            request,
            machine,
            prepared,
            witness,
            findings: Mutex::default(),
            recorder: Mutex::new(recorder),
            written: Mutex::new(Duration::ZERO),
            sums: Mutex::default(),
            ledger: Mutex::new(Ledger::new(prepared.goal, prepared.block, passes)),
            politeness: Mutex::new(prepared.politeness.clone()),
            stopped: Mutex::new(None),
            halt: AtomicBool::new(false),
            wanted_back: AtomicBool::new(false),
            own_bytes: AtomicU64::new(0),
            start: Instant::now(),
        }
    }

    pub fn ledger(&self) -> MutexGuard<'_, Ledger<HeldBlock>> {
        lock(&self.ledger)
    }

    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// What a tester does next.
    pub fn next(&self) -> Next<HeldBlock> {
        let claimable = self.machine.outlook().map_or(Bytes::ZERO, |seen| lock(&self.politeness).claimable(&seen));
        let advice = if claimable > Bytes::ZERO { Advice::Claim(claimable) } else { Advice::Keep };
        self.ledger().next(advice, self.elapsed())
    }

    /// What the machine's memory calls for. Where it cannot be read, nothing.
    pub fn advise(&self) -> Advice {
        self.machine.outlook().map_or(Advice::Keep, |seen| lock(&self.politeness).advise(&seen))
    }

    /// Writes down what is new, then tells it.
    pub fn publish(&self) {
        // The recorder is locked first: what is taken first is written first.
        let mut recorder = lock(&self.recorder);
        let news = lock(&self.findings).take_news();
        if !news.facts.is_empty() {
            recorder.keep(&news.facts);
        }
        *lock(&self.written) = self.elapsed();
        news.untold.iter().for_each(|bad| self.witness.bad_frame(bad));
    }

    /// [`Shared::publish`], if there are new frames, or counts have grown for a while.
    pub fn publish_now_and_then(&self) {
        let due = self.elapsed().saturating_sub(*lock(&self.written)) >= COUNTS_WRITTEN_EVERY;
        if due || lock(&self.findings).has_untold() {
            self.publish();
        }
        lock(&self.recorder).retry();
    }

    /// Gives back `bytes`, from what is not under test, or if that is not enough from what is.
    pub fn give_back(&self, bytes: Bytes) {
        let blocks = self.ledger().give_back(bytes, |held| held.block.bytes());
        let given: u64 = blocks.iter().map(|held| held.block.bytes().get()).sum();
        blocks.into_iter().for_each(|held| self.let_go(held));
        self.wanted_back.store(given < bytes.get(), Ordering::Relaxed);
    }

    /// Gives a block back, but for the pages whose frames are bad: whoever holds those keeps them from everybody else.
    pub fn let_go(&self, held: HeldBlock) {
        if held.bad.is_empty() {
            return;
        }
        match held.block.keep_only(&held.bad) {
            Ok(kept) => lock(&self.sums).kept.extend(kept),
            Err(error) => self.witness.warned(&format!("bad frames cannot be held: {error}")),
        }
    }

    /// Whether a tester must give its block back, now. Says so to one tester.
    pub fn takes_back(&self) -> bool {
        self.wanted_back.load(Ordering::Relaxed) && self.wanted_back.swap(false, Ordering::Relaxed)
    }

    pub fn stop(&self, why: Stopped) {
        let mut stopped = lock(&self.stopped);
        if stopped.is_none() {
            *stopped = Some(why);
            self.halt.store(true, Ordering::Relaxed);
            self.ledger().stop();
        }
    }

    pub fn halted(&self) -> bool {
        self.halt.load(Ordering::Relaxed)
    }

    pub fn stopped(&self) -> Option<Stopped> {
        *lock(&self.stopped)
    }

    /// Notes the most memory that this process used beyond what it claimed.
    pub fn sample_own_memory(&self) {
        let claimed = self.ledger().mapped();
        if let Some(resident) = self.machine.resident() {
            self.own_bytes.fetch_max(resident.saturating_sub(claimed).get(), Ordering::Relaxed);
        }
    }

    pub fn own_bytes(&self) -> Option<Bytes> {
        self.sample_own_memory();
        Some(Bytes::new(self.own_bytes.load(Ordering::Relaxed))).filter(|bytes| *bytes > Bytes::ZERO)
    }

    pub fn progress(&self) -> Progress {
        let bad_frames = lock(&self.findings).count();
        let ledger = self.ledger();
        let sums = lock(&self.sums);
        let pass = ledger.pass();
        let total = match self.prepared.goal {
            _ if pass > 1 => ledger.granted(),
            Goal::Exactly(bytes) => bytes,
            Goal::Free => self.prepared.politeness.claimable(&self.prepared.outlook).max(ledger.granted()),
        };
        Progress {
            pass,
            passes: ledger.passes(),
            done_in_pass: Bytes::new(if sums.in_pass.0 == pass { sums.in_pass.1 } else { 0 }),
            total_in_pass: total,
            elapsed: self.elapsed(),
            deadline: self.request.duration,
            bytes_per_second: sums.rate(self.prepared.cpus.len()),
            bad_frames,
        }
    }
}

impl Sums {
    /// How many frames were tested; pages, where frames are unknown.
    pub fn tested(&self) -> u64 {
        self.frames.len() + self.unknown_pages
    }

    /// Memory tested per second of testing, all testers together.
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    pub fn rate(&self, testers: usize) -> f64 {
        let busy = self.busy.as_secs_f64();
        if busy > 0.0 { self.bytes as f64 / busy * testers as f64 } else { 0.0 }
    }

    /// Notes how a block was pinned.
    pub fn pinned(&mut self, pinning: Pinning) {
        let known = self.pinning.get_or_insert(pinning);
        if !pinning.holds_frames() {
            *known = pinning;
        }
    }

    /// Adds a block that was tested to its end: its frames before and after.
    pub fn add_tested(
        &mut self,
        pass: u32,
        first_pass_of_block: bool,
        before: &[Option<Frame>],
        after: &[Option<Frame>],
    ) {
        for pair in before.iter().zip(after) {
            match pair {
                (Some(before), Some(after)) if before == after => self.frames.insert(*before),
                (None, None) => self.unknown_pages += u64::from(first_pass_of_block),
                _ => self.moved += 1,
            }
        }
        if self.in_pass.0 != pass {
            self.in_pass = (pass, 0);
        }
        self.in_pass.1 += before.len() as u64 * rampart_memory::FRAME_BYTES;
    }
}
