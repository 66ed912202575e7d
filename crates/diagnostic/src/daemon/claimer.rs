//! The thread that claims memory for the pool, when no other thread needs the CPU: the kernel clears memory that it
//! hands out.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use rampart_linux::{Block, Error, PageKind, cpu};
use rampart_memory::{Bytes, Node};

use super::shared::DaemonContext;
use super::tester::yield_to_programs;
use crate::sources::free_memory::OpenClaim;
use crate::testing::interruption::rest;

/// How often the claimer checks whether the daemon stops.
const CHECK_EVERY: Duration = Duration::from_millis(100);

/// The other ends of [`crate::sources::free_memory::Claims`].
pub struct ClaimQueue {
    pub asked: Receiver<(Node, Bytes)>,
    pub answers: Sender<Result<Block, Error>>,
    pub open: OpenClaim,
}

/// Answers claims until the daemon stops.
pub fn work(shared: &DaemonContext<'_>, queue: &ClaimQueue) {
    yield_to_programs();
    while !shared.interruption.halted() {
        let (node, bytes) = match queue.asked.recv_timeout(CHECK_EVERY) {
            Ok(asked) => asked,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let began = Instant::now();
        let answer = claim(shared, &queue.open, node, bytes);
        let took = began.elapsed();
        if queue.answers.send(answer).is_err() {
            return;
        }
        if rest(shared.rest_after(took), || shared.interruption.halted()).is_break() {
            return;
        }
    }
}

/// Claims memory on a node. A page comes from the node of the CPU that touches it first (the default policy,
/// set_mempolicy(2)): with more than one node, this binds the thread to the CPUs of `node` for good.
fn claim(shared: &DaemonContext<'_>, open: &OpenClaim, node: Node, bytes: Bytes) -> Result<Block, Error> {
    let topology = shared.machine.topology();
    if topology.nodes.len() > 1 {
        // Memory from another node is as good, but slower to test.
        let _elsewhere = cpu::bind_to_any(&topology.cpus_near(node));
    }
    let claimed = Block::claim_in_sight(bytes, PageKind::Huge, |address| open.set(address, bytes));
    if claimed.is_err() {
        // Other memory may be there by now.
        open.clear();
    }
    claimed
}
