//! The user's settings for the frames below a guarded heap, and their text form for the guarded program.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use rampart_march::MarchChoice;
use rampart_march::execute::Method;
use rampart_memory::Bytes;

use crate::settings::pages::GuardSettingsError;

/// The action for a page's first use without tested memory in the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Untested {
    /// The program gets an untested frame of the kernel, which is tested later.
    #[default]
    Allow,
    /// The program waits for the test.
    Wait,
}

/// All settings for frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameSettings {
    /// The march test of each frame.
    pub test: MarchChoice,
    /// The test's way to the DRAM on this machine.
    pub method: Method,
    /// The action without tested memory in the pool.
    pub untested: Untested,
    /// How long a test stays good.
    pub lifetime: Duration,
    /// The most tested memory in the pool.
    pub spare: Bytes,
}

impl FrameSettings {
    /// The default lifetime of a frame's test: a day (`rampart watch`: 30 minutes).
    pub const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
}

/// In the form that [`FrameSettings::from_str`] reads. The test comes last, because its notation has commas of its own.
impl fmt::Display for FrameSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { test, method, untested, lifetime, spare } = self;
        let method = method.name();
        let untested = match untested {
            Untested::Allow => "allow",
            Untested::Wait => "wait",
        };
        let (lifetime, spare) = (lifetime.as_micros(), spare.get());
        write!(f, "method={method},untested={untested},lifetime={lifetime},spare={spare},test={test}")
    }
}

impl FromStr for FrameSettings {
    type Err = GuardSettingsError;

    fn from_str(text: &str) -> Result<Self, GuardSettingsError> {
        let malformed = |setting: &str| GuardSettingsError::Malformed(setting.to_owned());
        let (before, test) = text.split_once("test=").ok_or_else(|| malformed(text))?;
        let mut settings = Self {
            test: test.parse().map_err(|_| malformed(test))?,
            method: Method::FlushBehind,
            untested: Untested::Allow,
            lifetime: Self::LIFETIME,
            spare: Bytes::from_mib(64),
        };
        for setting in before.split(',').filter(|setting| !setting.is_empty()) {
            settings.set(setting).ok_or_else(|| malformed(setting))?;
        }
        Ok(settings)
    }
}

impl FrameSettings {
    fn set(&mut self, setting: &str) -> Option<()> {
        match setting.split_once('=')? {
            ("method", name) => self.method = Method::named(name)?,
            ("untested", "allow") => self.untested = Untested::Allow,
            ("untested", "wait") => self.untested = Untested::Wait,
            ("lifetime", micros) => self.lifetime = Duration::from_micros(micros.parse().ok()?),
            ("spare", bytes) => self.spare = Bytes::new(bytes.parse().ok()?),
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
            named in 0..rampart_march::named::NAMED.len(), notation: bool, wait: bool,
            lifetime in 0_u64..1 << 50, spare: u64, method in prop::sample::select(Method::ALL.to_vec())
        ) {
            let named = rampart_march::named::NAMED[named];
            let text = if notation { named.notation } else { named.name };
            let settings = FrameSettings {
                test: text.parse().unwrap(),
                method,
                untested: if wait { Untested::Wait } else { Untested::Allow },
                lifetime: Duration::from_micros(lifetime),
                spare: Bytes::new(spare),
            };
            prop_assert_eq!(settings.to_string().parse(), Ok(settings));
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let day = Duration::from_secs(86_400);
        assert_eq!("test=mats+".parse::<FrameSettings>().unwrap().lifetime, day);
        let refused = |text: &str| text.parse::<FrameSettings>().unwrap_err();
        assert_eq!(refused("spare=1"), GuardSettingsError::Malformed("spare=1".to_owned()));
        assert_eq!(refused("test=march c"), GuardSettingsError::Malformed("march c".to_owned()));
        assert_eq!(refused("untested=maybe,test=mats"), GuardSettingsError::Malformed("untested=maybe".to_owned()));
    }
}
