//! The suite over the simulated machine.

use std::time::Duration;

use rampart_memory::{BlockVerdict, Fidelity, Frame, TestBench, Timestamp};
use rampart_sim::workload::Rates;
use rampart_sim::{
    Access, Description, MachineAllocator, MachineUser, SimulatedMachine, Taken, TestableAllocator, Testing,
};

use super::PolicyName;
use super::suite::{SimulatedSource, check_invariants, settings};

const QUANTUM: Duration = Duration::from_millis(100);

impl<A: TestableAllocator> SimulatedSource for SimulatedMachine<A> {
    fn advance_to(&mut self, now: Timestamp) {
        self.set_clock(Timestamp::from_micros(now.micros() - 100_000));
        self.step();
        assert_eq!(self.now(), now);
    }

    fn frames_of(&self, block: &Taken) -> Vec<Frame> {
        block.block().frames().collect()
    }
}

/// A test bench that finds these frames bad.
struct Finds(Vec<Frame>);

impl TestBench<Taken> for Finds {
    fn test(&mut self, block: &mut Taken, _fidelity: Fidelity) -> BlockVerdict {
        let bad: Vec<Frame> = self.0.iter().copied().filter(|&frame| block.block().contains(frame)).collect();
        if bad.is_empty() { BlockVerdict::Good } else { BlockVerdict::Failed(bad) }
    }
}

/// The suite under one policy, with a program.
struct Suite(PolicyName, MachineAllocator);

impl MachineUser for Suite {
    type Outcome = ();

    fn with<A: TestableAllocator>(self, mut machine: SimulatedMachine<A>) {
        let Self(name, allocator) = self;
        let rates = Rates {
            seconds: 120.0,
            footprint: 1500,
            long_held: 500,
            filling: 50.0,
            replaced: 20.0,
            short_lived: 50.0,
            swing: 0.5,
            memory: 0.2,
        };
        machine.start_with("a program", rates, 0);
        let bad = [100, 1500, 2000, 2001, 3900].map(|number| Frame::new(number).unwrap());
        let diagnostic = check_invariants(machine, &mut Finds(bad.to_vec()), name);
        diagnostic.source().check();
        let failed = diagnostic.counts().failed;
        assert!(failed <= 5, "{name:?}, {allocator:?}: each bad frame is found once at most");
        assert_eq!(failed == 0, name == PolicyName::OnDemand, "{name:?}, {allocator:?}");
    }
}

#[test]
fn every_policy_keeps_the_promises_of_a_source_over_the_simulated_machine() {
    let start = Timestamp::from_micros((1 << 50) - 100_000);
    let testing = Testing {
        lifetime: settings().lifetime,
        access: Access::CacheIndirect,
        on_demand: Fidelity::MIN,
        recycling: true,
        core_local: true,
        migration: true,
    };
    for name in PolicyName::ALL {
        for allocator in MachineAllocator::ALL {
            let description = Description::small(1, 4096, 2, QUANTUM);
            allocator.machine(description, Some(testing), 1, start, Suite(name, allocator));
        }
    }
}
