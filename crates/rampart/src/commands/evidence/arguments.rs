//! Options of `rampart evidence`.

use clap::{Args, ValueEnum};
use serde::Serialize;

/// Options of `rampart evidence`.
#[derive(Debug, Args)]
pub struct EvidenceArguments {
    /// The work, by its key in docs/references.md [default: all five]
    #[arg(value_name = "KEY", ignore_case = true)]
    pub key: Option<WorkKey>,
    /// List only what is not written yet
    #[arg(long)]
    pub missing: bool,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// The key of a work that Rampart implements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum WorkKey {
    /// COMeT and Asteroid.
    #[value(help = "COMeT, Asteroid")]
    Rahman16,
    /// Failure-aware Immix.
    #[value(help = "failure-aware Immix")]
    Gao13,
    /// RedMPI, FlipSphere, mini-ckpts.
    #[value(help = "RedMPI, FlipSphere, mini-ckpts, librlmpi")]
    Fiala15,
    /// Adaptive-Buddy.
    #[value(help = "Adaptive-Buddy")]
    Panwar15,
    /// Corrected errors at scale.
    #[value(help = "correctable errors at scale")]
    Ferreira21,
}
