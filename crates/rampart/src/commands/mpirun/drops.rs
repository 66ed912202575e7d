//! Teams that were dropped: one of their replicas left the path that it had in common with the others, and the job
//! went on without them (`mpi/redmpi/drops.h`).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// Why a team was dropped of which a process has ended (`mpi/redmpi/connections.c`).
const DIED: &str = "it died";

/// Why a team was dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drop {
    /// The rank of which a replica left the path.
    rank: u32,
    /// In microseconds since 1970.
    time: u64,
    why: String,
}

/// The teams of a job that were dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    teams: BTreeMap<u32, Drop>,
    /// Processes of these teams that sleep, by rank and replica.
    asleep: BTreeSet<(u32, u32)>,
    /// Processes that had crashed and could not finalize the MPI.
    unfinalized: BTreeSet<(u32, u32)>,
    /// How processes were about to leave before the end of the program.
    leaving: BTreeMap<(u32, u32), String>,
    /// When the first process began, in microseconds since 1970.
    began: Option<u64>,
}

impl Drops {
    /// A line of one process: `dropped TEAM at TIME WHY`, `began at TIME`, `leaves WAY NUMBER at TIME WHAT`, `asleep`,
    /// or `unfinalized`.
    pub fn see(&mut self, rank: u32, replica: u32, what: &str, rest: &str) {
        match what {
            "began" => {
                let time = rest.strip_prefix("at ").and_then(|time| time.parse().ok());
                self.began = self.began.into_iter().chain(time).min();
            }
            "asleep" => _ = self.asleep.insert((rank, replica)),
            "unfinalized" => _ = self.unfinalized.insert((rank, replica)),
            "leaves" => self.leaving.extend(way_out(rest).map(|way| ((rank, replica), way))),
            "dropped" => {
                if let Some((team, one)) = dropped(rank, rest) {
                    let known = self.teams.entry(team).or_insert_with(|| one.clone());
                    if one.time < known.time {
                        *known = one;
                    }
                }
            }
            _ => {}
        }
    }

    /// Leaves those out from which the job did not go on, since fewer than two teams were left: when a job is ended,
    /// its processes miss each other.
    pub fn keep_outlived(&mut self, replicas: u32) {
        let mut times: Vec<u64> = self.teams.values().map(|one| one.time).collect();
        times.sort_unstable();
        if let Some(&end) = times.get(replicas.saturating_sub(2) as usize) {
            self.teams.retain(|_, one| one.time < end);
        }
    }

    /// The numbers of the teams.
    pub fn teams(&self) -> BTreeSet<u32> {
        self.teams.keys().copied().collect()
    }

    /// Whether nobody waits for the end of a process: its team was dropped, and it sleeps, or one of the team has died,
    /// which the job outlives.
    pub fn are_without(&self, process: (u32, u32)) -> bool {
        let team = self.teams.get(&process.1);
        team.is_some_and(|team| team.why == DIED || self.asleep.contains(&process))
    }

    /// A line for each team, in the order in which they were dropped.
    pub fn lines(&self, replicas: u32) -> Vec<String> {
        let mut teams: Vec<(&u32, &Drop)> = self.teams.iter().collect();
        teams.sort_by_key(|(_, one)| one.time);
        let line = |(left, (team, Drop { rank, why, .. })): (u32, &(&u32, &Drop))| {
            let left = replicas.saturating_sub(left);
            let what = match self.leaving.get(&(*rank, **team)) {
                _ if why == DIED => "died".to_owned(),
                Some(way) => way.clone(),
                None => format!("left the common path: {why}"),
            };
            format!(
                "replica {team} of rank {rank} {what}; team {team} is dropped, the job goes on with {left} replicas"
            )
        };
        (1..).zip(&teams).map(line).collect()
    }

    /// A line for each process that had crashed and could not finalize the MPI.
    pub fn unfinalized_lines(&self) -> impl Iterator<Item = String> {
        self.unfinalized.iter().map(|(rank, replica)| {
            format!("replica {replica} of rank {rank}, which had crashed, could not finalize the MPI: the exit code is not the program's")
        })
    }

    /// As JSON, `after_seconds` from the beginning of the program.
    pub fn document(&self) -> Value {
        let after = |time: u64| self.began.map(|began| time.saturating_sub(began) as f64 / 1e6);
        let team = |(team, one): (&u32, &Drop)| {
            let why = self.leaving.get(&(one.rank, *team)).unwrap_or(&one.why);
            let finalized = !self.unfinalized.contains(&(one.rank, *team));
            json!({ "team": team, "rank": one.rank, "why": why, "after_seconds": after(one.time), "finalized": finalized })
        };
        self.teams.iter().map(team).collect()
    }
}

/// Reads `WAY NUMBER at TIME`, and what the MPI calls an error (`mpi/redmpi/leaving.h`).
fn way_out(text: &str) -> Option<String> {
    let (way, time) = text.split_once(" at ")?;
    let (way, number) = way.split_once(' ')?;
    let name = time.split_once(' ').map_or("", |(_, name)| name.trim_end());
    Some(match way {
        "crash" => format!("crashed by signal {number}"),
        "abort" => format!("called MPI_Abort with {number}, unlike the others"),
        "exit" => "ended without MPI_Finalize, unlike the others".to_owned(),
        "error" => format!("had an error of the MPI, unlike the others ({name})"),
        _ => return None,
    })
}

/// Reads `TEAM at TIME WHY`.
fn dropped(rank: u32, text: &str) -> Option<(u32, Drop)> {
    let (team, rest) = text.split_once(" at ")?;
    let (time, why) = rest.split_once(' ')?;
    Some((team.parse().ok()?, Drop { rank, time: time.parse().ok()?, why: why.to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_report_of_a_team_counts_and_lines_are_in_order() {
        let mut drops = Drops::default();
        for (rank, replica, what, rest) in [
            (0, 0, "began", "at 1000000"),
            (1, 0, "began", "at 900000"),
            (2, 0, "dropped", "1 at 4900000 it made other calls than the others"),
            (2, 2, "dropped", "1 at 3900000 it made other calls than the others"),
            (0, 3, "dropped", "0 at 2900000 it computes for ever"),
            (0, 3, "dropped", "0 a"),
            (3, 1, "asleep", ""),
            (3, 2, "asleep", ""),
        ] {
            drops.see(rank, replica, what, rest);
        }
        assert_eq!(drops.teams(), BTreeSet::from([0, 1]));
        assert!(drops.are_without((3, 1)));
        assert!(!drops.are_without((3, 2)) && !drops.are_without((2, 1)), "of a team that is left; awake");
        let lines = drops.lines(5);
        assert!(
            lines[0].starts_with("replica 0 of rank 0 left the common path: it computes for ever; team 0"),
            "{lines:?}"
        );
        assert!(lines[1].contains("replica 1 of rank 2") && lines[1].ends_with("goes on with 3 replicas"), "{lines:?}");
        assert_eq!(drops.document()[1]["after_seconds"], 3.0);
        drops.see(1, 0, "dropped", "3 at 5900000 it died");
        assert_eq!(drops.lines(5)[2], "replica 3 of rank 1 died; team 3 is dropped, the job goes on with 2 replicas");
        assert!(drops.are_without((0, 3)), "whatever became of it");
        drops.keep_outlived(5);
        assert_eq!(drops.teams(), BTreeSet::from([0, 1, 3]));
        drops.see(0, 4, "dropped", "2 at 5950000 it died");
        drops.see(1, 2, "dropped", "4 at 5960000 it died");
        drops.see(2, 1, "leaves", "crash 11 at 3800000");
        drops.see(2, 1, "leaves", "swim 11 at 3");
        assert!(drops.lines(5)[1].starts_with("replica 1 of rank 2 crashed by signal 11; team 1 is dropped"));
        assert_eq!(drops.document()[1]["why"], "crashed by signal 11");
        let error = way_out("error 15 at 38 MPI_ERR_TRUNCATE: message truncated").unwrap();
        assert_eq!(error, "had an error of the MPI, unlike the others (MPI_ERR_TRUNCATE: message truncated)");
        drops.see(2, 1, "unfinalized", "");
        assert!(drops.unfinalized_lines().next().unwrap().starts_with("replica 1 of rank 2, which had crashed"));
        drops.keep_outlived(5);
        assert_eq!(drops.teams(), BTreeSet::from([0, 1, 3]), "that was the end of the job");
    }
}
