//! Between the guard's words and those of `rampart-linux`: the same pages, and why the kernel refuses something.

use rampart_guard::{PageIndex, Refusal, Span};
use rampart_linux::userfaultfd::{MoveError, MoveRefusal};
use rampart_linux::{Error, vault};

/// Pages as the kernel is asked about them.
pub fn as_vault(span: Span) -> vault::Span {
    vault::Span::new(span.first.0, span.count.get()).expect("pages of the range")
}

/// One page, likewise.
pub fn one(page: PageIndex) -> vault::Span {
    vault::Span::page(page.0).expect("a page of the range")
}

/// Why the kernel does not do something.
pub fn refused(error: &Error) -> Refusal {
    Refusal::Kernel(error.to_string())
}

/// Why pages do not move.
pub fn not_moved(error: MoveError) -> Refusal {
    match error.refusal {
        MoveRefusal::Busy => Refusal::Pinned,
        other => Refusal::Kernel(other.to_string()),
    }
}
