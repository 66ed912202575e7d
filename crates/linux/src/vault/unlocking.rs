//! Pages on their way out of the vault.
//!
//! **Problem.** Where a part of a huge page moves the kernel cuts it, and puts its one page of zeros in the place of
//! each part that holds nothing else. To move that page it interrupts the program's CPUs for each place of it, where it
//! does so once for a run of others; and it does so again when the program writes there. **Idea.** Such a page does not
//! move: the program gets a new one, and the vault's is given up. **Why this way.** In the vault nobody writes, so what
//! was zeros is zeros still; on the program's side a page could not be exchanged without stopping the program.

#![expect(unsafe_code, reason = "pages are moved between ranges that are ours")]

use rustix::mm::Advice;

use super::moves::{behind, kernel};
use super::{Side, Vault, VaultSpan};
use crate::userfaultfd::{MoveError, PageFilter, Wake};

impl Vault {
    /// Moves locked pages to the program, in order, and lets those go on who wait for them. All of them must be in the
    /// vault; a huge page moves whole if `span` does not cut it. For what has no frame of its own but the kernel's
    /// shared one of zeros, the program gets a new page.
    ///
    /// # Errors
    /// How far it came, and why not further: [`MoveRefusal::Missing`](crate::userfaultfd::MoveRefusal::Missing) at a
    /// page that is not in the vault, [`MoveRefusal::Occupied`](crate::userfaultfd::MoveRefusal::Occupied) at one that
    /// the program has already (wake the threads, which go on),
    /// [`MoveRefusal::Busy`](crate::userfaultfd::MoveRefusal::Busy) at one that is shared since a fork
    /// ([`Vault::unshare`] it, and unlock the rest).
    pub fn unlock(&self, span: VaultSpan, wake: Wake) -> Result<(), MoveError> {
        span.by_huge_page().try_for_each(|piece| self.unlock_piece(piece, wake).map_err(behind(span, piece)))
    }

    /// Of one huge page, all or a part.
    fn unlock_piece(&self, piece: VaultSpan, wake: Wake) -> Result<(), MoveError> {
        let mut rest = Some(piece);
        for run in self.scan().runs(self.area(Side::Vault, piece), PageFilter::Present) {
            let run = run.map_err(kernel)?;
            if run.state.huge && !piece.is_huge() {
                return self.cut(piece, wake);
            }
            if run.state.zero {
                let zeros = self.span_of(Side::Vault, run);
                self.unlock_as_it_is(piece, VaultSpan::come_to(&mut rest, zeros), wake)?;
                self.unlock_zeros(zeros, wake).map_err(behind(piece, zeros))?;
            }
        }
        self.unlock_as_it_is(piece, rest, wake)
    }

    /// A part of a huge page: its first page cuts it, and which of the others have frames is seen then.
    fn cut(&self, piece: VaultSpan, wake: Wake) -> Result<(), MoveError> {
        let (first, others) = piece.split(piece.first() + 1);
        self.unlock_as_it_is(piece, first, wake)?;
        others.map_or(Ok(()), |others| self.unlock_piece(others, wake).map_err(behind(piece, others)))
    }

    /// A part of a piece, if there is one.
    fn unlock_as_it_is(&self, piece: VaultSpan, part: Option<VaultSpan>, wake: Wake) -> Result<(), MoveError> {
        let Some(part) = part else { return Ok(()) };
        let (from, to) = (self.area(Side::Vault, part).start, self.area(Side::Program, part));
        let _mlocked = self.mlocked();
        // SAFETY: both ranges are our own, and are reached by raw pointers only.
        unsafe { self.userfaultfd().move_pages(from, to, wake) }.map_err(behind(piece, part))
    }

    /// The program gets new pages of zeros, and the vault gives up those that it has.
    fn unlock_zeros(&self, span: VaultSpan, wake: Wake) -> Result<(), MoveError> {
        self.populate_base(span, wake)?;
        self.advise(Side::Vault, span, Advice::LinuxDontNeed).map_err(kernel)
    }
}
