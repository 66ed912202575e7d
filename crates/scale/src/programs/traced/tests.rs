//! Each trace is what the table says.

use super::*;
use crate::model::operation::{Action, Rank};
use crate::programs::trace::MpiTrace;
use crate::trace::Call;

fn network() -> LogGops {
    LogGops::cray_xc40()
}

/// The number of messages and of their bytes that the ranks send, and that they receive.
fn messages(trace: &MpiTrace) -> [(u64, u64); 2] {
    let mut of_all = [(0, 0); 2];
    let calls = (0..trace.ranks()).flat_map(|rank| trace.calls(Rank(rank)));
    for call in calls {
        let (Call::Blocking(operation) | Call::Begin(operation, _)) = call else { continue };
        let (of, bytes) = match operation.action() {
            Action::Send { bytes, .. } => (&mut of_all[0], bytes),
            Action::Recv { bytes, .. } => (&mut of_all[1], bytes),
            Action::Calc(_) => continue,
        };
        *of = (of.0 + 1, of.1 + bytes.get());
    }
    of_all
}

#[test]
fn each_trace_is_read_and_was_recorded_on_the_ranks_of_the_table() {
    for traced in TRACES {
        let recorded = traced.recorded(&network()).unwrap();
        assert_eq!(recorded.trace.ranks(), traced.ranks, "{}", traced.name);
        assert_eq!(recorded.shared, Some((8, 2)), "{}: eight ranks on two CPUs", traced.name);
        assert_eq!(recorded.others, Vec::<String>::new(), "{}: all calls are simulated", traced.name);
        // That of HPCG is the start of a run.
        assert_eq!(recorded.complete, traced.name != "hpcg", "{}", traced.name);
    }
}

#[test]
fn what_is_sent_in_a_trace_is_received_in_it() {
    for traced in TRACES {
        let [sent, received] = messages(&traced.recorded(&network()).unwrap().trace);
        assert_eq!(sent, received, "{}", traced.name);
        assert!(sent.0 > 1000, "{}: {sent:?}", traced.name);
    }
}

/// So the repeated part can be cut out: [`MpiTrace::parts`] would refuse a message that crosses its ends.
#[test]
fn the_repeated_part_is_of_whole_steps_which_all_ranks_take() {
    // The steps or iterations of the repeated part, and the parts in which each has messages.
    for (name, steps, with_messages) in [
        ("lulesh", 39, 1),
        ("hpcg", 20, 2),
        ("minife", 199, 1),
        // A hundred steps without a collective.
        ("lammps-lj", 1, 1),
    ] {
        let traced = TRACES.into_iter().find(|traced| traced.name == name).unwrap();
        let cycle = traced.cycle(&network()).unwrap();
        let busy = cycle.iter().filter(|part| messages(&part.calls)[0].0 > 0).count();
        assert_eq!((busy, cycle.len()), (steps * with_messages, traced.collectives()), "{name}");
        let kinds = cycle.iter().all(|part| part.meeting.0 == crate::collective::CollectiveKind::Allreduce);
        assert!(kinds, "{name}: all ranks meet in reductions for all");
    }
}

/// The crack checks its neighbour lists in each step, except in the five after it rebuilt them [LAMMPS, in.crack].
#[test]
fn the_crack_meets_in_nearly_each_of_its_200_steps() {
    let crack = TRACES.into_iter().find(|traced| traced.name == "lammps-crack").unwrap();
    let cycle = crack.cycle(&network()).unwrap();
    let busy = cycle.iter().filter(|part| messages(&part.calls)[0].0 > 0).count();
    assert!((180..=200).contains(&busy), "{busy}");
}

#[test]
fn a_trace_has_as_many_copies_as_there_is_room_for() {
    let copies = [1, 8, 15, 16, 16_384].map(|nodes| TRACES[0].copies(nodes));
    assert_eq!(copies, [1, 1, 1, 2, 2048]);
}

#[test]
fn a_trace_that_lacks_its_repeated_part_is_refused() {
    let short = TracedWorkload { repeated: 1000, ..TRACES[0] };
    assert_eq!(short.cycle(&network()), Err(Error::NoTrace { at: 0 }));
    let damaged = TracedWorkload { file: b"no trace", ..TRACES[0] };
    assert_eq!(damaged.recorded(&network()), Err(Error::NoTrace { at: 0 }));
}
