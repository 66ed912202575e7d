//! Pages out of a vault, into blocks of their own.
//!
//! **Problem.** Pages of a vault are to move to other frames, and their own frames must not go back to the kernel yet:
//! they are to be tested first. A page can be moved only to where faults are ours, and a [`Block`] is ordinary memory.
//! **Idea.** The faults of a new block are ours for the time of the move. **Why this way.** The result is an ordinary
//! block: it can be tested, pinned, kept, and given to a vault again by [`Vault::give`].

#![expect(unsafe_code, reason = "pages are moved between ranges that are ours")]

use rampart_memory::Bytes;
use rustix::mm::Advice;

use super::moves::kernel;
use super::{Side, Vault, VaultSpan};
use crate::block::mapping::Mapping;
use crate::userfaultfd::{Area, Modes, MoveError, MoveRefusal, Wake};
use crate::{Block, PageKind};

impl Vault {
    /// Moves pages, with their frames, out of the vault, where all of them must be, into a block of their own. A huge
    /// page stays one if `span` does not split it. For a thread that may wait: it maps memory.
    ///
    /// # Errors
    /// Why they cannot be moved; all are in the vault then. [`MoveRefusal::Busy`] for a page that is shared since a
    /// fork.
    pub fn take(&self, span: VaultSpan) -> Result<Block, MoveError> {
        let from = self.area(Side::Vault, span);
        let mapping = Mapping::anonymous(from.bytes).map_err(kernel)?;
        let kind = if span.is_huge() { self.options.kind } else { PageKind::Base };
        let huge = kind != PageKind::Base;
        // A kernel without transparent huge pages refuses both; then all pages are base pages anyway.
        let _ = mapping.advise(0..from.bytes, if huge { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage });
        let to = Area { start: mapping.base(), bytes: from.bytes };
        // SAFETY: the range is our own, and is reached by raw pointers only.
        unsafe { self.userfaultfd().register(to, Modes::MISSING) }.map_err(kernel)?;
        let mlocked = self.mlocked();
        // SAFETY: both ranges are our own, and are reached by raw pointers only.
        let moved = unsafe {
            mlocked.make_alike(to);
            self.userfaultfd().move_pages(from.start, to, Wake::Later)
        };
        let ended = moved.and_then(|()| {
            self.userfaultfd()
                .unregister(to)
                .map_err(|errno| MoveError { moved: Bytes::new(to.bytes as u64), refusal: MoveRefusal::Kernel(errno) })
        });
        match ended {
            Ok(()) => Ok(Block::of(mapping, kind)),
            Err(MoveError { moved, refusal }) => {
                let bytes = usize::try_from(moved.get()).expect("no more moved than was asked for");
                if bytes > 0 {
                    // SAFETY: as above.
                    unsafe { self.userfaultfd().move_pages(to.start, Area { start: from.start, bytes }, Wake::Later) }
                        .expect("what moved a moment ago moves back");
                }
                Err(MoveError { moved: Bytes::ZERO, refusal })
            }
        }
    }
}
