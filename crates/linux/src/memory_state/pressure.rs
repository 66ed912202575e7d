//! `/proc/pressure/memory`: time that programs lose to a lack of memory (PSI).
//!
//! Source: Linux, Documentation/accounting/psi.rst.

use std::time::Duration;

use serde::Serialize;

use crate::roots::text;
use crate::{Absence, Roots};

/// Time in which tasks waited for memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Stall {
    /// Share of the last ten seconds, in percent, 0 to 100.
    pub avg10: f64,
    /// All such time since boot, to the microsecond.
    pub total: Duration,
}

/// The machine's lack of memory as programs feel it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Pressure {
    /// Time in which at least one task waited.
    pub some: Stall,
    /// Time in which all tasks waited.
    pub full: Stall,
}

impl Pressure {
    /// This machine's; `None` on a kernel without PSI or with it switched off.
    #[must_use]
    pub fn read(roots: &Roots) -> Option<Self> {
        Self::require(roots).ok()
    }

    /// This machine's.
    ///
    /// # Errors
    /// Why it is not known.
    pub fn require(roots: &Roots) -> Result<Self, Absence> {
        let path = roots.proc("pressure/memory");
        let text =
            text(&path).map_err(|cause| Absence::of_file(&path, &cause, "CONFIG_PSI, and boot it with psi=1"))?;
        let not_understood =
            || Absence::new(format!("{} is not understood", path.display()), "report this kernel's version");
        Self::parse(&text).ok_or_else(not_understood)
    }

    /// Reads the text of `/proc/pressure/memory`; `None` if it is malformed.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Some(Self { some: stall(text, "some")?, full: stall(text, "full")? })
    }
}

fn stall(text: &str, key: &str) -> Option<Stall> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))?;
    let field = |name: &str| line.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
    let avg10: f64 = field("avg10")?.parse().ok()?;
    let total = Duration::from_micros(field("total")?.parse().ok()?);
    (0.0..=100.0).contains(&avg10).then_some(Stall { avg10, total })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn stalls_are_read_from_a_kernel_s_text() {
        let text =
            "some avg10=1.25 avg60=0.30 avg300=0.07 total=123456\nfull avg10=0.50 avg60=0.00 avg300=0.00 total=99\n";
        let pressure = Pressure::parse(text).unwrap();
        assert_eq!(pressure.some, Stall { avg10: 1.25, total: Duration::from_micros(123_456) });
        assert_eq!(pressure.full, Stall { avg10: 0.5, total: Duration::from_micros(99) });
    }

    #[test]
    fn what_is_no_share_of_time_is_refused() {
        for avg in ["NaN", "inf", "-1", "101", "", "x"] {
            let text = format!("some avg10={avg} total=1\nfull avg10=0.00 total=0\n");
            assert_eq!(Pressure::parse(&text), None, "{avg}");
        }
        assert_eq!(Pressure::parse("some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"), None, "no `full` line");
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in "((some|full) (avg10=|total=)?[0-9a-zA-Z.= -]{0,30}\n){0,4}") {
            let _ = Pressure::parse(&text);
        }
    }
}
