//! Our heap beside MMTk's collectors, and beside itself without the state *failed*.
//!
//! **Problem.** What a heap costs depends on its bytes, and each collector needs others. **Idea.** The same loops run on
//! all of them, compiled in one unit (`bench/heap`). Each heap has twice the least bytes that the program runs in on it,
//! found by bisection; then all have the same bytes. Each process runs the program twice, and the second time counts.
//! Processes alternate, round by round. **Why this way.** What slows the machine for longer than a round slows all.
//!
//! MMTk's bytes include its tables, so ours do, too; those of a semi-space include both halves. Without the state
//! *failed*, tables are smaller; for that comparison heaps have the same pages, and tables do not count.

mod builds;
mod cost;
mod minimum;
mod peers;
mod ratios;
mod runs;

use runs::{CASES, HeapProgram};

/// What the command line asks for.
struct HeapRequest {
    cost: bool,
    peers: bool,
    programs: Vec<&'static HeapProgram>,
    rounds: usize,
}

/// Measures what was asked for, and prints it.
///
/// # Errors
/// If a program does not build or run, or a word is unknown.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let request = HeapRequest::parse(arguments)?;
    if request.cost {
        cost::run(&request)?;
    }
    if request.peers {
        peers::run(&request)?;
    }
    Ok(())
}

impl HeapRequest {
    fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut request = Self { cost: false, peers: false, programs: Vec::new(), rounds: 20 };
        for word in arguments {
            match (word.as_str(), word.strip_prefix("runs=")) {
                ("cost", _) => request.cost = true,
                ("peers", _) => request.peers = true,
                (_, Some(rounds)) => {
                    let rounds = rounds.parse().ok().filter(|rounds| *rounds > 0);
                    request.rounds = rounds.ok_or_else(|| format!("{word}: not a number of runs"))?;
                }
                (name, None) => {
                    let program = CASES.iter().find(|program| program.name == name);
                    request.programs.push(program.ok_or_else(|| format!("{name} is no program of this bench"))?);
                }
            }
        }
        if !request.cost && !request.peers {
            (request.cost, request.peers) = (true, true);
        }
        if request.programs.is_empty() {
            request.programs = CASES.iter().collect();
        }
        Ok(request)
    }
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_choose_programs_and_parts() {
        let parse =
            |words: &[&str]| HeapRequest::parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        let all = parse(&[]).unwrap();
        assert_eq!((all.cost, all.peers, all.programs.len(), all.rounds), (true, true, CASES.len(), 20));
        let some = parse(&["peers", "churn", "runs=5"]).unwrap();
        assert_eq!((some.cost, some.peers, some.programs[0].name, some.rounds), (false, true, "churn", 5));
        for wrong in [["runs=0"], ["unknown"]] {
            assert!(parse(&wrong).is_err(), "{wrong:?}");
        }
    }
}
