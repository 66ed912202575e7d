//! How far allocations had to search.

/// Counts of the searches for a bank with room, since the allocator was made.
///
/// One search goes through the banks of one zone. A request makes one for each zone that its watermark allows, and
/// once more if it may go below the low watermark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BankSearches {
    /// Searches.
    pub searches: u64,
    /// Banks looked at in all of them.
    pub looked_at: u64,
    /// The most banks looked at in one.
    pub most: u64,
}

impl BankSearches {
    /// Counts a search that looked at so many banks.
    #[inline]
    pub(crate) fn count(&mut self, looked_at: u64) {
        self.searches += 1;
        self.looked_at += looked_at;
        self.most = self.most.max(looked_at);
    }
}
