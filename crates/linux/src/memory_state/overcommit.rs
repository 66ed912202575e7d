//! How much memory the kernel promises: the setting `vm.overcommit_memory`.
//!
//! Source: Linux, Documentation/mm/overcommit-accounting.rst; `__vm_enough_memory` in mm/util.c.

use serde::Serialize;

use crate::Roots;
use crate::roots::text;

/// The setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Overcommit {
    /// 0, the default: no single request for more than all memory online and swap.
    Guess,
    /// 1: everything.
    Always,
    /// 2: all requests together get no more than a share of the memory online, and swap.
    Never,
}

impl Overcommit {
    /// The setting; `None` if it cannot be read.
    #[must_use]
    pub fn read(roots: &Roots) -> Option<Self> {
        match text(&roots.proc("sys/vm/overcommit_memory")).ok()?.trim() {
            "0" => Some(Self::Guess),
            "1" => Some(Self::Always),
            "2" => Some(Self::Never),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn each_setting_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::new(folder.path(), folder.path());
        assert_eq!(Overcommit::read(&roots), None);
        fs::create_dir_all(roots.proc("sys/vm")).unwrap();
        let read = |value: &str| {
            fs::write(roots.proc("sys/vm/overcommit_memory"), value).unwrap();
            Overcommit::read(&roots)
        };
        assert_eq!(read("0\n"), Some(Overcommit::Guess));
        assert_eq!(read("1\n"), Some(Overcommit::Always));
        assert_eq!(read("2\n"), Some(Overcommit::Never));
        assert_eq!(read("3\n"), None);
    }
}
