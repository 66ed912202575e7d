//! The features of this machine that Rampart uses, and why others are missing.
//!
//! **Problem.** The same program runs as root on a server, as an ordinary user on a laptop and in a container with half
//! of `/proc`; missing features must be reported before a test and not after. **Idea.** Each [`Feature`] is probed by
//! using it: an own page is looked up, a buffer is registered, a file is opened for writing. **Why this way.**
//! Versions, user numbers and configuration files are wrong about a sandbox's rules; the kernel's answer to the call
//! itself is right.

mod claiming;
#[cfg(test)]
mod fake;
pub mod guarding;
mod retiring;

use serde::Serialize;

use crate::{Absence, Roots};

/// A feature that Rampart uses where it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, displaydoc::Display)]
#[serde(rename_all = "snake_case")]
pub enum Feature {
    /// frame numbers
    FrameNumbers,
    /// frame flags
    FrameFlags,
    /// memory pressure
    MemoryPressure,
    /// transparent huge pages
    TransparentHugePages,
    /// huge-page pool
    HugePagePool,
    /// pinning
    Pinning,
    /// memory locking
    MemoryLocking,
    /// free reserve
    FreeReserve,
    /// soft offline
    SoftOffline,
    /// hard offline
    HardOffline,
    /// memory blocks
    MemoryBlocks,
    /// error counters
    ErrorCounters,
    /// error events
    ErrorEvents,
    /// error injection
    ErrorInjection,
    /// poison injection
    PoisonInjection,
    /// page guard
    PageGuard,
}

/// A feature and whether it is available here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Capability {
    /// Which.
    pub feature: Feature,
    /// Whether.
    #[serde(flatten)]
    pub state: CapabilityState,
}

/// Whether a feature is available.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum CapabilityState {
    /// It was just used, or would be.
    Available {
        /// Its amount or its means; one line.
        detail: String,
    },
    /// It is absent.
    Absent(Absence),
}

impl Capability {
    /// Whether the feature is available.
    #[must_use]
    pub fn is_available(&self) -> bool {
        matches!(self.state, CapabilityState::Available { .. })
    }

    /// Why it is absent; `None` if it is available.
    #[must_use]
    pub fn absence(&self) -> Option<&Absence> {
        match &self.state {
            CapabilityState::Available { .. } => None,
            CapabilityState::Absent(absence) => Some(absence),
        }
    }
}

/// Probes one feature: its amount in one line, or why it is absent.
type Probe = fn(&Roots) -> Result<String, Absence>;

const PROBES: [(Feature, Probe); 16] = [
    (Feature::FrameNumbers, claiming::frame_numbers),
    (Feature::FrameFlags, claiming::frame_flags),
    (Feature::MemoryPressure, claiming::memory_pressure),
    (Feature::TransparentHugePages, claiming::transparent_huge_pages),
    (Feature::HugePagePool, claiming::huge_page_pool),
    (Feature::Pinning, claiming::pinning),
    (Feature::MemoryLocking, claiming::memory_locking),
    (Feature::FreeReserve, claiming::free_reserve),
    (Feature::SoftOffline, retiring::soft_offline),
    (Feature::HardOffline, retiring::hard_offline),
    (Feature::MemoryBlocks, retiring::memory_blocks),
    (Feature::ErrorCounters, retiring::error_counters),
    (Feature::ErrorEvents, retiring::error_events),
    (Feature::ErrorInjection, retiring::error_injection),
    (Feature::PoisonInjection, retiring::poison_injection),
    (Feature::PageGuard, guarding::page_guard),
];

/// Every feature, each probed now; takes a few milliseconds.
#[must_use]
pub fn all(roots: &Roots) -> Vec<Capability> {
    PROBES.iter().map(|&(feature, probe)| capability(feature, probe, roots)).collect()
}

/// One feature, probed now.
#[must_use]
pub fn of(feature: Feature, roots: &Roots) -> Capability {
    let (_, probe) = PROBES.iter().find(|(probed, _)| *probed == feature).expect("every feature has a probe");
    capability(feature, *probe, roots)
}

fn capability(feature: Feature, probe: Probe, roots: &Roots) -> Capability {
    let state = match probe(roots) {
        Ok(detail) => CapabilityState::Available { detail },
        Err(absence) => CapabilityState::Absent(absence),
    };
    Capability { feature, state }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_is_named_once() {
        let mut features: Vec<_> = PROBES.iter().map(|(feature, _)| *feature).collect();
        features.sort_unstable();
        features.dedup();
        assert_eq!(features.len(), PROBES.len());
        assert_eq!(features.last(), Some(&Feature::PageGuard), "the last of the list");
    }

    #[test]
    fn on_this_machine_everything_is_there_or_says_in_one_line_why_not() {
        for capability in all(&Roots::default()) {
            let lines = match &capability.state {
                CapabilityState::Available { detail } => vec![detail],
                CapabilityState::Absent(absence) => vec![&absence.reason, &absence.remedy],
            };
            for line in lines {
                assert!(!line.is_empty() && !line.contains('\n'), "{capability:?}");
            }
        }
    }

    #[test]
    fn where_the_kernel_shows_nothing_what_is_read_from_it_is_absent() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::new(folder.path(), folder.path());
        let found: Vec<_> = all(&roots).into_iter().filter(Capability::is_available).collect();
        let needs_no_file = [Feature::Pinning, Feature::MemoryLocking, Feature::SoftOffline, Feature::PageGuard];
        assert!(found.iter().all(|capability| needs_no_file.contains(&capability.feature)), "{found:?}");
    }
}
