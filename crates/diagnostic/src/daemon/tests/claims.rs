//! The thread that claims memory.

use std::fs;

use rampart_linux::{CpuNumber, Topology};

use super::*;

/// Whether the calling thread runs when hardly any other needs the CPU, or has the lowest priority: nice and policy of
/// proc_pid_stat(5).
fn gives_way() -> bool {
    let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
    let fields: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let of_field = |number: usize| fields[number - 3];
    of_field(41) == SCHED_IDLE || of_field(19) == "19"
}

const SCHED_IDLE: &str = "5";

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
                assert!(gives_way());
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
fn memory_is_claimed_while_no_program_runs_and_from_the_cpus_of_its_node_if_there_are_several() {
    let allowed = MachineUnderTest::this().cpus().to_vec();
    let last = allowed.last().unwrap().0;
    let list = last.to_string();
    assert_eq!(bound_after_a_claim(&[&list]), allowed, "there is no other node");
    assert_eq!(bound_after_a_claim(&[&list, ""]), [CpuNumber(last)]);
}
