//! Runs a scenario on the simulated machine under the controller.

use std::time::Duration;

use rampart_memory::{Fidelity, FrameSource, FreeList, Node, Timestamp};
use rampart_sim::workload::find;
use rampart_sim::{
    Access, Description, MachineAllocator, MachineStatistics, MachineUser, Second, SimulatedMachine, TestableAllocator,
    Testing,
};

use super::outcome::mean;
use super::scenario::{Rule, Scenario, Setup, TestedMachine};
use rampart_diagnostic::control::dispatch::Tester;
use rampart_diagnostic::control::policy::Bandwidth;
use rampart_diagnostic::control::replenish::{FromDemand, Nothing, RateMachine, Replenish, Steady};
use rampart_diagnostic::control::{Counts, Diagnostic, PolicyName};

/// The results of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Work that each program did, in seconds of a run without testing.
    pub work: Vec<f64>,
    /// Whether memory ran out.
    pub out_of_memory: bool,
    /// The mean over time of the share of frames with a good test.
    pub coverage: f64,
    /// The mean over time of the number of patterns.
    pub patterns: f64,
    /// The mean over time of the number of threads.
    pub threads: f64,
    /// Mean number of blocks requested from each list in a monitoring period.
    pub asked: Vec<(FreeList, f64)>,
    /// The mean over time of the share of banks without a page of a program; of those that can go offline at all.
    pub empty_banks: f64,
    /// The mean over time of the share of banks that are offline; `None` if the allocator knows no banks.
    pub offline_banks: Option<f64>,
    /// Each second.
    pub timeline: Vec<Second>,
    /// The machine's counts.
    pub machine: MachineStatistics,
}

/// The time at which the machines start.
const START: Timestamp = Timestamp::from_micros(1_000_000_000);

/// The interval between samples of the configuration [Rahman16, 5.3.1].
const CONFIG_EVERY: Duration = Duration::from_secs(1);

/// The interval between samples of coverage and of banks, each of which reads every frame of the machine.
const COVERAGE_EVERY: Duration = Duration::from_secs(10);

/// Runs a scenario on a machine with this allocator for `time`, with all random numbers from `seed`.
pub fn simulate(scenario: &Scenario, allocator: MachineAllocator, seed: u64, time: Duration) -> Run {
    let description = match scenario.machine {
        TestedMachine::PentiumD => Description::pentium_d(),
        TestedMachine::T620 => Description::t620(),
    };
    let testing = scenario.setup.as_ref().map(|setup| Testing {
        lifetime: setup.settings.lifetime,
        access: access(setup),
        on_demand: setup.on_demand,
        recycling: setup.recycling,
        core_local: setup.core_local,
        migration: setup.migration,
    });
    allocator.machine(description, testing, seed, START, ScenarioRun { scenario, time })
}

/// A scenario on a machine.
struct ScenarioRun<'a> {
    scenario: &'a Scenario,
    time: Duration,
}

impl MachineUser for ScenarioRun<'_> {
    type Outcome = Run;

    fn with<A: TestableAllocator>(self, mut machine: SimulatedMachine<A>) -> Run {
        let Self { scenario, time } = self;
        let cpus = machine.description().cpus;
        for (core, program) in (0..cpus).cycle().zip(&scenario.programs) {
            let program = find(program).unwrap_or_else(|| panic!("{program} is no program of Rahman's"));
            match scenario.machine {
                TestedMachine::PentiumD => machine.start(program, core),
                TestedMachine::T620 => machine.start_midway(program, core),
            }
        }
        match &scenario.setup {
            None => alone(machine, time),
            Some(setup) => tested(machine, setup, scenario.programs.len(), time),
        }
    }
}

const fn access(setup: &Setup) -> Access {
    if setup.cache_indirect { Access::CacheIndirect } else { Access::Direct }
}

/// Whether the run goes on.
fn goes_on<A: TestableAllocator>(machine: &SimulatedMachine<A>, time: Duration) -> bool {
    machine.now().since(START) < time && !machine.is_out_of_memory()
}

fn alone<A: TestableAllocator>(mut machine: SimulatedMachine<A>, time: Duration) -> Run {
    let mut banks = BankShares::new();
    while goes_on(&machine, time) {
        machine.step();
        banks.sample(&machine);
    }
    let (empty_banks, offline_banks) = banks.means();
    Run {
        work: machine.work_done(),
        out_of_memory: machine.is_out_of_memory(),
        coverage: 0.0,
        patterns: 0.0,
        threads: 0.0,
        asked: Vec::new(),
        empty_banks,
        offline_banks,
        timeline: machine.timeline().to_vec(),
        machine: machine.statistics(),
    }
}

/// Says when a sample is due.
struct Sampling {
    due: Timestamp,
    every: Duration,
}

impl Sampling {
    /// Whether a sample is due now; if so, the next one is due an interval later.
    fn is_due(&mut self, now: Timestamp) -> bool {
        let is_due = now >= self.due;
        if is_due {
            self.due = now.after(self.every);
        }
        is_due
    }
}

/// The banks over time, as shares of those that can go offline.
struct BankShares {
    empty: Vec<f64>,
    offline: Vec<f64>,
    sampling: Sampling,
}

impl BankShares {
    const fn new() -> Self {
        Self { empty: Vec::new(), offline: Vec::new(), sampling: Sampling { due: START, every: COVERAGE_EVERY } }
    }

    #[expect(clippy::cast_precision_loss, reason = "a machine has few banks")]
    fn sample<A: TestableAllocator>(&mut self, machine: &SimulatedMachine<A>) {
        if self.sampling.is_due(machine.now()) {
            let (all, empty) = machine.empty_banks();
            let share = |banks: u64| banks as f64 / all.max(1) as f64;
            self.empty.push(share(empty));
            self.offline.extend(machine.offline_banks().map(share));
        }
    }

    /// Returns the shares of empty and of offline banks.
    fn means(self) -> (f64, Option<f64>) {
        (mean(self.empty).unwrap_or(0.0), mean(self.offline))
    }
}

/// Returns the rule of one list. COMeT's lowest rate is the guarantee rate [Rahman16, tab. 1]: all memory in a
/// lifetime, and at least a block; the highest is the rate of one tester. Rahman gives no threshold: here demand is
/// high if at least a batch of a core's list is requested in one period.
fn rule(setup: &Setup, list: FreeList, bandwidth: Bandwidth, memory: u64) -> Box<dyn Replenish + Send> {
    let period = setup.settings.monitoring.as_secs_f64();
    match &setup.rule {
        Rule::Nothing => Box::new(Nothing),
        Rule::FromDemand => Box::new(FromDemand::new(setup.settings.alpha)),
        Rule::Steady(rates) => {
            let rate = rates.iter().find(|(known, _)| *known == list).map_or(0.0, |&(_, rate)| rate);
            Box::new(Steady::new(rate))
        }
        Rule::RateMachine => {
            let good_for = setup.settings.lifetime.lifetime() - setup.settings.lifetime.delta();
            #[expect(clippy::cast_precision_loss, reason = "frames of a machine")]
            let guarantee = memory as f64 / good_for.as_secs_f64();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "frames of a period")]
            let blocks = |rate: f64| ((rate * period) as u64 / list.order.frames()).max(1);
            let highest = blocks(bandwidth.of(setup.settings.limits.min_fidelity));
            let batch = (rampart_buddy::LOCAL_BATCH as u64 / list.order.frames()).max(1);
            Box::new(RateMachine::new(blocks(guarantee).min(highest), highest, batch))
        }
    }
}

/// Samples for the means.
struct Samples {
    coverage: Vec<f64>,
    patterns: Vec<f64>,
    threads: Vec<f64>,
    banks: BankShares,
    of_config: Sampling,
    of_coverage: Sampling,
}

impl Samples {
    /// Skips the first configuration, which precedes all demand and has the most patterns; over Rahman's hours it would
    /// not show.
    fn new() -> Self {
        Self {
            coverage: Vec::new(),
            patterns: Vec::new(),
            threads: Vec::new(),
            banks: BankShares::new(),
            of_config: Sampling { due: START.after(CONFIG_EVERY), every: CONFIG_EVERY },
            of_coverage: Sampling { due: START, every: COVERAGE_EVERY },
        }
    }

    fn sample<A: TestableAllocator>(&mut self, diagnostic: &Diagnostic<SimulatedMachine<A>>) {
        self.banks.sample(diagnostic.source());
        let now = diagnostic.source().now();
        if self.of_config.is_due(now) {
            self.patterns.push(f64::from(diagnostic.config().fidelity.patterns()));
            self.threads.push(f64::from(diagnostic.config().threads));
        }
        if self.of_coverage.is_due(now) {
            self.coverage.push(diagnostic.source().coverage());
        }
    }
}

fn tested<A: TestableAllocator>(machine: SimulatedMachine<A>, setup: &Setup, programs: usize, time: Duration) -> Run {
    let costs = machine.description().costs;
    let bandwidth = Bandwidth { at_fidelity_1: 1.0 / costs.test(access(setup), Fidelity::MIN) };
    let count = usize::try_from(setup.settings.limits.max_cores).expect("a few testers");
    // Testers are distributed over the nodes in turn [Rahman16, 5.3.1].
    let nodes: Vec<Node> = (0..count).map(|tester| machine.description().node_of_core(tester)).collect();
    let policy = setup.policy.policy(setup.settings.limits);
    let memory = machine.description().zones.iter().map(|zone| zone.frames.count()).sum();
    let rule = |list| rule(setup, list, bandwidth, memory);
    let mut diagnostic = Diagnostic::new(machine, setup.settings, policy, rule, &nodes, bandwidth, START);
    for &node in &nodes {
        diagnostic.source_mut().add_tester(node);
    }
    let handlers = handlers(setup, diagnostic.source().description(), programs);
    let mut samples = Samples::new();
    while goes_on(diagnostic.source(), time) {
        drive(&mut diagnostic, nodes.len(), handlers);
        samples.sample(&diagnostic);
    }
    finish(&diagnostic, samples)
}

/// Returns the number of handlers that delay programs in each monitoring period. COMeT has a timer per zone, whose lock
/// allocation waits for, and two per core, which interrupt its program [Rahman16, fig. 5, 4.1.3]; Asteroid's controller
/// has one [Rahman16, 5.2.4.2].
fn handlers(setup: &Setup, machine: &Description, programs: usize) -> u32 {
    let interrupted = machine.cpus.min(u32::try_from(programs).unwrap_or(u32::MAX));
    match setup.policy {
        PolicyName::Comet => u32::try_from(machine.zones.len()).expect("a few zones") + 2 * interrupted,
        _ => 1,
    }
}

/// Returns how many blocks the handlers took, if they ran: when demand was read, unless no tester waits for blocks.
fn taken_by_handlers(before: Counts, after: Counts, threads: u32) -> Option<u64> {
    (after.readings > before.readings && threads > 0).then(|| after.taken - before.taken)
}

/// Runs one quantum.
fn drive<A: TestableAllocator>(diagnostic: &mut Diagnostic<SimulatedMachine<A>>, testers: usize, handlers: u32) {
    diagnostic.source_mut().step();
    let now = diagnostic.source().now();
    for done in diagnostic.source_mut().finished() {
        diagnostic.finish(done.block, done.verdict, now);
    }
    if now >= diagnostic.due() {
        let before = diagnostic.counts();
        diagnostic.tick(now);
        if let Some(taken) = taken_by_handlers(before, diagnostic.counts(), diagnostic.config().threads) {
            let cost = diagnostic.source_mut().handlers_cost(handlers, taken);
            diagnostic.source_mut().charge(cost);
        }
    }
    for tester in 0..testers {
        while diagnostic.source().wants_work(tester)
            && let Some(work) = diagnostic.next(Tester(tester))
        {
            diagnostic.source_mut().begin(tester, work.block, work.fidelity);
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of one run")]
fn finish<A: TestableAllocator>(diagnostic: &Diagnostic<SimulatedMachine<A>>, samples: Samples) -> Run {
    let (machine, counts) = (diagnostic.source(), diagnostic.counts());
    let per_period = |list| machine.demand(list).allocated() as f64 / counts.readings.max(1) as f64;
    let of = |values: Vec<f64>| mean(values).unwrap_or(0.0);
    let (empty_banks, offline_banks) = samples.banks.means();
    Run {
        work: machine.work_done(),
        out_of_memory: machine.is_out_of_memory(),
        coverage: of(samples.coverage),
        patterns: of(samples.patterns),
        threads: of(samples.threads),
        asked: machine.lists().into_iter().map(|list| (list, per_period(list))).collect(),
        empty_banks,
        offline_banks,
        timeline: machine.timeline().to_vec(),
        machine: machine.statistics(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampart_memory::{BlockOrder, FrameDemand};

    fn scenario(machine: TestedMachine, programs: &[&'static str], setup: Option<Setup>) -> Scenario {
        Scenario { machine, programs: programs.to_vec(), setup }
    }

    fn run(machine: TestedMachine, programs: &[&'static str], setup: Option<Setup>, seconds: u64) -> Run {
        simulate(&scenario(machine, programs, setup), MachineAllocator::Buddy, 1, Duration::from_secs(seconds))
    }

    #[test]
    fn a_sample_is_taken_when_it_is_due_and_an_interval_later() {
        let second = |number: u64| Timestamp::from_micros(1_000_000 * number);
        let mut sampling = Sampling { due: second(5), every: Duration::from_secs(2) };
        let due: Vec<u64> = (3..12).filter(|&number| sampling.is_due(second(number))).collect();
        assert_eq!(due, [5, 7, 9, 11]);
    }

    #[test]
    fn no_time_means_no_work_and_two_seconds_nearly_two() {
        for setup in [None, Some(Setup::comet())] {
            assert_eq!(run(TestedMachine::PentiumD, &["povray"], setup.clone(), 0).work, [0.0]);
            let work = run(TestedMachine::PentiumD, &["povray"], setup, 2).work;
            assert!(work[0] > 1.9 && work[0] <= 2.0, "{work:?}");
        }
    }

    #[test]
    fn a_run_ends_when_memory_does() {
        let run = run(TestedMachine::PentiumD, &["lbm"; 3], None, 200);
        assert!(run.out_of_memory && (30..150).contains(&run.timeline.len()), "{} s", run.timeline.len());
    }

    #[test]
    fn programs_are_assigned_to_the_cores_of_both_nodes_in_turn() {
        let run = run(TestedMachine::T620, &["povray"; 2], Some(Setup::adaptive()), 2);
        for node in [0, 1] {
            let asked: f64 = run.asked.iter().filter(|(list, _)| list.node == Node(node)).map(|(_, rate)| rate).sum();
            assert!(asked > 0.0, "node {node}: {:?}", run.asked);
        }
    }

    #[test]
    fn banks_are_shares_and_only_allocators_of_banks_have_some_offline() {
        for (allocator, setup) in MachineAllocator::ALL.into_iter().zip([None, None, Some(Setup::comet())]) {
            // Two programs that fill some banks.
            let lbm = scenario(TestedMachine::PentiumD, &["lbm"; 2], setup);
            let run = simulate(&lbm, allocator, 1, Duration::from_secs(21));
            let is_share = |share: f64| share > 0.0 && share < 1.0;
            assert!(is_share(run.empty_banks), "{}", run.empty_banks);
            let has_pools = allocator != MachineAllocator::Buddy;
            assert_eq!(run.offline_banks.map(is_share), has_pools.then_some(true), "{:?}", run.offline_banks);
        }
    }

    /// [Rahman16, tab. 1]: one tester with two patterns.
    #[test]
    fn comet_tests_ahead_with_one_thread_and_testing_on_demand_does_not() {
        let comet = run(TestedMachine::PentiumD, &["povray"], Some(Setup::comet()), 11);
        assert_eq!((comet.patterns, comet.threads), (2.0, 1.0));
        assert!(comet.coverage > 0.0 && comet.coverage < 1.0 && comet.machine.concurrent > 0);
        let on_demand = run(TestedMachine::PentiumD, &["povray"], Some(Setup::on_demand()), 11);
        assert_eq!((on_demand.threads, on_demand.machine.concurrent), (0.0, 0));
    }

    #[test]
    #[expect(clippy::cast_precision_loss, reason = "frames of a run")]
    fn what_programs_ask_for_is_counted_for_each_period() {
        let run = run(TestedMachine::PentiumD, &["mcf"], Some(Setup::on_demand()), 10);
        let singles = run.asked.iter().filter(|(list, _)| list.order == BlockOrder::ZERO);
        let frames: f64 = singles.map(|(_, frames)| frames).sum();
        let periods = 10.0 / 0.025;
        let given = run.machine.allocated as f64;
        assert!((frames * periods / given - 1.0).abs() < 0.1, "{frames} in each period, {given} in all");
    }

    /// One tester tests more than one program demands: with its bandwidth taken as less, there would be more.
    #[test]
    fn adaptive_needs_one_thread_for_one_program() {
        let run = run(TestedMachine::T620, &["povray"], Some(Setup::adaptive()), 3);
        assert!(run.threads < 1.5 && run.patterns >= 8.0, "{} threads, {} patterns", run.threads, run.patterns);
    }

    fn handed(setup: &Setup, order: u8, allocated: u64) -> u64 {
        let list = FreeList { node: Node(0), order: BlockOrder::new(order).unwrap() };
        let bandwidth = Bandwidth { at_fidelity_1: 2_500.0 };
        let demand = FrameDemand { allocated_tested: allocated, ..FrameDemand::default() };
        rule(setup, list, bandwidth, 1 << 18).blocks(demand)
    }

    /// All of 1 GB in the 170 s for which a test is good is 38 frames in 25 ms; the tester of [Rahman16, tab. 1] tests
    /// 62. A batch of a core's list has 31 frames.
    #[test]
    fn comet_tests_all_memory_in_a_lifetime_and_as_much_as_a_tester_can_if_demand_is_high() {
        let comet = |order, allocated| handed(&Setup::comet(), order, allocated);
        assert_eq!([comet(0, 1), comet(0, 30), comet(0, 31)], [38, 38, 62]);
        assert_eq!([comet(3, 2), comet(3, 3)], [4, 7], "in blocks of 8 frames");
        assert_eq!([comet(10, 0), comet(10, 1)], [0, 1], "at least one block, if blocks are asked for");
    }

    #[test]
    fn the_other_rules_hand_out_what_they_are_named_after() {
        let list = |order| FreeList { node: Node(0), order: BlockOrder::new(order).unwrap() };
        let steady = Setup { rule: Rule::Steady(vec![(list(0), 2.0), (list(1), 5.0)]), ..Setup::comet() };
        assert_eq!([0, 1, 2].map(|order| handed(&steady, order, 9)), [2, 5, 0]);
        assert_eq!(handed(&Setup::adaptive(), 0, 9), 18, "α is 2");
        assert_eq!(handed(&Setup::on_demand(), 0, 9), 0);
    }

    /// [Rahman16, fig. 5 and 5.2.4.2].
    #[test]
    fn comet_has_a_handler_for_each_zone_and_two_for_each_core_with_a_program_and_asteroid_has_one() {
        let comet = |machine: &Description, programs| handlers(&Setup::comet(), machine, programs);
        let (pentium_d, t620) = (Description::pentium_d(), Description::t620());
        assert_eq!([1, 2, 5].map(|programs| comet(&pentium_d, programs)), [4, 6, 6]);
        assert_eq!([1, 12, 20].map(|programs| comet(&t620, programs)), [5, 27, 35]);
        assert_eq!(handlers(&Setup::adaptive(), &t620, 12), 1);
    }

    #[test]
    fn handlers_run_when_demand_is_read_unless_there_is_no_tester() {
        let counts = |readings, taken| Counts { readings, taken, ..Counts::default() };
        let taken = |before, after, threads| taken_by_handlers(before, after, threads);
        assert_eq!(taken(counts(4, 10), counts(5, 17), 1), Some(7));
        assert_eq!(taken(counts(4, 10), counts(6, 10), 1), Some(0));
        assert_eq!(taken(counts(4, 10), counts(4, 17), 1), None);
        assert_eq!(taken(counts(4, 10), counts(5, 17), 0), None);
    }
}
