//! Prepares a test: how much memory, on which CPUs, with which loops.

use rampart_linux::CpuNumber;
use rampart_memory::Bytes;
use rampart_memory::fault::Campaign;

use super::TestRequest;
use crate::error::Error;
use crate::machine::MachineUnderTest;
use crate::machine::reserve::{MemoryReserve, Outlook, SMALLEST_CLAIM};
use crate::once::schedule::Goal;
use crate::testing::prepare::{MarchSetup, choose_cpus, lines};

/// The largest block: large enough for the widest reorder window that both address sequences together make harmless,
/// small enough to be given back at once.
const LARGEST_BLOCK: Bytes = Bytes::from_mib(64);

/// The settings of a test that is about to start.
pub struct TestPreparation {
    pub outlook: Outlook,
    /// Memory that was offline when the test began.
    pub offline: Bytes,
    pub reserve: MemoryReserve,
    pub goal: Goal,
    pub block: Bytes,
    pub cpus: Vec<CpuNumber>,
    pub march: MarchSetup,
    pub campaign: Option<Campaign>,
}

impl TestPreparation {
    pub fn new(request: &TestRequest, machine: &MachineUnderTest) -> Result<Self, Error> {
        let outlook = machine.outlook()?;
        let reserve = MemoryReserve::new(&outlook);
        let claimable = reserve.claimable(&outlook);
        let cpus = choose_cpus(request.threads, machine.cpus())?;
        let goal = choose_goal(request.memory, claimable)?;
        let scope = goal.bytes();
        let block = choose_block(scope, cpus.len());
        let campaign = match &request.inject {
            Some(spec) => Some(Campaign::new(spec, lines(scope), lines(block))?),
            None => None,
        };
        let march = MarchSetup::new(request.engine, request.method, request.delay, request.retention, block)?;
        let offline = machine.offline();
        Ok(Self { outlook, offline, reserve, goal, block, cpus, march, campaign })
    }

    pub fn describe(&self, request: &TestRequest) -> String {
        let scope = match self.goal {
            Goal::Free(bytes) => format!("free memory, {bytes},"),
            Goal::Exactly(bytes) => bytes.to_string(),
        };
        let name = request.name.as_ref().map_or_else(String::new, |name| format!("{name} "));
        let plural = if self.cpus.len() == 1 { "" } else { "s" };
        format!(
            "testing     {scope} with {name}{}, fidelity {}, on {} CPU{plural} ({}, {})",
            request.march,
            request.fidelity,
            self.cpus.len(),
            self.march.engine,
            self.march.settings.method
        )
    }
}

fn choose_goal(requested: Option<Bytes>, claimable: Bytes) -> Result<Goal, Error> {
    if claimable < SMALLEST_CLAIM {
        return Err(Error::NothingFree);
    }
    match requested.map(|bytes| bytes.round_down(SMALLEST_CLAIM)) {
        Some(bytes) if bytes > claimable => Err(Error::TooMuchMemory { requested: bytes, claimable }),
        Some(bytes) => Ok(Goal::Exactly(bytes)),
        None => Ok(Goal::Free(claimable)),
    }
}

/// Chooses blocks of 64 MiB, or smaller ones if each tester would not get two.
fn choose_block(scope: Bytes, testers: usize) -> Bytes {
    let share = scope.get() / (2 * testers as u64);
    let block = Bytes::new(share).min(LARGEST_BLOCK).round_down(SMALLEST_CLAIM);
    block.max(SMALLEST_CLAIM)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: fn(u64) -> Bytes = Bytes::from_mib;

    #[test]
    fn an_amount_that_is_named_must_be_there_and_else_all_that_can_be_claimed_is_tested() {
        assert_eq!(choose_goal(None, MIB(2)).unwrap(), Goal::Free(MIB(2)));
        assert!(matches!(choose_goal(None, Bytes::new(MIB(2).get() - 4096)), Err(Error::NothingFree)));
        assert_eq!(choose_goal(Some(Bytes::new(MIB(9).get() + 4096)), MIB(8)).unwrap(), Goal::Exactly(MIB(8)));
        let refusal = choose_goal(Some(MIB(10)), MIB(8));
        assert!(matches!(refusal, Err(Error::TooMuchMemory { requested, claimable }) if requested > claimable));
    }

    #[test]
    fn each_tester_gets_two_blocks_at_least_and_none_above_64_mib() {
        assert_eq!(choose_block(MIB(1000), 2), MIB(64));
        assert_eq!(choose_block(MIB(100), 2), MIB(24));
        assert_eq!(choose_block(MIB(100), 5), MIB(10));
        assert_eq!(choose_block(MIB(6), 8), MIB(2));
    }
}
