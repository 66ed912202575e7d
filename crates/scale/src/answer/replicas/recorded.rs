//! [Fiala15, tab. 3.1 to 3.3], as printed.
//!
//! Table 3.1 was recorded on real systems. Tables 3.2 and 3.3 come from a study of Sandia, which [Fiala15, 3.8.2] sums
//! up: a checkpoint takes five minutes, a restart ten, and the interval is the best one.

use super::{Completion, Degree, PETASCALE, ReplicatedJob};
use crate::time::Hours;

/// A system of [Fiala15, tab. 3.1].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecordedReliability {
    /// Its name.
    pub system: &'static str,
    /// The number of CPUs.
    pub cpus: u32,
    /// The mean time between failures or interrupts, as printed.
    pub printed: &'static str,
    /// The same as a time; for ASCI White that of 2003.
    pub mtbf: Hours,
}

const fn system(system: &'static str, cpus: u32, printed: &'static str, hours: f64) -> RecordedReliability {
    RecordedReliability { system, cpus, printed, mtbf: Hours::new(hours) }
}

/// [Fiala15, tab. 3.1].
pub const RELIABILITY: [RecordedReliability; 5] = [
    system("ASCI Q", 8192, "6.5 hrs", 6.5),
    system("ASCI White", 8192, "5/40 hrs ('01/'03)", 40.0),
    system("PSC Lemieux", 3016, "9.7 hrs", 9.7),
    system("Google", 15_000, "20 reboots/day", 1.2),
    system("ASC BG/L", 212_992, "6.9 hrs (LLNL est.)", 6.9),
];

impl RecordedReliability {
    /// The mean time between failures of one CPU, if all are alike and nothing else fails.
    #[must_use]
    pub fn of_one(&self) -> Hours {
        self.mtbf.times(f64::from(self.cpus))
    }
}

/// A row of [Fiala15, tab. 3.2 or 3.3]: where the time of a job without replicas goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecordedShares {
    /// The table: 2 for 3.2, 3 for 3.3.
    pub table: u8,
    /// The job.
    pub job: ReplicatedJob,
    /// Percent of the time: work, checkpoints, recomputed work, restarts.
    pub percent: [u8; 4],
}

const fn row(table: u8, nodes: u32, hours: f64, years: f64, percent: [u8; 4]) -> RecordedShares {
    let job = ReplicatedJob { nodes, work: Hours::new(hours), node_mtbf: Hours::from_years(years), ..PETASCALE };
    RecordedShares { table, job, percent }
}

/// [Fiala15, tab. 3.2 and 3.3]. The first row of table 3.3 is the last one of table 3.2.
pub const SHARES: [RecordedShares; 7] = [
    row(2, 100, 168.0, 5.0, [96, 1, 3, 0]),
    row(2, 1000, 168.0, 5.0, [92, 7, 1, 0]),
    row(2, 10_000, 168.0, 5.0, [75, 15, 6, 4]),
    row(2, 100_000, 168.0, 5.0, [35, 20, 10, 35]),
    row(3, 100_000, 168.0, 5.0, [35, 20, 10, 35]),
    row(3, 100_000, 700.0, 5.0, [38, 18, 9, 43]),
    row(3, 100_000, 5000.0, 1.0, [5, 5, 5, 85]),
];

impl RecordedShares {
    /// The same four shares by our model; 1 is all. Zero if the job never ends.
    #[must_use]
    pub fn modelled(&self) -> [f64; 4] {
        let shares = self.job.completion(Degree::SINGLE).as_ref().map_or([0.0; 5], Completion::shares);
        let [work, _, checkpoints, rework, restarts] = shares;
        [work, checkpoints, rework, restarts]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of work is within 4 points. The others differ by up to 11: see docs/replicas.md.
    #[test]
    fn tables_3_2_and_3_3_are_met_within_the_documented_points() {
        for row in SHARES {
            let apart = |column: usize| (100.0 * row.modelled()[column] - f64::from(row.percent[column])).abs();
            assert!(apart(0) < 4.0, "{row:?}: {:?}", row.modelled());
            assert!((1..4).all(|column| apart(column) < 12.0), "{row:?}: {:?}", row.modelled());
            assert!((row.modelled().iter().sum::<f64>() - 1.0).abs() < 1e-9);
        }
    }

    /// A row as printed adds up to 100, but for one: 38 + 18 + 9 + 43 = 108.
    #[test]
    fn rows_are_as_printed() {
        let sums = SHARES.map(|row| row.percent.iter().map(|part| u32::from(*part)).sum::<u32>());
        assert_eq!(sums, [100, 100, 100, 100, 100, 108, 100]);
        assert_eq!(RELIABILITY.map(|system| system.of_one().per(Hours::YEAR).round()), [6.0, 37.0, 3.0, 2.0, 168.0]);
    }
}
