//! The invariants of every source of frames under every policy, as one test suite.

use std::collections::BTreeSet;
use std::time::Duration;

use rampart_memory::{BlockVerdict, Frame, FrameDemand, FrameSource, Node, TestBench, Timestamp};

use super::dispatch::Tester;
use super::policy::Bandwidth;
use super::replenish::{FromDemand, Nothing, RateMachine, Replenish};
use super::{ControlSettings, Diagnostic, PolicyName};

/// A source whose programs and memory are simulated.
pub trait SimulatedSource: FrameSource {
    /// Advances the simulation to `now`.
    fn advance_to(&mut self, now: Timestamp);

    /// The frames of a block.
    fn frames_of(&self, block: &Self::Block) -> Vec<Frame>;
}

/// Runs a source under a policy for 10 simulated minutes at a lifetime of 60 s, in the middle of which the clock goes
/// back. Checks the invariants after each step, and at the end that everything was given back and counted once.
pub fn check_invariants<W: SimulatedSource>(
    source: W,
    bench: &mut impl TestBench<W::Block>,
    name: PolicyName,
) -> Diagnostic<W> {
    let settings = settings();
    let start = Timestamp::from_micros(1 << 50);
    let rule = |_| -> Box<dyn Replenish + Send> {
        match name {
            PolicyName::OnDemand => Box::new(Nothing),
            PolicyName::Comet => Box::new(RateMachine::new(1, 4096, 64)),
            _ => Box::new(FromDemand::new(settings.alpha)),
        }
    };
    let bandwidth = Bandwidth { at_fidelity_1: 20_000.0 };
    let policy = name.policy(settings.limits);
    let mut diagnostic = Diagnostic::new(source, settings, policy, rule, &[Node(0)], bandwidth, start);
    let mut seen = PolicyInput::default();
    for step in 0..6000_u64 {
        let back = if step >= 3000 { Duration::from_secs(20) } else { Duration::ZERO };
        let past = Duration::from_millis(100 * step).saturating_sub(back);
        let now = start.after(past);
        diagnostic.source_mut().advance_to(now);
        diagnostic.tick(now);
        seen.test_some(&mut diagnostic, bench, now);
        seen.counters_only_grow(&diagnostic);
    }
    let end = start.after(Duration::from_secs(600));
    diagnostic.stop(end);
    assert_eq!(diagnostic.waiting(), 0, "{name:?}: after a stop nothing waits");
    let counts = diagnostic.counts();
    assert_eq!(counts.tested, seen.tested, "{name:?}: what was tested is counted once");
    assert_eq!(counts.clock_went_back, 1);
    assert_eq!(counts.tested == 0, name == PolicyName::OnDemand, "{name:?}: all but on-demand test ahead");
    diagnostic
}

/// Rahman's settings, with a lifetime of a minute and a monitoring timer of 100 ms.
pub fn settings() -> ControlSettings {
    let lifetime = rampart_memory::TestLifetime::new(Duration::from_secs(60), Duration::from_secs(5)).unwrap();
    ControlSettings { lifetime, monitoring: Duration::from_millis(100), ..ControlSettings::rahman16() }
}

#[derive(Default)]
struct PolicyInput {
    tested: u64,
    failed: BTreeSet<Frame>,
    demands: Vec<FrameDemand>,
}

impl PolicyInput {
    fn test_some<W: SimulatedSource>(
        &mut self,
        diagnostic: &mut Diagnostic<W>,
        bench: &mut impl TestBench<W::Block>,
        now: Timestamp,
    ) {
        // The number of frames that the bandwidth of the suite allows in a step, at the lowest fidelity.
        let mut frames = 2_000;
        while frames > 0
            && let Some(mut work) = diagnostic.next(Tester(0))
        {
            let of_block = diagnostic.source().frames_of(&work.block);
            assert!(of_block.iter().all(|frame| !self.failed.contains(frame)), "a bad frame is handed out again");
            let (_, size) = diagnostic.source().shape(&work.block);
            frames -= frames.min(size * u64::from(work.fidelity.backgrounds()));
            let verdict = bench.test(&mut work.block, work.fidelity);
            if let BlockVerdict::Failed(bad) = &verdict {
                self.failed.extend(bad);
            }
            self.tested += if verdict == BlockVerdict::NotTested { 0 } else { size };
            diagnostic.finish(work.block, verdict, now);
        }
    }

    fn counters_only_grow<W: SimulatedSource>(&mut self, diagnostic: &Diagnostic<W>) {
        let source = diagnostic.source();
        let now: Vec<FrameDemand> = source.lists().into_iter().map(|list| source.demand(list)).collect();
        let grown = |(before, now): (&FrameDemand, &FrameDemand)| {
            before.allocated_tested <= now.allocated_tested
                && before.allocated_untested <= now.allocated_untested
                && before.returned_fresh <= now.returned_fresh
                && before.returned_expired <= now.returned_expired
        };
        assert!(self.demands.iter().zip(&now).all(grown), "a counter went back");
        self.demands = now;
    }
}
