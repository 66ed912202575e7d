//! `rampart trace`: a program of MPI with a library that records its calls, built for the MPI at hand.

pub mod arguments;
pub mod gathered;
pub mod library;
pub mod mpi;
pub mod wrappers;
