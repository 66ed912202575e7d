//! Tests of blocks that tasks wait for.
//!
//! **Problem.** A test ahead of allocation can come too late: the kernel uses some memory again within moments.
//! **Idea.** A kernel with `kernel/patches` has the task that allocates wait for the test of its block
//! [Rahman16, 4.1]. One thread a node does nothing but these tests, at the lowest fidelity and without a delayed read.
//! **Why this way.** The task waits: so this thread has the priority of a program, and does not rest as testers do.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rampart_linux::kernel_module::{ClaimedFrames, ListRefusal, ModuleDevice};
use rampart_linux::{CpuNumber, cpu};
use rampart_memory::{BlockVerdict, Fidelity, Node};

use super::shared::DaemonContext;
use super::tester::Job;
use crate::control::Work;
use crate::sources::step::{ChosenMemory, ChosenRequest, Step, StepMemory};
use crate::testing::publishing::lock;

/// How often a thread without work looks whether it is to stop.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Tests blocks of all nodes until the daemon stops; returns at once on a kernel without the patch.
pub fn work(shared: &DaemonContext<'_>, device: &Arc<ModuleDevice>) {
    let mut nodes: Vec<&(Node, Vec<CpuNumber>)> = shared.prepared.testers.iter().collect();
    // Testers take turns over the nodes.
    nodes.sort_by_key(|tester| tester.0);
    nodes.dedup_by_key(|tester| tester.0);
    thread::scope(|scope| {
        for (node, near) in nodes {
            scope.spawn(move || serve(shared, device, *node, near));
        }
    });
}

fn serve(shared: &DaemonContext<'_>, device: &Arc<ModuleDevice>, node: Node, near: &[CpuNumber]) {
    // A thread that cannot be bound tests nevertheless.
    let _unbound = cpu::bind_to_any(near);
    while !shared.interruption.halted() {
        match device.claim_demanded(node) {
            Ok(claimed) => test(shared, device, node, claimed),
            Err(ListRefusal::NotOffered) => return,
            Err(_) => device.await_demand(LOOK_EVERY),
        }
    }
}

fn test(shared: &DaemonContext<'_>, device: &Arc<ModuleDevice>, node: Node, claimed: ClaimedFrames) {
    let memory = ChosenMemory::claimed(Arc::clone(device), ChosenRequest::Demanded(node), claimed);
    let block = Step::new(StepMemory::Chosen(memory), Vec::new(), node);
    let Some(mut job) = Job::begin(shared, Work { block, fidelity: Fidelity::MIN }) else { return };
    while !job.is_tested() && job.test(shared).goes_on() {}
    let (step, verdict) = job.judge(shared);
    // The source learns of bad frames only: what is good, it sees by the module's table of ages. It may be busy, and
    // the next task waits.
    if matches!(verdict, BlockVerdict::Failed(_)) {
        lock(&shared.diagnostic).finish(step, verdict, shared.clock.now());
    }
}
