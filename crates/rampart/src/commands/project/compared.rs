//! A recorded program, simulated on its own ranks, beside the time that was measured.

use std::fmt::Write as _;

use rampart_memory::Bytes;
use rampart_scale::Time;
use rampart_scale::trace::file::RecordedTrace;
use serde_json::{Value, json};

use crate::error::Error;
use crate::output::text::{count, percent};

/// From where on a simulation is so much shorter than the run that what may be the matter is told: alone on its CPUs, a
/// trace comes within a tenth (`docs/scale.md`).
const FAR: f64 = -0.1;

/// What is known of a trace without errors.
pub struct Traced {
    pub recorded: RecordedTrace,
    /// Its ranks, simulated.
    pub same_size: Time,
    /// What is asked of it takes so much at most.
    pub memory: Bytes,
}

impl Traced {
    /// How many times as many ranks that is, if it is a multiple of those that were recorded.
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

    /// How far the simulation is from what was measured; a run that was cut off has no end to measure.
    fn deviation(&self) -> Option<f64> {
        let measured = self.recorded.measured;
        let known = self.recorded.complete && measured > Time::ZERO;
        known.then(|| self.same_size.as_secs_f64() / measured.as_secs_f64() - 1.0)
    }

    /// For people: lines of the answer.
    pub fn text(&self) -> String {
        let recorded = &self.recorded;
        let ranks = count(recorded.trace.ranks().into());
        let mut text = match self.deviation() {
            Some(deviation) => format!(
                "traced      {ranks} ranks: measured {}, simulated {} ({}{})\n",
                recorded.measured,
                self.same_size,
                if deviation < 0.0 { "-" } else { "+" },
                percent(deviation.abs())
            ),
            None => format!("traced      {ranks} ranks of a run that was cut off: simulated {}\n", self.same_size),
        };
        if let Some((ranks, cpus)) = recorded.shared {
            let _ = writeln!(text, "            {ranks} ranks shared {cpus} CPUs: computing takes as much longer");
            if self.deviation().is_some_and(|deviation| deviation < FAR) {
                text.push_str(
                    "            far less than measured: others may have had these CPUs too; trace where nothing else runs\n",
                );
            }
        }
        if !recorded.others.is_empty() {
            let _ = writeln!(text, "            taken for computing: {}", recorded.others.join(", "));
        }
        text
    }

    /// For programs.
    pub fn document(&self) -> Value {
        let recorded = &self.recorded;
        json!({
            "ranks": recorded.trace.ranks(),
            "records": recorded.records,
            "complete": recorded.complete,
            "measured_seconds": recorded.complete.then(|| recorded.measured.as_secs_f64()),
            "simulated_seconds": self.same_size.as_secs_f64(),
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

    fn traced(ranks: usize, simulated_secs: f64, shared: Option<(u64, u64)>) -> Traced {
        let trace = MpiTrace::new(vec![Vec::new(); ranks]).unwrap();
        let measured = Time::from_secs_f64(1.0);
        let recorded = RecordedTrace { trace, measured, records: 0, complete: true, shared, others: Vec::new() };
        Traced { recorded, same_size: Time::from_secs_f64(simulated_secs), memory: Bytes::new(0) }
    }

    #[test]
    fn a_run_that_others_slowed_is_told_to_be_traced_again() {
        let told = |simulated, shared| traced(4, simulated, shared).text().contains("nothing else runs");
        assert!(told(0.4, Some((4, 2))));
        assert!(!told(0.95, Some((4, 2))));
        assert!(!told(0.4, None), "computing is what it took then, with whatever others took of it");
    }

    #[test]
    fn nodes_that_are_no_multiple_of_the_ranks_are_refused_with_those_beside_them() {
        let refused = |nodes| traced(8, 1.0, None).factor(Some(nodes)).unwrap_err().to_string();
        assert!(refused(4).ends_with("name 8"), "{}", refused(4));
        assert!(refused(20).ends_with("name 16 or 24"), "{}", refused(20));
        assert_eq!(traced(8, 1.0, None).factor(Some(24)).unwrap(), 3);
    }
}
