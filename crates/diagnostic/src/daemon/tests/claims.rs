//! The thread that claims memory.

use rampart_linux::{CpuNumber, Topology};

use super::*;

/// Asks the claimer for memory of a node; returns the CPUs to which its thread is bound afterwards.
fn bound_after_a_claim(nodes: &[&str]) -> Vec<CpuNumber> {
    let fixture = Fixture::new(plain());
    for (number, cpus) in nodes.iter().enumerate() {
        fixture.fake.add_node(number, cpus);
    }
    let ((ask, asked), (answers, answered)) = (channel(), channel());
    fixture.with(|shared| {
        thread::scope(|scope| {
            let claimer = scope.spawn(|| {
                claimer::work(shared, &ClaimQueue { asked, answers, open: OpenClaim::default() });
                Topology::read(shared.machine.roots()).allowed
            });
            ask.send((Node(0), SMALLEST_CLAIM)).unwrap();
            let block = answered.recv().expect("an answer").unwrap();
            assert_eq!(block.bytes(), SMALLEST_CLAIM);
            shared.interruption.halt();
            claimer.join().unwrap()
        })
    })
}

#[test]
fn memory_of_one_of_several_nodes_is_claimed_from_its_cpus() {
    let allowed = MachineUnderTest::this().cpus().to_vec();
    let last = allowed.last().unwrap().0;
    let list = last.to_string();
    assert_eq!(bound_after_a_claim(&[&list]), allowed, "there is no other node");
    assert_eq!(bound_after_a_claim(&[&list, ""]), [CpuNumber(last)]);
}
