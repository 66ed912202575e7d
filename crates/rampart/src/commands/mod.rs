//! One module for each command; none uses another.

pub mod access;
pub mod banks;
pub mod errors;
pub mod evidence;
pub mod heap;
pub mod inject;
pub mod java;
pub mod kernel;
pub mod manual;
pub mod map;
pub mod march;
pub mod mpirun;
pub mod noise;
pub mod project;
pub mod run;
pub mod simulate;
pub mod status;
pub mod test;
pub mod trace;
pub mod watch;
