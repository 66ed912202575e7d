//! Memory of the program besides its heap: mappings, static data, and the places of all of it.

pub mod mappings;
pub mod process_map;
pub mod spans;
pub mod static_data;
