//! `rampart banks`: shows what each memory block holds and whether it can be emptied, empties blocks, and brings them
//! back; records page allocations, and replays them.

pub mod arguments;
mod consolidate;
mod mover;
mod page;
mod pools;
mod record;
mod recorded;
mod recording;
mod replay;
mod restore;
mod table;

use rampart_banks::{BankLayout, BankSource, MemorySurvey};
use rampart_linux::{FlagTable, MemoryBlocks, Roots};
use rampart_memory::Bytes;
use serde::Serialize;

use self::arguments::{BanksArguments, BanksCommand};
use crate::error::Error;
use crate::output::file::Output;
use crate::output::text;

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    #[serde(flatten)]
    survey: &'a MemorySurvey,
    /// Why the use of frames is unknown.
    uses_unknown_because: Option<&'a str>,
}

/// The blocks as they are now, their survey, and why the use of frames is unknown, if it is.
struct Surveyed {
    blocks: MemoryBlocks,
    survey: MemorySurvey,
    unknown: Option<String>,
}

impl Surveyed {
    /// The survey, if it knows the use of frames.
    fn known(self) -> Result<MemorySurvey, Error> {
        self.unknown.map_or(Ok(self.survey), |why| Err(Error::NoCensus(why)))
    }
}

/// Looks at all blocks.
fn look(roots: &Roots, bank: Option<Bytes>) -> Result<Surveyed, Error> {
    let blocks = MemoryBlocks::read(roots).map_err(Error::NoBlocks)?;
    let banks = banks_of(&blocks, bank);
    let censuses = FlagTable::open(roots).and_then(|flags| flags.censuses(blocks.frames()));
    let survey = MemorySurvey::new(&blocks, censuses.as_deref().ok(), banks);
    Ok(Surveyed { blocks, survey, unknown: censuses.err().map(|error| error.to_string()) })
}

fn banks_of(blocks: &MemoryBlocks, bank: Option<Bytes>) -> BankLayout {
    match bank {
        Some(size) => BankLayout { size, source: BankSource::Requested },
        None => BankLayout::assumed(Bytes::new(blocks.size.get() * blocks.blocks.len() as u64)),
    }
}

/// Runs one of the commands, or shows the survey, which returns 0.
pub fn run(arguments: &BanksArguments) -> Result<u8, Error> {
    match &arguments.command {
        Some(BanksCommand::Consolidate(arguments)) => consolidate::run(arguments),
        Some(BanksCommand::Record(arguments)) => recording::run(arguments),
        Some(BanksCommand::Replay(arguments)) => replay::run(arguments),
        Some(BanksCommand::Pools(arguments)) => pools::run(arguments),
        Some(BanksCommand::Restore(arguments)) => restore::run(arguments),
        None => show(arguments),
    }
}

fn show(arguments: &BanksArguments) -> Result<u8, Error> {
    let page = arguments.html.as_deref().map(Output::prepare).transpose()?;
    let Surveyed { survey, unknown, .. } = look(&Roots::default(), arguments.bank)?;
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
