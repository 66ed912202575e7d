//! Programs whose times can be computed by hand.

use std::sync::atomic::AtomicBool;

use rampart_memory::Bytes;

use super::{simulate, simulate_until};
use crate::model::detour::Undisturbed;
use crate::programs::goal::text;
use crate::{Error, LogGops, PerByte, Time};

/// Times of the ranks in nanoseconds, on LogGOPSim's default network: L 2500, o 1500, g 1000, G 6, S 65,535.
fn nanos(goal: &str) -> Vec<u64> {
    let outcome = simulate(&text::read(goal).unwrap(), &LogGops::loggopsim(), &Undisturbed).unwrap();
    outcome.finished.iter().map(|time| time.nanos()).collect()
}

#[test]
fn a_message_costs_both_sides_their_overhead_and_the_receiver_its_bytes() {
    let goal = "num_ranks 2\nrank 0 {\nsend 101b to 1\n}\nrank 1 {\nrecv 101b from 0\n}\n";
    assert_eq!(nanos(goal), [1500, 1500 + 2500 + 1500 + 100 * 6]);
}

#[test]
fn a_message_without_bytes_is_as_one_of_one_byte() {
    for bytes in [0, 1] {
        let goal = format!("num_ranks 2\nrank 0 {{\nsend {bytes}b to 1\n}}\nrank 1 {{\nrecv {bytes}b from 0\n}}\n");
        assert_eq!(nanos(&goal), [1500, 5500], "{bytes}");
    }
}

/// A binomial tree over 16 ranks, as in LogGOPSim's sample of that name. A rank that has the message at t has sent its
/// n-th copy at t + 1500 n, and each copy arrives 2500 + 1500 later.
#[test]
fn a_binomial_tree_is_done_when_the_rules_say() {
    let mut goal = "num_ranks 16\n".to_owned();
    let mut expected = [0_u64; 16];
    for rank in 0..16_usize {
        let parent = (rank > 0).then(|| rank - (1 << rank.ilog2()));
        goal += &format!("rank {rank} {{\n");
        goal += &parent.map(|parent| format!("r: recv 1b from {parent}\n")).unwrap_or_default();
        for child in
            (0..4).map(|bit| rank + (1 << bit)).filter(|child| *child < 16 && child - (1 << child.ilog2()) == rank)
        {
            goal += &format!("s{child}: send 1b to {child}\n");
            goal += &parent.map(|_| format!("s{child} requires r\n")).unwrap_or_default();
            expected[rank] += 1500;
            expected[child] = expected[rank] + 2500 + 1500;
        }
        goal += "}\n";
    }
    assert_eq!(nanos(&goal), expected);
}

#[test]
fn a_large_message_waits_for_its_receive_and_its_sender_with_it() {
    let goal = |bytes| {
        format!(
            "num_ranks 2\nrank 0 {{\na: send {bytes}b to 1\nb: calc 10\nb requires a\n}}\n\
             rank 1 {{\na: calc 1000000\nb: recv {bytes}b from 0\nb requires a\n}}\n"
        )
    };
    assert_eq!(nanos(&goal(65_535))[0], 1510);
    // The message came at 4000 and waited for the CPU, which had it after its last byte.
    assert_eq!(nanos(&goal(65_536)), [1_000_000 + 10, 1_000_000 + 1500 + 65_535 * 6]);
}

/// The first receive takes the first message, although the second receive matches it too. Otherwise the large message
/// would make the wrong receive wait.
#[test]
fn messages_of_one_sender_are_received_in_the_order_they_were_sent() {
    let sends = "s0: send 1b to 1\nc: calc 1000000\nc requires s0\n".to_owned()
        + &(1..40).map(|i| format!("s{i}: send 1b to 1\ns{i} requires c\n")).collect::<String>();
    let receives: String = (0..40).map(|i| format!("r{i}: recv 1b from -1 tag -1\n")).collect();
    let run = |first: u32| {
        let answer = format!("a: send 1b to 0\na requires r{first}\n");
        let goal = format!("num_ranks 2\nrank 0 {{\n{sends}b: recv 1b from 1\n}}\nrank 1 {{\n{receives}{answer}}}\n");
        nanos(&goal)[1]
    };
    // The answer to the first message goes out while the sender computes; every other answer gets the CPU after all
    // computing.
    assert!((1..40).all(|later| run(later) == run(0) + 1500));
}

/// Rank 0 computes twice. Meanwhile a message comes, which it answers.
const COMPUTES_AND_ANSWERS: &str = "num_ranks 3\nrank 0 {\na: calc 5000\nb: calc 100000\nb requires a\nr: recv 1b from 1\n\
     s: send 1b to 1\ns requires r\n}\nrank 1 {\nsend 1b to 0\nrecv 1b from 0\n}\nrank 2 {\ncalc 0\n}\n";

/// When the first computing starts, the ready time of the second is known. That is before the message is sent, so the
/// second computing goes first, and the answer goes out after it. LogGOPSim gives the same times, with one CPU and with
/// two.
#[test]
fn what_is_ready_at_the_same_time_goes_in_the_order_in_which_that_became_known() {
    let expected = [5000 + 100_000 + 1500 + 1500, 108_000 + 2500 + 1500, 0];
    assert_eq!(nanos(COMPUTES_AND_ANSWERS), expected);
    for (calc, with) in [("calc 0\n", "calc 0 cpu 1\n"), ("a: calc 5000\n", "a: calc 5000\ncalc 0 cpu 1\n")] {
        assert_eq!(nanos(&COMPUTES_AND_ANSWERS.replace(calc, with)), expected, "{with}");
    }
}

#[test]
fn an_operation_waits_for_the_last_of_what_it_requires_on_any_cpu() {
    // The ready time of c is known when b starts, at 0; a ends later.
    let goal = "num_ranks 1\nrank 0 {\na: calc 100 cpu 1\nb: calc 10\nc: calc 1\nc requires a\nc requires b\n}\n";
    assert_eq!(nanos(goal), [101]);
    // CPU 1 of the receiver has the message at 5500, and its CPU 0 proceeds then.
    let received =
        "num_ranks 2\nrank 0 {\nsend 1b to 1 cpu 1\n}\nrank 1 {\nr: recv 1b from 0\nc: calc 7\nc requires r\n}\n";
    assert_eq!(nanos(received), [1500, 5507]);
}

/// LogGOPSim gives 1,000,000 and 1,394,710 ns for the first.
#[test]
fn a_rank_that_ends_in_a_rendezvous_is_done_when_that_is() {
    let goal = "num_ranks 2\nrank 0 {\nsend 65536b to 1\n}\nrank 1 {\na: calc 1000000\nr: recv 65536b from 0\nr requires a\n}\n";
    assert_eq!(nanos(goal), [1_000_000, 1_000_000 + 1500 + 65_535 * 6]);
    // The receive is posted first: they meet when the message arrives.
    assert_eq!(nanos(&goal.replace("calc 1000000", "calc 1000"))[0], 4000);
    // An eager send does not wait.
    assert_eq!(nanos(&goal.replace("65536", "65535"))[0], 1500);
}

/// With an *O* above zero a message may meet its receive while its last bytes still leave the sender's CPU.
#[test]
fn a_rendezvous_is_not_done_before_its_message_left_the_cpu() {
    let network = LogGops { overhead_per_byte: PerByte::from_nanos(1), ..LogGops::loggopsim() };
    let goal = "num_ranks 2\nrank 0 {\ns: send 65536b to 1\nc: calc 5 cpu 1\nc requires s\n}\nrank 1 {\nrecv 65536b from 0\n}\n";
    let outcome = simulate(&text::read(goal).unwrap(), &network, &Undisturbed).unwrap();
    assert_eq!(outcome.finished[0], Time::from_nanos(1500 + 65_535 + 5));
}

#[test]
fn an_operation_on_another_cpu_waits_until_what_it_requires_is_done() {
    let requires = "num_ranks 1\nrank 0 {\na: calc 100\nb: calc 1 cpu 1\nb requires a\n}\n";
    assert_eq!(nanos(requires), [101]);
    assert_eq!(nanos(&requires.replace("requires", "irequires")), [100]);
}

#[test]
fn what_never_ends_is_said() {
    let run = |goal: &str| simulate(&text::read(goal).unwrap(), &LogGops::loggopsim(), &Undisturbed);
    let receive = run("num_ranks 2\nrank 0 { }\nrank 1 {\nrecv 1b from 0 tag 7\n}\n").unwrap_err();
    assert_eq!(receive.to_string(), "rank 1 waits for ever for a message from rank 0 with tag 7: nobody sends it");
    assert_eq!(
        run("num_ranks 2\nrank 0 { }\nrank 1 {\nsend 1b to 0\n}\n"),
        Err(Error::NeverReceived { rank: 0, from: 1, tag: 0 })
    );
    assert_eq!(
        run(&format!("num_ranks 1\nrank 0 {{\na: calc {0}\nb: calc {0}\n}}\n", u64::MAX / 1000)),
        Err(Error::TooLong)
    );
}

#[test]
fn a_schedule_that_is_stopped_says_so() {
    let goal = text::read("num_ranks 1\nrank 0 {\ncalc 1\n}\n").unwrap();
    let run = |stop| simulate_until(&goal, &LogGops::loggopsim(), &Undisturbed, &AtomicBool::new(stop));
    assert_eq!(run(true), Err(Error::Stopped));
    assert!(run(false).is_ok());
}

#[test]
fn prices_below_a_nanosecond_add_up() {
    let network =
        LogGops { gap_per_byte: "0.04".parse().unwrap(), eager: Bytes::new(u64::MAX), ..LogGops::loggopsim() };
    let goal =
        text::read("num_ranks 2\nrank 0 {\nsend 25000001b to 1\n}\nrank 1 {\nrecv 25000001b from 0\n}\n").unwrap();
    let outcome = simulate(&goal, &network, &Undisturbed).unwrap();
    assert_eq!(outcome.makespan(), Time::from_nanos(1500 + 2500 + 1500).plus(Time::from_nanos(1_000_000)));
    assert_ne!(PerByte::ZERO, network.gap_per_byte);
}

#[test]
fn a_thousand_messages_at_once_are_taken_in_turn() {
    let others: String = (1..1001).map(|rank| format!("rank {rank} {{\nsend 1b to 0\n}}\n")).collect();
    let receives = "recv 1b from -1\n".repeat(1000);
    let goal = format!("num_ranks 1001\nrank 0 {{\n{receives}}}\n{others}");
    assert_eq!(nanos(&goal)[0], 4000 + 1000 * 1500);
}
