//! Probes of what the page guard uses.
//!
//! Each engine of the guard is tried on a little memory: reserved, opened, and given back.

use rampart_memory::Bytes;

use crate::protect::Protected;
use crate::shared::SharedRange;
use crate::userfaultfd::{Reach, Userfaultfd};
use crate::vault::{Tracking, Vault, VaultOptions};
use crate::{Absence, Error, PageKind, Roots};

/// How much memory an engine is tried on: a huge page is enough for each.
const TRIED: Bytes = Bytes::from_mib(2);

/// Opens a userfaultfd with all that a vault needs; without privileges it serves less, and says so.
pub(super) fn page_guard(_: &Roots) -> Result<String, Absence> {
    Userfaultfd::open(Tracking::Stopping.features(), Reach::UserCode).map(|faults| faults.route().to_string())
}

/// Tries to move pages out of a program's address space and back, with page faults of the kernel served too.
///
/// # Errors
/// What is missing.
pub fn can_move_pages(roots: &Roots) -> Result<(), Error> {
    let options = VaultOptions { kind: PageKind::Base, tracking: Tracking::Off, least: Reach::Everything };
    Vault::reserve(TRIED, options, roots).map(drop)
}

/// Tries to take pages of a file in memory out of a page table and to serve their minor faults.
///
/// # Errors
/// What is missing.
pub fn can_serve_minor_faults(roots: &Roots) -> Result<(), Error> {
    SharedRange::prepare(TRIED, PageKind::Base)?.open(roots)
}

/// Tries to take away the right to use pages, and still to read them.
///
/// # Errors
/// What is missing.
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
