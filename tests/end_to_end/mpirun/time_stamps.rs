//! The time-stamp counter of the CPU, which programs read by an instruction of their own.

use super::{Job, libraries};

const STAMPS: &str = include_str!("../victims/time_stamps.c");

#[test]
fn all_replicas_read_the_same_time_stamps() {
    for job in libraries().into_iter().filter_map(|[c, _]| Job::built(c, "program.c", STAMPS)) {
        let (output, document) = job.run_ranks("2", &["--replicas", "2"], "");
        assert_eq!((output.code, document["differed"].as_u64() > Some(0)), (Some(1), true), "{output:?}");
        for replicas in ["2", "3"] {
            let (output, document) = job.run_ranks("2", &["--replicas", replicas, "--rdtsc"], "");
            assert_eq!((output.code, &document["differed"]), (Some(0), &0.into()), "{output:?}");
            let lines: Vec<_> = output.out.lines().map(|line| line.rsplit_once(", ").unwrap()).collect();
            let right = "0 wrong, handled 12, thread read, child read";
            assert!(lines.len() == 2 && lines.iter().all(|&(line, _)| line == right), "{output:?}");
            assert_ne!(lines[0].1, lines[1].1, "each rank reads it at its time");
        }
    }
}
