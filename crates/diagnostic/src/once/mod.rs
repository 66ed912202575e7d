//! One test of this machine's free memory while programs run: `rampart test`.
//!
//! **Problem.** The test must claim free memory, keep each frame in place while it is tested, lose no finding, disturb
//! no program, and report which memory was and was not tested. **Idea.** Testers, one thread a CPU, take blocks from a
//! [`crate::once::schedule::BlockSchedule`] and test them; the main thread watches the machine's memory every few
//! milliseconds, gives blocks back when programs need them, and shows progress. **Why this way.**
//! [`crate::machine::reserve`] and [`crate::once::schedule`] make all decisions and are pure; this module only carries
//! them out: claim, pin, look up frames, test, record, retire, give back ([Rahman16, fig. 2]: untested free → tested
//! free or failed).

pub mod chosen;
pub mod extent;
mod prepare;
pub mod report;
pub mod schedule;
mod shared;
mod summary;
mod tester;
mod unreached;
pub mod zone_extent;

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rampart_march::execute::{MarchEngine, Method};
use rampart_march::{AddressSequence, Fidelity, MarchTest, Plan};
use rampart_memory::fault::InjectionSpec;
use rampart_memory::{Bytes, Timestamp};
use rampart_store::{Store, TestStart};

use self::chosen::choice::FrameChoice;
use self::prepare::TestPreparation;
use self::report::Report;
use self::shared::TestContext;
use crate::error::Error;
use crate::machine::MachineUnderTest;
use crate::machine::reserve::Advice;
use crate::testing::known_bad;
pub use crate::testing::observer::{TestObserver, TestProgress};
use crate::testing::prepare::warning;
use crate::testing::record::TestRecorder;

pub use self::shared::Stopped;

/// The parameters of one test.
#[derive(Clone, Debug)]
pub struct TestRequest {
    /// How much memory; `None`: all free memory except for the reserve.
    pub memory: Option<Bytes>,
    /// The name of the march test, if it has one.
    pub name: Option<String>,
    /// The march test.
    pub march: MarchTest,
    /// Half the number of patterns.
    pub fidelity: Fidelity,
    /// Address sequences, at least one.
    pub sequences: Vec<AddressSequence>,
    /// The number of testers, one per CPU; `None`: half of the CPUs that this process may use.
    pub threads: Option<NonZero<usize>>,
    /// Repeat until this time has passed.
    pub duration: Option<Duration>,
    /// The number of passes; `None`: one, or as many as `duration` allows.
    pub passes: Option<NonZero<u32>>,
    /// How long a `Del` element waits.
    pub delay: Duration,
    /// How long data rests before the delayed read; zero: no delayed read.
    pub retention: Duration,
    /// The instructions that test; `None`: the widest of this processor.
    pub engine: Option<MarchEngine>,
    /// How writes reach the DRAM; `None`: the fastest method that passes the cache-bypass check.
    pub method: Option<Method>,
    /// Faults to inject.
    pub inject: Option<InjectionSpec>,
    /// The seed of random data backgrounds.
    pub seed: u64,
    /// Where the memory comes from.
    pub source: TestSource,
}

/// Where the memory of a test comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TestSource {
    /// This process claims free memory, as any program does.
    FreeMemory,
    /// The kernel module hands over these frames.
    Kernel(FrameChoice),
}

impl TestRequest {
    fn start(&self, at: Timestamp) -> TestStart {
        TestStart {
            at,
            notation: self.march.to_string(),
            fidelity: self.fidelity.backgrounds(),
            sequences: self.sequences.iter().map(ToString::to_string).collect(),
            requested: self.memory,
            injected: self.inject.as_ref().map(ToString::to_string),
        }
    }

    /// The plan of one pass, from 1: each pass of a repeated test uses other random data backgrounds.
    fn plan(&self, pass: u32) -> Plan {
        let seed = self.seed.wrapping_add(u64::from(pass - 1));
        let plan = Plan::new(self.march.clone(), self.fidelity, &self.sequences, seed);
        if self.retention > Duration::ZERO { plan.with_delayed_reads() } else { plan }
    }

    /// The number of passes, if there is one.
    fn most_passes(&self) -> Option<u32> {
        match (self.passes, self.duration) {
            (Some(passes), _) => Some(passes.get()),
            (None, Some(_)) => None,
            (None, None) => Some(1),
        }
    }
}

/// How often the machine's memory state is read. Between two readings, programs can take at most the reserve unnoticed;
/// the reserve is at least 32 MiB, and a core dirties about 1 GB/s.
const TICK: Duration = Duration::from_millis(20);

/// Runs a test to its end, or until `stop` is set. Each finding is written to the store first.
///
/// # Errors
/// If the test cannot begin: the request needs more memory or CPUs than there are, or the injected faults do not fit.
pub fn run(
    request: &TestRequest,
    machine: &MachineUnderTest,
    mut store: Store,
    stop: &AtomicBool,
    observer: &dyn TestObserver,
) -> Result<Report, Error> {
    if let TestSource::Kernel(choice) = &request.source {
        return chosen::run(request, choice, machine, store, stop, observer);
    }
    let started = machine.clock.now();
    let errors = machine.errors();
    let known = known_bad::retire(machine, &mut store, observer);
    let prepared = TestPreparation::new(request, machine)?;
    observer.said(&prepared.describe(request));
    warning(&prepared.march.check).iter().for_each(|warning| observer.warned(warning));
    let recorder = TestRecorder::begin(store, request.start(started), &*machine.clock, observer);
    let shared = TestContext::new(request, machine, &prepared, known.in_use, recorder, observer);
    let shared_by_all = &shared;
    thread::scope(|scope| {
        let tester = |&cpu| scope.spawn(move || tester::work(shared_by_all, cpu));
        let testers: Vec<_> = prepared.cpus.iter().map(tester).collect();
        while testers.iter().any(|tester| !tester.is_finished()) {
            tick(&shared, stop);
            thread::sleep(TICK);
        }
    });
    Ok(summary::summarize(&shared, started, machine.errors_since(&errors)))
}

/// Runs every few milliseconds: stops in time, gives back memory that programs need, and shows progress.
fn tick(shared: &TestContext<'_>, stop: &AtomicBool) {
    if stop.load(Ordering::Relaxed) {
        shared.stop(Stopped::Asked);
    } else if shared.request.duration.is_some_and(|limit| shared.elapsed() >= limit) {
        shared.stop(Stopped::TimeUp);
    }
    if let Advice::GiveBack(bytes) = shared.advise() {
        shared.give_back(bytes);
    }
    shared.sample_own_memory();
    shared.publish_if_due();
    shared.observer.progress(&shared.progress());
}
