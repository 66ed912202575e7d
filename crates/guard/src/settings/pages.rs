//! The user's settings for pages, and their text form in the program's environment.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use rampart_codes::Scheme;
use rampart_memory::Bytes;
use serde::Serialize;

use crate::settings::protect::Protect;
use crate::state::layout::MOST_PAGES;
use crate::state::units::Units;

/// The action for a page that cannot be corrected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnError {
    /// The program ends before it sees the page.
    #[default]
    Stop,
    /// The program goes on with the wrong content.
    Continue,
    /// The thread that touched the page waits while a command saves what can be saved; then the program ends as with
    /// [`OnError::Stop`].
    Checkpoint,
}

impl OnError {
    /// All, by their names.
    pub const ALL: [(&'static str, Self); 3] =
        [("stop", Self::Stop), ("continue", Self::Continue), ("checkpoint-command", Self::Checkpoint)];
}

/// How pages are locked and unlocked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EngineKind {
    /// They move between the program's range and a vault, frames included (`UFFDIO_MOVE`).
    #[default]
    Move,
    /// They belong to a file, and leave and enter the program's page table (`UFFDIO_CONTINUE`).
    Minor,
    /// They stay, and lose their protection bits (`mprotect`).
    Mprotect,
}

impl EngineKind {
    /// All.
    pub const ALL: [Self; 3] = [Self::Move, Self::Minor, Self::Mprotect];

    /// The user's name for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Move => "move",
            Self::Minor => "minor",
            Self::Mprotect => "mprotect",
        }
    }
}

/// All settings for pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardSettings {
    /// How pages are locked.
    pub method: EngineKind,
    /// The codes of each page.
    pub scheme: Scheme,
    /// The most pages that are locked and unlocked at once: a power of two of at most 512.
    pub block_pages: u32,
    /// The fewest, for an irregular access pattern: a power of two of at least a 64th of a block.
    pub unit_pages: u32,
    /// A block is locked again when it has been unlocked for so long; `None`: only when too many are unlocked.
    pub interval: Option<Duration>,
    /// The unlocked limit, unless the program needs more to go on.
    pub cap: Bytes,
    /// The most blocks to prefetch for a stream; 0 for none.
    pub prefetch: u32,
    /// The target overhead, in per cent of the program's own time, which then determines the limit. `None`: the limit
    /// is `cap`.
    pub overhead: Option<u32>,
    /// The action for a page that cannot be corrected.
    pub on_error: OnError,
    /// The memory to guard.
    pub protect: Protect,
}

impl Default for GuardSettings {
    /// Huge pages, units of 64 KiB, 32 MiB of them unlocked, 4 blocks prefetched, CRC with P and Q.
    fn default() -> Self {
        Self {
            method: EngineKind::Move,
            scheme: Scheme::CrcPq,
            block_pages: MOST_PAGES,
            unit_pages: 16,
            interval: None,
            cap: Bytes::from_mib(32),
            prefetch: 4,
            overhead: None,
            on_error: OnError::Stop,
            protect: Protect::default(),
        }
    }
}

/// Why settings are refused.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum GuardSettingsError {
    /// a block is a power of two of pages, from 4KiB to 2MiB
    Block,
    /// a unit is a power of two of pages, at most a block and at least a 64th of one
    Unit,
    /// the cap of unlocked memory is at least two blocks: raise --cap or lower --block
    Cap,
    /// faults in frames are found by their tests alone: leave out --test none, and take --engine move
    NothingTested,
    /// a page can be given up only where pages move: leave out --engine minor and --engine mprotect
    NothingLost,
    /// {0:?} is no setting of the guard
    Malformed(String),
}

impl GuardSettings {
    /// The same settings, if they are consistent.
    ///
    /// # Errors
    /// The first inconsistency.
    pub fn checked(self) -> Result<Self, GuardSettingsError> {
        if !self.block_pages.is_power_of_two() || self.block_pages > MOST_PAGES {
            Err(GuardSettingsError::Block)
        } else if !self.unit_pages.is_power_of_two()
            || self.unit_pages > self.block_pages
            || self.block_pages / self.unit_pages > Units::MOST
        {
            Err(GuardSettingsError::Unit)
        } else if self.cap_blocks() < 2 {
            Err(GuardSettingsError::Cap)
        } else {
            Ok(self)
        }
    }

    /// The unlocked limit in blocks.
    const fn cap_blocks(&self) -> u64 {
        self.cap.frames() / self.block_pages as u64
    }
}

/// In the form that [`GuardSettings::from_str`] reads.
impl fmt::Display for GuardSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, scheme, block_pages, unit_pages, interval, cap, prefetch, overhead, on_error, protect } =
            self;
        write!(f, "engine={},", method.name())?;
        write!(f, "codes={scheme},block={block_pages},unit={unit_pages},cap={},prefetch={prefetch}", cap.get())?;
        if let Some(interval) = interval {
            write!(f, ",interval={}", interval.as_micros())?;
        }
        if let Some(overhead) = overhead {
            write!(f, ",overhead={overhead}")?;
        }
        let name = OnError::ALL.iter().find(|(_, value)| value == on_error).map(|(name, _)| name);
        write!(f, ",on-error={},protect={protect}", name.expect("all have names"))
    }
}

impl FromStr for GuardSettings {
    type Err = GuardSettingsError;

    fn from_str(text: &str) -> Result<Self, GuardSettingsError> {
        let mut settings = Self::default();
        for setting in text.split(',').filter(|setting| !setting.is_empty()) {
            settings.set(setting).ok_or_else(|| GuardSettingsError::Malformed(setting.to_owned()))?;
        }
        settings.checked()
    }
}

impl GuardSettings {
    fn set(&mut self, setting: &str) -> Option<()> {
        let (name, value) = setting.split_once('=')?;
        match name {
            "engine" => self.method = EngineKind::ALL.into_iter().find(|method| method.name() == value)?,
            "codes" => self.scheme = value.parse().ok()?,
            "block" => self.block_pages = value.parse().ok()?,
            "unit" => self.unit_pages = value.parse().ok()?,
            "cap" => self.cap = Bytes::new(value.parse().ok()?),
            "prefetch" => self.prefetch = value.parse().ok()?,
            "overhead" => self.overhead = Some(value.parse().ok()?),
            "interval" => self.interval = Some(Duration::from_micros(value.parse().ok()?)),
            "on-error" => self.on_error = OnError::ALL.iter().find(|(name, _)| *name == value)?.1,
            "protect" => self.protect = value.parse().ok()?,
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(
            scheme in 0..Scheme::ALL.len(), order in 0_u32..=9, parts in 0_u32..=6, blocks in 2_u64..5000, prefetch in 0_u32..100,
            interval in proptest::option::of(1_u64..10_000_000), overhead in proptest::option::of(1_u32..500),
            on_error in 0..OnError::ALL.len(), method in 0..EngineKind::ALL.len(), data in any::<bool>(), mappings in proptest::option::of(1_u64..1 << 40)
        ) {
            let settings = GuardSettings {
                method: EngineKind::ALL[method],
                scheme: Scheme::ALL[scheme],
                block_pages: 1 << order,
                unit_pages: 1 << order.saturating_sub(parts),
                interval: interval.map(Duration::from_micros),
                cap: Bytes::new((4096 << order) * blocks),
                prefetch,
                overhead,
                on_error: OnError::ALL[on_error].1,
                protect: Protect { data, mappings: mappings.map(Bytes::new) },
            };
            prop_assert_eq!(settings.to_string().parse(), Ok(settings));
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        assert_eq!("".parse(), Ok(GuardSettings::default()));
        assert_eq!("block=3".parse::<GuardSettings>(), Err(GuardSettingsError::Block));
        assert_eq!("block=1024".parse::<GuardSettings>(), Err(GuardSettingsError::Block));
        for bad in ["unit=3", "unit=0", "unit=4", "unit=1024", "block=8"] {
            assert_eq!(bad.parse::<GuardSettings>(), Err(GuardSettingsError::Unit), "{bad}");
        }
        assert_eq!("cap=4096".parse::<GuardSettings>(), Err(GuardSettingsError::Cap));
        // Two blocks of one unit each, and a block of 64 units.
        for good in ["block=16,unit=16,cap=131072", "block=64,unit=1,cap=524288"] {
            assert!(good.parse::<GuardSettings>().is_ok(), "{good}");
        }
        for bad in ["codes", "codes=md5", "engine=steam", "cap=-1", "on-error=maybe", "speed=9"] {
            assert_eq!(bad.parse::<GuardSettings>(), Err(GuardSettingsError::Malformed(bad.to_owned())));
        }
    }
}
