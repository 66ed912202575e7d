//! The cost of one MPI job compared with another, on a machine whose speed changes.
//!
//! **Problem.** On a shared host, whole runs differ by 10 %, and the effect is below 2 %. **Idea.** All jobs start, and
//! their ranks are stopped; then the ranks of one job after the other run for a moment, in turns, until each job is
//! over. The time that each job was allowed is its time. **Why this way.** A slowdown of the host that is longer than a
//! round of turns affects all jobs alike. Turns vary in length, so that recurring load on the host does not always hit
//! the same job.
//!
//! Only ranks take turns. Their launcher waits, and its work before the first rank and after the last one does not
//! count.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rampart_linux::process::Process;

/// The mean length of a turn. Pairs of plain jobs of 1.4 s differed by 4.0 % (standard deviation) with turns of 50 ms,
/// by 2.3 % with 8 ms, and by 2.0 % with 3 ms.
const TURN: Duration = Duration::from_millis(10);

/// The time limit for the first ranks.
const PATIENCE: Duration = Duration::from_secs(60);

/// A job before its start.
pub struct Job {
    /// The command that starts the ranks, such as a launcher.
    pub command: Command,
    /// The ranks' program, by its name in the kernel.
    pub program: &'static str,
    pub ranks: usize,
}

/// The run time of each job, with all jobs taking turns.
///
/// # Errors
/// If a job has no ranks or fails.
pub fn seconds(jobs: Vec<Job>) -> Result<Vec<f64>, String> {
    let mut jobs = jobs.into_iter().map(Running::start).collect::<Result<Vec<_>, _>>()?;
    for round in 0.. {
        jobs.iter_mut().for_each(|job| job.go_on_for(length(round)));
        if jobs.iter().all(|job| job.over) {
            break;
        }
    }
    jobs.into_iter().map(Running::end).collect()
}

/// 0.7 to 1.3 turns: multiples of the golden ratio are evenly spread and never recur.
fn length(round: u32) -> Duration {
    let part = (f64::from(round) * 0.618_034).fract();
    TURN.mul_f64(0.7 + 0.6 * part)
}

/// A job whose ranks are stopped, or gone.
struct Running {
    starter: Child,
    named: String,
    ranks: Vec<Process>,
    ran: Duration,
    over: bool,
}

impl Running {
    fn start(mut job: Job) -> Result<Self, String> {
        let command = job.command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let starter = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
        let named = format!("{command:?}");
        let mut running = Self { starter, named, ranks: Vec::new(), ran: Duration::ZERO, over: false };
        let began = Instant::now();
        while running.ranks.len() < job.ranks {
            let ended = running.starter.try_wait().map_err(|error| error.to_string())?.is_some();
            if ended || began.elapsed() > PATIENCE {
                let (named, program, ranks) = (&running.named, job.program, job.ranks);
                return Err(format!("{named} started no {ranks} ranks of {program}: run it alone to see why"));
            }
            thread::sleep(Duration::from_millis(1));
            let ranks = descendants(running.starter.id()).into_iter().filter(|&id| name(id) == job.program);
            running.ranks = ranks.filter_map(|id| Process::find(id).ok()).collect();
        }
        running.ranks.iter().for_each(Process::stop);
        Ok(running)
    }

    fn go_on_for(&mut self, turn: Duration) {
        if self.over {
            return;
        }
        let began = Instant::now();
        self.ranks.iter().for_each(Process::go_on);
        self.over = self.ranks.iter().all(|rank| rank.has_ended(turn.saturating_sub(began.elapsed())));
        self.ranks.iter().for_each(Process::stop);
        self.ran += began.elapsed();
    }

    /// The job's run time in seconds, after it ended well.
    fn end(mut self) -> Result<f64, String> {
        let ended = self.starter.wait().map_err(|error| error.to_string())?;
        if ended.success() { Ok(self.ran.as_secs_f64()) } else { Err(format!("{} ended with {ended}", self.named)) }
    }
}

/// Leaves nothing stopped or running after an error.
impl Drop for Running {
    fn drop(&mut self) {
        for rank in &self.ranks {
            rank.terminate();
            rank.go_on();
        }
        if let Ok(None) = self.starter.try_wait() {
            Process::find(self.starter.id()).iter().for_each(Process::terminate);
            let _ended = self.starter.wait();
        }
    }
}

/// All descendants of this process.
fn descendants(process: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let children: String =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok()).collect();
    let children = children.split_whitespace().filter_map(|id| id.parse().ok());
    children.flat_map(|child| [vec![child], descendants(child)].concat()).collect()
}

fn name(process: u32) -> String {
    fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(script: &str, program: &'static str, ranks: usize) -> Job {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Job { command, program, ranks }
    }

    #[test]
    fn a_job_that_does_twice_as_much_takes_longer_in_turns() {
        let counting = |number: u32| {
            let rank = format!("sh -c 'i=0; while [ $i -lt {number} ]; do i=$((i + 1)); done' &");
            job(&format!("{rank} {rank} wait"), "sh", 2)
        };
        let ran = seconds(vec![counting(200_000), counting(400_000)]).unwrap();
        assert!((1.3..3.0).contains(&(ran[1] / ran[0])), "{ran:?}");
    }

    #[test]
    fn a_job_without_ranks_or_that_fails_is_told() {
        let told = seconds(vec![job("exit 0", "rank", 1), job("exit 0", "rank", 1)]).unwrap_err();
        assert!(told.contains("started no 1 ranks of rank"), "{told}");
        let fails = || job("sleep 0.1 & wait; exit 3", "sleep", 1);
        let told = seconds(vec![fails(), fails()]).unwrap_err();
        assert!(told.contains("exit status: 3"), "{told}");
    }

    #[test]
    fn no_job_is_left_where_the_other_cannot_begin() {
        let folder = tempfile::tempdir().unwrap();
        let number = folder.path().join("number");
        let stays = format!("sh -c 'echo $$ > {}; exec sleep 60' & wait", number.display());
        assert!(seconds(vec![job(&stays, "sleep", 1), job("exit 0", "rank", 1)]).is_err());
        let rank = fs::read_to_string(number).unwrap().trim().parse().unwrap();
        assert!(Process::find(rank).map_or(true, |rank| rank.has_ended(Duration::from_secs(10))));
    }
}
