//! Which pages were written while they were unlocked.
//!
//! **Problem.** A page that was only read keeps its codes, so that what memory changed meanwhile is still found; the
//! codes of a page that was written are made anew. To take one for the other is a false alarm, or an error made good.
//! **Idea.** Write-protect a page when it is unlocked, and see whether it still is. **Why this way.** A protected page
//! costs nothing until it is written.
//!
//! A move ends protection, so a page is not protected in the moment between [`Vault::unlock`] and
//! [`Vault::protect_written`], and another thread than the one that waits may write to it then. Keep the waiting thread
//! waiting ([`Wake::Later`]), protect, and compare the page with its codes once more,
//! now out of the cache; what differs was written.

use super::{Side, Tracking, Vault, VaultSpan, guarded};
use crate::Error;
use crate::userfaultfd::{PageFilter, PageState, Wake};

impl Vault {
    /// From now on, writes to those of the program's pages that are there are noticed. Pages that are locked or given
    /// later are not protected and count as written.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the kernel refuses, as with [`Tracking::Off`].
    pub fn protect_written(&self, span: VaultSpan) -> Result<(), Error> {
        let area = self.area(Side::Program, span);
        let protected = match self.options.tracking {
            // Not by the other request, which also leaves marks where no page is, and pages do not move onto a mark.
            Tracking::Noting => self.scan().protect(area),
            Tracking::Off | Tracking::Stopping => self.userfaultfd().protect(area),
        };
        protected.map_err(guarded("write-protect"))
    }

    /// Lets the program write to protected pages, and those go on that wait to: the answer to a
    /// [`FaultCause::Protected`](crate::userfaultfd::FaultCause::Protected). Huge pages stay whole if `span` does not
    /// cut them.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the kernel refuses.
    pub fn allow_writes(&self, span: VaultSpan) -> Result<(), Error> {
        self.userfaultfd().allow_writes(self.area(Side::Program, span), Wake::Now).map_err(guarded("allow writes to"))
    }

    /// Calls `each` for the runs of the program's pages that were written since they were protected, or never were
    /// protected, by ascending page. With [`Tracking::Stopping`], a page for which writes were allowed.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the kernel refuses.
    pub fn written(&self, span: VaultSpan, mut each: impl FnMut(VaultSpan)) -> Result<(), Error> {
        self.runs(Side::Program, span, PageFilter::Written, |run, _| each(run))
    }

    /// Calls `each` for the runs of pages that are there, and what is known of them, by ascending page.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the kernel refuses.
    pub fn present(&self, side: Side, span: VaultSpan, each: impl FnMut(VaultSpan, PageState)) -> Result<(), Error> {
        self.runs(side, span, PageFilter::Present, each)
    }

    fn runs(
        &self,
        side: Side,
        span: VaultSpan,
        wanted: PageFilter,
        mut each: impl FnMut(VaultSpan, PageState),
    ) -> Result<(), Error> {
        for piece in self.pieces(side, span) {
            for run in self.scan().runs(self.area(side, piece), wanted) {
                let run = run.map_err(guarded("look up pages of"))?;
                each(self.span_of(side, run), run.state);
            }
        }
        Ok(())
    }
}
