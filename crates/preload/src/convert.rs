//! Conversions between the types of the guard and those of `rampart-linux`: pages, and reasons of refusals.

use rampart_guard::{EngineRefusal, PageIndex, PageSpan};
use rampart_linux::userfaultfd::{MoveError, MoveRefusal};
use rampart_linux::{Error, vault};

/// Pages as the kernel takes them.
pub fn as_vault(span: PageSpan) -> vault::VaultSpan {
    vault::VaultSpan::new(span.first.0, span.count.get()).expect("pages of the range")
}

/// One page, likewise.
pub fn one(page: PageIndex) -> vault::VaultSpan {
    vault::VaultSpan::page(page.0).expect("a page of the range")
}

/// Why the kernel refuses a request.
pub fn refused(error: &Error) -> EngineRefusal {
    EngineRefusal::Kernel(error.to_string())
}

/// Why pages do not move.
pub fn not_moved(error: MoveError) -> EngineRefusal {
    match error.refusal {
        MoveRefusal::Busy => EngineRefusal::Pinned,
        other => EngineRefusal::Kernel(other.to_string()),
    }
}
