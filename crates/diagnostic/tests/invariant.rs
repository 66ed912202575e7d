//! The bound: whatever the programs, the faults, the policy, the clock and the testers do, no frame that a program can
//! reach has a test older than its lifetime minus δ, and no bad frame is handed out again [Rahman16, 3.2.1].
//!
//! By default, 60 seeds of ten simulated minutes each run, on two page allocators; 1,000 seeds of a simulated day
//! each run with
//! `RAMPART_DAYS=1000 cargo test --release -p rampart-diagnostic --test invariant`.

use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rampart_diagnostic::control::dispatch::Tester;
use rampart_diagnostic::control::policy::Bandwidth;
use rampart_diagnostic::control::replenish::{FromDemand, Nothing, RateMachine, Replenish};
use rampart_diagnostic::control::{ControlSettings, Diagnostic, PolicyLimits, PolicyName};
use rampart_memory::{Fidelity, Frame, FrameRange, FrameSource, Node, TestLifetime, Timestamp};
use rampart_sim::workload::Rates;
use rampart_sim::{
    Access, Description, Fault, MachineAllocator, MachineUser, SimulatedMachine, TestableAllocator, Testing,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const START: Timestamp = Timestamp::from_micros(1 << 50);

/// A simulated run, determined by its seed.
struct SimulatedRun<A: TestableAllocator> {
    diagnostic: Diagnostic<SimulatedMachine<A>>,
    testers: usize,
    name: PolicyName,
    random: ChaCha8Rng,
}

fn pick<T: Copy>(random: &mut ChaCha8Rng, values: &[T]) -> T {
    values[random.random_range(0..values.len())]
}

fn settings(random: &mut ChaCha8Rng) -> ControlSettings {
    let lifetime = Duration::from_secs(pick(random, &[60, 180, 1_800, 7_200]));
    let delta = lifetime / pick(random, &[6, 18, 50]);
    let fidelity = |number| Fidelity::new(number).unwrap();
    ControlSettings {
        lifetime: TestLifetime::new(lifetime, delta).unwrap(),
        monitoring: Duration::from_millis(pick(random, &[250, 1_000])),
        epoch: Duration::from_secs(pick(random, &[1, 10])),
        alpha: pick(random, &[1.0, 2.0]),
        alarm: 4.0,
        emergency: None,
        enough: pick(random, &[None, Some(500)]),
        limits: PolicyLimits {
            min_fidelity: fidelity(pick(random, &[1, 4])),
            max_fidelity: fidelity(pick(random, &[4, 32])),
            fidelity_step: 1,
            max_cores: pick(random, &[1, 2, 4]),
        },
        skip_middle: random.random(),
        node_local: random.random(),
    }
}

fn rates(random: &mut ChaCha8Rng, max_footprint: u64) -> Rates {
    let footprint = random.random_range(1..max_footprint);
    Rates {
        seconds: random.random_range(20.0..20_000.0),
        footprint,
        long_held: footprint * pick(random, &[0, 1, 3]) / 4,
        filling: random.random_range(1.0..500.0),
        replaced: random.random_range(0.0..5.0),
        short_lived: random.random_range(0.0..20.0),
        swing: random.random_range(0.0..0.9),
        memory: random.random_range(0.0..0.9),
    }
}

/// What a seed determines besides the machine itself.
struct Seeded {
    random: ChaCha8Rng,
    settings: ControlSettings,
    name: PolicyName,
    /// The frames of each node.
    frames: u64,
    steps: u32,
    every: u32,
    seed: u64,
}

impl Seeded {
    /// Returns it with the description of the machine and the support of its kernel.
    fn new(seed: u64, steps: u32, every: u32) -> (Self, Description, Testing) {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let settings = settings(&mut random);
        let name = pick(&mut random, &PolicyName::ALL);
        let nodes = pick(&mut random, &[1, 2]);
        let frames = pick(&mut random, &[512, 1_024, 2_048]);
        let mut description = Description::small(nodes, frames, 4, Duration::from_millis(250));
        for _ in 0..random.random_range(0..6) {
            let kind = pick(&mut random, &[Fault::Permanent, Fault::Intermittent(0.1)]);
            description.faults.push((Frame::new(random.random_range(0..frames)).unwrap(), kind));
        }
        let testing = Testing {
            lifetime: settings.lifetime,
            access: pick(&mut random, &[Access::Direct, Access::CacheIndirect]),
            on_demand: Fidelity::MIN,
            recycling: random.random(),
            core_local: random.random(),
            migration: true,
        };
        (Self { random, settings, name, frames, steps, every, seed }, description, testing)
    }

    fn begin<A: TestableAllocator>(self, mut machine: SimulatedMachine<A>) -> SimulatedRun<A> {
        let Self { mut random, settings, name, frames, .. } = self;
        let fastest = machine.description().costs.test(machine.testing().expect("it is tested").access, Fidelity::MIN);
        let bandwidth = Bandwidth { at_fidelity_1: 1.0 / fastest };
        let programs = random.random_range(1..4);
        for core in 0..programs {
            let rates = rates(&mut random, frames * 2 / 3 / u64::from(programs));
            machine.start_with("a program", rates, core);
        }
        let testers = usize::try_from(settings.limits.max_cores).unwrap();
        let of: Vec<Node> = (0..testers).map(|tester| machine.description().node_of_core(tester)).collect();
        for &node in &of {
            machine.add_tester(node);
        }
        let rule = |_| -> Box<dyn Replenish + Send> {
            match name {
                PolicyName::OnDemand => Box::new(Nothing),
                PolicyName::Comet => Box::new(RateMachine::new(1, 64, 8)),
                _ => Box::new(FromDemand::new(settings.alpha)),
            }
        };
        let policy = name.policy(settings.limits);
        let diagnostic =
            Diagnostic::new(machine, settings.checked().unwrap_or(settings), policy, rule, &of, bandwidth, START);
        SimulatedRun { diagnostic, testers, name, random }
    }
}

impl MachineUser for Seeded {
    type Outcome = u64;

    /// Runs steps of 250 ms, and checks every frame each `every` steps. Frames that expire are locked before the run
    /// goes on: so it is enough to check at some moments, but every frame.
    fn with<A: TestableAllocator>(self, machine: SimulatedMachine<A>) -> u64 {
        let Self { steps, every, seed, .. } = self;
        let mut simulation = self.begin(machine);
        for step in 0..steps {
            simulation.step();
            if step % every == 0 {
                simulation.diagnostic.source().check();
            }
        }
        simulation.diagnostic.source().check();
        simulation.on_demand_is_counted(seed);
        simulation.diagnostic.source().statistics().allocated
    }
}

impl<A: TestableAllocator> SimulatedRun<A> {
    /// Causes occasional trouble: the clock jumps, a tester gets no CPU, a region has errors.
    fn upset(&mut self) {
        let machine = self.diagnostic.source_mut();
        match self.random.random_range(0..4_000_u32) {
            0 => machine.set_clock(machine.now().after(Duration::from_secs(self.random.random_range(1..20_000)))),
            1 => machine
                .set_clock(Timestamp::from_micros(machine.now().micros() - self.random.random_range(1..100_000_000))),
            2..20 => machine.starve(self.random.random_range(0..self.testers), self.random.random()),
            20 => {
                let first = Frame::new(self.random.random_range(0..512)).unwrap();
                self.diagnostic.erring(vec![FrameRange::new(first, 32).unwrap()]);
            }
            21 => self.diagnostic.erring(Vec::new()),
            _ => {}
        }
    }

    fn step(&mut self) {
        self.upset();
        self.diagnostic.source_mut().step();
        let now = self.diagnostic.source().now();
        for done in self.diagnostic.source_mut().finished() {
            self.diagnostic.finish(done.block, done.verdict, now);
        }
        self.diagnostic.tick(now);
        for tester in 0..self.testers {
            while self.diagnostic.source().wants_work(tester)
                && let Some(work) = self.diagnostic.next(Tester(tester))
            {
                self.diagnostic.source_mut().begin(tester, work.block, work.fidelity);
            }
        }
    }

    /// Checks that the demand counters count on-demand tests as untested blocks; they count more if a batch was taken
    /// with them.
    fn on_demand_is_counted(&self, seed: u64) {
        let source = self.diagnostic.source();
        let counted: u64 = source.lists().into_iter().map(|list| source.demand(list).allocated_untested).sum();
        let seen = source.statistics();
        assert!(counted + seen.in_place >= seen.on_demand, "seed {seed}: {counted} of {seen:?}");
        if self.name == PolicyName::OnDemand {
            assert_eq!(self.diagnostic.counts().tested, 0, "seed {seed}");
        }
    }
}

/// Runs a seed on the buddy system and on one of the allocators with pools.
fn run(seed: u64, steps: u32, every: u32) -> u64 {
    let pools = if seed.is_multiple_of(2) { MachineAllocator::Adaptive } else { MachineAllocator::Fullest };
    let on = |allocator: MachineAllocator| {
        let (seeded, description, testing) = Seeded::new(seed, steps, every);
        allocator.machine(description, Some(testing), seed, START, seeded)
    };
    on(MachineAllocator::Buddy) + on(pools)
}

fn run_all(seeds: u64, steps: u32, every: u32) {
    let (next, allocated) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(|| {
                while let Some(seed) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed < seeds) {
                    allocated.fetch_add(run(seed, steps, every), Ordering::Relaxed);
                }
            });
        }
    });
    assert!(allocated.into_inner() > seeds * 200, "the programs were alive");
}

#[test]
fn no_frame_in_reach_is_older_than_its_lifetime_through_many_seeds() {
    match std::env::var("RAMPART_DAYS") {
        Ok(days) => run_all(days.parse().expect("RAMPART_DAYS is a number of seeds"), 4 * 86_400, 997),
        Err(_) => run_all(60, 4 * 600, 7),
    }
}
