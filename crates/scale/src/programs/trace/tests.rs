//! Files of ranks as the C library writes them, and what is read from them.

use proptest::prelude::*;

use super::file::{self, RecordedTrace, joined};
use super::*;
use crate::encoding::leb128::put;
use crate::model::operation::Tag;
use crate::programs::goal::text;
use crate::{LogGops, PerByte, Time, Undisturbed, simulate};

/// Over a network that takes no CPU time.
fn read(bytes: &[u8]) -> Result<RecordedTrace, Error> {
    file::read(bytes, &LogGops { overhead: Time::ZERO, gap_per_byte: PerByte::ZERO, ..LogGops::loggopsim() })
}

/// The fields of records, one after the other.
struct File(Vec<u8>);

const WORLD: u64 = 2 * 50;
/// The same communicator as in the record before.
const SAME: u64 = 0;

impl File {
    fn new(rank: u64, ranks: u64) -> Self {
        let mut file = Self(b"RAMPRANK".to_vec());
        file.fields(&[2, rank, ranks, 1, 1]);
        file.record(12, 0, &[WORLD, ranks]);
        (0..ranks).for_each(|member| put(&mut file.0, member));
        file
    }

    fn fields(&mut self, fields: &[u64]) -> &mut Self {
        fields.iter().for_each(|field| put(&mut self.0, *field));
        self
    }

    fn record(&mut self, kind: u64, computed: u64, fields: &[u64]) -> &mut Self {
        self.call(kind, [computed, 0], fields)
    }

    /// A call that does not block, with its time in the library.
    fn call(&mut self, kind: u64, spent: [u64; 2], fields: &[u64]) -> &mut Self {
        self.fields(&[kind]).fields(&spent).fields(fields)
    }

    fn end(&mut self) -> Vec<u8> {
        self.record(14, 7, &[5000]);
        self.0.clone()
    }
}

/// Rank 0 sends to rank 1, which receives from any rank.
fn one_message() -> [File; 2] {
    let [mut zero, mut one] = [File::new(0, 2), File::new(1, 2)];
    zero.record(1, 1000, &[SAME, 1 + 2, 5 + 1, 80]);
    one.record(4, 300, &[SAME, 1, 0, 80, 2 * 9]).record(6, 400, &[SAME, 0, 1, 5 + 1]);
    [zero, one]
}

fn calc(nanos: u64) -> Call {
    Call::Blocking(Operation::calc(Time::from_nanos(nanos)))
}

#[test]
fn a_receive_from_anyone_takes_what_it_took() {
    let recorded = read(&joined(&one_message().map(|mut file| file.end()))).unwrap();
    assert!(recorded.complete && recorded.shared.is_none());
    assert_eq!((recorded.measured, recorded.records), (Time::from_nanos(5000), 7));
    let bytes = Bytes::new(80);
    let sent = Call::Blocking(Operation::send(Rank(1), bytes, Tag(0)));
    assert_eq!(recorded.trace.calls(Rank(0)), [calc(1000), sent, calc(7)]);
    let begun = Call::Begin(Operation::recv(Some(Rank(0)), bytes, Some(Tag(0))), MpiRequest(0));
    assert_eq!(recorded.trace.calls(Rank(1)), [calc(300), begun, calc(400), Call::Wait(MpiRequest(0)), calc(7)]);
}

/// A rank's computing in nanoseconds, without the computing at its end.
fn computed(recorded: &RecordedTrace, rank: Rank) -> u64 {
    let calls = recorded.trace.calls(rank).iter();
    let of_call = |call: &Call| match call {
        Call::Blocking(operation) if operation.kind == crate::model::operation::OperationKind::Calc => {
            Time::from_picos(operation.size).nanos()
        }
        _ => 0,
    };
    calls.map(of_call).sum::<u64>() - 7
}

#[test]
fn a_call_takes_the_cpu_before_the_message_is_sent_and_after_it_is_found() {
    let [mut zero, mut one] = [File::new(0, 2), File::new(1, 2)];
    zero.call(3, [0, 1600], &[SAME, 1 + 2, 6, 80, 2]).call(6, [0, 40], &[SAME, 0, 0, 0]);
    one.record(4, 0, &[SAME, 2, 6, 80, 2]).call(6, [0, 1900], &[SAME, 0, 1, 6]);
    let network = LogGops { gap_per_byte: PerByte::ZERO, ..LogGops::loggopsim() };
    let recorded = file::read(&joined(&[zero.end(), one.end()]), &network).unwrap();
    let (bytes, tag) = (Bytes::new(80), Tag(0));
    let begun = |operation| Call::Begin(operation, MpiRequest(0));
    let waited = Call::Wait(MpiRequest(0));
    let sent = begun(Operation::send(Rank(1), bytes, tag));
    assert_eq!(recorded.trace.calls(Rank(0)), [calc(100), sent, waited, calc(40), calc(7)]);
    let received = begun(Operation::recv(Some(Rank(0)), bytes, Some(tag)));
    assert_eq!(recorded.trace.calls(Rank(1)), [received, waited, calc(400), calc(7)]);
}

#[test]
fn what_was_cancelled_or_never_done_is_left_out() {
    for more in [vec![], vec![6, 0, 0, SAME, 1, 0, 0], vec![10, 0, 0, SAME]] {
        let mut files = one_message();
        files[1].record(4, 0, &[SAME, 2, 9, 80, 2]).fields(&more);
        let recorded = read(&joined(&files.map(|mut file| file.end()))).unwrap();
        let waited = recorded.trace.calls(Rank(1)).iter().filter(|call| matches!(call, Call::Begin(..))).count();
        assert_eq!(waited, 1);
        simulate(&recorded.trace.extrapolated(1).unwrap(), &LogGops::loggopsim(), &Undisturbed).unwrap();
    }
}

#[test]
fn a_persistent_request_is_begun_whenever_it_is_started() {
    let [mut zero, mut one] = [File::new(0, 2), File::new(1, 2)];
    zero.record(7, 0, &[SAME, 1 + 2, 6, 80, 2 * 4]);
    one.record(8, 0, &[SAME, 1, 6, 80, 2 * 4]);
    for file in [&mut zero, &mut one] {
        for _ in 0..3 {
            file.record(9, 10, &[SAME]).record(6, 20, &[SAME, 0, 1, 6]);
        }
        file.record(10, 0, &[SAME]);
    }
    let recorded = read(&joined(&[zero.end(), one.end()])).unwrap();
    for rank in [Rank(0), Rank(1)] {
        let begun = recorded.trace.calls(rank).iter().filter(|call| matches!(call, Call::Begin(..))).count();
        assert_eq!(begun, 3);
    }
    simulate(&recorded.trace.extrapolated(1).unwrap(), &LogGops::loggopsim(), &Undisturbed).unwrap();
}

/// Ranks 0 and 2, and ranks 1 and 3, have a communicator each, with arbitrary handles and the ranks in reverse order.
fn halves() -> Vec<Vec<u8>> {
    let half = |rank: u64| {
        let mut file = File::new(rank, 4);
        let low = rank % 2;
        file.record(12, 1, &[2 * (rank + 1), 2, low + 2, low]);
        // A broadcast from the first member, which is the higher rank, and a gather of unequal parts.
        file.record(11, 100, &[SAME, 1, 0, 64]).record(11, 0, &[SAME, 3, 1, 10 * rank]);
        file.end()
    };
    (0..4).map(half).collect()
}

#[test]
fn a_communicator_is_known_by_its_members_and_its_turn() {
    let recorded = read(&joined(&halves())).unwrap();
    let collectives = |rank| -> Vec<Call> {
        let calls = recorded.trace.calls(Rank(rank)).iter();
        calls.filter(|call| matches!(call, Call::Collective(..))).copied().collect()
    };
    let [even, odd] = [Communicator(1), Communicator(2)];
    let of_half = |part, half| {
        vec![
            Call::Collective(CollectiveKind::Allreduce, Bytes::new(8), half),
            Call::Collective(CollectiveKind::Broadcast(Rank(0)), Bytes::new(64), half),
            Call::Collective(CollectiveKind::Gather(Rank(1)), Bytes::new(part), half),
        ]
    };
    assert_eq!(
        [0, 1, 2, 3].map(collectives),
        [of_half(10, even), of_half(20, odd), of_half(10, even), of_half(20, odd)]
    );
    let once = simulate(&recorded.trace.extrapolated(1).unwrap(), &LogGops::loggopsim(), &Undisturbed).unwrap();
    let more = simulate(&recorded.trace.extrapolated(3).unwrap(), &LogGops::loggopsim(), &Undisturbed).unwrap();
    assert_eq!(more.finished, [&once.finished[..]; 3].concat(), "a part of the ranks stays as it is");
}

#[test]
fn all_ranks_in_another_order_are_all_ranks_of_a_larger_run() {
    let file = |rank: u64| {
        let mut file = File::new(rank, 2);
        // A communicator of both, the second rank first, broadcasts from that rank.
        file.record(12, 1, &[2, 2, 1, 0]).record(11, 100, &[SAME, 1, 0, 8]);
        file.end()
    };
    let recorded = read(&joined(&[file(0), file(1)])).unwrap();
    let last = |factor| {
        let run = simulate(&recorded.trace.extrapolated(factor).unwrap(), &LogGops::loggopsim(), &Undisturbed).unwrap();
        run.makespan()
    };
    assert!(last(1) < last(4) && last(4) < last(64));
}

#[test]
fn computing_of_ranks_that_share_cpus_takes_longer_by_as_much() {
    let mut file = File(b"RAMPRANK".to_vec());
    file.fields(&[2, 0, 1, 3, 2]);
    let recorded =
        read(&joined(&[file.record(12, 0, &[WORLD, 1, 0]).record(11, 1000, &[SAME, 0, 0, 0]).end()])).unwrap();
    assert_eq!(recorded.shared, Some((3, 2)));
    assert_eq!(recorded.trace.calls(Rank(0)), [calc(1500), Call::Blocking(Operation::calc(Time::from_picos(10_500)))]);
}

/// The trace as graphs is the reference model of the trace expanded as it runs.
#[test]
fn a_trace_takes_as_long_as_its_graph_and_as_that_comes_back_from_text() {
    for files in [rounds().to_vec(), halves(), one_message().map(|mut file| file.end()).to_vec()] {
        let recorded = read(&joined(&files)).unwrap();
        for factor in [1, 2] {
            let schedule = recorded.trace.extrapolated(factor).unwrap();
            let goal = schedule.written_out().unwrap();
            let run = simulate(&schedule, &LogGops::loggopsim(), &Undisturbed).unwrap();
            assert_eq!(simulate(&goal, &LogGops::loggopsim(), &Undisturbed).unwrap(), run);
            assert_eq!(text::read(&text::write(&goal)), Ok(goal));
        }
    }
}

#[test]
fn what_talks_past_the_record_is_named() {
    let mut file = File::new(0, 1);
    file.record(13, 10, &[7]).0.extend_from_slice(b"MPI_Put");
    assert_eq!(read(&joined(&[file.end()])).unwrap().others, ["MPI_Put"]);
}

#[test]
fn what_is_no_trace_is_refused_in_one_line() {
    let with = |fields: &[u64]| joined(&[File(Vec::new()).fields(fields).0.clone()]);
    let header = |fields: &[u64]| {
        let mut file = File(b"RAMPRANK".to_vec());
        joined(&[file.fields(fields).0.clone()])
    };
    let mut trailing = joined(&one_message().map(|mut file| file.end()));
    trailing.push(0);
    let mut strange = File::new(0, 1);
    strange.record(99, 0, &[]);
    let mut stray = File::new(0, 1);
    stray.record(1, 0, &[SAME, 5 + 2, 1, 8]);
    let mut member = File::new(0, 1);
    member.record(12, 0, &[2, 1, 7]);
    for bytes in [
        vec![],
        b"RAMPGOAL\x01".to_vec(),
        with(&[2]),
        b"RAMPTRAC\x02\xff\xff\xff\x07".to_vec(),
        header(&[2, 1, 1, 1, 1]),
        header(&[2, 0, 2, 1, 1]),
        header(&[2, 0, 1, 0, 1]),
        header(&[2, 0, 1, 1, 0]),
        trailing,
        joined(&[strange.0]),
        joined(&[stray.0]),
        joined(&[member.0]),
    ] {
        let error = read(&bytes).unwrap_err();
        assert!(matches!(error, Error::NoTrace { .. }), "{bytes:?}: {error}");
        assert_eq!(error.to_string().lines().count(), 1);
    }
    assert_eq!(read(&header(&[9, 0, 1, 1, 1])), Err(Error::OtherFormat { found: 9, known: 2 }));
    assert_eq!(read(&joined(&[])), Err(Error::TooManyRanks { ranks: 0 }));
}

/// Two ranks that exchange messages and join collectives for some rounds, with every kind of waiting.
fn rounds() -> [Vec<u8>; 2] {
    [0, 1].map(|rank| {
        let mut file = File::new(rank, 2);
        let (peer, from_peer) = (1 - rank + 2, 1 - rank + 1);
        for round in 0..4 {
            file.record(4, 10 * round, &[SAME, 1, 3, 8, 2 * 3]).record(3, 5, &[SAME, peer, 3, 8, 2]);
            file.record(6, 0, &[1, 0, from_peer, 3]).record(6, 0, &[2, 0, 0, 0]).record(11, 3, &[SAME, 5, 0, 8]);
            file.record(5, 1, &[SAME, peer, 4, 8, SAME, peer, 4, 8]).fields(&[9, 0, 0, 5]);
        }
        file.end()
    })
}

proptest! {
    /// The network's part is subtracted once, however the calls of a message share it.
    #[test]
    fn a_message_takes_the_cpu_as_long_as_its_calls_or_as_the_network_does(begun in 0_u64..4000, found in 0_u64..4000) {
        let [mut zero, mut one] = [File::new(0, 2), File::new(1, 2)];
        zero.call(3, [0, begun], &[SAME, 1 + 2, 6, 80, 2]).call(6, [0, found], &[SAME, 0, 0, 0]);
        one.call(4, [0, begun], &[SAME, 2, 6, 80, 2]).call(6, [0, found], &[SAME, 0, 1, 6]);
        let network = LogGops::loggopsim();
        let recorded = file::read(&joined(&[zero.end(), one.end()]), &network).unwrap();
        for (rank, part) in [(Rank(0), network.sending(80)), (Rank(1), network.receiving(80))] {
            prop_assert_eq!(computed(&recorded, rank) + part.nanos(), part.nanos().max(begun + found));
        }
    }

    #[test]
    fn a_run_that_was_killed_is_what_its_ranks_did_together(cuts in [0.0..1.0, 0.0..1.0]) {
        let mut files = rounds();
        for (file, cut) in files.iter_mut().zip(cuts) {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a test")]
            let kept = 16 + ((file.len() - 16) as f64 * cut) as usize;
            // Some ranks were killed before they wrote anything.
            file.truncate(if cut < 0.05 { 0 } else { kept });
        }
        let recorded = read(&joined(&files)).unwrap();
        prop_assert!(!recorded.complete);
        for factor in [1, 3] {
            let schedule = recorded.trace.extrapolated(factor).unwrap();
            prop_assert!(simulate(&schedule, &LogGops::loggopsim(), &Undisturbed).is_ok());
        }
    }

    #[test]
    fn no_bytes_make_the_reader_panic(place: usize, value: u8) {
        let mut bytes = joined(&rounds());
        let place = place % bytes.len();
        bytes[place] = value;
        match read(&bytes) {
            Ok(recorded) => drop(simulate(&recorded.trace.extrapolated(2).unwrap(), &LogGops::loggopsim(), &Undisturbed)),
            Err(error) => prop_assert_eq!(error.to_string().lines().count(), 1),
        }
    }
}

#[test]
fn each_run_has_ranks_of_its_own_and_all_share_the_trace() {
    let [alone, two] = [1, 2].map(|runs| file::memory(1000, 16_384, runs).get());
    assert_eq!(two - alone, 16_384 * 2048);
    assert_eq!(file::memory(u64::MAX, 8, 64).get(), u64::MAX);
}

#[test]
fn a_run_that_ended_is_kept_whole() {
    let recorded = read(&joined(&rounds())).unwrap();
    assert!(recorded.complete);
    let sends = |call: &&Call| matches!(call, Call::Begin(operation, _) if operation.kind == crate::model::operation::OperationKind::Send);
    assert_eq!(recorded.trace.calls(Rank(1)).iter().filter(sends).count(), 8);
    simulate(&recorded.trace.extrapolated(1).unwrap(), &LogGops::loggopsim(), &Undisturbed).unwrap();
}

#[test]
fn what_does_not_fit_is_no_trace() {
    let with = |kind: u64, spent: [u64; 2], fields: &[u64]| {
        let [mut zero, mut one] = one_message();
        zero.call(kind, spent, fields);
        read(&joined(&[zero.end(), one.end()]))
    };
    let longest = u64::MAX / 1000;
    assert!(with(10, [longest, longest], &[SAME]).is_ok());
    assert!(with(11, [0, 0], &[SAME, 0, 0, 1 << 39]).is_err_and(|error| matches!(error, Error::Apart { .. })));
    for (kind, spent, fields) in [
        (10, [longest + 1, 0], &[SAME] as &[u64]),
        (10, [0, longest + 1], &[SAME]),
        (1, [0, 0], &[SAME, 1 + 2, 6, (1 << 39) + 1]),
        (11, [0, 0], &[SAME, 0, 0, (1 << 39) + 1]),
        (14, [0, 0], &[longest + 1]),
    ] {
        assert!(matches!(with(kind, spent, fields), Err(Error::NoTrace { .. })), "{kind}");
    }
    // Ranks that share CPUs take longer: here too long.
    let mut shared = File(b"RAMPRANK".to_vec());
    shared.fields(&[2, 0, 1, 2, 1]).record(10, longest / 2 + 1, &[0]);
    assert!(matches!(read(&joined(&[shared.end()])), Err(Error::NoTrace { .. })));
}

#[test]
fn requests_may_be_numbered_and_waited_for_in_any_order() {
    let numbers = [7, 2, 9, 4];
    let begun = |send: bool| {
        numbers.map(|number| {
            let (bytes, tag) = (Bytes::new(1), Tag(number));
            let operation = if send {
                Operation::send(Rank(1), bytes, tag)
            } else {
                Operation::recv(Some(Rank(0)), bytes, Some(tag))
            };
            Call::Begin(operation, MpiRequest(number))
        })
    };
    let calls = |send: bool, waited: [u32; 4]| -> Vec<Call> {
        begun(send).into_iter().chain(waited.map(|number| Call::Wait(MpiRequest(number)))).chain([calc(100)]).collect()
    };
    let last = |waited| {
        let trace = MpiTrace::new(vec![calls(true, waited), calls(false, waited)]).unwrap();
        let run = simulate(&trace.extrapolated(1).unwrap(), &LogGops::loggopsim(), &Undisturbed).unwrap();
        run.finished.iter().map(|time| time.nanos()).collect::<Vec<_>>()
    };
    // All four ranks must arrive before the computing.
    assert_eq!(last(numbers), [4 * 1500 + 100, 4 * 1500 + 2500 + 1500 + 100]);
    assert_eq!(last([4, 9, 2, 7]), last(numbers));
}

#[test]
fn ranks_that_shared_cpus_compute_as_long_as_alone_on_cpus_of_their_own() {
    let mut shared = File(b"RAMPRANK".to_vec());
    shared.fields(&[2, 0, 1, 8, 2]).record(10, 1000, &[0]);
    let bytes = joined(&[shared.end()]);
    let computing = |cpus| {
        let recorded = file::read_for(&bytes, &LogGops::loggopsim(), cpus).unwrap();
        assert_eq!(recorded.shared, Some((8, 2)));
        simulate(&recorded.trace.extrapolated(1).unwrap(), &LogGops::loggopsim(), &Undisturbed).unwrap().makespan()
    };
    let as_traced = computing(file::RankCpus::AsTraced);
    assert_eq!(as_traced.picos(), 4 * computing(file::RankCpus::Own).picos());
    assert!(as_traced >= Time::from_nanos(4000));
}
