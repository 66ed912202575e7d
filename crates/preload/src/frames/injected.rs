//! Emulated faults in the frames below a heap.
//!
//! **Problem.** An injected fault must stay with its frame, through every move, and frame numbers are for root only.
//! **Idea.** Frames have names of their own, numbers in the order of their first tests; the pool records where a name
//! goes. **Why this way.** The same faults are in the same places in every run, for any user.
//!
//! Only tests see these faults: the program's reads and writes go to the memory itself.

use std::collections::HashMap;

use rampart_linux::vault::VaultSpan;
use rampart_memory::fault::{Campaign, InjectionSpec, PlacedFault};
use rampart_memory::{Frame, LINES_PER_FRAME};

/// Faults at random places are in the first so many tested frames: those of 64 MiB.
const FRAMES: u64 = 16_384;

/// Faults, and the places of frames.
#[derive(Debug)]
pub struct InjectedFrames {
    campaign: Campaign,
    next: u64,
    /// The names of frames that the program has, by its pages.
    homes: HashMap<u64, u64>,
}

impl InjectedFrames {
    /// The variable that requests faults.
    pub const FAULTS: &str = "RAMPART_GUARD_FAULTS";

    /// The faults that this text of [`InjectedFrames::FAULTS`] requests.
    pub fn asked_for(text: &str) -> Result<Self, String> {
        let spec: InjectionSpec = text.parse().map_err(|error| format!("{}: {error}", Self::FAULTS))?;
        Self::new(&spec)
    }

    pub fn new(spec: &InjectionSpec) -> Result<Self, String> {
        let campaign = Campaign::new(spec, FRAMES * LINES_PER_FRAME, LINES_PER_FRAME);
        let campaign = campaign.map_err(|error| error.to_string())?;
        Ok(Self { campaign, next: 0, homes: HashMap::new() })
    }

    /// The seed of a frame's intermittent faults: each frame has its own.
    pub fn seed(&self, name: u64) -> u64 {
        self.campaign.spec().seed() ^ name
    }

    /// Names for frames that were never tested.
    pub fn name(&mut self, frames: u64) -> Vec<u64> {
        let first = self.next;
        self.next += frames;
        (first..self.next).collect()
    }

    /// The program got these frames in these pages.
    pub fn given(&mut self, span: VaultSpan, names: &[u64]) {
        self.homes.extend(span.numbers().zip(names.iter().copied()));
    }

    /// The frames of these pages are the pool's again; frames that did not come from it get names now.
    pub fn returned(&mut self, span: VaultSpan) -> Vec<u64> {
        span.numbers()
            .map(|page| {
                self.homes.remove(&page).unwrap_or_else(|| {
                    self.next += 1;
                    self.next - 1
                })
            })
            .collect()
    }

    /// The faults of a frame.
    pub fn faults(&self, name: u64, frame: Option<Frame>) -> Vec<PlacedFault> {
        let mut faults = self.campaign.in_region(name);
        faults.extend(self.campaign.in_frames(&[frame]));
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_frame_keeps_its_faults_wherever_it_goes() {
        let mut injected = InjectedFrames::new(&"stuck-at:2000,seed=3".parse().unwrap()).unwrap();
        let names = injected.name(100);
        let of = |injected: &InjectedFrames, names: &[u64]| -> Vec<_> {
            names.iter().map(|&name| injected.faults(name, None)).collect()
        };
        let seeds: BTreeSet<_> = names.iter().map(|&name| injected.seed(name)).collect();
        assert!(seeds.len() == 100 && injected.seed(0) == 3, "{seeds:?}");
        let faults = of(&injected, &names);
        assert!(faults.iter().any(|faults| !faults.is_empty()) && faults.iter().any(Vec::is_empty));
        let span = VaultSpan::new(7, 100).unwrap();
        injected.given(span, &names);
        let returned = injected.returned(span);
        assert_eq!(of(&injected, &returned), faults);
        assert_eq!(injected.returned(span), (100..200).collect::<Vec<_>>(), "the kernel gave these");
    }
}
