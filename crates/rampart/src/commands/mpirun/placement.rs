//! Which process is which replica of which rank [Fiala15, 3.3.1].
//!
//! **Problem.** An error of a node can hit all its processes. If most replicas of a rank are on that node, their wrong
//! data are the majority. The launcher places processes, and does not know which are replicas. **Idea.** Ask the
//! launcher where it places them, by a job that prints the names of nodes. Then give out the ranks node by node, in
//! turns: as long as no node has more processes than there are ranks, no two replicas of a rank share one. **Why this
//! way.** It works with each launcher, and with all its options for placement. With one node, or if the launcher fills
//! node after node, it is the numbering of [Fiala15, figure 3.6].

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rampart_linux::process::Process;

use crate::error::Error;
use crate::process::signals::Flag;

/// Printed by each process that is asked for its node, before its native rank and the node; the variables are those of
/// `mpi/redmpi/process.c`. Under Slurm's launcher, a node has the name by which Slurm knows it (`mpi/redmpi/life.c`).
const MARK: &str = "rampart-node";
const ASK: &str = "test -z \"$RAMPART_SLURM\" && unset SLURMD_NODENAME; echo rampart-node \
    ${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-${PMI_RANK:-$SLURM_PROCID}}} ${RAMPART_NODE:-${SLURMD_NODENAME:-$(uname -n)}}";

/// The pause between two looks at the answers.
const LOOK: Duration = Duration::from_millis(50);

/// How long a launcher may take to end once all its processes have answered, and once it was asked to.
const FOR_ITS_END: Duration = Duration::from_secs(1);

/// How long to wait for all answers before telling the user what the job is waiting for.
const BEFORE_WORDS: Duration = Duration::from_secs(10);

/// Where launchers find the nodes of an allocation. Without these, and without options, all processes are here.
const ALLOCATIONS: [&str; 8] = [
    "SLURM_JOB_NODELIST",
    "PBS_NODEFILE",
    "LSB_DJOB_HOSTFILE",
    "PE_HOSTFILE",
    "COBALT_NODEFILE",
    "HYDRA_HOST_FILE",
    "OMPI_MCA_orte_default_hostfile",
    "PRTE_MCA_prte_default_hostfile",
];

/// A replica of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seat {
    pub rank: u32,
    pub replica: u32,
}

/// The seats of all processes, by native rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    seats: Vec<Seat>,
}

impl Placement {
    /// Gives out ranks node by node. `nodes` has the node of each native rank.
    pub fn spread(nodes: &[String], ranks: u32) -> Self {
        let mut first = BTreeMap::new();
        for (native, node) in nodes.iter().enumerate() {
            first.entry(node).or_insert(native);
        }
        let mut natives: Vec<usize> = (0..nodes.len()).collect();
        natives.sort_by_key(|&native| first[&nodes[native]]);
        let mut seats = vec![Seat { rank: 0, replica: 0 }; nodes.len()];
        for (place, native) in (0..).zip(natives) {
            seats[native] = Seat { rank: place % ranks, replica: place / ranks };
        }
        Self { seats }
    }

    /// Reads a map: a line for each native rank, with its rank and its replica, both from 0.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse(text: &str, ranks: u32, replicas: u32) -> Result<Self, String> {
        let mut seats = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            let seat = match words[..] {
                [] => continue,
                [rank, replica] => rank.parse().ok().zip(replica.parse().ok()),
                _ => None,
            };
            let seat = seat.map(|(rank, replica)| Seat { rank, replica });
            let seat = seat.filter(|seat| seat.rank < ranks && seat.replica < replicas);
            let expected = || {
                format!("line {number} must be a rank below {ranks} and a replica below {replicas}, such as \"0 1\"")
            };
            seats.push(seat.ok_or_else(expected)?);
        }
        let distinct: BTreeSet<Seat> = seats.iter().copied().collect();
        if let Some(twice) = distinct.iter().find(|seat| seats.iter().filter(|one| one == seat).count() > 1) {
            return Err(format!("it has replica {} of rank {} twice", twice.replica, twice.rank));
        }
        let wanted = (ranks * replicas) as usize;
        if seats.len() != wanted {
            return Err(format!("it has {} lines, and there are {wanted} processes", seats.len()));
        }
        Ok(Self { seats })
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`Error::Map`] if it cannot be read, or is none.
    pub fn read(path: &Path, ranks: u32, replicas: u32) -> Result<Self, Error> {
        let refused = |why: String| Error::Map { path: path.to_owned(), why };
        let text = fs::read_to_string(path).map_err(|cause| refused(cause.to_string()))?;
        Self::parse(&text, ranks, replicas).map_err(refused)
    }

    /// Leaves the map to the processes, unless it is that of the formulas.
    pub fn write(&self, folder: &Path, ranks: u32) -> Result<(), Error> {
        let by_formula = |native: u32| Seat { rank: native % ranks, replica: native / ranks };
        if (0..).zip(&self.seats).all(|(native, seat)| *seat == by_formula(native)) {
            return Ok(());
        }
        let path: PathBuf = folder.join("map");
        let lines: String = self.seats.iter().map(|seat| format!("{} {}\n", seat.rank, seat.replica)).collect();
        fs::write(&path, lines).map_err(|cause| Error::Job { path, cause })
    }
}

/// Whether the processes may be on several nodes: nobody has said so if they are all here.
pub fn may_be_spread(has_options: bool) -> bool {
    has_options || ALLOCATIONS.iter().any(|name| std::env::var_os(name).is_some())
}

/// Asks the launcher for the node of each native rank, by a job that answers into a file; `None` if that is not known
/// of all, or if the user wants to stop.
pub fn nodes_by(mut launcher: Command, processes: u32, answers: &Path, interrupted: &Flag) -> Option<Vec<String>> {
    launcher.args(["sh", "-c", ASK].map(OsStr::new)).stdin(Stdio::null()).stderr(Stdio::null());
    let mut child = launcher.stdout(File::create(answers).ok()?).spawn().ok()?;
    let nodes = wait(&Process::find(child.id()).ok()?, interrupted, || {
        nodes_in(&String::from_utf8_lossy(&fs::read(answers).unwrap_or_default()), processes)
    });
    let _gone = child.kill().and_then(|()| child.wait());
    nodes
}

/// Waits until the launcher ends; not for long once it has given all answers. That of Open MPI 4.1.4 often does not end
/// after 192 processes that took no time.
fn wait(launcher: &Process, interrupted: &Flag, answers: impl Fn() -> Option<Vec<String>>) -> Option<Vec<String>> {
    let began = Instant::now();
    let mut is_said = false;
    while !launcher.has_ended(LOOK) && !interrupted.load(Ordering::Relaxed) {
        if answers().is_some() {
            let _in_time = launcher.has_ended(FOR_ITS_END);
            break;
        }
        if !is_said && began.elapsed() > BEFORE_WORDS {
            eprintln!("rampart: still waiting for the launcher: a short job finds out on which node each process runs");
            is_said = true;
        }
    }
    launcher.terminate();
    let _in_time = launcher.has_ended(FOR_ITS_END);
    answers()
}

fn nodes_in(text: &str, processes: u32) -> Option<Vec<String>> {
    let mut nodes = vec![None; processes as usize];
    for line in text.lines() {
        // A launcher may write something before it.
        let Some((_, rest)) = line.split_once(MARK) else { continue };
        let (native, node) = rest.trim().split_once(' ')?;
        *nodes.get_mut(native.parse::<usize>().ok()?)? = Some(node.to_owned());
    }
    nodes.into_iter().collect()
}

/// Ranks of which a node has several replicas, by the node of each replica.
pub fn crowded(nodes: &BTreeMap<(u32, u32), String>) -> BTreeMap<&str, u32> {
    let mut replicas: BTreeMap<(&str, u32), u32> = BTreeMap::new();
    for (&(rank, _), node) in nodes {
        *replicas.entry((node, rank)).or_insert(0) += 1;
    }
    let mut crowded = BTreeMap::new();
    for ((node, _), _) in replicas.into_iter().filter(|&(_, count)| count > 1) {
        *crowded.entry(node).or_insert(0) += 1;
    }
    crowded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crowded_ranks(nodes: &[String], placement: &Placement) -> u32 {
        let of_seats = |(seat, node): (&Seat, &String)| ((seat.rank, seat.replica), node.clone());
        crowded(&placement.seats.iter().zip(nodes).map(of_seats).collect()).values().sum()
    }

    /// Whatever the launcher does: where no node has more processes than there are ranks, none has two of a rank.
    #[test]
    fn no_node_has_two_replicas_of_a_rank_where_there_is_a_choice() {
        let mut seed = 3_u32;
        let mut next = |below: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 16) % below
        };
        let mut with_choice = 0;
        for _ in 0..2_000 {
            let (ranks, replicas, kinds) = (1 + next(6), 2 + next(3), 1 + next(6));
            let nodes: Vec<String> = (0..ranks * replicas).map(|_| format!("n{}", next(kinds))).collect();
            let placement = Placement::spread(&nodes, ranks);
            let seats: BTreeSet<Seat> = placement.seats.iter().copied().collect();
            assert_eq!(seats.len(), (ranks * replicas) as usize, "each replica once: {nodes:?}");
            let fullest = nodes.iter().map(|node| nodes.iter().filter(|one| *one == node).count()).max();
            if fullest.is_some_and(|fullest| fullest <= ranks as usize) {
                with_choice += 1;
                assert_eq!(crowded_ranks(&nodes, &placement), 0, "{nodes:?} {placement:?}");
            }
        }
        assert!(with_choice > 200);
    }

    /// [Fiala15, figure 3.6]
    #[test]
    fn node_after_node_is_the_numbering_of_the_formulas() {
        let nodes: Vec<String> = ["a", "a", "b", "b", "c", "c"].map(str::to_owned).to_vec();
        let folder = tempfile::tempdir().unwrap();
        Placement::spread(&nodes, 2).write(folder.path(), 2).unwrap();
        assert!(!folder.path().join("map").exists());
        let nodes: Vec<String> = ["a", "b", "a", "b"].map(str::to_owned).to_vec();
        Placement::spread(&nodes, 2).write(folder.path(), 2).unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("map")).unwrap(), "0 0\n0 1\n1 0\n1 1\n");
    }

    #[test]
    fn a_map_is_read_or_refused_with_a_reason() {
        let text = "# native ranks in turn\n0 0\n0 1 # its twin\n\n1 0\n1 1\n";
        let seat = |(rank, replica)| Seat { rank, replica };
        let expected = [(0, 0), (0, 1), (1, 0), (1, 1)].map(seat).to_vec();
        assert_eq!(Placement::parse(text, 2, 2).unwrap().seats, expected);
        for (text, why) in [
            ("0 0\n0 1\n1 0\n", "3 lines, and there are 4"),
            ("0 0\n0 1\n1 0\n1 0\n", "replica 0 of rank 1 twice"),
            ("0 0\n0 2\n", "line 2 must be"),
            ("0 0\n0\n", "line 2 must be"),
            ("0 0\na b\n", "line 2 must be"),
        ] {
            let error = Placement::parse(text, 2, 2).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn the_nodes_that_processes_print_are_read() {
        let text = "hello\n[1,0]<stdout>: rampart-node 1 n7\nrampart-node 0 n3\n";
        assert_eq!(nodes_in(text, 2), Some(vec!["n3".to_owned(), "n7".to_owned()]));
        assert_eq!(nodes_in(text, 3), None);
        assert_eq!(nodes_in("rampart-node n3\n", 1), None);
    }
}
