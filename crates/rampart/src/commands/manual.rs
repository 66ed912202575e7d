//! What shells and `man` know of the command line: written from its definition, so that it is never out of date.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_complete::Shell;

use crate::error::Error;
use crate::output::text;

/// The arguments of `rampart completions`.
#[derive(Debug, Args)]
pub struct CompletionsArguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// The arguments of `rampart man`, which packages are made with.
#[derive(Debug, Args)]
pub struct ManArguments {
    /// The folder that gets a page for each command
    folder: PathBuf,
}

/// Prints the script that completes the words of a command line in a shell.
pub fn print_completions(arguments: &CompletionsArguments, mut command: Command) -> Result<u8, Error> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "rampart", &mut script);
    text::print(&String::from_utf8_lossy(&script))?;
    Ok(0)
}

/// Writes a page for each command.
pub fn write_pages(arguments: &ManArguments, command: Command) -> Result<u8, Error> {
    let write = |folder: &Path| {
        fs::create_dir_all(folder)?;
        clap_mangen::generate_to(command, folder)
    };
    write(&arguments.folder).map_err(|cause| Error::Pages(arguments.folder.clone(), cause))?;
    Ok(0)
}
