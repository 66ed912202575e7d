//! Which process of a job was the first to end before its time.
//!
//! **Problem.** When a process dies, the MPI's launcher ends all others, and says at most which native rank it was.
//! **Idea.** Replicas of a rank are connected (`mpi/redmpi/connections.h`), so each sees at once when another one ends,
//! and reports the time. The first of these is the one that died. **Why this way.** It needs nothing of the launcher,
//! and nothing is sent while all goes well.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// A rank and its replica.
type Process = (u32, u32);

/// What processes say of their ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lives {
    /// Process ids.
    numbers: BTreeMap<Process, u32>,
    /// Those that came to the end, or ended before by their own will.
    ended: BTreeSet<Process>,
    /// The first that ended before its time: when, and whether by its own will.
    first: Option<(u64, Process, bool)>,
}

/// A process that ended before its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarlyEnd {
    pub rank: u32,
    pub replica: u32,
    number: u32,
    /// It called `exit`, or returned from `main`.
    left: bool,
}

impl Lives {
    /// A line of one process.
    pub fn see(&mut self, rank: u32, replica: u32, what: &str, rest: &str) {
        let (other, time) = rest.split_once("at ").unwrap_or_default();
        let early = |process, left| time.parse().ok().map(|time| (time, process, left));
        match what {
            "process" => _ = rest.parse().map(|number| self.numbers.insert((rank, replica), number)),
            "end" => _ = self.ended.insert((rank, replica)),
            "left" => {
                self.ended.insert((rank, replica));
                self.first = self.first.into_iter().chain(early((rank, replica), true)).min();
            }
            "lost" => {
                let lost = other.trim_end().parse().ok().and_then(|other| early((rank, other), false));
                self.first = self.first.into_iter().chain(lost).min();
            }
            _ => {}
        }
    }

    /// Those that have ended, or are about to.
    pub const fn ended(&self) -> &BTreeSet<Process> {
        &self.ended
    }

    /// The first process that ended before its time, as far as that is known.
    pub fn first_end(&self) -> Option<EarlyEnd> {
        let (_, (rank, replica), left) = self.first?;
        Some(EarlyEnd { rank, replica, number: *self.numbers.get(&(rank, replica))?, left })
    }
}

impl EarlyEnd {
    /// In one line. `signal` is what ended it, if the launcher says so.
    pub fn line(&self, node: &str, signal: Option<i32>) -> String {
        let Self { rank, replica, number, left } = self;
        let who = format!("replica {replica} of rank {rank}");
        if *left {
            return format!("{who} ended without MPI_Finalize (process {number} on node {node})");
        }
        let how = signal.map_or_else(String::new, |signal| format!(" by signal {signal}"));
        format!("{who} died{how} (process {number} on node {node}); this MPI cannot go on without it")
    }

    pub fn document(&self, signal: Option<i32>) -> Value {
        let Self { rank, replica, number, left } = self;
        let signal = signal.filter(|_| !left);
        json!({ "rank": rank, "replica": replica, "process": number, "left": left, "signal": signal })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_process_that_is_missed_is_the_one_that_died() {
        let mut lives = Lives::default();
        for (rank, replica, number) in [(0, 0, 10), (0, 1, 11), (1, 0, 12), (1, 1, 13)] {
            lives.see(rank, replica, "process", &number.to_string());
        }
        assert_eq!(lives.first_end(), None);
        lives.see(0, 1, "lost", "0 at 2001");
        lives.see(1, 0, "lost", "1 at 2000");
        lives.see(1, 0, "lost", "1 a");
        lives.see(0, 0, "left", "at 2002");
        let end = lives.first_end().unwrap();
        assert_eq!((end.rank, end.replica), (1, 1));
        let line = "replica 1 of rank 1 died by signal 9 (process 13 on node n7); this MPI cannot go on without it";
        assert_eq!(end.line("n7", Some(9)), line);
        // One that leaves says so before it is missed.
        lives.see(0, 1, "left", "at 1999");
        let line = "replica 1 of rank 0 ended without MPI_Finalize (process 11 on node n7)";
        assert_eq!(lives.first_end().unwrap().line("n7", Some(9)), line);
        lives.see(1, 0, "end", "compared 3");
        assert_eq!(lives.ended().iter().copied().collect::<Vec<_>>(), [(0, 0), (0, 1), (1, 0)]);
    }
}
