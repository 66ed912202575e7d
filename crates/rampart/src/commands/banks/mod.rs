//! `rampart banks`: shows what each memory block holds, and whether it can be emptied.

mod page;
mod table;

use std::path::PathBuf;

use clap::Args;
use rampart_banks::{BankLayout, BankSource, MemorySurvey};
use rampart_linux::{FlagTable, MemoryBlocks, Roots};
use rampart_memory::Bytes;
use serde::Serialize;

use crate::error::Error;
use crate::output::file::Output;
use crate::output::text;
use crate::parsing::parse_power_of_two;

/// Options of `rampart banks`.
#[derive(Debug, Args)]
pub struct BanksArguments {
    /// The size of a bank, a power of two [default: 256MiB, and 128MiB on a machine with up to 4GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_power_of_two)]
    pub bank: Option<Bytes>,
    /// Write a page with a picture of all blocks
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    #[serde(flatten)]
    survey: &'a MemorySurvey,
    /// Why the use of frames is unknown.
    uses_unknown_because: Option<&'a str>,
}

/// Shows the survey. Returns 0.
pub fn run(arguments: &BanksArguments) -> Result<u8, Error> {
    let page = arguments.html.as_deref().map(Output::prepare).transpose()?;
    let roots = Roots::default();
    let blocks = MemoryBlocks::read(&roots).map_err(Error::NoBlocks)?;
    let banks = match arguments.bank {
        Some(size) => BankLayout { size, source: BankSource::Requested },
        None => BankLayout::assumed(Bytes::new(blocks.size.get() * blocks.blocks.len() as u64)),
    };
    let censuses = FlagTable::open(&roots).and_then(|flags| flags.censuses(blocks.frames()));
    let survey = MemorySurvey::new(&blocks, censuses.as_deref().ok(), banks);
    let unknown = censuses.as_ref().err().map(ToString::to_string);
    if arguments.json {
        let uses_unknown_because = unknown.as_deref();
        text::print_json(&Document { schema: "rampart.banks/1", survey: &survey, uses_unknown_because })?;
    } else {
        text::print(&table::text(&survey, unknown.as_deref()))?;
    }
    if let Some(page) = page {
        page.write(page::of_survey(&survey).as_bytes())?;
    }
    Ok(0)
}
