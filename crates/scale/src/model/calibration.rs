//! LogGOPS parameters of a real network, computed from times measured on it.
//!
//! **Problem.** A simulation with the ranks of a real run should take as long as the run, so it needs the parameters of
//! that network. **Idea.** Two ranks measure half of a round trip, the CPU time of a send, and the time from one
//! message to the next, for several sizes, round after round (`mpi/calibrate/calibrate.c`); each round gives each
//! parameter once. **Why this way.** The spread over the rounds gives the interval, and no clock is compared with
//! another (Hoefler, Lichei, Rehm, *Low-Overhead LogGP Parameter Assessment for Modern Interconnection Networks*, IPDPS
//! 2007).
//!
//! In one round, *o* is the time of a send of one byte; *L* is half of its round trip minus both *o*; *g* is the time
//! between two messages; *G* is the growth of half of a round trip with size; *O* is the growth of a send with size, up
//! to *S*, where a send never waits. *G* and *O* are least-squares slopes through the time of one byte.

use rampart_memory::Bytes;

use crate::statistics::confidence::student;

/// A mean, and half of the interval that contains it with 95 %.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// The mean of all rounds.
    pub mean: f64,
    /// Half of its interval; infinite with one round.
    pub half: f64,
}

/// The measured parameters; times in nanoseconds, or nanoseconds per byte.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    /// *L*.
    pub latency: Estimate,
    /// *o*.
    pub overhead: Estimate,
    /// *g*.
    pub gap: Estimate,
    /// *G*.
    pub gap_per_byte: Estimate,
    /// *O*.
    pub overhead_per_byte: Estimate,
    /// *S*.
    pub eager: Bytes,
    /// The number of rounds.
    pub rounds: usize,
}

/// line {0:?} of the measurement is none: measure again
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub struct NoMeasurement(String);

/// Times by size, of one kind.
type BySize = Vec<(f64, f64)>;

#[derive(Clone, Debug, Default)]
struct Round {
    way: BySize,
    send: BySize,
    gap: BySize,
}

impl Calibration {
    /// Reads the output of `calibrate.c`.
    ///
    /// # Errors
    /// If a line has another form, or no round is complete.
    pub fn read(text: &str) -> Result<Self, NoMeasurement> {
        let (mut eager, mut rounds) = (None, Vec::<Round>::new());
        for line in text.lines() {
            let refused = || NoMeasurement(line.to_owned());
            let words: Vec<&str> = line.split_whitespace().collect();
            let [what, size, nanos] = words[..] else { return Err(refused()) };
            let bytes: u32 = size.parse().map_err(|_| refused())?;
            let nanos: f64 = nanos.parse().ok().filter(|nanos: &f64| nanos.is_finite()).ok_or_else(refused)?;
            if what == "way" && bytes == 1 {
                rounds.push(Round::default());
            }
            let point = (f64::from(bytes) - 1.0, nanos);
            match (what, rounds.last_mut()) {
                ("eager", _) => eager = Some(bytes),
                ("way", Some(round)) => round.way.push(point),
                ("send", Some(round)) => round.send.push(point),
                ("gap", Some(round)) => round.gap.push(point),
                _ => return Err(refused()),
            }
        }
        rounds.retain(|round| !round.send.is_empty() && !round.gap.is_empty());
        let eager = eager.filter(|_| !rounds.is_empty()).ok_or_else(|| NoMeasurement(text.to_owned()))?;
        Ok(Self::of(&rounds, eager))
    }

    fn of(rounds: &[Round], eager: u32) -> Self {
        let each = |parameter: &dyn Fn(&Round) -> f64| Estimate::of(&rounds.iter().map(parameter).collect::<Vec<_>>());
        let largest = f64::from(eager) - 1.0;
        let up_to_eager =
            |round: &Round| round.send.iter().copied().filter(|(bytes, _)| *bytes <= largest).collect::<BySize>();
        Self {
            latency: each(&|round| (round.way[0].1 - 2.0 * round.send[0].1).max(0.0)),
            overhead: each(&|round| round.send[0].1.clamp(0.0, round.way[0].1 / 2.0)),
            gap: each(&|round| round.gap[0].1.max(0.0)),
            gap_per_byte: each(&|round| slope(&round.way)),
            overhead_per_byte: each(&|round| slope(&up_to_eager(round))),
            eager: Bytes::new(eager.into()),
            rounds: rounds.len(),
        }
    }
}

/// The time per additional byte, by least squares; at least 0.
fn slope(times: &[(f64, f64)]) -> f64 {
    let Some(&(_, first)) = times.first() else { return 0.0 };
    let (products, squares) = times.iter().fold((0.0, 0.0), |(products, squares), (more, time)| {
        (products + more * (time - first), squares + more * more)
    });
    if squares > 0.0 { (products / squares).max(0.0) } else { 0.0 }
}

impl Estimate {
    #[expect(clippy::cast_precision_loss, reason = "a count of rounds")]
    fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        let half = if values.len() < 2 {
            f64::INFINITY
        } else {
            student(values.len()) * (squares / (count - 1.0) / count).sqrt()
        };
        Self { mean, half }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    /// The output of a measurement on a network without any disturbance.
    fn printed(rounds: usize) -> String {
        let mut text = String::from("eager 4096 0\n");
        for _ in 0..rounds {
            for size in [1_u32, 1024, 4096, 65_536] {
                let more = f64::from(size) - 1.0;
                let send = 100.0 + more * if size > 4096 { 9.0 } else { 0.01 };
                let _ = writeln!(
                    text,
                    "way {size} {}\nsend {size} {send}\ngap {size} {}",
                    700.0 + 0.2 * more,
                    150.0 + more
                );
            }
        }
        text
    }

    #[test]
    fn parameters_of_a_network_are_found_in_its_times() {
        let found = Calibration::read(&printed(5)).unwrap();
        let near = |estimate: Estimate, wanted: f64| (estimate.mean - wanted).abs() < 1e-9 && estimate.half < 1e-9;
        assert!(near(found.latency, 500.0) && near(found.overhead, 100.0) && near(found.gap, 150.0), "{found:?}");
        assert!(near(found.gap_per_byte, 0.2) && near(found.overhead_per_byte, 0.01), "{found:?}");
        assert_eq!((found.eager, found.rounds), (Bytes::new(4096), 5));
    }

    #[test]
    fn what_is_no_measurement_is_refused() {
        for text in
            ["", "way 1", "way x 1", "way 1 NaN", "send 1 1", "noise 1 1", "eager 9 0", "way 1 5\nsend 1 2\ngap 1 2"]
        {
            assert!(Calibration::read(text).is_err(), "{text:?}");
        }
    }
}
