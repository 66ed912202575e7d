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
use rampart_diagnostic::control::{Diagnostic, PolicyName};

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
        for (core, program) in (0..).zip(&scenario.programs) {
            let program = find(program).unwrap_or_else(|| panic!("{program} is no program of Rahman's"));
            match scenario.machine {
                TestedMachine::PentiumD => machine.start(program, core % cpus),
                TestedMachine::T620 => machine.start_midway(program, core % cpus),
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

fn alone<A: TestableAllocator>(mut machine: SimulatedMachine<A>, time: Duration) -> Run {
    let mut banks = BankShares::default();
    while machine.now().since(START) < time && !machine.is_out_of_memory() {
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

/// The banks over time, as shares of those that can go offline.
#[derive(Default)]
struct BankShares {
    empty: Vec<f64>,
    offline: Vec<f64>,
    due: Timestamp,
}

impl BankShares {
    #[expect(clippy::cast_precision_loss, reason = "a machine has few banks")]
    fn sample<A: TestableAllocator>(&mut self, machine: &SimulatedMachine<A>) {
        if machine.now() >= self.due {
            self.due = machine.now().after(COVERAGE_EVERY);
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
    config_due: Timestamp,
    coverage_due: Timestamp,
}

impl Samples {
    /// Skips the first configuration, which precedes all demand and has the most patterns; over Rahman's hours it would
    /// not show.
    fn new() -> Self {
        let (config_due, coverage_due) = (START.after(CONFIG_EVERY), START);
        let banks = BankShares::default();
        Self { coverage: Vec::new(), patterns: Vec::new(), threads: Vec::new(), banks, config_due, coverage_due }
    }

    fn sample<A: TestableAllocator>(&mut self, diagnostic: &Diagnostic<SimulatedMachine<A>>) {
        self.banks.sample(diagnostic.source());
        let now = diagnostic.source().now();
        if now >= self.config_due {
            self.config_due = now.after(CONFIG_EVERY);
            self.patterns.push(f64::from(diagnostic.config().fidelity.patterns()));
            self.threads.push(f64::from(diagnostic.config().threads));
        }
        if now >= self.coverage_due {
            self.coverage_due = now.after(COVERAGE_EVERY);
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
    while diagnostic.source().now().since(START) < time && !diagnostic.source().is_out_of_memory() {
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
        let after = diagnostic.counts();
        if after.readings > before.readings && diagnostic.config().threads > 0 {
            let cost = diagnostic.source_mut().handlers_cost(handlers, after.taken - before.taken);
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
