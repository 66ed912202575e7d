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
    /// Those that ended before their time, in the order in which they did.
    early: BTreeSet<(u64, Process, How)>,
}

/// How a process ended before its time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum How {
    /// It called `exit`, or returned from `main`.
    Left,
    /// By this signal, as it could say itself.
    Crashed(i32),
    /// By this error of the MPI.
    Failed(String),
    /// Another replica missed it.
    Lost,
}

/// A process that ended before its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarlyEnd {
    pub rank: u32,
    pub replica: u32,
    number: u32,
    how: How,
    /// All replicas of the rank have crashed, or had an error of the MPI.
    all: bool,
}

impl Lives {
    /// A line of one process.
    pub fn see(&mut self, rank: u32, replica: u32, what: &str, rest: &str) {
        let (other, time) = rest.split_once("at ").unwrap_or_default();
        let (time, name) = time.split_once(' ').unwrap_or((time, ""));
        let early = |process, how| time.parse().ok().map(|time| (time, process, how));
        match what {
            "process" => _ = rest.parse().map(|number| self.numbers.insert((rank, replica), number)),
            "end" => _ = self.ended.insert((rank, replica)),
            "left" => {
                self.ended.insert((rank, replica));
                self.early.extend(early((rank, replica), How::Left));
            }
            "lost" => {
                self.early.extend(other.trim_end().parse().ok().and_then(|other| early((rank, other), How::Lost)));
            }
            "crashes" => {
                let signal = other.trim_end().parse().ok();
                self.early.extend(signal.and_then(|signal| early((rank, replica), How::Crashed(signal))));
            }
            "leaves" => {
                let how = match other.trim_end().split_once(' ') {
                    Some(("crash", signal)) => signal.parse().ok().map(How::Crashed),
                    Some(("error", _)) => Some(How::Failed(name.to_owned())),
                    _ => None,
                };
                self.early.extend(how.and_then(|how| early((rank, replica), how)));
            }
            _ => {}
        }
    }

    /// Those that have ended, or are about to.
    pub const fn ended(&self) -> &BTreeSet<Process> {
        &self.ended
    }

    /// The first process that ended before its time and whose team was not dropped before, as far as that is known.
    pub fn first_end(&self, dropped: &BTreeSet<u32>) -> Option<EarlyEnd> {
        let is_left = |process: &Process| !dropped.contains(&process.1);
        let (_, (rank, replica), how) = self.early.iter().find(|(_, process, _)| is_left(process))?.clone();
        let says_why = |how: &How| matches!(how, How::Crashed(_) | How::Failed(_));
        let crashed = |one: &Process| self.early.iter().any(|(_, other, how)| other == one && says_why(how));
        let mut others = self.numbers.keys().filter(|one| one.0 == rank && is_left(one));
        let all = says_why(&how) && others.all(crashed);
        Some(EarlyEnd { rank, replica, number: *self.numbers.get(&(rank, replica))?, how, all })
    }
}

impl EarlyEnd {
    /// In one line. `signal` is what ended it, if the launcher says so.
    pub fn line(&self, node: &str, signal: Option<i32>) -> String {
        let Self { rank, replica, number, how, all } = self;
        let (who, process) = (format!("replica {replica} of rank {rank}"), format!("process {number} on node {node}"));
        match how {
            How::Left => format!("{who} ended without MPI_Finalize ({process})"),
            How::Crashed(signal) if *all => {
                format!("all replicas of rank {rank} crashed by signal {signal}, replica {replica} first ({process})")
            }
            How::Failed(name) if *all => {
                format!(
                    "all replicas of rank {rank} had an error of the MPI ({name}), replica {replica} first ({process})"
                )
            }
            How::Failed(name) => format!("{who} had an error of the MPI ({name}; {process})"),
            _ => {
                let by = self.signal(signal).map_or_else(String::new, |signal| format!(" by signal {signal}"));
                format!("{who} died{by} ({process}); this MPI cannot go on without it")
            }
        }
    }

    pub fn document(&self, signal: Option<i32>) -> Value {
        let Self { rank, replica, number, how, .. } = self;
        let (left, signal) = (*how == How::Left, self.signal(signal));
        let error = if let How::Failed(name) = how { Some(name) } else { None };
        json!({ "rank": rank, "replica": replica, "process": number, "left": left, "signal": signal, "error": error })
    }

    /// The signal by which all replicas of the rank have crashed.
    pub fn common_crash(&self) -> Option<i32> {
        self.signal(None).filter(|_| self.all)
    }

    /// What ended it, as it said itself, or as the launcher does.
    fn signal(&self, said: Option<i32>) -> Option<i32> {
        match self.how {
            How::Left | How::Failed(_) => None,
            How::Crashed(signal) => Some(signal),
            How::Lost => said,
        }
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
        assert_eq!(lives.first_end(&BTreeSet::new()), None);
        lives.see(0, 1, "lost", "0 at 2001");
        lives.see(1, 0, "lost", "1 at 2000");
        lives.see(1, 0, "lost", "1 a");
        lives.see(0, 0, "left", "at 2002");
        let end = lives.first_end(&BTreeSet::new()).unwrap();
        assert_eq!((end.rank, end.replica), (1, 1));
        let line = "replica 1 of rank 1 died by signal 9 (process 13 on node n7); this MPI cannot go on without it";
        assert_eq!(end.line("n7", Some(9)), line);
        // One that leaves says so before it is missed.
        lives.see(0, 1, "left", "at 1999");
        let line = "replica 1 of rank 0 ended without MPI_Finalize (process 11 on node n7)";
        assert_eq!(lives.first_end(&BTreeSet::new()).unwrap().line("n7", Some(9)), line);
        lives.see(0, 0, "crashes", "7 at 1998");
        let line = "replica 0 of rank 0 died by signal 7 (process 10 on node n7); this MPI cannot go on without it";
        assert_eq!(lives.first_end(&BTreeSet::new()).unwrap().line("n7", None), line);
        // Two of three replicas have crashed; then the third one has.
        lives.see(1, 2, "process", "14");
        lives.see(1, 0, "leaves", "crash 11 at 1900");
        lives.see(1, 1, "leaves", "crash 11 at 1901");
        lives.see(1, 1, "leaves", "abort 7 at 1801");
        let line = "replica 0 of rank 1 died by signal 11 (process 12 on node n7); this MPI cannot go on without it";
        assert_eq!(lives.first_end(&BTreeSet::new()).unwrap().line("n7", Some(9)), line);
        lives.see(1, 2, "leaves", "crash 11 at 1899");
        let line = "all replicas of rank 1 crashed by signal 11, replica 2 first (process 14 on node n7)";
        assert_eq!(lives.first_end(&BTreeSet::new()).unwrap().line("n7", None), line);
        assert_eq!(lives.first_end(&BTreeSet::from([0, 2])).unwrap().number, 13, "of a team that was not dropped");
        for (replica, time) in [(0, 1702), (1, 1700), (2, 1701)] {
            lives.see(1, replica, "leaves", &format!("error 6 at {time} MPI_ERR_RANK: invalid rank"));
        }
        let end = lives.first_end(&BTreeSet::new()).unwrap();
        let why = "an error of the MPI (MPI_ERR_RANK: invalid rank), replica 1 first (process 13 on node n7)";
        assert_eq!(end.line("n7", None), format!("all replicas of rank 1 had {why}"));
        assert_eq!((&end.document(None)["error"], end.common_crash()), (&json!("MPI_ERR_RANK: invalid rank"), None));
        lives.see(1, 0, "end", "compared 3");
        assert_eq!(lives.ended().iter().copied().collect::<Vec<_>>(), [(0, 0), (0, 1), (1, 0)]);
    }
}
