//! How memory can fail (StealthWorks): filled in by the next step.
