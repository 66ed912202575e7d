//! What this processor's caches do with lines that should leave them.
//!
//! Measured by loads of lines after a sweep ([`super::bypass`]); it decides how lines are evicted.

/// What the caches do with lines that are written past them, or flushed while their neighbours are accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Caches {
    /// They drop them: Intel (Cascade Lake, Sapphire Rapids).
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only Intel's do, as far as was measured"))]
    Release,
    /// They keep some, or fetch them again. AMD's Zen 5 kept 40 to 90 % of the lines written past its caches, and 2 to
    /// 38 % of those flushed among accesses. It kept none of the lines that were flushed many at a time, without any
    /// access before that was over. This is also assumed of every processor that was not measured.
    Retain,
}
