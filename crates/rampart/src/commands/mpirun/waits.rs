//! Jobs in which all wait for each other.
//!
//! **Problem.** A program in which each rank waits for another one stands still for ever, and nobody says why.
//! **Idea.** A process that has waited in one call for long leaves a file that says for what (`mpi/redmpi/waits.h`).
//! When all processes that have not ended have one, that is said, once. **Why this way.** It is said only: a message
//! that is on its way for long looks the same, so such a job is not ended. But where a team was dropped, it is: what
//! that team had decided before can let the others wait for ever, and nobody may be there to end the job.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::reports::JobReport;

/// The pause between two looks. What was the same in both has not gone on.
const PAUSE: Duration = Duration::from_secs(1);

/// Ranks that are named.
const MOST_LINES: usize = 8;

/// What a process waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wait {
    what: String,
    /// Of the message; `None` is any, or another kind of wait.
    rank: Option<u32>,
    tag: Option<u32>,
}

/// A rank and its replica.
type Process = (u32, u32);

type Waits = BTreeMap<Process, Wait>;

/// Looks for a job that stands still.
pub struct Standstill {
    folder: PathBuf,
    ranks: u32,
    replicas: u32,
    patience: u32,
    next: Instant,
    before: Waits,
    is_told: bool,
    /// Why the job is to be ended.
    stops: Option<String>,
}

impl Standstill {
    pub fn of(folder: &Path, ranks: u32, replicas: u32, patience: u32) -> Self {
        Self {
            folder: folder.to_owned(),
            ranks,
            replicas,
            patience,
            next: Instant::now() + PAUSE,
            before: Waits::new(),
            is_told: false,
            stops: None,
        }
    }

    /// Why the job is to be ended, if it is.
    pub fn stops(&self) -> Option<&str> {
        self.stops.as_deref()
    }

    /// What is to be said, if it was not said yet.
    pub fn look(&mut self) -> Option<Vec<String>> {
        if self.is_told || self.patience == 0 || Instant::now() < self.next {
            return None;
        }
        self.next = Instant::now() + PAUSE;
        let waits = read(&self.folder);
        let is_still = !waits.is_empty() && waits == self.before;
        self.before = waits;
        let report = if is_still { JobReport::read(&self.folder, self.replicas).ok()? } else { return None };
        let dropped = report.drops.teams();
        let is_left = |process: &Process| !dropped.contains(&process.1);
        let waits: Waits =
            self.before.iter().filter(|(one, _)| is_left(one)).map(|(one, wait)| (*one, wait.clone())).collect();
        let ended = report.lives.ended().iter().filter(|one| is_left(one) && !waits.contains_key(one));
        let ended: BTreeSet<Process> = ended.copied().collect();
        let processes = self.ranks as usize * (self.replicas as usize - dropped.len());
        self.is_told = !waits.is_empty() && waits.len() + ended.len() == processes;
        if self.is_told && !dropped.is_empty() {
            self.stops =
                Some("the job stands still, and a team was dropped: what that had decided may be why".to_owned());
        }
        let end = if dropped.is_empty() { "Ctrl-C ends the job" } else { "the job is ended" };
        let ranks = ended.iter().map(|(rank, _)| *rank).collect();
        let head = format!("nothing has gone on for {} s, and all ranks wait; {end}", self.patience);
        self.is_told.then(|| std::iter::once(head).chain(lines(&waits, &ranks)).collect())
    }
}

/// The files that processes have left.
fn read(folder: &Path) -> Waits {
    let wait = |path: PathBuf| {
        let (rank, replica) = path.file_name()?.to_str()?.strip_prefix("waits.")?.split_once('.')?;
        Some(((rank.parse().ok()?, replica.parse().ok()?), Wait::parse(&fs::read_to_string(&path).ok()?)?))
    };
    fs::read_dir(folder).into_iter().flatten().flatten().filter_map(|entry| wait(entry.path())).collect()
}

impl Wait {
    /// Reads `WHAT rank N tag N`, where -1 is none.
    fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.strip_suffix('\n')?.split(' ').collect();
        let [what, "rank", rank, "tag", tag] = words[..] else { return None };
        Some(Self { what: what.to_owned(), rank: rank.parse().ok(), tag: tag.parse().ok() })
    }

    fn words(&self) -> String {
        let tag = self.tag.map_or_else(String::new, |tag| format!(", tag {tag}"));
        let rank = self.rank.map_or_else(|| "any rank".to_owned(), |rank| format!("rank {rank}"));
        match self.what.as_str() {
            "message" => format!("waits for a message of {rank}{tag}"),
            "turn" => format!("waits for its turn at a window of {rank}"),
            "meeting" => "waits for the other ranks of a communicator".to_owned(),
            what if self.rank.is_some() => format!("waits in {what} for {rank}{tag}"),
            what => format!("waits in {what}"),
        }
    }
}

/// What ranks wait for.
fn lines(waits: &Waits, ended: &BTreeSet<u32>) -> Vec<String> {
    // The replicas of a rank wait for the same.
    let mut ranks: BTreeMap<u32, &Wait> = BTreeMap::new();
    for (&(rank, _), wait) in waits {
        ranks.entry(rank).or_insert(wait);
    }
    let line = |(rank, wait): (&u32, &&Wait)| format!("rank {rank} {}", wait.words());
    let mut lines: Vec<String> = ranks.iter().take(MOST_LINES).map(line).collect();
    if ranks.len() > MOST_LINES {
        lines.push(format!("and {} more ranks wait", ranks.len() - MOST_LINES));
    }
    let gone: Vec<String> = ended.iter().filter(|rank| !ranks.contains_key(rank)).map(u32::to_string).collect();
    match &gone[..] {
        [] => {}
        [rank] => lines.push(format!("rank {rank} has ended")),
        _ => lines.push(format!("{} ranks have ended, such as rank {}", gone.len(), gone[0])),
    }
    match circle(&ranks).as_deref() {
        None => {}
        Some([rank]) => lines.push(format!("a deadlock: rank {rank} waits for itself")),
        Some(circle) => {
            let circle: Vec<String> = circle.iter().map(u32::to_string).collect();
            lines.push(format!("a deadlock: ranks {} wait for each other in a circle", circle.join(", ")));
        }
    }
    lines
}

/// Ranks each of which waits for the next one, and the last for the first.
fn circle(ranks: &BTreeMap<u32, &Wait>) -> Option<Vec<u32>> {
    let next = |rank: u32| ranks.get(&rank)?.rank;
    ranks.keys().find_map(|&first| {
        let others = std::iter::successors(next(first), |&rank| if rank == first { None } else { next(rank) });
        let mut path: Vec<u32> = std::iter::once(first).chain(others.take(ranks.len())).collect();
        (path.len() > 1 && path.pop() == Some(first)).then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(all: &[(u32, &str)]) -> Waits {
        let replicas = |&(rank, line): &(u32, &str)| {
            [0, 1].map(|replica| ((rank, replica), Wait::parse(&format!("{line}\n")).unwrap()))
        };
        all.iter().flat_map(replicas).collect()
    }

    #[test]
    fn a_job_stands_still_when_all_wait_that_have_not_ended_and_nothing_changes() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        let mut standstill = Standstill::of(folder.path(), 2, 2, 60);
        let mut look = || {
            standstill.next = Instant::now();
            standstill.look()
        };
        write("waits.0.0", "MPI_Barrier rank -1 tag -1\n");
        write("waits.0.1", "MPI_Barrier rank -1 tag -1\n");
        write("waits.1.0", "message rank 0 tag 7\n");
        assert_eq!((look(), look()), (None, None), "one computes");
        write("waits.1.1", "message rank 0 tag");
        assert_eq!((look(), look()), (None, None), "it is about to say that it waits");
        write("waits.1.1", "message rank 0 tag 7\n");
        assert_eq!(look(), None, "it may go on at once");
        let said = look().unwrap();
        assert_eq!(said[0], "nothing has gone on for 60 s, and all ranks wait; Ctrl-C ends the job");
        assert_eq!((said.len(), look()), (3, None), "once");
        assert_eq!(standstill.stops(), None);
        fs::remove_file(folder.path().join("waits.1.1")).unwrap();
        write("events.1.1", "begin n7\nend compared 3\n");
        let mut other = Standstill { is_told: false, ..standstill };
        other.next = Instant::now();
        assert_eq!(other.look(), None, "something has changed");
        other.next = Instant::now();
        assert_eq!(other.look().unwrap().len(), 3, "rank 1 still waits in its other replica");
    }

    #[test]
    fn a_job_that_stands_still_after_a_drop_is_ended_whatever_the_dropped_team_does() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        let mut standstill = Standstill::of(folder.path(), 2, 3, 60);
        for place in ["0.1", "0.2", "1.1"] {
            write(&format!("waits.{place}"), "message rank 0 tag 7\n");
        }
        write("events.1.2", "dropped 0 at 5 it made other calls than the others\nend compared 3\n");
        let mut look = || {
            standstill.next = Instant::now();
            standstill.look()
        };
        assert_eq!(look(), None, "it may go on at once");
        let said = look().unwrap();
        assert_eq!(said[0], "nothing has gone on for 60 s, and all ranks wait; the job is ended");
        assert!(standstill.stops().unwrap().starts_with("the job stands still"));
    }

    #[test]
    fn each_rank_says_for_whom_it_waits() {
        let all = waits(&[
            (0, "MPI_Barrier rank -1 tag -1"),
            (1, "message rank 3 tag 7"),
            (2, "message rank -1 tag -1"),
            (4, "MPI_Send rank 1 tag 0"),
        ]);
        let said = lines(&all, &BTreeSet::from([3]));
        assert_eq!(
            said,
            [
                "rank 0 waits in MPI_Barrier",
                "rank 1 waits for a message of rank 3, tag 7",
                "rank 2 waits for a message of any rank",
                "rank 4 waits in MPI_Send for rank 1, tag 0",
                "rank 3 has ended"
            ]
        );
        let itself = waits(&[(1, "message rank 1 tag 7")]);
        let said = lines(&itself, &BTreeSet::from([0, 2]));
        assert_eq!(said[1..], ["2 ranks have ended, such as rank 0", "a deadlock: rank 1 waits for itself"]);
        assert_eq!((Wait::parse("MPI_Barrier rank -1 tag"), Wait::parse("MPI_Barrier rank -1 tag -1")), (None, None));
    }

    #[test]
    fn ranks_that_wait_in_a_circle_are_named_and_many_are_counted() {
        let next = |rank: u32| format!("message rank {} tag 1", if rank == 11 { 4 } else { rank + 1 });
        let texts: Vec<String> = (0..12).map(next).collect();
        let all: Vec<(u32, &str)> = (0..).zip(&texts).map(|(rank, text)| (rank, text.as_str())).collect();
        let said = lines(&waits(&all), &BTreeSet::new());
        assert_eq!(said.len(), 8 + 2);
        assert_eq!(said[8], "and 4 more ranks wait");
        assert_eq!(said[9], "a deadlock: ranks 4, 5, 6, 7, 8, 9, 10, 11 wait for each other in a circle");
        let said = lines(&waits(&all[..6]), &BTreeSet::new());
        assert!(said.iter().all(|line| !line.contains("circle")), "{said:?}");
    }
}
