//! What the bench is asked for.

use super::runs::{CASES, HeapProgram};

/// What the command line asks for.
pub struct HeapRequest {
    pub cost: bool,
    pub peers: bool,
    pub sweep: bool,
    pub redirection: bool,
    pub programs: Vec<&'static HeapProgram>,
    pub rounds: usize,
}

impl HeapRequest {
    /// Reads it.
    ///
    /// # Errors
    /// If a word is unknown.
    pub fn parse(arguments: &[String]) -> Result<Self, String> {
        let (programs, rounds) = (Vec::new(), 20);
        let mut request = Self { cost: false, peers: false, sweep: false, redirection: false, programs, rounds };
        for word in arguments {
            match (word.as_str(), word.strip_prefix("runs=")) {
                ("cost", _) => request.cost = true,
                ("peers", _) => request.peers = true,
                ("sweep", _) => request.sweep = true,
                ("redirection", _) => request.redirection = true,
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
        if !request.cost && !request.peers && !request.sweep && !request.redirection {
            (request.cost, request.peers) = (true, true);
        }
        if request.programs.is_empty() {
            request.programs = CASES.iter().collect();
        }
        Ok(request)
    }
}

/// In MiB.
pub fn mib(bytes: u64) -> f64 {
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
        let sweep = parse(&["sweep"]).unwrap();
        assert_eq!((sweep.cost, sweep.peers, sweep.sweep, all.sweep), (false, false, true, false));
        for wrong in [["runs=0"], ["unknown"]] {
            assert!(parse(&wrong).is_err(), "{wrong:?}");
        }
    }
}
