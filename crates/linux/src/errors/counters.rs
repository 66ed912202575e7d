//! Errors as the growth of the kernel's counters.
//!
//! **Problem.** A counter shows how many errors there were since its driver was loaded, but neither when nor at which
//! address. **Idea.** Compare it with its previous value. **Why each DIMM's counter and that of no DIMM, and not the
//! controller's own.** Counters are read one after the other while errors come; each of these is independent, so no
//! error is reported twice.

use std::collections::BTreeMap;

use rampart_memory::{DimmLocation, ErrorBatch, MemoryError, Severity, Timestamp};

use super::counts::{Controller, ErrorCount, controllers};
use crate::{Absence, Roots};

/// A counter: the controller's number, and the index of the DIMM; `None` for errors of no known DIMM.
type Key = (u32, Option<usize>);

/// The growth of the kernel's counters.
#[derive(Debug)]
pub struct CounterFeed {
    roots: Roots,
    before: BTreeMap<Key, ErrorCount>,
}

impl CounterFeed {
    /// Remembers all present counts.
    ///
    /// # Errors
    /// Why nobody counts.
    pub fn open(roots: &Roots) -> Result<Self, Absence> {
        let before = counters(&controllers(roots)?).map(|(key, _, errors)| (key, errors)).collect();
        Ok(Self { roots: roots.clone(), before })
    }

    /// The errors since then. A counter that is lower than before was reset, and its whole value is new; so is that of
    /// a driver that was loaded since. A driver that was unloaded reports nothing.
    pub fn poll(&mut self, now: Timestamp) -> ErrorBatch {
        let found = controllers(&self.roots).unwrap_or_default();
        let mut batch = ErrorBatch::default();
        let mut after = BTreeMap::new();
        for (key, place, errors) in counters(&found) {
            let before = self.before.get(&key).copied().unwrap_or_default();
            let grown = [
                (Severity::Corrected, growth(before.corrected, errors.corrected)),
                (Severity::Uncorrected, growth(before.uncorrected, errors.uncorrected)),
            ];
            let counted = grown.into_iter().filter(|&(_, count)| count > 0);
            batch.errors.extend(counted.map(|(severity, count)| error(now, severity, count, place.clone())));
            after.insert(key, errors);
        }
        self.before = after;
        batch
    }
}

fn counters(controllers: &[Controller]) -> impl Iterator<Item = (Key, DimmLocation, ErrorCount)> + '_ {
    controllers.iter().flat_map(|controller| {
        let number = controller.number;
        let place = move |label: &str| DimmLocation {
            label: label.to_owned(),
            controller: Some(number),
            ..DimmLocation::default()
        };
        let dimms = controller.dimms.iter().enumerate();
        let dimms = dimms.map(move |(index, dimm)| ((number, Some(index)), place(&dimm.label), dimm.errors));
        dimms.chain([((number, None), place(""), controller.unplaced)])
    })
}

/// The kernel's counters have 32 bits.
fn growth(before: u64, after: u64) -> u32 {
    let grown = after.checked_sub(before).unwrap_or(after);
    u32::try_from(grown).unwrap_or(u32::MAX)
}

fn error(at: Timestamp, severity: Severity, count: u32, place: DimmLocation) -> MemoryError {
    MemoryError { at, severity, count, frame: None, line: None, place: Some(place), syndrome: None, grain: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn write(roots: &Roots, name: &str, count: &str) {
        let path = roots.sys("devices/system/edac/mc").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, count).unwrap();
    }

    fn reported(feed: &mut CounterFeed) -> Vec<(Severity, u32, Option<u32>, String)> {
        let batch = feed.poll(Timestamp::from_micros(9));
        assert!(batch.errors.iter().all(|error| error.at.micros() == 9));
        let reported = batch.errors.into_iter().map(|error| {
            let place = error.place.unwrap();
            (error.severity, error.count, place.controller, place.label)
        });
        reported.collect()
    }

    #[test]
    fn each_error_is_told_once_with_its_dimm() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::new(folder.path(), folder.path());
        write(&roots, "mc0/dimm0/dimm_label", "DIMM_A1\n");
        write(&roots, "mc0/dimm0/dimm_ce_count", "5\n");
        // The same errors again, as the controller's total and as those of a row of chips.
        write(&roots, "mc0/ce_count", "5\n");
        write(&roots, "mc0/csrow0/ce_count", "5\n");
        let mut feed = CounterFeed::open(&roots).unwrap();
        assert_eq!(reported(&mut feed), [], "what was counted before is not new");
        write(&roots, "mc0/dimm0/dimm_ce_count", "7\n");
        write(&roots, "mc0/dimm0/dimm_ue_count", "1\n");
        write(&roots, "mc0/ce_count", "10\n");
        write(&roots, "mc0/csrow0/ce_count", "7\n");
        write(&roots, "mc0/ce_noinfo_count", "3\n");
        let dimm = |severity, count| (severity, count, Some(0), "DIMM_A1".to_owned());
        let unplaced = (Severity::Corrected, 3, Some(0), String::new());
        assert_eq!(reported(&mut feed), [dimm(Severity::Corrected, 2), dimm(Severity::Uncorrected, 1), unplaced]);
        assert_eq!(reported(&mut feed), []);
    }

    #[test]
    fn a_counter_that_began_anew_and_a_driver_that_came_lose_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::new(folder.path(), folder.path());
        write(&roots, "mc0/ce_noinfo_count", "8\n");
        let mut feed = CounterFeed::open(&roots).unwrap();
        write(&roots, "mc0/ce_noinfo_count", "2\n");
        write(&roots, "mc1/rank0/dimm_ce_count", "4\n");
        let counts: Vec<_> =
            reported(&mut feed).into_iter().map(|(_, count, controller, _)| (controller, count)).collect();
        assert_eq!(counts, [(Some(0), 2), (Some(1), 4)]);
        fs::remove_dir_all(roots.sys("devices/system/edac/mc")).unwrap();
        assert_eq!(reported(&mut feed), []);
        write(&roots, "mc0/ce_noinfo_count", "2\n");
        assert_eq!(reported(&mut feed).len(), 1, "a driver that was loaded again counts from 0");
    }

    #[test]
    fn a_machine_that_counts_nothing_has_no_counters() {
        let folder = tempfile::tempdir().unwrap();
        let absence = CounterFeed::open(&Roots::new(folder.path(), folder.path())).unwrap_err();
        assert!(absence.reason.contains("EDAC"));
    }
}
