//! The whole table, and for each kind of fault cases worked out on paper.

use proptest::prelude::*;

use super::fault::{
    AddressFault, Cell, Effect, Fault, Floating, Primitive, Sensitizer, Wired, bad_read, bad_read_after_write, disturb,
    forced_state_coupling, inversion, retention, state_coupling, stuck_at, transition, write_disturb,
};
use super::{Kind, prove, world};
use crate::named::{NAMED, find};
use crate::test::arbitrary::any_test;

/// Percent of the faults of each kind that each named test finds, to one decimal. Computed by a separate program,
/// written before this one and in another way: one state at a time, with every start and every direction of ⇕.
const TABLE: &str = "
                MATS  MATS+ MATS++      X      Y     C-      U     LR      A      B     SS      G    RAW     SL
SAF              100    100    100    100    100    100    100    100    100    100    100    100    100    100
TF                50     50    100    100    100    100    100    100    100    100    100    100    100    100
AF              78.3    100    100    100    100    100    100    100    100    100    100    100    100    100
SOF                0     25    100     25    100     50    100    100     50    100     50    100    100    100
DRF                0      0      0      0      0      0      0      0      0      0      0    100      0      0
CFin              50     75     75    100    100    100    100    100    100    100    100    100    100    100
CFid               0   37.5   37.5     50     50    100    100    100    100    100    100    100    100    100
CFst              25     50     50   62.5   62.5    100    100    100     75     75    100     75    100    100
CFst-f            50     75     75     75     75    100    100    100    100    100    100    100    100    100
WDF                0      0      0      0      0      0      0      0      0      0    100      0    100    100
RDF              100    100    100    100    100    100    100    100    100    100    100    100    100    100
DRDF               0      0      0      0    100      0      0      0      0      0    100     50    100    100
IRF              100    100    100    100    100    100    100    100    100    100    100    100    100    100
CFds               0     25     25   33.3   33.3   66.7   66.7   66.7   58.3   58.3    100   58.3    100    100
CFds-r             0   37.5   37.5     50     50    100    100    100     75     75    100     75    100    100
CFds-nt            0      0      0      0      0      0      0      0      0      0    100      0    100    100
CFtr               0     25     50     50     50    100    100    100   62.5   62.5    100     75    100    100
CFwd               0      0      0      0      0      0      0      0      0      0    100      0    100    100
CFrd              25     50     50   62.5   62.5    100    100    100     75     75    100     75    100    100
CFdr               0      0      0      0     50      0      0      0      0      0    100      0    100    100
CFir              25     50     50   62.5   62.5    100    100    100     75     75    100     75    100    100
dyn                0    4.2   20.8    4.2     50    4.2   33.3   33.3    4.2   33.3   39.6   41.7    100   56.2
dCFds              0    3.1    9.4    3.1     25    3.1   28.1   28.1    3.1     25   53.1     25    100   53.1
dCFrd              0    2.1   10.4    2.1     25    2.1   18.8   18.8    2.1   16.7   36.5   16.7     99   53.1
CFid#CFid        6.7   46.7   46.7   61.7   61.7   86.7   76.7    100    100    100   86.7    100   86.7    100
CFin#CFin        6.7   26.7   26.7     50     50   73.3   73.3   73.3   73.3   73.3   73.3   73.3   73.3   73.3
CFin#CFid       28.3     55     55   73.3   73.3   86.7   81.7    100   93.3   93.3   86.7   96.7   86.7   93.3
TF#CFid           25     50     75   62.5    100    100    100    100    100    100    100    100    100    100
TF#CFin           25     50     75   62.5    100    100    100    100   87.5    100    100    100    100    100
static#static    1.8   26.8   31.5   37.3     51   69.5   68.9   71.4   58.5   61.1   96.9   63.9   98.4    100
";

/// The classical kinds of the table again, in whole percent: SAF TF AF SOF, CFin CFid CFst, linked CFid.
const CLASSICAL: [(&str, [i32; 8]); 12] = [
    ("MATS", [100, 50, 78, 0, 50, 0, 25, 7]),
    ("MATS+", [100, 50, 100, 25, 75, 38, 50, 47]),
    ("MATS++", [100, 100, 100, 100, 75, 38, 50, 47]),
    ("March X", [100, 100, 100, 25, 100, 50, 63, 62]),
    ("March Y", [100, 100, 100, 100, 100, 50, 63, 62]),
    ("March C-", [100, 100, 100, 50, 100, 100, 100, 87]),
    ("March U", [100, 100, 100, 100, 100, 100, 100, 77]),
    ("March LR", [100, 100, 100, 100, 100, 100, 100, 100]),
    ("March A", [100, 100, 100, 50, 100, 100, 75, 100]),
    ("March B", [100, 100, 100, 100, 100, 100, 75, 100]),
    ("March SS", [100, 100, 100, 50, 100, 100, 100, 87]),
    ("March RAW", [100, 100, 100, 100, 100, 100, 100, 87]),
];

const CLASSICAL_KINDS: [Kind; 8] = [
    Kind::StuckAt,
    Kind::Transition,
    Kind::Address,
    Kind::StuckOpen,
    Kind::Inversion,
    Kind::Idempotent,
    Kind::State,
    Kind::LinkedIdempotent,
];

#[test]
fn the_simulator_computes_the_whole_coverage_table() {
    let tables = NAMED.map(|named| prove(&named.test()));
    assert_eq!(tables[0].proofs().iter().map(|proof| proof.kind).collect::<Vec<_>>(), Kind::ALL);
    let mut rows = TABLE.trim_matches('\n').lines();
    let header: Vec<_> = rows.next().expect("a header").split_whitespace().collect();
    assert_eq!(header, NAMED.map(|named| named.name.trim_start_matches("March ")));
    for (kind, row) in Kind::ALL.into_iter().zip(rows) {
        let mut cells = row.split_whitespace();
        assert_eq!(cells.next(), Some(kind.name()));
        let figures: Vec<f64> = cells.map(|cell| cell.parse().expect(cell)).collect();
        assert_eq!(figures.len(), tables.len(), "{kind}");
        for ((named, table), figure) in NAMED.iter().zip(&tables).zip(figures) {
            let proof = table.of(kind);
            let difference = (proof.percent() - figure).abs();
            assert!(difference <= 0.0501, "{}, {kind}: {} and not {figure}", named.name, proof.percent());
            // 100 means all: none may hide behind rounding.
            assert_eq!(proof.detected == proof.total, figure > 99.95, "{}, {kind}", named.name);
        }
    }
    assert_eq!(TABLE.trim_matches('\n').lines().count(), 1 + Kind::ALL.len());
}

#[test]
fn the_printed_table_is_the_computed_one_in_whole_percent() {
    for (name, rounded) in CLASSICAL {
        let test = find(name).expect(name).test();
        let computed = CLASSICAL_KINDS.map(|kind| super::prove_kind(&test, kind).percent().round());
        assert_eq!(computed, rounded.map(f64::from), "{name}");
    }
}

/// Further statements of the documents about the twelve tests.
#[test]
fn only_the_tests_that_are_said_to_find_subtle_faults_find_them() {
    let finding = |kind: Kind| -> Vec<&str> {
        let finds_all = |named: &crate::NamedTest| {
            let proof = super::prove_kind(&named.test(), kind);
            proof.detected == proof.total
        };
        CLASSICAL.iter().filter(|(name, _)| finds_all(find(name).expect(name))).map(|(name, _)| *name).collect()
    };
    for kind in
        [Kind::WriteDisturb, Kind::WriteDisturbCoupling, Kind::DeceptiveReadCoupling, Kind::DisturbByNonTransition]
    {
        assert_eq!(finding(kind), ["March SS", "March RAW"], "{kind}");
    }
    assert_eq!(finding(Kind::DeceptiveRead), ["March Y", "March SS", "March RAW"]);
    assert_eq!(finding(Kind::Dynamic), ["March RAW"]);
    assert_eq!(finding(Kind::DynamicDisturb), ["March RAW"]);
    assert!(finding(Kind::Retention).is_empty());
}

#[test]
fn every_kind_has_a_name_of_its_own_and_as_many_faults_as_four_cells_can_have() {
    let names: std::collections::BTreeSet<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
    let meanings: std::collections::BTreeSet<_> = Kind::ALL.iter().map(|kind| kind.meaning()).collect();
    assert_eq!((names.len(), meanings.len()), (Kind::ALL.len(), Kind::ALL.len()));
    assert_eq!(format!("{:>5}, {}", Kind::StuckAt, Kind::LinkedStatic), "  SAF, static#static");
    let counts = Kind::ALL.map(|kind| super::list::faults(kind).len());
    assert_eq!(
        counts,
        [
            8, 8, 120, 4, 8, 24, 48, 48, 48, 8, 8, 8, 8, 144, 48, 48, 48, 48, 48, 48, 48, 48, 96, 288, 120, 60, 240,
            48, 48, 9984
        ]
    );
}

#[test]
fn a_kind_is_of_one_cell_if_all_its_faults_are() {
    for kind in Kind::ALL {
        assert_eq!(super::list::faults(kind).iter().all(Fault::is_of_one_cell), kind.is_of_one_cell(), "{kind}");
    }
}

const FIRST: Cell = Cell(0);
const A: Cell = Cell(1);
const V: Cell = Cell(2);
const LAST: Cell = Cell(3);

fn finds(notation: &str, fault: Primitive) -> bool {
    finds_both(notation, &[fault])
}

fn finds_both(notation: &str, linked: &[Primitive]) -> bool {
    world::detects(&notation.parse().expect(notation), &Fault::Primitives(linked.to_vec()))
}

#[test]
fn on_paper_stuck_at_and_transition_faults() {
    // The cell is asked to hold 0 and read: stuck at 1 shows, stuck at 0 does not.
    assert!(finds("*(w0); *(r0)", stuck_at(V, true)));
    assert!(!finds("*(w0); *(r0)", stuck_at(V, false)));
    // w0 leaves 0, w1 fails, r1 reads 0. A cell that cannot fall: if it held 1 at first, it holds 1 all the time.
    assert!(finds("*(w0); *(w1); *(r1)", transition(V, false)));
    assert!(!finds("*(w0); *(w1); *(r1)", transition(V, true)));
}

#[test]
fn on_paper_address_faults() {
    let finds = |notation: &str, fault| world::detects(&notation.parse().expect(notation), &Fault::Address(fault));
    // No cell, and the line floats to 0: only a read of 1 shows it.
    assert!(!finds("*(w0); *(r0)", AddressFault::nowhere(V, Floating::At(false))));
    assert!(finds("*(w0); *(r0,w1); *(r1)", AddressFault::nowhere(V, Floating::At(false))));
    // V's address reaches A's cell. Whichever is visited first makes it 1, and the other's r0 reads that.
    assert!(!finds("*(w0); *(r0)", AddressFault::misled(V, A)));
    assert!(finds("*(w0); *(r0,w1)", AddressFault::misled(V, A)));
    // V's address reaches A's cell too. Ascending, A is 1 and V's own cell 0 when V is read: 1 if wired OR, 0 if AND.
    assert!(finds("*(w0); ^(r0,w1)", AddressFault::spread(V, A, Wired::Or)));
    assert!(!finds("*(w0); ^(r0,w1)", AddressFault::spread(V, A, Wired::And)));
    // Descending, V's w1 makes A 1 before A is read.
    assert!(finds("*(w0); v(r0,w1)", AddressFault::spread(V, A, Wired::And)));
    // A reaches V's cell, V none: reading V repeats the bus, on which A's w1 was last.
    let taken_over = AddressFault::taken_over(V, A, Floating::Last, Wired::Or);
    assert!(finds("*(w0); ^(r0,w1)", taken_over));
    assert!(!finds("*(w0); *(r0)", taken_over));
}

#[test]
fn on_paper_stuck_open_faults() {
    let finds = |notation: &str, cell| world::detects(&notation.parse().expect(notation), &Fault::StuckOpen(cell));
    // MATS+: a read of V repeats the read before, of its neighbour in the same element: right by luck.
    assert!(!finds("*(w0); ^(r0,w1); v(r1,w0)", V));
    // But the cell that ⇓ visits first repeats the last read of ⇑, which was 0: so MATS+ finds one in four.
    assert!(finds("*(w0); ^(r0,w1); v(r1,w0)", LAST));
    // MATS++ reads 1, writes 0 and reads again: the second read repeats the 1.
    assert!(finds("*(w0); ^(r0,w1); v(r1,w0,r0)", V));
}

#[test]
fn on_paper_retention_faults() {
    assert!(finds("*(w1); Del; *(r1)", retention(V, true)));
    assert!(!finds("*(w1); *(r1)", retention(V, true)));
    assert!(!finds("*(w1); Del; *(r1)", retention(V, false)));
}

#[test]
fn on_paper_inversion_and_idempotent_coupling() {
    // Ascending, A rises before V is read: V is 1 by then.
    assert!(finds("*(w0); ^(r0,w1)", inversion(A, V, false)));
    // With the aggressor behind the victim, V is read and set first, then inverted: a further read is needed.
    assert!(!finds("*(w0); ^(r0,w1)", inversion(V, A, false)));
    assert!(finds("*(w0); ^(r0,w1); *(r1)", inversion(V, A, false)));
    // The same change, but V can only lose one value, which must be the 0 that it holds then.
    let rises = Sensitizer::Write(false, true);
    assert!(finds("*(w0); ^(r0,w1)", disturb(A, rises, V, false)));
    assert!(!finds("*(w0); ^(r0,w1)", disturb(A, rises, V, true)));
}

#[test]
fn on_paper_state_coupling() {
    // When V's 0 is read, A holds 1.
    assert!(finds("*(w0); ^(r0,w1)", state_coupling(A, true, V, false)));
    // V's 1 is read wrong while A holds 0. Descending, V is 1 before A is, but nobody reads it then …
    assert!(!finds("*(w0); v(r0,w1); *(r1)", state_coupling(A, false, V, true)));
    assert!(finds("*(w0); v(r0,w1,r1)", state_coupling(A, false, V, true)));
    // … but if V loses the 1 for good, the last read finds it.
    assert!(finds("*(w0); v(r0,w1); *(r1)", forced_state_coupling(A, false, V, true)));
}

#[test]
fn on_paper_faults_of_one_read_or_write() {
    // w0 over 0 makes 1. If V held 0 at first, the first w0 makes it 1, the second is a change and works: hidden.
    assert!(!finds("*(w0); *(w0); *(r0)", write_disturb(V, false)));
    // w1 first leaves 1 in any case; the next w0 is a change, the one after it disturbs.
    assert!(finds("*(w1,w0); *(w0); *(r0)", write_disturb(V, false)));
    assert!(finds("*(w0); *(r0)", bad_read(V, false, Effect::InvertsAndMisreads)));
    assert!(finds("*(w0); *(r0)", bad_read(V, false, Effect::Misreads)));
    // The deceptive read answers right; the read after it does not.
    assert!(!finds("*(w0); *(r0)", bad_read(V, false, Effect::Inverts)));
    assert!(finds("*(w0); *(r0,r0)", bad_read(V, false, Effect::Inverts)));
}

#[test]
fn on_paper_disturb_coupling() {
    // Reading A inverts V before V is read, if A comes first.
    let by_read = disturb(A, Sensitizer::Read(false), V, false);
    assert!(finds("*(w0); ^(r0)", by_read));
    assert!(!finds("*(w0); v(r0)", by_read));
    // Writing 0 over A's 0 makes V 1. Whatever the first element left, V is 0 or already wrong when A is rewritten.
    let by_rewrite = disturb(A, Sensitizer::Write(false, false), V, false);
    assert!(finds("*(w0); ^(r0,w0)", by_rewrite));
    assert!(!finds("^(w1,w0); ^(r0,w1)", by_rewrite));
}

#[test]
fn on_paper_faults_of_one_cell_while_another_holds_a_value() {
    // Ascending, A is 1 when V should rise.
    assert!(finds("*(w0); ^(r0,w1); *(r1)", transition(V, false).while_holds(A, true)));
    assert!(!finds("*(w0); ^(r0,w1); *(r1)", transition(V, false).while_holds(A, false)));
    // A is 1 when V's 0 is rewritten and read.
    assert!(finds("^(w0); ^(w0,r0,w1)", write_disturb(V, false).while_holds(A, true)));
    // If the first element descends over A = 1 and V = 0, it inverts V, and w0 over that 1 is a change: hidden.
    assert!(!finds("*(w0); ^(w0,r0,w1)", write_disturb(V, false).while_holds(A, true)));
    let coupled = |effect| bad_read(V, false, effect).while_holds(A, true);
    assert!(finds("*(w0); ^(r0,w1)", coupled(Effect::InvertsAndMisreads)));
    assert!(finds("*(w0); ^(r0,w1)", coupled(Effect::Misreads)));
    assert!(!finds("*(w0); ^(r0,w1)", coupled(Effect::Inverts)));
    assert!(finds("*(w0); ^(r0,r0,w1)", coupled(Effect::Inverts)));
}

#[test]
fn on_paper_dynamic_faults() {
    // The read must follow the write of the same cell at once.
    let after_rise = bad_read_after_write(V, false, true, Effect::Misreads);
    assert!(finds("*(w0); *(w1,r1)", after_rise));
    assert!(!finds("*(w0); *(w1); *(r1)", after_rise));
    let disturbs = disturb(A, Sensitizer::WriteRead(false, true), V, false);
    assert!(finds("*(w0); ^(r0,w1,r1)", disturbs));
    assert!(!finds("*(w0); ^(r0,w1)", disturbs));
    // Ascending, A holds 1 by the time V is written and read.
    assert!(finds("*(w0); ^(w1,r1)", after_rise.while_holds(A, true)));
    assert!(!finds("*(w0); ^(w1,r1)", after_rise.while_holds(A, false)));
}

#[test]
fn on_paper_linked_coupling() {
    let rises = Sensitizer::Write(false, true);
    // Rising, the first cell sets V to 1 and the second sets it back to 0, before V is read.
    let linked = [disturb(FIRST, rises, V, false), disturb(A, rises, V, true)];
    assert!(!finds_both("*(w0); ^(r0,w1); v(r1,w0)", &linked));
    // March LR lets both rise while V holds 1: the first does nothing, the second sets V to 0.
    assert!(finds_both("*(w0); v(r0,w1); ^(r1,w0,r0,w1)", &linked));
    // The same with a first that inverts.
    assert!(!finds_both("*(w0); ^(r0,w1)", &[inversion(FIRST, V, false), disturb(A, rises, V, true)]));
    assert!(finds_both("*(w0); ^(r0,w1)", &[inversion(FIRST, V, false), disturb(A, rises, V, false)]));
    // V fails to rise, and the last cell, rising after it, lifts it: only a read in between finds V at 0.
    for lift in [disturb(LAST, rises, V, false), inversion(LAST, V, false)] {
        let linked = [transition(V, false), lift];
        assert!(!finds_both("*(w0); ^(r0,w1); *(r1)", &linked));
        assert!(finds_both("*(w0); ^(r0,w1,r1)", &linked));
    }
    // Rewriting V makes it 1; reading the last cell makes it 0 again, if that is read first.
    let linked = [write_disturb(V, false), disturb(LAST, Sensitizer::Read(false), V, true)];
    assert!(finds_both("^(w1,w0); ^(w0); ^(r0)", &linked));
    assert!(!finds_both("^(w1,w0); ^(w0); v(r0)", &linked));
}

/// With every choice of directions separately, this would take 2^301 runs.
#[test]
fn elements_of_either_direction_do_not_multiply() {
    let test = format!("*(w0); {}*(r0)", "*(r0,w1); *(r1,w0); ".repeat(150)).parse().expect("300 elements");
    let proof = super::prove_kind(&test, Kind::Inversion);
    assert!(proof.detected > 0);
}

proptest! {
    /// Two cells on the same side of V make the same changes between two visits of V, so what both invert is as it
    /// was: 16 of the 60 pairs, which leaves 44 / 60 = 73 % for any march test in one order.
    #[test]
    fn no_march_test_finds_two_inversions_of_the_same_change_from_the_same_side(
        test in any_test(), from in any::<bool>()
    ) {
        let cells = [[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3], [1, 2, 0], [1, 3, 0], [2, 3, 0], [2, 3, 1]];
        for [a, b, v] in cells.map(|cells| cells.map(Cell)) {
            let linked = Fault::Primitives(vec![inversion(a, v, from), inversion(b, v, from)]);
            prop_assert!(!world::detects(&test, &linked));
        }
    }

    #[test]
    fn a_sound_memory_passes_every_march_test(test in any_test()) {
        prop_assert!(!world::detects(&test, &Fault::Address(AddressFault::sound())));
    }
}
