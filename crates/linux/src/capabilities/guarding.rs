//! Probes of what the page guard uses.

use crate::userfaultfd::{Reach, Userfaultfd};
use crate::vault::Tracking;
use crate::{Absence, Roots};

/// Opens a userfaultfd with all that a vault needs; without privileges it serves less, and says so.
pub(super) fn page_guard(_: &Roots) -> Result<String, Absence> {
    Userfaultfd::open(Tracking::Stopping.features(), Reach::UserCode).map(|faults| faults.route().to_string())
}
