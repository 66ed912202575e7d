//! Compares the simulated time of a traced program with the measured time.

use std::fmt::Write as _;

use rampart_memory::Bytes;
use rampart_scale::Time;
use rampart_scale::trace::file::RecordedTrace;
use serde_json::{Value, json};

use crate::error::Error;
use crate::output::text::{count, percent};

/// The deviation below which the answer names a possible cause. The simulation of a program that was traced alone on
/// its CPUs deviates by at most a tenth (`docs/scale.md`).
const LARGE_DEVIATION: f64 = -0.1;

/// A trace, and its simulation without errors.
pub struct TraceComparison {
    /// The trace, with the measured time.
    pub recorded: RecordedTrace,
    /// The simulated time on the traced ranks.
    pub simulated: Time,
    /// The most memory that the simulation takes.
    pub memory: Bytes,
}

impl TraceComparison {
    /// The number of nodes as a multiple of the traced ranks.
    ///
    /// # Errors
    /// [`Error::NoMultiple`] if it is not a multiple.
    pub fn factor(&self, nodes: Option<u32>) -> Result<u32, Error> {
        let ranks = self.recorded.trace.ranks();
        match nodes {
            None => Ok(1),
            Some(nodes) if nodes % ranks == 0 => Ok(nodes / ranks),
            Some(nodes) => Err(Error::NoMultiple {
                nodes,
                ranks,
                known: match nodes / ranks {
                    0 => ranks.to_string(),
                    times => format!("{} or {}", times * ranks, (u64::from(times) + 1) * u64::from(ranks)),
                },
            }),
        }
    }

    /// The relative deviation of the simulated time from the measured time; `None` if the trace was cut off.
    fn deviation(&self) -> Option<f64> {
        let measured = self.recorded.measured;
        let known = self.recorded.complete && measured > Time::ZERO;
        known.then(|| self.simulated.as_secs_f64() / measured.as_secs_f64() - 1.0)
    }

    /// Lines of the answer, for people.
    pub fn text(&self) -> String {
        let recorded = &self.recorded;
        let ranks = count(recorded.trace.ranks().into());
        let mut text = match self.deviation() {
            Some(deviation) => format!(
                "traced      {ranks} ranks: measured {}, simulated {} ({}{})\n",
                recorded.measured,
                self.simulated,
                if deviation < 0.0 { "-" } else { "+" },
                percent(deviation.abs())
            ),
            None => format!("traced      {ranks} ranks of a run that was cut off: simulated {}\n", self.simulated),
        };
        if let Some((ranks, cpus)) = recorded.shared {
            let _ =
                writeln!(text, "            {ranks} ranks shared {cpus} CPUs: computing takes correspondingly longer");
            if self.deviation().is_some_and(|deviation| deviation < LARGE_DEVIATION) {
                text.push_str(
                    "            far less than measured: other programs may have used these CPUs; trace again where nothing else runs\n",
                );
            }
        }
        if !recorded.others.is_empty() {
            let _ = writeln!(text, "            counted as computing: {}", recorded.others.join(", "));
        }
        text
    }

    /// JSON, for programs.
    pub fn document(&self) -> Value {
        let recorded = &self.recorded;
        json!({
            "ranks": recorded.trace.ranks(),
            "records": recorded.records,
            "complete": recorded.complete,
            "measured_seconds": recorded.complete.then(|| recorded.measured.as_secs_f64()),
            "simulated_seconds": self.simulated.as_secs_f64(),
            "deviation": self.deviation(),
            "ranks_sharing_cpus": recorded.shared.map(|(ranks, cpus)| json!({ "ranks": ranks, "cpus": cpus })),
            "not_simulated": recorded.others,
        })
    }
}

#[cfg(test)]
mod tests {
    use rampart_scale::trace::MpiTrace;

    use super::*;

    fn traced(ranks: usize, simulated_secs: f64, shared: Option<(u64, u64)>) -> TraceComparison {
        let trace = MpiTrace::new(vec![Vec::new(); ranks]).unwrap();
        let measured = Time::from_secs_f64(1.0);
        let recorded = RecordedTrace { trace, measured, records: 0, complete: true, shared, others: Vec::new() };
        TraceComparison { recorded, simulated: Time::from_secs_f64(simulated_secs), memory: Bytes::new(0) }
    }

    #[test]
    fn a_run_that_others_slowed_is_told_to_be_traced_again() {
        let is_advised = |simulated, shared| traced(4, simulated, shared).text().contains("nothing else runs");
        assert!(is_advised(0.4, Some((4, 2))));
        assert!(!is_advised(0.95, Some((4, 2))));
        assert!(!is_advised(0.4, None), "without shared CPUs, the traced time of computing is used as it is");
    }

    #[test]
    fn nodes_that_are_no_multiple_of_the_ranks_are_refused_with_those_beside_them() {
        let refused = |nodes| traced(8, 1.0, None).factor(Some(nodes)).unwrap_err().to_string();
        assert!(refused(4).ends_with("name 8"), "{}", refused(4));
        assert!(refused(20).ends_with("name 16 or 24"), "{}", refused(20));
        assert_eq!(traced(8, 1.0, None).factor(Some(24)).unwrap(), 3);
    }
}
