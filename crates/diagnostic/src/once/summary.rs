//! Makes the report from the totals of the testers.

use rampart_march::{Aim, Plan, plan_coverage};

use rampart_march::execute::limit::Limit;
use rampart_memory::fault_map::MapOrigin;
use rampart_memory::{Bytes, FRAME_BYTES, Timestamp};
use rampart_store::{TestEnd, TestEnding};

use super::TestRequest;
use super::shared::{TestContext, TestSums};
use crate::once::extent::{Extent, Losses, shortfall};
use crate::once::report::{
    BadFrame, BandwidthLimits, Coverage, DelayedRead, Emulation, KernelErrors, NotTested, Report, SCHEMA, TestRan,
    TestVerdict,
};
use crate::once::schedule::Lack;
use crate::once::unreached;
use crate::once::zone_extent::ZoneExtent;
use crate::testing::injected::InjectedTally;
use crate::testing::prepare::{MarchSetup, lines};
use crate::testing::publishing::lock;

/// Makes the report of a test that has ended, and writes its end to the store.
pub fn summarize(shared: &TestContext<'_>, started: Timestamp, kernel_errors: KernelErrors) -> Report {
    shared.publish();
    // The blocks are given back when this function returns.
    let blocks = shared.schedule().take_all();
    blocks.iter().filter(|held| !held.read_late).for_each(|held| shared.leave(held));
    let sums = lock(&shared.sums);
    let bad_frames = lock(&shared.published.findings).bad_frames();
    let plan = shared.request.plan(1);
    let machine = shared.prepared.outlook.total;
    let extent = Extent::new(Bytes::new(sums.tested() * FRAME_BYTES), shared.prepared.goal, machine);
    let losses = losses(shared, &sums);
    let incomplete = shortfall(&extent, &losses, shared.stopped());
    let verdict = TestVerdict::of(bad_frames.len(), incomplete.as_ref());
    let limit = limits(&sums.limits, &plan);
    let bytes_per_second = sums.rate(shared.prepared.cpus.len());
    let found =
        Found { verdict: &verdict, incomplete: incomplete.clone(), bad: &bad_frames, frames_tested: sums.tested() };
    let end = found.end(shared.machine.clock.now(), bytes_per_second);
    Report {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        verdict,
        incomplete,
        bad_frames,
        extent,
        zones: zones(shared, &sums),
        chosen: None,
        frames_tested: sums.tested(),
        frames_known: sums.unknown_pages == 0,
        not_tested: not_tested(shared, &sums, &losses),
        delayed_read: delayed_read(shared, &plan, &sums),
        bytes_per_second,
        fraction_of_limit: limit.filter(|_| sums.bytes > 0).map(|limit| bytes_per_second / limit.of_this_test),
        limit,
        test: test_that_ran(shared, &plan, &sums),
        coverage: coverage(&plan),
        kernel_errors,
        emulation: shared.request.inject.as_ref().map(|spec| emulation(spec.to_string(), &sums)),
        facts_not_stored: lock(&shared.published.recorder).finish(end),
        started,
        seconds: shared.elapsed().as_secs_f64(),
        own_bytes: shared.own_bytes(),
    }
}

/// The outcome of a test.
pub struct Found<'a> {
    pub verdict: &'a TestVerdict,
    /// Why it is incomplete, if it is.
    pub incomplete: Option<String>,
    pub bad: &'a [BadFrame],
    pub frames_tested: u64,
}

impl Found<'_> {
    /// What the store keeps of it.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate is below 2^64 and positive")]
    pub fn end(self, at: Timestamp, rate: f64) -> TestEnd {
        let emulated = self.bad.iter().filter(|bad| bad.origin == MapOrigin::Emulated).count() as u64;
        TestEnd {
            at,
            outcome: match self.verdict {
                TestVerdict::Pass => TestEnding::Pass,
                TestVerdict::Fail => TestEnding::Fail,
                TestVerdict::Incomplete => TestEnding::Incomplete,
            },
            shortfall: self.incomplete,
            frames_tested: self.frames_tested,
            bad_frames: self.bad.len() as u64 - emulated,
            emulated_frames: emulated,
            bytes_per_second: rate as u64,
        }
    }
}

/// How much of the zones was tested, where programs have one of their own.
fn zones(shared: &TestContext<'_>, sums: &TestSums) -> Vec<ZoneExtent> {
    let blocks = shared.machine.memory_blocks().filter(|_| shared.prepared.outlook.zones.is_some());
    blocks.map_or_else(Vec::new, |blocks| ZoneExtent::of(&blocks, &sums.frames))
}

fn losses(shared: &TestContext<'_>, sums: &TestSums) -> Losses {
    let schedule = shared.schedule();
    Losses {
        moved: sums.moved,
        unreadable: sums.unreadable,
        given_back: schedule.lacks(Lack::GivenBack),
        refused: schedule.lacks(Lack::Refused),
        never_free: schedule.lacks(Lack::NeverFree),
        went_offline: shared.machine.offline().saturating_sub(shared.prepared.offline),
    }
}

fn not_tested(shared: &TestContext<'_>, sums: &TestSums, losses: &Losses) -> Vec<NotTested> {
    let prepared = shared.prepared;
    let reserve = prepared.reserve.bytes(&prepared.outlook);
    let mut list = unreached::count(shared.machine, prepared.goal, &sums.frames, sums.unknown_pages, reserve);
    for (why, frames) in [
        ("of these, moved by the kernel while under test", losses.moved),
        ("of these, tested, but their numbers could not be read", losses.unreadable),
        ("of these, given back to programs before they were tested", losses.given_back.frames()),
        ("of these, refused by the kernel when claimed", losses.refused.frames()),
        ("of these, taken by programs before they could be claimed", losses.never_free.frames()),
        ("of these, on the map of bad frames and not retired: held until the test ended", sums.known_bad),
        ("offline: memory blocks that are offline are not tested (`rampart banks`)", shared.machine.offline().frames()),
    ] {
        if frames > 0 {
            list.push(NotTested { why: why.to_owned(), frames });
        }
    }
    list
}

/// Skipped delayed reads do not make a test incomplete: each march test was complete, and the coverage names the kind
/// of fault that only delayed reads find.
fn delayed_read(shared: &TestContext<'_>, plan: &Plan, sums: &TestSums) -> Option<DelayedRead> {
    let delay_seconds = shared.request.retention.as_secs_f64();
    (plan.rests() > 0).then_some(DelayedRead { delay_seconds, frames_skipped: sums.not_read_late })
}

/// The limits of all testing CPUs together. Each CPU measured its own limit while the others worked.
#[expect(clippy::cast_precision_loss, reason = "rates")]
pub fn limits(measured: &[Limit], plan: &Plan) -> Option<BandwidthLimits> {
    if measured.is_empty() {
        return None;
    }
    let sum = |of: fn(&Limit) -> f64| measured.iter().map(of).sum::<f64>();
    let (write, read) = (sum(|limit| limit.write), sum(|limit| limit.read));
    let of_this_test = 1.0 / (plan.writes() as f64 / write + plan.reads() as f64 / read);
    Some(BandwidthLimits { write, read, of_this_test })
}

fn test_that_ran(shared: &TestContext<'_>, plan: &Plan, sums: &TestSums) -> TestRan {
    let prepared = shared.prepared;
    TestRan {
        passes: shared.schedule().pass(),
        threads: prepared.cpus.len(),
        pinning: sums.pinning.map_or_else(|| "nothing was claimed".to_owned(), |pinning| pinning.to_string()),
        ..test_in_blocks(shared.request, plan, &prepared.march, prepared.block)
    }
}

/// The test that ran in blocks of this size, but for its passes, its threads and how frames were held.
pub fn test_in_blocks(request: &TestRequest, plan: &Plan, march: &MarchSetup, block: Bytes) -> TestRan {
    TestRan {
        name: request.name.clone(),
        notation: request.march.to_string(),
        fidelity: request.fidelity.backgrounds(),
        sequences: plan.sequences().map(|order| order.to_string()).collect(),
        operations_per_line: plan.length() as u64,
        passes: 0,
        threads: 0,
        engine: march.engine.to_string(),
        method: march.settings.method.to_string(),
        window_lines: march.settings.window(lines(block)),
        block,
        pinning: String::new(),
        cached_reads: march.check.cached,
    }
}

/// The faults that a plan finds.
pub fn coverage(plan: &Plan) -> Vec<Coverage> {
    let kinds = plan_coverage(plan).into_iter();
    let coverage = kinds.map(|kind| Coverage {
        fault: kind.kind.to_string(),
        meaning: kind.meaning,
        scope: match kind.scope {
            Aim::BetweenLines => "between-lines",
            Aim::WithinLine => "within-line",
        },
        percent: kind.percent,
        note: kind.note,
    });
    coverage.collect()
}

fn emulation(spec: String, sums: &TestSums) -> Emulation {
    let sum = |of: fn(&InjectedTally) -> usize| sums.tallies.values().map(of).sum();
    let missed: Vec<String> = sums.tallies.values().flat_map(|tally| tally.missed.iter().cloned()).collect();
    Emulation {
        spec,
        injected: sum(|tally| tally.injected),
        guaranteed: sum(|tally| tally.guaranteed),
        found: sum(|tally| tally.found),
        missed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampart_march::{AddressSequence, Fidelity};

    #[test]
    fn the_limit_of_a_test_is_that_of_its_reads_and_writes_one_after_another() {
        let plan =
            Plan::new("{⇕(w0); ⇕(r0,w1); ⇕(r1)}".parse().unwrap(), Fidelity::MIN, &[AddressSequence::Sequential], 1);
        assert!(limits(&[], &plan).is_none());
        let measured = [Limit { write: 1e9, read: 3e9 }, Limit { write: 2e9, read: 5e9 }];
        let limits = limits(&measured, &plan).unwrap();
        assert_eq!((limits.write, limits.read), (3e9, 8e9));
        #[expect(clippy::cast_precision_loss, reason = "a few operations")]
        let seconds = plan.writes() as f64 / 3e9 + plan.reads() as f64 / 8e9;
        assert!((limits.of_this_test * seconds - 1.0).abs() < 1e-9);
        assert_eq!(coverage(&plan).len(), plan_coverage(&plan).len());
    }
}
