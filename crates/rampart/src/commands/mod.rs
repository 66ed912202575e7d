//! One module a command.

pub mod map;
pub mod march;
pub mod status;
pub mod test;
