//! Probes of the features that the page guard uses.
//!
//! Each engine of the guard is tried on a little memory: reserved, opened, and given back.

use rampart_memory::Bytes;

use crate::protect::Protected;
use crate::shared::SharedRange;
use crate::userfaultfd::{Reach, Userfaultfd};
use crate::vault::{Tracking, Vault, VaultOptions};
use crate::{Absence, Error, PageKind, Roots};

/// The size of the trial: a huge page is enough for each engine.
const TRIED: Bytes = Bytes::from_mib(2);

/// Opens a userfaultfd with everything that a vault needs; without privileges it serves less, and reports so.
pub(super) fn page_guard(_: &Roots) -> Result<String, Absence> {
    Userfaultfd::open(Tracking::Stopping.features(), Reach::UserCode).map(|faults| faults.route().to_string())
}

/// Tries to move pages out of a program's address space and back, with page faults of the kernel served too.
///
/// # Errors
/// The missing feature.
pub fn can_move_pages(roots: &Roots) -> Result<(), Error> {
    let options = VaultOptions { kind: PageKind::Base, tracking: Tracking::Off, least: Reach::Everything };
    Vault::reserve(TRIED, options, roots).map(drop)
}

/// Tries to remove pages of a file in memory from a page table and to serve their minor faults.
///
/// # Errors
/// The missing feature.
pub fn can_serve_minor_faults(roots: &Roots) -> Result<(), Error> {
    SharedRange::prepare(TRIED, PageKind::Base)?.open(roots)
}

/// Tries to remove the protection bits of pages, and still to read them.
///
/// # Errors
/// The missing feature.
pub fn can_protect_pages(roots: &Roots) -> Result<(), Error> {
    Protected::prepare(TRIED, PageKind::Base, roots)?.open(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_that_cannot_guard_here_says_why_in_one_line() {
        for probe in [can_move_pages, can_serve_minor_faults, can_protect_pages] {
            if let Err(error) = probe(&Roots::default()) {
                let why = error.to_string();
                assert!(!why.is_empty() && !why.contains('\n'), "{why}");
            }
        }
    }
}
