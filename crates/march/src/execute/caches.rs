//! What this processor's caches do with lines that ought to leave them.
//!
//! Measured by loads of lines after a sweep ([`super::honesty`]); it decides how they are made to leave.

/// What the caches do with lines that are written past them, or flushed while their neighbours are accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Caches {
    /// They have none of them afterwards: Intel (Cascade Lake, Sapphire Rapids).
    Release,
    /// They keep some, or fetch them again: AMD's Zen 5 had 40 to 90 % of the lines that were written past its caches,
    /// and 2 to 38 % of those that were flushed among accesses; none of those that were flushed many at a time,
    /// without any access before that was over. So this is assumed of every processor that was not measured, too.
    Retain,
}
