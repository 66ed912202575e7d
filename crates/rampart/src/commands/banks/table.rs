//! The survey as text: a row for each block, a picture, and the totals.

use std::fmt::Write as _;
use std::iter;

use rampart_banks::{BlockObstacle, BlockSurvey, MemorySurvey, NamedBank, VirtioMemTotals};
use rampart_linux::{BlockZones, MemoryOrigin};
use rampart_memory::Bytes;

/// Blocks in a row of the picture.
const ROW: usize = 64;

/// The headings of the columns.
const HEADINGS: [&str; COLUMNS] =
    ["block", "state", "zone", "node", "bank", "from", "used", "movable", "unmovable", "free", "can be emptied"];

const COLUMNS: usize = 11;

/// The columns of numbers, which are aligned on the right.
const NUMBERS: [bool; COLUMNS] = [true, false, false, true, true, false, true, true, true, true, false];

/// The meaning of the picture's signs.
const LEGEND: &str = "0 to 9: can be emptied, tenths in use   #: memory of the kernel   z: several zones   o: a hole\n\
                      .: offline   >: going offline   ?: unknown (needs root)\n";

/// The survey as text. `unknown` is the reason why the use of frames could not be read, `left_out` are those why tables
/// of the firmware do not count.
pub fn text(survey: &MemorySurvey, unknown: Option<&str>, left_out: &[String]) -> String {
    let mut text = String::new();
    rows(&mut text, survey);
    text.push_str("used, movable, unmovable and free memory in MiB\n");
    text.push('\n');
    for blocks in survey.blocks.chunks(ROW) {
        let signs: String = blocks.iter().map(|block| sign(block, survey.block)).collect();
        let _ = writeln!(text, "{:>6}  {signs}", blocks[0].number.0);
    }
    text.push_str(LEGEND);
    let totals = &survey.totals;
    let _ = writeln!(
        text,
        "\nmemory      {} online, {} offline, in {} blocks of {}",
        totals.online,
        totals.offline,
        survey.blocks.len(),
        survey.block
    );
    let _ =
        writeln!(text, "banks       {} of {} are removable; {}", totals.removable_banks, totals.banks, survey.banks);
    survey.banks.named.iter().for_each(|named| named_bank(&mut text, named));
    for why in left_out {
        let _ = writeln!(text, "tables      {why}");
    }
    match unknown {
        Some(why) => drop(writeln!(text, "emptied     unknown: {why}")),
        None => drop(writeln!(
            text,
            "emptied     {} in {} blocks could be now, after {} has moved",
            totals.can_be_emptied,
            totals.can_be_emptied.get() / survey.block.get(),
            totals.to_move
        )),
    }
    if totals.virtio_mem.plugged > Bytes::ZERO {
        virtio_mem(&mut text, &totals.virtio_mem);
    }
    text
}

/// What the host gave by virtio-mem, and what it can have back.
fn virtio_mem(text: &mut String, totals: &VirtioMemTotals) {
    let _ = writeln!(
        text,
        "virtio-mem  {} is from the host, of which {} is offline and can go back: the host lowers requested-size by \
         that much\nvirtio-mem  {} more can be emptied",
        totals.plugged, totals.offline, totals.can_be_emptied
    );
}

/// A row for each block, under the headings. Each column is as wide as its widest cell.
fn rows(text: &mut String, survey: &MemorySurvey) {
    let headings = HEADINGS.map(str::to_owned);
    let rows: Vec<[String; COLUMNS]> = iter::once(headings).chain(survey.blocks.iter().map(cells)).collect();
    let mut widths = [0; COLUMNS];
    for row in &rows {
        widths.iter_mut().zip(row).for_each(|(width, cell)| *width = cell.len().max(*width));
    }
    for row in &rows {
        let cells = row.iter().zip(widths).zip(NUMBERS).map(|((cell, width), is_number)| {
            if is_number { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        let line = cells.collect::<Vec<String>>().join("  ");
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

fn cells(block: &BlockSurvey) -> [String; COLUMNS] {
    let bank = match block.banks {
        (first, last) if first == last => first.0.to_string(),
        (first, last) => format!("{}-{}", first.0, last.0),
    };
    let bank = match block.set {
        Some(set) => format!("{bank} set {}", set.0),
        None => bank,
    };
    let node = block.node.map_or_else(|| "-".to_owned(), |node| node.0.to_string());
    let uses = block.uses;
    let uses = [uses.used(), uses.movable, uses.unmovable, uses.free].map(|bytes| match block.obstacle {
        Some(BlockObstacle::Offline | BlockObstacle::GoingOffline | BlockObstacle::Unknown) => "-".to_owned(),
        _ => mebibytes(bytes),
    });
    let [used, movable, unmovable, free] = uses;
    [
        block.number.0.to_string(),
        block.state.to_string(),
        zone(&block.zones),
        node,
        bank,
        origin(block.origin).to_owned(),
        used,
        movable,
        unmovable,
        free,
        verdict(block),
    ]
}

/// A number of MiB in at most six characters: with one decimal below a thousand, and none where it is whole.
fn mebibytes(bytes: Bytes) -> String {
    const MEBIBYTE: u64 = 1 << 20;
    let tenths = (u128::from(bytes.get()) * 10 + u128::from(MEBIBYTE) / 2) / u128::from(MEBIBYTE);
    match tenths {
        0 if bytes > Bytes::ZERO => "<0.1".to_owned(),
        _ if tenths >= 10_000 || bytes.get().is_multiple_of(MEBIBYTE) => ((tenths + 5) / 10).to_string(),
        _ => format!("{}.{}", tenths / 10, tenths % 10),
    }
}

/// A bank that the firmware names, with the banks that go with it and its interleaving.
fn named_bank(text: &mut String, named: &NamedBank) {
    let (first, last) = named.addresses;
    let _ = write!(text, "bank {:>6} {first:#012x}-{last:#012x} ({})", named.bank.0, named.table);
    if let Some(set) = named.set {
        let _ = write!(text, ", goes with all of set {}", set.0);
    }
    if let Some(interleave) = named.interleave {
        let _ = write!(text, ", interleaved {} ways by {}", interleave.ways, interleave.granularity);
    }
    text.push('\n');
}

/// Where the memory of a block comes from, in few letters.
fn origin(origin: MemoryOrigin) -> &'static str {
    match origin {
        MemoryOrigin::Machine => "machine",
        MemoryOrigin::VirtioMem => "virtio-mem",
        MemoryOrigin::Unknown => "-",
    }
}

/// The zone of a block in few letters; of an offline one, the zone in which it comes online by default.
fn zone(zones: &BlockZones) -> String {
    match zones {
        BlockZones::In(zone) => zone.clone(),
        BlockZones::Several => "several".to_owned(),
        BlockZones::Choices(zones) => zones.first().cloned().unwrap_or_else(|| "-".to_owned()),
        BlockZones::Unknown => "-".to_owned(),
    }
}

/// Whether a block can be emptied, and if not, why.
pub fn verdict(block: &BlockSurvey) -> String {
    match block.obstacle {
        None => "yes".to_owned(),
        Some(obstacle) => format!("no: {obstacle}"),
    }
}

fn sign(block: &BlockSurvey, size: Bytes) -> char {
    match block.obstacle {
        None => {
            let tenths = (block.uses.used().get() * 10).div_ceil(size.get()).min(9);
            u32::try_from(tenths).ok().and_then(|tenths| char::from_digit(tenths, 10)).expect("a digit")
        }
        Some(BlockObstacle::Unmovable) => '#',
        Some(BlockObstacle::SeveralZones) => 'z',
        Some(BlockObstacle::Hole) => 'o',
        Some(BlockObstacle::Offline) => '.',
        Some(BlockObstacle::GoingOffline) => '>',
        Some(BlockObstacle::Unknown) => '?',
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampart_banks::BankLayout;
    use rampart_linux::{
        Census, CxlWindow, FrameClass, HotplugState, MemoryBlock, MemoryBlocks, MemoryTables, PowerNode,
    };
    use rampart_memory::{Bank, Frame, FrameRange, HotplugBlock, Node};

    fn survey(censuses: Option<&[Census]>) -> MemorySurvey {
        survey_of(censuses, BankLayout::requested(Bytes::from_mib(256)))
    }

    fn survey_of(censuses: Option<&[Census]>, banks: BankLayout) -> MemorySurvey {
        let block =
            |number, state, zones| MemoryBlock { number: HotplugBlock(number), state, zones, node: Some(Node(0)) };
        let normal = || BlockZones::In("Normal".to_owned());
        let choices = BlockZones::Choices(vec!["Normal".to_owned(), "Movable".to_owned()]);
        let blocks = vec![
            block(0, HotplugState::Online, BlockZones::Several),
            block(1, HotplugState::Online, normal()),
            block(2, HotplugState::Online, normal()),
            block(3, HotplugState::Offline, choices),
        ];
        let blocks = MemoryBlocks { size: Bytes::from_mib(128), blocks };
        MemorySurvey::new(&blocks, censuses, banks)
    }

    #[test]
    fn each_block_has_a_row_and_a_sign_and_the_last_line_has_the_answer() {
        let used: Census = [(FrameClass::Anonymous, 8192), (FrameClass::Free, 24_576)].into_iter().collect();
        let kernel: Census = [(FrameClass::Slab, 32_768)].into_iter().collect();
        let shown = text(&survey(Some(&[kernel, used, kernel])), None, &[]);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(
            lines[..6],
            [
                "block  state    zone     node  bank  from  used  movable  unmovable  free  can be emptied",
                "    0  online   several     0     0  -      128        0        128     0  no: several zones",
                "    1  online   Normal      0     0  -       32       32          0    96  yes",
                "    2  online   Normal      0     1  -      128        0        128     0  no: kernel memory",
                "    3  offline  Normal      0     1  -        -        -          -     -  no: offline",
                "used, movable, unmovable and free memory in MiB",
            ]
        );
        assert_eq!(lines[7], "     0  z3#.");
        assert_eq!(lines.last(), Some(&"emptied     128 MiB in 1 blocks could be now, after 32 MiB has moved"));
        assert!(shown.contains("0 of 2 are removable; banks of 256 MiB (as requested)"), "{shown}");
    }

    #[test]
    fn sizes_are_mebibytes_with_a_decimal_where_that_says_something() {
        let kib = |kib: u64| mebibytes(Bytes::new(kib << 10));
        for (size, shown) in [
            (0, "0"),
            (4, "<0.1"),
            (52, "0.1"),
            (1024, "1"),
            (1536, "1.5"),
            (128 * 1024 - 4, "128.0"),
            (999 * 1024 + 512, "999.5"),
            (1000 * 1024 + 512, "1001"),
            (2047 * 1024 + 4, "2047"),
            (2048 * 1024, "2048"),
        ] {
            assert_eq!(kib(size), shown, "{size} KiB");
        }
    }

    /// With blocks of 2 GiB, 9,999 banks, and memory of the host.
    #[test]
    fn the_table_of_a_large_machine_is_not_wider_than_a_hundred_columns() {
        let used: Census = [(FrameClass::Anonymous, 8191), (FrameClass::Free, 24_577)].into_iter().collect();
        let mut seen = survey(Some(&[used, used, used]));
        for block in &mut seen.blocks {
            block.number = HotplugBlock(99_999);
            block.banks = (Bank(9999), Bank(9999));
            block.origin = MemoryOrigin::VirtioMem;
            block.uses.free = Bytes::new((1 << 31) - (5 << 20) - 1);
            block.uses.movable = Bytes::new((1 << 30) - 4096);
        }
        let shown = text(&seen, None, &[]);
        let widest = shown.lines().take(5).map(str::len).max();
        assert!(widest <= Some(100), "{widest:?}\n{shown}");
    }

    #[test]
    fn banks_of_the_firmware_are_listed_with_their_set_and_interleaving() {
        let node = |block: u64| PowerNode {
            id: 5,
            frames: FrameRange::new(Frame::new(block << 15).unwrap(), 1 << 15).unwrap(),
        };
        let window = FrameRange::new(Frame::new(4 << 15).unwrap(), 2 << 15).unwrap();
        let windows = vec![CxlWindow { frames: window, ways: 4, granularity: Bytes::new(256) }];
        let tables = MemoryTables { nodes: vec![node(0), node(2)], windows, refused: Vec::new() };
        let seen = survey_of(None, BankLayout::of_firmware(&tables, Bytes::from_mib(512)));
        let shown = text(&seen, None, &["MPST is wrong".to_owned()]);
        let row = |line: usize| shown.lines().nth(line).unwrap();
        assert!(row(1).contains("  0 set 0  ") && row(3).contains("  2 set 0  ") && !row(2).contains("set"), "{shown}");
        assert_eq!((seen.blocks[1].set, seen.blocks[2].set), (None, Some(Bank(0))));
        for line in [
            "3 banks are named by the firmware, elsewhere banks of 128 MiB (assumed)",
            "bank      0 0x0000000000-0x0007ffffff (MPST), goes with all of set 0",
            "bank      2 0x0010000000-0x0017ffffff (MPST), goes with all of set 0",
            "bank      4 0x0020000000-0x002fffffff (CEDT), interleaved 4 ways by 256 B",
            "tables      MPST is wrong",
        ] {
            assert!(shown.lines().any(|shown| shown.ends_with(line)), "{shown}");
        }
    }

    #[test]
    fn memory_of_virtio_mem_is_named_with_what_can_go_back() {
        let shown = text(&survey(None), None, &[]);
        assert!(!shown.contains("virtio-mem"), "{shown}");
        let mut seen = survey(None);
        seen.blocks[3].origin = MemoryOrigin::VirtioMem;
        seen.totals.virtio_mem = VirtioMemTotals {
            plugged: Bytes::from_mib(256),
            offline: Bytes::from_mib(128),
            can_be_emptied: Bytes::from_mib(64),
        };
        let shown = text(&seen, None, &[]);
        let row = shown.lines().nth(4).unwrap();
        assert!(row.contains("  virtio-mem  ") && !shown.lines().nth(3).unwrap().contains("virtio-mem"), "{shown}");
        assert!(
            shown.ends_with(
                "virtio-mem  256 MiB is from the host, of which 128 MiB is offline and can go back: the host lowers \
                 requested-size by that much\nvirtio-mem  64 MiB more can be emptied\n"
            ),
            "{shown}"
        );
    }

    #[test]
    fn what_is_unknown_is_said_to_be_unknown() {
        let shown = text(&survey(None), Some("no root"), &[]);
        assert!(shown.contains("     0  z??.\n") && shown.ends_with("emptied     unknown: no root\n"), "{shown}");
    }
}
