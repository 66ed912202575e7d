//! Memory of the program beside its heap: mappings, static data, and where all of it lies.

pub mod mappings;
pub mod process_map;
pub mod spans;
pub mod static_data;
