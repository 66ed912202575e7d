//! What a monitor should know: whether something is found that a person must act on.

use std::collections::BTreeMap;
use std::time::Duration;

use rampart_diagnostic::daemon::DaemonState;
use rampart_memory::SuspectNode;
use rampart_memory::fault_map::FrameUse;
use serde::Serialize;

use crate::inputs::daemon::DaemonLiveness;
use crate::inputs::store;

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StatusCheck {
    verdict: CheckVerdict,
    /// What was found, one line each.
    found: Vec<String>,
    /// What cannot be known here, one line each.
    unknown: Vec<String>,
    /// What is well.
    well: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum CheckVerdict {
    Pass,
    Fail,
    Incomplete,
}

impl StatusCheck {
    /// Judges what was seen: bad frames by their present state, suspect nodes, and the daemon.
    pub fn of(uses: &BTreeMap<FrameUse, usize>, suspects: &[SuspectNode], daemon: &DaemonLiveness) -> Self {
        let count = |frame_use| uses.get(&frame_use).copied().unwrap_or(0);
        let (in_use, unclear) = (count(FrameUse::InUse), count(FrameUse::Unknown));
        let mut found = Vec::new();
        if in_use > 0 {
            found.push(format!("{} in use: `rampart map restore` retires bad frames", frames(in_use)));
        }
        found.extend(daemon.fault());
        if let DaemonLiveness::Running(state) = daemon {
            found.extend(lateness(state));
        }
        found.extend(suspects.iter().map(|suspect| format!("suspect {}", store::suspicion(suspect))));
        let unknown: Vec<_> = (unclear > 0)
            .then(|| format!("whether {} in use is unknown: run as root", frames(unclear)))
            .into_iter()
            .collect();
        let verdict = match (found.is_empty(), unknown.is_empty()) {
            (false, _) => CheckVerdict::Fail,
            (true, false) => CheckVerdict::Incomplete,
            (true, true) => CheckVerdict::Pass,
        };
        let watching = match daemon {
            DaemonLiveness::Running(state) => format!("process {} tests memory in time", state.pid),
            _ => "no daemon runs".to_owned(),
        };
        Self { verdict, found, unknown, well: format!("no known bad frame is in use; {watching}") }
    }

    /// The project's exit code: 0 all is well, 1 something was found, 2 it cannot be known.
    pub const fn exit_code(&self) -> u8 {
        match self.verdict {
            CheckVerdict::Pass => 0,
            CheckVerdict::Fail => 1,
            CheckVerdict::Incomplete => 2,
        }
    }

    /// The verdict in one line, with all that was found.
    pub fn line(&self) -> String {
        let reasons = self.found.iter().chain(&self.unknown).map(String::as_str).collect::<Vec<_>>().join("; ");
        match self.verdict {
            CheckVerdict::Pass => format!("PASS: {}", self.well),
            CheckVerdict::Fail => format!("FAIL: {reasons}"),
            CheckVerdict::Incomplete => format!("INCOMPLETE: {reasons}"),
        }
    }
}

fn frames(number: usize) -> String {
    if number == 1 { "1 bad frame is".to_owned() } else { format!("{number} bad frames are") }
}

/// Why the tests of a running daemon are not in time. It has its first lifetime to begin.
fn lateness(state: &DaemonState) -> Option<String> {
    let lifetime = Duration::try_from_secs_f64(state.lifetime_seconds).unwrap_or_default();
    let whole = |time: Duration| humantime::format_duration(Duration::from_secs(time.as_secs()));
    let (pid, limit) = (state.pid, whole(lifetime));
    if state.at.since(state.started) < lifetime {
        return None;
    }
    let idle = state.at.since(state.last_test.unwrap_or(state.started));
    if idle >= lifetime {
        return Some(format!("process {pid} has tested nothing for {}; tests are good for {limit}", whole(idle)));
    }
    let missed = state.guarantee.map_or(0, |guarantee| guarantee.missed);
    (state.overdue || missed > 0).then(|| {
        format!(
            "process {pid} is behind its lifetime of {limit}: raise --max-share or --max-cores, or set a longer --lifetime"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampart_diagnostic::sources::GuaranteeState;
    use rampart_memory::Timestamp;

    const START: Timestamp = Timestamp::from_micros(1 << 50);

    /// A daemon with a lifetime of half an hour that has run for so many minutes, and last tested so many minutes ago.
    fn daemon(runs: u64, idle: u64) -> DaemonState {
        let minutes = |n: u64| Duration::from_secs(60 * n);
        let state = crate::inputs::daemon::tests::state(7, START);
        DaemonState { at: START.after(minutes(runs)), last_test: Some(START.after(minutes(runs - idle))), ..state }
    }

    fn judged(uses: &[(FrameUse, usize)], daemon: &DaemonLiveness) -> (u8, String) {
        let check = StatusCheck::of(&uses.iter().copied().collect(), &[], daemon);
        (check.exit_code(), check.line())
    }

    fn of(state: DaemonState) -> (u8, String) {
        judged(&[], &DaemonLiveness::Running(Box::new(state)))
    }

    #[test]
    fn a_bad_frame_is_found_while_it_is_in_use_and_not_once_it_is_out_of_use() {
        let out_of_use = [(FrameUse::Retired, 2), (FrameUse::Offline, 1), (FrameUse::Reserved, 1)];
        assert_eq!(judged(&out_of_use, &DaemonLiveness::NotRunning).0, 0);
        let (code, line) = judged(&[(FrameUse::Retired, 2), (FrameUse::InUse, 1)], &DaemonLiveness::NotRunning);
        assert_eq!((code, line.as_str()), (1, "FAIL: 1 bad frame is in use: `rampart map restore` retires bad frames"));
        let (code, line) = judged(&[(FrameUse::Unknown, 3)], &DaemonLiveness::NotRunning);
        assert_eq!((code, line.as_str()), (2, "INCOMPLETE: whether 3 bad frames are in use is unknown: run as root"));
        assert_eq!(judged(&[(FrameUse::Unknown, 3), (FrameUse::InUse, 1)], &DaemonLiveness::NotRunning).0, 1);
    }

    #[test]
    fn a_daemon_that_died_or_hangs_is_found_and_one_that_was_stopped_is_not() {
        assert_eq!(
            judged(&[], &DaemonLiveness::NotRunning),
            (0, "PASS: no known bad frame is in use; no daemon runs".to_owned())
        );
        let (code, line) = judged(&[], &DaemonLiveness::Died(7));
        assert!(code == 1 && line.starts_with("FAIL: process 7 watched and ended"), "{line}");
        let (code, line) = judged(&[], &DaemonLiveness::Stuck(7, Duration::from_millis(40_500)));
        assert!(code == 1 && line.contains("has not reported for 40s"), "{line}");
    }

    #[test]
    fn a_daemon_that_tests_nothing_or_too_late_is_found_after_its_first_lifetime() {
        let well = (0, "PASS: no known bad frame is in use; process 7 tests memory in time".to_owned());
        assert_eq!(of(daemon(90, 29)), well);
        assert_eq!(of(daemon(29, 29)), well, "it has not had the time yet");
        assert_eq!(of(DaemonState { overdue: true, ..daemon(29, 0) }), well);
        let (code, line) = of(daemon(90, 31));
        assert!(code == 1 && line.contains("tested nothing for 31m; tests are good for 30m"), "{line}");
        assert_eq!(of(DaemonState { last_test: None, ..daemon(31, 0) }).0, 1, "it never tested anything");
        let missed = Some(GuaranteeState { missed: 1, ..GuaranteeState::default() });
        for late in [DaemonState { overdue: true, ..daemon(30, 0) }, DaemonState { guarantee: missed, ..daemon(30, 0) }]
        {
            let (code, line) = of(late);
            assert!(code == 1 && line.contains("behind its lifetime of 30m"), "{line}");
        }
    }

    #[test]
    fn a_suspect_node_is_found_and_all_reasons_are_in_the_line() {
        let suspect = SuspectNode { node: "n7".to_owned(), errors: 3, jobs: 2, first: START, last: START };
        let check = StatusCheck::of(&BTreeMap::from([(FrameUse::InUse, 2)]), &[suspect], &DaemonLiveness::Died(9));
        let line = check.line();
        assert_eq!((check.exit_code(), check.found.len(), line.lines().count()), (1, 3, 1));
        assert!(
            line.contains("2 bad frames are in use") && line.contains("process 9") && line.contains("suspect node n7")
        );
    }
}
