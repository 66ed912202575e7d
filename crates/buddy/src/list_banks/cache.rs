//! How often the cached bank had room.

/// Counts of the cache of [Panwar15, 4.1.2] since the allocator was made. Requests that got nothing do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BankCache {
    /// Blocks that came from the cached bank.
    pub hits: u64,
    /// Blocks that came from another bank.
    pub misses: u64,
}

impl BankCache {
    #[inline]
    pub(super) fn count(&mut self, is_hit: bool) {
        self.hits += u64::from(is_hit);
        self.misses += u64::from(!is_hit);
    }

    /// Returns the share of hits since an earlier moment; `None` if no block was given out since.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a share for people")]
    pub fn hit_rate_since(self, earlier: Self) -> Option<f64> {
        let (hits, misses) = (self.hits - earlier.hits, self.misses - earlier.misses);
        (hits + misses > 0).then(|| hits as f64 / (hits + misses) as f64)
    }
}
