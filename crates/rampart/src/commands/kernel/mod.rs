//! `rampart kernel`: builds, loads and unloads Rampart's kernel module, and shows what it counts.

pub mod arguments;
mod build;
mod loading;
mod status;

use self::arguments::KernelCommand;
use crate::error::Error;

/// The file name of the module.
const MODULE: &str = "rampart.ko";

/// Runs one of the commands. Returns 0.
pub fn run(command: &KernelCommand) -> Result<u8, Error> {
    match command {
        KernelCommand::Build(arguments) => build::run(arguments),
        KernelCommand::Load(arguments) => loading::load(arguments),
        KernelCommand::Unload { json } => loading::unload(*json),
        KernelCommand::Status(arguments) => status::run(arguments),
    }
}
