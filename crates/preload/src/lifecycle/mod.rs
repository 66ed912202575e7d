//! The life of the process: the constructor, and the end.

mod process;
mod static_data;
