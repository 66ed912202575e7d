//! The pressure limit of `rampart banks consolidate`: how long programs waited for memory while blocks were emptied.

use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use rampart_linux::Roots;
use rampart_linux::memory_state::Pressure;
use serde::Serialize;

use super::pressure_watch::PressureWatch;

/// Whoever waits for a tenth of a second in it waits for 10 % of the time.
const INTERVAL: Duration = Duration::from_secs(1);

/// What was seen of the pressure, beside its limit.
#[derive(Clone, Debug, Serialize)]
pub struct PressureReport {
    /// The limit.
    pub limit_percent: u32,
    /// The most that programs waited, as a share of a second, or of the ten seconds before the beginning.
    pub most_percent: Option<f64>,
    /// Why that is unknown: then there is no limit.
    pub unknown_because: Option<String>,
}

/// The largest share of the time for which programs waited for memory since the beginning.
pub struct PressureLimit<'a> {
    roots: &'a Roots,
    /// Asked by the thread that watches an attempt too; with the largest share so far.
    seen: Result<Mutex<(PressureWatch, f64)>, String>,
}

impl<'a> PressureLimit<'a> {
    /// Begins with the last ten seconds.
    pub fn begin(roots: &'a Roots) -> Self {
        let begun = |now: Pressure| Mutex::new((PressureWatch::begin(&now, INTERVAL), 0.0));
        Self { roots, seen: Pressure::require(roots).map(begun).map_err(|absence| absence.to_string()) }
    }

    /// The largest share up to now; `None` if the kernel does not say.
    pub fn most(&self) -> Option<f64> {
        let mut seen = self.seen.as_ref().ok()?.lock().expect("nobody panics with this lock");
        let (watch, most) = &mut *seen;
        *most = watch.share_at_least(self.roots).unwrap_or(0.0).max(*most);
        Some(*most)
    }

    /// What is reported of it.
    pub fn report(&self, limit_percent: u32) -> PressureReport {
        PressureReport {
            limit_percent,
            most_percent: self.most().map(|share| share * 100.0),
            unknown_because: self.seen.as_ref().err().cloned(),
        }
    }
}

impl fmt::Display for PressureReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.most_percent, &self.unknown_because) {
            (Some(most), _) => write!(
                f,
                "programs waited for memory for at most {most:.1} % of the time; the limit is {} %",
                self.limit_percent
            ),
            (None, why) => {
                write!(f, "unknown, so it has no limit: {}", why.as_deref().unwrap_or("the kernel does not say"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn machine(avg10: Option<&str>) -> (tempfile::TempDir, Roots) {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::new(folder.path(), folder.path());
        fs::create_dir_all(roots.proc("pressure")).unwrap();
        if let Some(avg10) = avg10 {
            let text = format!("some avg10={avg10} total=5\nfull avg10=0.00 total=0\n");
            fs::write(roots.proc("pressure/memory"), text).unwrap();
        }
        (folder, roots)
    }

    #[test]
    fn what_programs_waited_before_counts_until_it_is_known_better() {
        let (_folder, roots) = machine(Some("12.50"));
        let limit = PressureLimit::begin(&roots);
        assert_eq!(limit.most(), Some(0.125));
        let shown = limit.report(10).to_string();
        assert_eq!(shown, "programs waited for memory for at most 12.5 % of the time; the limit is 10 %");
    }

    #[test]
    fn what_programs_waited_once_is_not_forgotten() {
        let (_folder, roots) = machine(Some("0.00"));
        let mut limit = PressureLimit::begin(&roots);
        limit.seen.as_mut().unwrap().get_mut().unwrap().1 = 0.4;
        assert_eq!((limit.most(), limit.report(10).most_percent), (Some(0.4), Some(40.0)));
    }

    #[test]
    fn a_kernel_without_pressure_figures_has_no_limit_which_is_said() {
        let (_folder, roots) = machine(None);
        let limit = PressureLimit::begin(&roots);
        assert_eq!(limit.most(), None);
        let report = limit.report(10);
        assert!(report.most_percent.is_none() && report.unknown_because.is_some());
        let shown = report.to_string();
        assert!(shown.starts_with("unknown, so it has no limit: ") && shown.ends_with("boot it with psi=1"), "{shown}");
    }
}
