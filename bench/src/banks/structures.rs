//! The memory of the allocators' own structures, beside [Panwar15, table 4.2].

use rampart_buddy::{
    AdaptiveBuddy, ArrayBanks, BankSets, BankSize, Buddy, Footprint, FullestBank, FullestSlices, ListBanks,
    Migratetype, StealRule, Zone, ZoneKind,
};
use rampart_memory::{Frame, FrameRange, Node};

/// A node of the machine of [Panwar15, 5.1]: 16 GiB, banks of 256 MiB.
const NODE: u64 = 4 << 20;
const BANK: BankSize = BankSize::of_frames(65_536).expect("a power of two");
/// Half as many banks.
const LARGE_BANK: BankSize = BankSize::of_frames(131_072).expect("a power of two");
const BANKS: u64 = NODE / BANK.frames();

type Measure = fn(&[Zone], BankSize) -> Footprint;

/// A name, how to measure it, and the bytes of `zone` and `pg_data_t` of [Panwar15, table 4.2]: full, and with only the
/// lists needed.
type Row = (&'static str, Measure, [Option<(u32, u32)>; 2]);

const ROWS: [Row; 5] = [
    ("Buddy", |zones, _| Buddy::new(zones, 1, ()).expect("a machine").footprint(), [Some((1_920, 17_152)), None]),
    (
        "ArrayBanks",
        |zones, bank| ArrayBanks::new(zones, bank).expect("a machine").footprint(),
        [Some((68_864, 284_928)), None],
    ),
    (
        "ListBanks",
        |zones, bank| ListBanks::new(zones, bank).expect("a machine").footprint(),
        [Some((71_040, 293_632)), None],
    ),
    (
        "AdaptiveBuddy",
        |zones, bank| {
            let sets = BankSets::plain();
            AdaptiveBuddy::new(zones, bank, &sets, StealRule::MostFree).expect("a machine").footprint()
        },
        [Some((5_696, 32_256)), Some((2_368, 18_944))],
    ),
    (
        "FullestBank",
        |zones, bank| {
            let mut slices = FullestSlices::of(zones, 1, bank);
            let mut vacant = slices.vacant_zones();
            FullestBank::new(zones, 1, bank, &BankSets::plain(), slices.lend(&mut vacant))
                .expect("a machine")
                .footprint()
        },
        [None, None],
    ),
];

fn zone(kind: ZoneKind, start: u64, end: u64) -> Zone {
    let frames = Frame::new(start).and_then(|first| FrameRange::new(first, end - start));
    Zone { node: Node(0), kind, frames: frames.expect("a zone") }
}

/// Prints the table.
pub fn print() {
    let one = [zone(ZoneKind::Normal, 0, NODE)];
    let three =
        [zone(ZoneKind::Dma, 0, 4096), zone(ZoneKind::Dma32, 4096, 1 << 20), zone(ZoneKind::Normal, 1 << 20, NODE)];
    println!("Bytes of the structures of a node of 16 GiB with {BANKS} banks, but for what is kept of each frame.");
    println!("zone: all of the node is one zone. node: DMA, DMA32 and NORMAL. bank: a bank's part of the zone.");
    println!("full: if each free list were three, one per migratetype; Buddy has these, the others do not.");
    println!(
        "CPUs' lists are not in it. Panwar15: `zone`, `pg_data_t` of its table 4.2, then with only the lists needed.\n"
    );
    println!(
        "{:14} {:>7} {:>7} {:>6} {:>10} {:>10} {:>9}   Panwar15",
        "", "zone", "node", "bank", "zone full", "node full", "per frame"
    );
    for (name, measure, theirs) in ROWS {
        let (own, node, large) = (measure(&one, BANK), measure(&three, BANK), measure(&one, LARGE_BANK));
        let bank = (own.zones.get() - large.zones.get()) / (BANKS / 2);
        let per_frame = own.frames.get() as f64 / NODE as f64;
        let beside: Vec<String> = theirs.iter().flatten().map(|(zone, node)| format!("{zone}, {node}")).collect();
        println!(
            "{name:14} {:7} {:7} {bank:6} {:10} {:10} {per_frame:9.3}   {}",
            own.zones.get(),
            node.zones.get(),
            full(name, own),
            full(name, node),
            beside.join("; ")
        );
    }
    println!();
}

/// Returns the bytes with a list for each migratetype where there is one list.
fn full(name: &str, footprint: Footprint) -> u64 {
    let more = if name == "Buddy" { 0 } else { Migratetype::COUNT as u64 - 1 };
    footprint.zones.get() + more * footprint.heads.get()
}
