//! The simulated machine by itself: runs repeat, no frame is lost, and the bound on age holds whatever the clock does.

use std::time::Duration;

use rampart_memory::{BlockOrder, BlockVerdict, Fidelity, Frame, FrameSource, FreeList, Node, TestLifetime, Timestamp};
use rampart_sim::workload::Rates;
use rampart_sim::{
    Access, Description, Fault, MachineAllocator, MachineUser, SimulatedMachine, TestableAllocator, Testing,
};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const START: Timestamp = Timestamp::from_micros(1_000_000_000);

fn testing(lifetime: u64, recycling: bool) -> Testing {
    let lifetime = TestLifetime::new(Duration::from_secs(lifetime), Duration::from_secs(2)).unwrap();
    Testing {
        lifetime,
        access: Access::CacheIndirect,
        on_demand: Fidelity::MIN,
        recycling,
        core_local: true,
        migration: true,
    }
}

fn rates(footprint: u64, replaced: f64, short_lived: f64) -> Rates {
    Rates {
        seconds: 30.0,
        footprint,
        long_held: footprint / 3,
        filling: 400.0,
        replaced,
        short_lived,
        swing: 0.5,
        memory: 0.2,
    }
}

/// Tests some blocks by hand, as a diagnostic would.
fn test_some<A: TestableAllocator>(machine: &mut SimulatedMachine<A>, random: &mut ChaCha8Rng) {
    let now = machine.now();
    let list = FreeList { node: Node(0), order: BlockOrder::new(random.random_range(0..11)).unwrap() };
    for block in machine.take(list, random.next_u64() % 8, now) {
        if machine.wants_work(0) {
            machine.begin(0, block, Fidelity::MIN);
        } else {
            machine.give_back(block, BlockVerdict::NotTested, now);
        }
    }
    for done in machine.finished() {
        machine.give_back(done.block, done.verdict, now);
    }
}

/// A run under a random load, with a clock that jumps.
struct RandomRun {
    random: ChaCha8Rng,
    steps: u32,
    check: bool,
}

impl MachineUser for RandomRun {
    type Outcome = (Vec<f64>, rampart_sim::MachineStatistics);

    fn with<A: TestableAllocator>(self, mut machine: SimulatedMachine<A>) -> Self::Outcome {
        let Self { mut random, steps, check } = self;
        machine.add_tester(Node(0));
        machine.start_with("one", rates(400, 50.0, 20.0), 0);
        machine.start_with("two", rates(700, 10.0, 200.0), 1);
        for _ in 0..steps {
            match random.random_range(0..100_u32) {
                0 => machine.set_clock(machine.now().after(Duration::from_secs(random.random_range(0..60)))),
                1 => {
                    let back = Timestamp::from_micros(machine.now().micros() - random.random_range(0..10_000_000));
                    machine.set_clock(back);
                }
                2..20 => {
                    machine.re_place_expiring(machine.now(), machine.now().after(Duration::from_secs(2)));
                }
                20 => machine.starve(0, random.random()),
                _ => {}
            }
            machine.step();
            test_some(&mut machine, &mut random);
            if check {
                machine.check();
            }
        }
        (machine.work_done(), machine.statistics())
    }
}

fn run(allocator: MachineAllocator, seed: u64, steps: u32, check: bool) -> (Vec<f64>, rampart_sim::MachineStatistics) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let quantum = Duration::from_millis(random.random_range(1..200));
    let mut description = Description::small(1 + u32::try_from(seed % 2).unwrap(), 2048, 4, quantum);
    let kinds = [Fault::Permanent, Fault::Permanent, Fault::Permanent, Fault::Intermittent(0.3)];
    description.faults = kinds.map(|kind| (Frame::new(random.random_range(0..2048)).unwrap(), kind)).to_vec();
    let testing = testing(20, seed.is_multiple_of(3));
    allocator.machine(description, Some(testing), seed, START, RandomRun { random, steps, check })
}

#[test]
fn a_seed_means_one_run() {
    for allocator in MachineAllocator::ALL {
        assert_eq!(run(allocator, 5, 2_000, false), run(allocator, 5, 2_000, false), "{allocator:?}");
        assert_ne!(run(allocator, 5, 2_000, false), run(allocator, 6, 2_000, false), "{allocator:?}");
    }
}

#[test]
fn nothing_is_lost_and_nothing_in_reach_is_untested_whatever_the_clock_does() {
    for (allocator, seed) in MachineAllocator::ALL.into_iter().flat_map(|all| (0..12).map(move |seed| (all, seed))) {
        let (work, seen) = run(allocator, seed, 600, true);
        assert!(work.iter().all(|work| *work > 0.0), "{allocator:?}, seed {seed}: programs go on");
        let is_tested = seen.allocated > 0 && seen.on_demand > 0 && seen.concurrent > 0;
        assert!(is_tested, "{allocator:?}, seed {seed}: {seen:?}");
    }
}

/// Runs a program that needs almost all memory.
struct UsesAll;

impl MachineUser for UsesAll {
    type Outcome = ();

    fn with<A: TestableAllocator>(self, mut machine: SimulatedMachine<A>) {
        machine.start_with("all of it", rates(900, 300.0, 0.0), 0);
        for _ in 0..3_000 {
            machine.step();
        }
        machine.check();
        assert_eq!((machine.statistics().failed, machine.statistics().bad_given), (1, 0));
        let states = machine.states();
        assert_eq!(states.iter().filter(|(_, state)| *state == rampart_memory::FrameState::Failed).count(), 1);
    }
}

#[test]
fn a_bad_frame_is_found_once_and_never_given_out_again() {
    for allocator in MachineAllocator::ALL {
        let mut description = Description::small(1, 1024, 2, Duration::from_millis(10));
        description.faults = vec![(Frame::new(0x10).unwrap(), Fault::Permanent)];
        allocator.machine(description, Some(testing(20, false)), 1, START, UsesAll);
    }
}

#[test]
fn without_testing_a_program_takes_its_time_and_with_it_longer() {
    let run = |testing| {
        let mut machine =
            SimulatedMachine::new(Description::small(1, 4096, 2, Duration::from_millis(5)), testing, 1, START);
        machine.start_with("one", rates(2000, 300.0, 0.0), 0);
        for _ in 0..4_000 {
            machine.step();
        }
        machine.work_done()[0]
    };
    let (alone, tested) = (run(None), run(Some(testing(20, false))));
    assert!(alone <= 20.0 && alone > 19.0, "20 s less its own page faults: {alone}");
    assert!(tested < alone);
}

#[test]
fn programs_and_testers_share_the_cores_and_the_memory() {
    let work = |programs: u32, memory: f64| {
        let mut machine =
            SimulatedMachine::new(Description::small(1, 4096, 2, Duration::from_millis(5)), None, 1, START);
        for core in 0..programs {
            machine.start_with("one", Rates { memory, ..rates(10, 0.0, 0.0) }, core % 2);
        }
        for _ in 0..1_000 {
            machine.step();
        }
        machine.work_done()[0]
    };
    assert!((work(4, 0.0) / work(2, 0.0) - 0.5).abs() < 0.01, "four programs on two cores have half a core each");
    assert!(work(2, 0.9) < work(1, 0.9), "two that want all memory slow each other");
}

/// [Rahman16, fig. 7]: the handler reads each tested block that it passes.
#[test]
fn a_handler_pays_for_the_tested_blocks_that_it_passes_over() {
    let description = Description::small(1, 8192, 1, Duration::from_millis(1));
    let latency = description.costs.latency.as_secs_f64();
    let mut machine = SimulatedMachine::new(description, Some(testing(20, false)), 1, START);
    let list = FreeList { node: Node(0), order: BlockOrder::new(10).unwrap() };
    for block in machine.take(list, 2, START) {
        machine.give_back(block, BlockVerdict::Good, START);
    }
    let alone = machine.handlers_cost(1, 0);
    for block in machine.take(list, 100, START) {
        machine.give_back(block, BlockVerdict::NotTested, START);
    }
    let passed_over = (machine.handlers_cost(1, 0) - alone) / latency;
    assert!((passed_over - 2.0).abs() < 1e-6, "{passed_over} blocks");
}

/// [Rahman16, A.2.2]: each page is mapped for its test and then unmapped, which interrupts running programs.
#[test]
fn a_tested_page_that_is_unmapped_costs_a_program_time() {
    let work = |unmapping: Duration| {
        let mut description = Description::small(1, 8192, 2, Duration::from_millis(1));
        description.costs.unmapping = unmapping;
        let mut machine = SimulatedMachine::new(description, Some(testing(20, false)), 1, START);
        machine.add_tester(Node(0));
        machine.start_with("one", rates(0, 0.0, 0.0), 0);
        let list = FreeList { node: Node(0), order: BlockOrder::ZERO };
        let blocks = machine.take(list, 1000, START);
        assert_eq!(blocks.len(), 1000);
        blocks.into_iter().for_each(|block| machine.begin(0, block, Fidelity::MIN));
        while machine.statistics().concurrent < 1000 {
            machine.step();
        }
        (0..10).for_each(|_| machine.step());
        machine.work_done()[0]
    };
    let lost = work(Duration::ZERO) - work(Duration::from_micros(5));
    assert!((lost - 0.005).abs() < 0.001, "{lost} s lost by a thousand pages of 5 µs");
}

/// A program that uses half of the memory and a tester that tests all that it can.
struct HalfIsUsed {
    tests: bool,
}

impl MachineUser for HalfIsUsed {
    type Outcome = u64;

    fn with<A: TestableAllocator>(self, mut machine: SimulatedMachine<A>) -> u64 {
        machine.start_with("half of it", rates(4000, 100.0, 100.0), 0);
        let mut offline = 0;
        for _ in 0..3_000 {
            machine.step();
            let now = machine.now();
            for order in BlockOrder::all().filter(|_| self.tests) {
                for block in machine.take(FreeList { node: Node(0), order }, 4, now) {
                    machine.give_back(block, BlockVerdict::Good, now);
                }
            }
            offline += machine.offline_banks().expect("an allocator with pools");
        }
        machine.check();
        assert!(machine.statistics().on_demand > 0, "a bank that comes online was not tested before");
        offline
    }
}

/// Testing ahead neither opens a bank nor keeps one from going offline.
#[test]
fn as_many_banks_are_offline_with_tests_as_without() {
    for allocator in [MachineAllocator::Adaptive, MachineAllocator::Fullest] {
        let run = |tests: bool| {
            let description = Description::small(1, 8192, 1, Duration::from_millis(10));
            allocator.machine(description, Some(testing(20, false)), 1, START, HalfIsUsed { tests })
        };
        let (with, without) = (run(true), run(false));
        assert!(with * 100 >= without * 97, "{allocator:?}: {with} bank-steps offline, {without} without tests");
        assert!(without > 3_000 * 2, "{allocator:?}: some banks are offline");
    }
}
