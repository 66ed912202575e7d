//! `rampart banks`: shows what each memory block holds and whether it can be emptied, empties blocks, and brings them
//! back; records page allocations, and replays them.

pub mod arguments;
mod consolidate;
mod culprits;
mod mover;
mod page;
mod pool_events;
mod pools;
mod pressure_limit;
mod pressure_watch;
mod record;
mod recorded;
mod recording;
mod replay;
mod restore;
mod table;

use rampart_banks::{BankLayout, MemorySurvey};
use rampart_linux::{Census, FlagTable, MemoryBlocks, MemoryOrigins, MemoryTables, Roots};
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
    /// Why tables of the firmware are left out.
    tables_left_out: &'a [String],
}

/// The blocks as they are now, their survey, why the use of frames is unknown, if it is, and why tables of the firmware
/// are left out.
struct Surveyed {
    blocks: MemoryBlocks,
    survey: MemorySurvey,
    unknown: Option<String>,
    left_out: Vec<String>,
}

impl Surveyed {
    /// The survey, if it knows the use of frames.
    fn known(self) -> Result<MemorySurvey, Error> {
        self.unknown.map_or(Ok(self.survey), |why| Err(Error::NoCensus(why)))
    }
}

/// Looks at all blocks and frames.
fn look(roots: &Roots, bank: Option<Bytes>) -> Result<Surveyed, Error> {
    let blocks = MemoryBlocks::read(roots).map_err(Error::NoBlocks)?;
    Ok(survey(roots, blocks, bank, |flags, blocks| flags.censuses(blocks.frames())))
}

/// Looks at a few frames of each of these blocks: one that is all but free looks free.
fn glance(roots: &Roots, blocks: MemoryBlocks) -> Surveyed {
    survey(roots, blocks, None, FlagTable::estimates)
}

fn survey(
    roots: &Roots,
    blocks: MemoryBlocks,
    bank: Option<Bytes>,
    census: impl FnOnce(&FlagTable, &MemoryBlocks) -> Result<Vec<Census>, rampart_linux::Error>,
) -> Surveyed {
    let (banks, left_out) = banks_of(roots, &blocks, bank);
    let censuses = FlagTable::open(roots).and_then(|flags| census(&flags, &blocks));
    let survey = MemorySurvey::with_origins(&blocks, censuses.as_deref().ok(), banks, &MemoryOrigins::read(roots));
    Surveyed { blocks, survey, unknown: censuses.err().map(|error| error.to_string()), left_out }
}

/// The banks, and why tables of the firmware are left out. What the user says counts more than the firmware.
fn banks_of(roots: &Roots, blocks: &MemoryBlocks, bank: Option<Bytes>) -> (BankLayout, Vec<String>) {
    if let Some(size) = bank {
        return (BankLayout::requested(size), Vec::new());
    }
    let tables = MemoryTables::read(roots);
    let memory = Bytes::new(blocks.size.get() * blocks.blocks.len() as u64);
    let left_out = tables.refused.iter().map(ToString::to_string).collect();
    (BankLayout::of_firmware(&tables, memory), left_out)
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
    let Surveyed { survey, unknown, left_out, .. } = look(&Roots::default(), arguments.bank)?;
    if arguments.json {
        let uses_unknown_because = unknown.as_deref();
        let document =
            Document { schema: "rampart.banks/1", survey: &survey, uses_unknown_because, tables_left_out: &left_out };
        text::print_json(&document)?;
    } else {
        text::print(&table::text(&survey, unknown.as_deref(), &left_out))?;
    }
    if let Some(page) = page {
        page.write(page::of_survey(&survey).as_bytes())?;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampart_banks::BankSource;
    use rampart_linux::{BlockZones, HotplugState, MemoryBlock};
    use rampart_memory::HotplugBlock;

    /// An MPST with one node, of 256 MiB from 256 MiB on; of its checksum, `sum` is too much.
    fn mpst(sum: u8) -> Vec<u8> {
        let mut bytes = vec![0; 76];
        bytes[..4].copy_from_slice(b"MPST");
        for (place, value) in [(4, 76), (40, 1), (44, 3), (48, 32), (55, 0x10), (63, 0x10)] {
            bytes[place] = value;
        }
        bytes[9] = bytes.iter().fold(sum, |sum: u8, byte| sum.wrapping_sub(*byte));
        bytes
    }

    #[test]
    fn the_firmware_s_banks_count_unless_the_user_gives_a_size() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::new(folder.path(), folder.path());
        let block = |number| MemoryBlock {
            number: HotplugBlock(number),
            state: HotplugState::Online,
            zones: BlockZones::Unknown,
            node: None,
        };
        let blocks = MemoryBlocks { size: Bytes::from_mib(128), blocks: (0..8).map(block).collect() };
        let assumed = BankLayout::assumed(Bytes::from_mib(1024));
        assert_eq!(banks_of(&roots, &blocks, None), (assumed.clone(), Vec::new()));
        let table = roots.sys("firmware/acpi/tables/MPST");
        std::fs::create_dir_all(table.parent().unwrap()).unwrap();
        std::fs::write(&table, mpst(0)).unwrap();
        let (banks, left_out) = banks_of(&roots, &blocks, None);
        assert_eq!((banks.source, banks.named.len(), left_out.len()), (BankSource::Firmware, 1, 0));
        assert_eq!(banks.named[0].addresses, (256 << 20, (512 << 20) - 1));
        let size = Bytes::from_mib(64);
        assert_eq!(banks_of(&roots, &blocks, Some(size)), (BankLayout::requested(size), Vec::new()));
        std::fs::write(&table, mpst(1)).unwrap();
        let (banks, left_out) = banks_of(&roots, &blocks, None);
        assert_eq!(banks, assumed);
        assert_eq!(left_out, ["the firmware's table MPST is left out: its checksum is wrong"]);
    }
}
