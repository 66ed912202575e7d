//! `rampart heap`: what failed lines cost programs on the heap that leaves them out, and what such a heap looks like.

pub mod arguments;
mod bench;
mod copying;
mod copying_figures;
mod copying_results;
mod figures;
mod measure;
mod measured;
mod page;
mod programs;
mod results;
mod setups;
mod show;
mod statistics;
mod usable;

use self::arguments::HeapCommand;
use crate::error::Error;

/// Runs a command.
pub fn run(command: &HeapCommand) -> Result<u8, Error> {
    match command {
        HeapCommand::Bench(arguments) => bench::run(arguments),
        HeapCommand::Figures(arguments) => figures::run(arguments),
        HeapCommand::Show(arguments) => show::run(arguments),
        HeapCommand::Usable(arguments) => usable::run(arguments),
    }
}
