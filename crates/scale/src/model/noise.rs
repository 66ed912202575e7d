//! The detours that a machine itself causes: the record, its statistics, and its file.
//!
//! **Problem.** The cost of errors shows as an increase over the noise that is always present [Ferreira21, III-B, fig.
//! 2], and simulations should use measured noise. **Idea.** A record holds the start and the length of each detour, CPU
//! by CPU, and the time for which each CPU was watched. **Why this way.** Rates and shares follow from the record
//! alone. A program can be simulated on nodes that have detours as often as this machine, each as long as one of the
//! recorded ones.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::error::Error;
use crate::model::detour::ErrorCost;
use crate::time::Time;

/// A stretch of time that the program did not get from its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detour {
    /// Its start, counted from the start of the record.
    pub start: Time,
    /// Its length.
    pub length: Time,
}

/// The record of one CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfCpu {
    /// The kernel's number of the CPU.
    pub cpu: u32,
    /// The time for which the CPU was watched.
    pub watched: Time,
    /// The detours, in order of time.
    pub detours: Vec<Detour>,
    /// The number of further detours for which there was no room.
    pub beyond: u64,
    /// The total length of those.
    pub beyond_took: Time,
}

/// A record of detours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Noise {
    /// The shortest length that is recorded.
    pub threshold: Time,
    /// A record for each watched CPU.
    pub cpus: Vec<OfCpu>,
}

/// Statistics of detours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DetourSummary {
    /// The number of detours.
    pub count: u64,
    /// Detours per second of one CPU.
    pub per_second: f64,
    /// The share of time in detours, 0 to 1.
    pub share: f64,
    /// The shortest length, the median, the 99th percentile, and the longest; `None` without detours.
    pub lengths: Option<[Time; 4]>,
}

impl DetourSummary {
    /// Of these CPUs together.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a rate need not be exact")]
    pub fn of<'a>(cpus: impl IntoIterator<Item = &'a OfCpu>) -> Self {
        let (mut lengths, mut beyond, mut watched, mut took) = (Vec::new(), 0_u64, 0.0, 0.0);
        for of in cpus {
            lengths.extend(of.detours.iter().map(|detour| detour.length));
            // A file may contain any number.
            beyond = beyond.saturating_add(of.beyond);
            watched += of.watched.as_secs_f64();
            took += of.beyond_took.as_secs_f64();
        }
        took += lengths.iter().map(|length| length.as_secs_f64()).sum::<f64>();
        lengths.sort_unstable();
        let count = beyond.saturating_add(lengths.len() as u64);
        let each = |of: f64| if watched > 0.0 { of / watched } else { 0.0 };
        // Nearest rank: at least this percentage is no longer.
        let percentile = |percent: usize| lengths[(lengths.len() * percent).div_ceil(100).max(1) - 1];
        let lengths = (!lengths.is_empty()).then(|| [lengths[0], percentile(50), percentile(99), percentile(100)]);
        Self { count, per_second: each(count as f64), share: each(took), lengths }
    }
}

impl Noise {
    /// The detours as errors of a node with one CPU of this kind: the mean time from one detour to the next, and the
    /// lengths to draw from.
    ///
    /// # Errors
    /// If nothing was recorded, if the detours are too rare to simulate, or if they took longer than they were watched
    /// for.
    pub fn as_errors(&self) -> Result<(Time, ErrorCost), Error> {
        let all = DetourSummary::of(&self.cpus);
        let lengths: Vec<Time> = self.cpus.iter().flat_map(|of| &of.detours).map(|detour| detour.length).collect();
        if lengths.is_empty() {
            return Err(Error::NoDetours);
        }
        if all.share > 1.0 {
            return Err(Error::DetoursWithoutPause { share: all.share });
        }
        let seconds = 1.0 / all.per_second;
        let mean = Time::checked_secs_f64(seconds).ok_or(Error::RareDetours { seconds })?;
        Ok((mean, ErrorCost::Recorded(lengths)))
    }

    /// The record as a file: comments with what was watched, then a line per detour, in whole nanoseconds.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut text = format!("# threshold_ns,{}\n", self.threshold.nanos());
        for OfCpu { cpu, watched, beyond, beyond_took, .. } in &self.cpus {
            let _ = writeln!(
                text,
                "# cpu,{cpu},watched_ns,{},beyond,{beyond},beyond_took_ns,{}",
                watched.nanos(),
                beyond_took.nanos()
            );
        }
        text.push_str("cpu,start_ns,length_ns\n");
        for (cpu, detour) in self.cpus.iter().flat_map(|of| of.detours.iter().map(move |detour| (of.cpu, detour))) {
            let _ = writeln!(text, "{cpu},{},{}", detour.start.nanos(), detour.length.nanos());
        }
        text
    }

    /// Reads such a file.
    ///
    /// # Errors
    /// [`Error::Syntax`] with the first line that does not belong in such a file.
    pub fn read_csv(text: &str) -> Result<Self, Error> {
        let (mut noise, mut places) = (Self::default(), HashMap::new());
        for (line, words) in (1..).zip(text.lines()) {
            let refused = |expected: &'static str| Error::Syntax { line, expected, found: shortened(words) };
            match (line, words.strip_prefix("# ")) {
                (1, Some(comment)) => {
                    let nanos = numbers(comment, ["threshold_ns"]).ok_or(refused("# threshold_ns,N"))?;
                    noise.threshold = Time::checked_nanos(nanos[0]).ok_or(refused(TIME))?;
                }
                (1, None) => return Err(refused("# threshold_ns,N")),
                (_, Some(comment)) => {
                    let of = of_cpu(comment)
                        .ok_or(refused("# cpu,N,watched_ns,N,beyond,N,beyond_took_ns,N of another CPU"))?;
                    places.entry(of.cpu).or_insert(noise.cpus.len());
                    noise.cpus.push(of);
                }
                (_, None) if words == HEAD => {}
                (_, None) => noise.add(words, &places).ok_or(refused(DETOUR))?,
            }
        }
        let mut numbers: Vec<u32> = noise.cpus.iter().map(|of| of.cpu).collect();
        numbers.sort_unstable();
        if text.is_empty() || numbers.windows(2).any(|pair| pair[0] == pair[1]) {
            let found = if text.is_empty() { "nothing" } else { "a CPU twice" };
            return Err(Error::Syntax {
                line: 1,
                expected: "the record of `rampart noise --csv`",
                found: found.to_owned(),
            });
        }
        Ok(noise)
    }

    /// Adds the detour of a line to its CPU.
    fn add(&mut self, line: &str, places: &HashMap<u32, usize>) -> Option<()> {
        let mut fields = line.split(',');
        let cpu: u32 = fields.next()?.parse().ok()?;
        let start = Time::checked_nanos(fields.next()?.parse().ok()?)?;
        let length = Time::checked_nanos(fields.next()?.parse().ok()?)?;
        if fields.next().is_some() {
            return None;
        }
        let of = &mut self.cpus[*places.get(&cpu)?];
        of.detours.push(Detour { start, length });
        Some(())
    }
}

const HEAD: &str = "cpu,start_ns,length_ns";

/// The expected text, with the largest time that fits.
const TIME: &str = "at most 18446744073709551 ns";
const DETOUR: &str = "a CPU that was watched, nanoseconds, nanoseconds (at most 18446744073709551)";

fn of_cpu(comment: &str) -> Option<OfCpu> {
    let [cpu, watched, beyond, took] = numbers(comment, ["cpu", "watched_ns", "beyond", "beyond_took_ns"])?;
    Some(OfCpu {
        cpu: u32::try_from(cpu).ok()?,
        watched: Time::checked_nanos(watched)?,
        detours: Vec::new(),
        beyond,
        beyond_took: Time::checked_nanos(took)?,
    })
}

/// The numbers after these names; `None` if there is anything else.
fn numbers<const N: usize>(comment: &str, names: [&str; N]) -> Option<[u64; N]> {
    let mut fields = comment.split(',');
    let mut found = [0; N];
    for (number, name) in found.iter_mut().zip(names) {
        if fields.next()? != name {
            return None;
        }
        *number = fields.next()?.parse().ok()?;
    }
    fields.next().is_none().then_some(found)
}

fn shortened(line: &str) -> String {
    format!("{:?}", line.chars().take(40).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn detour(start: u64, length: u64) -> Detour {
        Detour { start: Time::from_nanos(start), length: Time::from_nanos(length) }
    }

    fn of_cpu(cpu: u32, watched: u64, detours: Vec<Detour>) -> OfCpu {
        OfCpu { cpu, watched: Time::from_nanos(watched), detours, ..OfCpu::default() }
    }

    #[test]
    fn what_detours_come_to_is_counted_over_all_cpus() {
        let first = (1..=100).map(|number| detour(number * 1_000_000, number * 1000)).collect();
        let cpus = [
            of_cpu(0, 1_000_000_000, first),
            OfCpu { beyond: 100, beyond_took: Time::from_nanos(4_950_000), ..of_cpu(3, 1_000_000_000, Vec::new()) },
        ];
        let all = DetourSummary::of(&cpus);
        assert_eq!(all.count, 200);
        assert!((all.per_second - 100.0).abs() < 1e-9 && (all.share - 0.005).abs() < 1e-9, "{all:?}");
        assert_eq!(all.lengths, Some([1000, 50_000, 99_000, 100_000].map(Time::from_nanos)));
        assert_eq!(DetourSummary::of(&cpus[1..]).lengths, None);
        assert_eq!(DetourSummary::of([]), DetourSummary { count: 0, per_second: 0.0, share: 0.0, lengths: None });
    }

    #[test]
    fn a_record_is_errors_as_frequent_and_as_long() {
        let noise = Noise {
            threshold: Time::from_nanos(150),
            cpus: vec![of_cpu(0, 1_000_000, vec![detour(1, 200), detour(500, 400)]), of_cpu(1, 1_000_000, Vec::new())],
        };
        let lengths = vec![Time::from_nanos(200), Time::from_nanos(400)];
        assert_eq!(noise.as_errors(), Ok((Time::from_nanos(1_000_000), ErrorCost::Recorded(lengths))));
        assert_eq!(Noise::default().as_errors(), Err(Error::NoDetours));
        let endless = vec![of_cpu(0, 1000, vec![detour(1, 1500)]), of_cpu(1, 200, Vec::new())];
        let refused = Noise { threshold: Time::ZERO, cpus: endless }.as_errors();
        assert_eq!(refused, Err(Error::DetoursWithoutPause { share: 1.25 }));
        // Two CPUs watched for 200 days each, and one detour: 400 days exceed the end of simulated time. Without any
        // watched time there is no rate.
        for (days, seconds) in [(200, 34_560_000.0), (0, f64::INFINITY)] {
            let watched = days * 86_400_000_000_000;
            let cpus = vec![of_cpu(0, watched, vec![detour(1, 200)]), of_cpu(1, watched, Vec::new())];
            let rare = Noise { threshold: Time::ZERO, cpus }.as_errors();
            assert_eq!(rare, Err(Error::RareDetours { seconds }));
        }
    }

    #[test]
    fn what_is_no_record_is_refused_with_its_line() {
        let head = "# threshold_ns,150\n# cpu,0,watched_ns,9,beyond,0,beyond_took_ns,0\ncpu,start_ns,length_ns\n";
        for (text, line) in [
            (String::new(), 1),
            ("cpu,start_ns,length_ns\n".to_owned(), 1),
            ("# threshold_ns,x\n".to_owned(), 1),
            (format!("{head}0,1\n"), 4),
            (format!("{head}0,1,2\n0,1,2,3\n"), 5),
            (format!("{head}1,1,2\n"), 4),
            (format!("{head}0,-1,2\n"), 4),
            // One nanosecond more than fits.
            (format!("{head}0,18446744073709552,2\n"), 4),
            (format!("{head}0,1,18446744073709552\n"), 4),
            (head.replace("threshold_ns,150", "threshold_ns,18446744073709552"), 1),
            (head.replace("watched_ns,9", "watched_ns,18446744073709552"), 2),
            (head.replace("took_ns,0", "took_ns,18446744073709552"), 2),
            (format!("{head}# cpu,0,watched_ns,9\n"), 4),
        ] {
            let error = Noise::read_csv(&text).unwrap_err();
            assert!(matches!(error, Error::Syntax { line: found, .. } if found == line), "{text}: {error}");
        }
        let twice = format!("{head}# cpu,0,watched_ns,9,beyond,0,beyond_took_ns,0\n");
        assert!(Noise::read_csv(&twice).unwrap_err().to_string().contains("a CPU twice"));
    }

    fn any_noise() -> impl Strategy<Value = Noise> {
        let detours = || prop::collection::vec((0..u64::MAX / 1000, 0..u64::MAX / 1000), 0..20);
        let of = (any::<u32>(), 0..u64::MAX / 1000, detours(), any::<u64>());
        (0..1000_u64, prop::collection::btree_map(any::<u32>(), of, 0..4)).prop_map(|(threshold, cpus)| Noise {
            threshold: Time::from_nanos(threshold),
            cpus: cpus
                .into_iter()
                .map(|(cpu, (_, watched, detours, beyond))| OfCpu {
                    beyond,
                    ..of_cpu(cpu, watched, detours.into_iter().map(|(start, length)| detour(start, length)).collect())
                })
                .collect(),
        })
    }

    proptest! {
        #[test]
        fn a_record_comes_back_from_its_file(noise in any_noise()) {
            prop_assert_eq!(Noise::read_csv(&noise.csv()), Ok(noise));
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in "(# (threshold_ns|cpu),)?[0-9a-z,# \n]{0,60}") {
            if let Err(error) = Noise::read_csv(&text) {
                prop_assert_eq!(error.to_string().lines().count(), 1);
            }
        }
    }
}
