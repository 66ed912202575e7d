//! End-to-end tests against the built binary: see `tests/`.
#![forbid(unsafe_code)]
