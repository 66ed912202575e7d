//! Encoding of numbers in files.

pub mod leb128;
