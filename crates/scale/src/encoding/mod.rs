//! Numbers in files.

pub mod leb128;
