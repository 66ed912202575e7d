//! What may have brought a memory block online: rules of udev, settings of the kernel, else another program.

use std::fmt;
use std::path::{Path, PathBuf};

use rampart_linux::Roots;
use rampart_linux::hotplug::{OnliningSetting, onlining_rules, onlining_settings};
use serde::Serialize;

/// All that is known to do such a thing on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Culprits {
    /// Files of udev's rules.
    pub rules: Vec<PathBuf>,
    /// Settings of the kernel.
    pub settings: Vec<OnliningSetting>,
}

impl Culprits {
    /// Those of this machine.
    pub fn find(roots: &Roots) -> Self {
        Self { rules: onlining_rules(Path::new("/")), settings: onlining_settings(roots) }
    }
}

impl fmt::Display for Culprits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("another program")?;
        if self.rules.is_empty() && self.settings.is_empty() {
            return f.write_str(", as neither a rule of udev nor a setting of the kernel does it");
        }
        let rules = self.rules.iter().map(|rule| format!("udev by {}", rule.display()));
        let settings = self.settings.iter().map(|set| format!("the kernel by {} ({})", set.file.display(), set.value));
        rules.chain(settings).try_for_each(|culprit| write!(f, ", or {culprit}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_culprit_is_named() {
        let nobody = "another program, as neither a rule of udev nor a setting of the kernel does it";
        assert_eq!(Culprits::default().to_string(), nobody);
        let setting = OnliningSetting { file: PathBuf::from("/sys/a"), value: "online".to_owned() };
        let culprits = Culprits { rules: vec![PathBuf::from("/etc/b")], settings: vec![setting] };
        assert_eq!(culprits.to_string(), "another program, or udev by /etc/b, or the kernel by /sys/a (online)");
    }
}
