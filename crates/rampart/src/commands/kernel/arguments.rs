//! Options of `rampart kernel`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What to do with the kernel module.
#[derive(Clone, Debug, Subcommand)]
pub enum KernelCommand {
    /// Build the module for the running kernel with its headers
    Build(KernelBuildArguments),
    /// Load the module that was built for the running kernel
    Load(KernelLoadArguments),
    /// Unload the module
    Unload {
        /// Print one JSON document instead of text
        #[arg(long)]
        json: bool,
    },
    /// Show for which kernels the module was built, whether it is loaded, what it counts, and what this kernel demands
    Status(KernelStatusArguments),
}

/// Where modules are kept.
#[derive(Clone, Debug, Args)]
pub struct ModulesFolder {
    /// Keep built modules in this folder, in a folder for each kernel
    #[arg(long, value_name = "DIR", default_value = "/var/lib/rampart/kernel")]
    pub modules: PathBuf,
}

impl ModulesFolder {
    /// The module for a kernel.
    pub fn module(&self, release: &str) -> PathBuf {
        self.modules.join(release).join(super::MODULE)
    }
}

/// Options of `rampart kernel build`.
#[derive(Clone, Debug, Args)]
pub struct KernelBuildArguments {
    /// Build for this kernel, as `uname -r` prints it there [default: the running one]
    #[arg(long, value_name = "RELEASE", conflicts_with = "headers")]
    pub kernel: Option<String>,
    /// The kernel's headers and makefiles [default: what /lib/modules/RELEASE/build points at]
    #[arg(long, value_name = "DIR")]
    pub headers: Option<PathBuf>,
    /// Sources of the module [default: those of this version of Rampart]
    #[arg(long, value_name = "DIR")]
    pub sources: Option<PathBuf>,
    /// Where modules are kept
    #[command(flatten)]
    pub folder: ModulesFolder,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Options of `rampart kernel load`.
#[derive(Clone, Debug, Args)]
pub struct KernelLoadArguments {
    /// Where modules are kept
    #[command(flatten)]
    pub folder: ModulesFolder,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Options of `rampart kernel status`.
#[derive(Clone, Debug, Args)]
pub struct KernelStatusArguments {
    /// Where modules are kept
    #[command(flatten)]
    pub folder: ModulesFolder,
    /// Show how much of the memory can be tested, and how old the oldest test is (root; reads 12 bytes a frame)
    #[arg(long)]
    pub reach: bool,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}
