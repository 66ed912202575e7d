//! Whether a plan must find a given fault.
//!
//! **Problem.** A test with emulated errors proves something only if it is known beforehand which of them it must find:
//! those that it then misses are bugs, and the others are the limits of its march test. **Idea.** Run the plan, pass by
//! pass in its own order, on a small simulated memory with only the lines concerned, behind the emulator of the real
//! run. A fault is guaranteed if some bit is read wrong whatever the memory and the sense amplifiers held before. **Why
//! not the coverage table.** The table is about kinds and percentages; this is about one fault, at its place, on these
//! backgrounds.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rampart_memory::fault::{Emulator, FaultCell, FaultKind, LineAccess, Persistence, PlacedFault};
use rampart_memory::{LineBits, LineData, RegionLine};

use crate::execute::MarchSettings;
use crate::{Direction, Element, Op, Pass, Plan, Visit};

/// Whether the plan, run like this on a region of `region_lines`, always finds the fault, if no other fault is on its
/// lines.
///
/// Only permanent faults can be guaranteed: an intermittent one may stay silent, and a pattern-sensitive one needs data
/// that a plan may not contain. Panics if the fault is not in the region.
#[must_use]
pub fn guarantees(plan: &Plan, fault: &PlacedFault, region_lines: u64, settings: &MarchSettings) -> bool {
    let lines = fault.lines();
    assert!(lines.iter().all(|line| line.0 < region_lines), "{fault} lies in a region of {region_lines} lines");
    let company: &[Company] =
        if listens(&fault.kind) { &[Company::None, Company::SoundLines] } else { &[Company::None] };
    fault.persistence == Persistence::Permanent
        && company.iter().all(|&company| is_found(plan, fault, region_lines, settings, company))
}

/// Which other lines the emulator sees between those of the fault: in a real run, those of other faults.
#[derive(Clone, Copy)]
enum Company {
    None,
    /// One before and one after each line in the order of visits, where the region has them.
    SoundLines,
}

/// Whether another line's access may hide a fault. It may where a cut-off cell repeats what was read before, in this
/// element or in one long ago. An address that repeats what was last on the bus is another matter: all lines end an
/// element with the same operation, so that other lines between its own can only make it differ more often.
const fn listens(kind: &FaultKind) -> bool {
    matches!(kind, FaultKind::StuckOpen { .. })
}

fn is_found(plan: &Plan, fault: &PlacedFault, region_lines: u64, settings: &MarchSettings, company: Company) -> bool {
    let mut runs = Run::every(fault, RegionLine(region_lines));
    plan.passes().iter().enumerate().any(|(number, pass)| {
        let visit = settings.visit(pass.order, region_lines);
        let order = order_of_lines(fault, visit, region_lines, company);
        for run in &mut runs {
            run.pass(pass, &order, &delays(plan, number, settings));
        }
        some_bit_is_wrong_in_all(&runs)
    })
}

/// How long each `Del` element of a pass lasts, by its place.
fn delays(plan: &Plan, pass: usize, settings: &MarchSettings) -> impl Fn(usize) -> Duration {
    let (rest, settings) = (plan.rest_in(pass), *settings);
    move |element| if rest == Some(element) { settings.retention } else { settings.delay }
}

/// The lines to simulate, in the order of an ascending visit.
fn order_of_lines(fault: &PlacedFault, visit: Visit, region_lines: u64, company: Company) -> Vec<RegionLine> {
    let mut lines: BTreeSet<_> = fault.lines().into_iter().collect();
    if let Company::SoundLines = company {
        let stride = visit.columns().next().expect("a region has lines").stride;
        let beside = |line: &RegionLine| [line.0.checked_sub(stride), line.0.checked_add(stride)];
        let beside: Vec<_> = lines.iter().flat_map(beside).flatten().filter(|&line| line < region_lines).collect();
        lines.extend(beside.into_iter().map(RegionLine));
    }
    let mut order: Vec<_> = lines.into_iter().collect();
    order.sort_unstable_by_key(|&line| visit.position(line));
    order
}

/// A memory that holds the stored lines, and zeros elsewhere.
#[derive(Clone, Default)]
struct ToyMemory(BTreeMap<RegionLine, LineData>);

impl LineAccess for ToyMemory {
    fn load(&mut self, line: RegionLine) -> LineData {
        self.0.get(&line).copied().unwrap_or(LineData::ZERO)
    }

    fn store(&mut self, line: RegionLine, data: LineData) {
        self.0.insert(line, data);
    }
}

/// The plan from one state of the memory.
struct Run {
    memory: ToyMemory,
    emulator: Emulator,
    /// The bits that were read wrong.
    wrong: BTreeMap<RegionLine, LineBits>,
}

impl Run {
    /// A run from every state of the cells concerned, and of the sense amplifiers where they matter. No test visits the
    /// line `outside`.
    fn every(fault: &PlacedFault, outside: RegionLine) -> Vec<Self> {
        let ones = LineData::ZERO.inverted();
        let sensed = if listens(&fault.kind) { vec![LineData::ZERO, ones] } else { vec![LineData::ZERO] };
        let states = contents(&cells_concerned(fault)).into_iter();
        let starts = states.flat_map(|memory| sensed.iter().map(move |&sensed| (memory.clone(), sensed)));
        starts.map(|(memory, sensed)| Self::starting(fault, memory, (outside, sensed))).collect()
    }

    /// A run from this state of the memory, after `outside` was read.
    fn starting(fault: &PlacedFault, memory: ToyMemory, (outside, sensed): (RegionLine, LineData)) -> Self {
        let mut run = Self { memory, emulator: Emulator::new(vec![*fault], 0), wrong: BTreeMap::new() };
        run.memory.store(outside, sensed);
        run.emulator.read(&mut run.memory, outside);
        run
    }

    fn pass(&mut self, pass: &Pass, order: &[RegionLine], delay: &impl Fn(usize) -> Duration) {
        for (place, element) in pass.test.elements().iter().enumerate() {
            match element {
                Element::Delay => self.emulator.pause(&mut self.memory, delay(place)),
                // ⇕ is run ascending, see `Direction::Any`.
                Element::Sweep { direction: Direction::Up | Direction::Any, ops } => {
                    order.iter().for_each(|&line| self.visit(line, ops, pass));
                }
                Element::Sweep { direction: Direction::Down, ops } => {
                    order.iter().rev().for_each(|&line| self.visit(line, ops, pass));
                }
            }
        }
    }

    fn visit(&mut self, line: RegionLine, ops: &[Op], pass: &Pass) {
        for op in ops {
            match *op {
                Op::Write(value) => self.emulator.write(&mut self.memory, line, pass.background.line(value)),
                Op::Read(value) => {
                    let found = self.emulator.read(&mut self.memory, line);
                    let wrong = found.differs(&pass.background.line(value));
                    if !wrong.is_empty() {
                        let known = self.wrong.entry(line).or_default();
                        *known = known.union(&wrong);
                    }
                }
            }
        }
    }
}

/// Every content of these cells; all others hold 0.
fn contents(cells: &[(RegionLine, LineBits)]) -> Vec<ToyMemory> {
    cells.iter().fold(vec![ToyMemory::default()], |contents, (line, bits)| {
        let with = |mut memory: ToyMemory| {
            let held = LineBits(memory.load(*line));
            memory.store(*line, held.union(bits).0);
            memory
        };
        contents.into_iter().flat_map(|memory| [memory.clone(), with(memory)]).collect()
    })
}

/// The cells whose initial state may matter, each independent of the others. One bit of an address stands for all: each
/// is a fault of its own, and what holds for one bit in all its states holds whatever the others hold.
fn cells_concerned(fault: &PlacedFault) -> Vec<(RegionLine, LineBits)> {
    let mut cells: Vec<FaultCell> =
        fault.kind.couplings().flat_map(|coupling| [coupling.aggressor, coupling.victim]).collect();
    if let FaultKind::State { aggressor, victim, .. } = fault.kind {
        cells.extend([aggressor, victim]);
    }
    if cells.is_empty() {
        return fault.victims();
    }
    cells.sort_unstable();
    cells.dedup();
    cells.into_iter().map(|cell| (cell.line, cell.bits())).collect()
}

fn some_bit_is_wrong_in_all(runs: &[Run]) -> bool {
    let (first, rest) = runs.split_first().expect("a fault has a state");
    first.wrong.iter().any(|(line, wrong)| {
        let both = |wrong: LineData, run: &Run| {
            let other = run.wrong.get(line).copied().unwrap_or_default();
            LineData(std::array::from_fn(|word| wrong.0[word] & other.0.0[word]))
        };
        rest.iter().fold(wrong.0, both) != LineData::ZERO
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::Method;
    use crate::named::{NAMED, find};
    use crate::simulator::Kind;
    use crate::simulator::within::{self, BitPair};
    use crate::{AddressSequence, Fidelity};
    use proptest::prelude::*;
    use rampart_memory::LineBit;
    use rampart_memory::fault::{
        AddressFault, Campaign, Floating, Idempotent, InjectionSpec, LineSpan, Probability, TransitionDirection, Wired,
        WordPattern,
    };

    const REGION: u64 = 1 << 12;

    fn settings() -> MarchSettings {
        MarchSettings { delay: Duration::from_millis(100), ..MarchSettings::new(Method::FlushBehind) }
    }

    fn plan(name: &str, fidelity: u32, orders: &[AddressSequence]) -> Plan {
        Plan::new(find(name).expect(name).test(), Fidelity::new(fidelity).expect("1 to 1024"), orders, 11)
    }

    fn cell(line: u64, bit: u16) -> FaultCell {
        FaultCell { line: RegionLine(line), bit: LineBit::new(bit).expect("below 512") }
    }

    fn guaranteed(plan: &Plan, kind: FaultKind) -> bool {
        guarantees(plan, &PlacedFault::permanent(kind), REGION, &settings())
    }

    #[test]
    fn a_leak_is_promised_if_the_delay_is_long_enough_for_it() {
        let leaks = |after| FaultKind::Retention { cell: cell(9, 3), loses: true, after: Duration::from_millis(after) };
        let with_delays = plan("March G", 1, &[AddressSequence::Sequential]);
        assert!(guaranteed(&with_delays, leaks(100)));
        assert!(!guaranteed(&with_delays, leaks(101)));
        assert!(!guaranteed(&plan("March C-", 10, &[AddressSequence::Sequential]), leaks(1)));
    }

    #[test]
    fn a_slow_leak_of_either_value_is_promised_if_the_block_rests_long_enough_for_it() {
        let leaks =
            |loses, after| FaultKind::Retention { cell: cell(9, 3), loses, after: Duration::from_millis(after) };
        let both = plan("March C-", 1, &[AddressSequence::Sequential, AddressSequence::Strided]);
        let rested = both.clone().with_delayed_reads();
        for loses in [false, true] {
            assert!(!guaranteed(&both, leaks(loses, 1)));
            assert!(guaranteed(&rested, leaks(loses, 300)) && guaranteed(&rested, leaks(loses, 1000)));
            assert!(!guaranteed(&rested, leaks(loses, 1001)), "it rests for a second");
        }
        let sequential = plan("March C-", 1, &[AddressSequence::Sequential]).with_delayed_reads();
        assert_eq!([false, true].map(|loses| guaranteed(&sequential, leaks(loses, 300))), [true, false]);
    }

    /// On paper: a cell that cannot rise is found by the first r1 if it held 0 before the test, and never if it held 1.
    #[test]
    fn a_fault_that_hides_in_one_state_of_the_memory_is_not_promised() {
        let cannot_rise = FaultKind::Transition { cell: cell(9, 3), blocked: TransitionDirection::Up };
        let guaranteed = |notation: &str| {
            let test = notation.parse().expect(notation);
            guaranteed(&Plan::new(test, Fidelity::MIN, &[AddressSequence::Sequential], 0), cannot_rise)
        };
        assert!(!guaranteed("*(w1); *(r1,w0); *(r0)"));
        assert!(guaranteed("*(w1); *(r1,w0); *(r0,w1); *(r1)"));
    }

    #[test]
    fn only_faults_that_always_act_are_promised() {
        let kind = FaultKind::StuckAt { cell: cell(9, 3), value: true };
        let plan = plan("March C-", 10, &[AddressSequence::Sequential]);
        assert!(guaranteed(&plan, kind));
        let sometimes = Persistence::Intermittent { probability: Probability::try_from(0.9).expect("up to 1") };
        let neighbourhood = WordPattern::new(0, 0b10, 0b10).expect("word 0");
        for persistence in [sometimes, Persistence::PatternSensitive { neighbourhood }] {
            assert!(!guarantees(&plan, &PlacedFault { kind, persistence }, REGION, &settings()));
        }
    }

    /// On paper, for March C-: with both aggressors below the victim, the second to rise undoes the effect of the first
    /// before the victim is read. In columns, the first comes before the victim and the second after it.
    #[test]
    fn the_second_order_finds_linked_faults_that_the_first_cannot() {
        let visit = settings().visit(AddressSequence::Strided, REGION);
        let is_before = |line: &u64| visit.position(RegionLine(*line)) < visit.position(RegionLine(500));
        let first = (400..500).find(is_before).expect("a line in a column before");
        let second = (first..500).find(|line| !is_before(line)).expect("a line in a column after");
        let coupling =
            |aggressor, value| Idempotent { aggressor, on: TransitionDirection::Up, victim: cell(500, 5), value };
        let linked =
            FaultKind::Linked { first: coupling(cell(first, 5), true), second: coupling(cell(second, 5), false) };
        assert!(!guaranteed(&plan("March C-", 1, &[AddressSequence::Sequential]), linked));
        assert!(guaranteed(&plan("March C-", 1, &[AddressSequence::Sequential, AddressSequence::Strided]), linked));
    }

    #[test]
    fn a_stuck_open_cell_is_promised_only_if_its_own_element_reads_it_twice() {
        let column = LineSpan { first: RegionLine(99), last: RegionLine(101) };
        let open = FaultKind::StuckOpen { cell: cell(100, 8), column };
        for (name, finds) in [("March C-", false), ("MATS+", false), ("MATS++", true), ("March RAW", true)] {
            assert_eq!(
                guaranteed(&plan(name, 10, &[AddressSequence::Sequential, AddressSequence::Strided]), open),
                finds,
                "{name}"
            );
        }
    }

    #[test]
    fn sound_lines_hide_no_address_that_repeats_what_was_last_on_the_bus() {
        const LINES: u64 = 8;
        let of_line = |line: u64| {
            let (number, line) = (line, RegionLine(line));
            let floating = Floating::LastOnBus(LineSpan { first: line, last: line });
            let taken = move |by| {
                [Wired::And, Wired::Or].map(|wired| AddressFault::Taken { line, by: RegionLine(by), floating, wired })
            };
            let others = (0..LINES).filter(move |&by| by != number);
            others.flat_map(taken).chain([AddressFault::NoCell { line, floating }])
        };
        let mut found = [0, 0];
        for named in NAMED {
            let plan = plan(named.name, 2, &[AddressSequence::Sequential, AddressSequence::Strided]);
            for fault in (0..LINES).flat_map(of_line).map(|fault| PlacedFault::permanent(FaultKind::Address(fault))) {
                let by = [Company::None, Company::SoundLines];
                let by = by.map(|company| is_found(&plan, &fault, LINES, &settings(), company));
                assert!(!by[0] || by[1], "{}: {fault}", named.name);
                found = [found[0] + u32::from(by[0]), found[1] + u32::from(by[1])];
            }
        }
        assert!(0 < found[0] && found[0] < found[1], "{found:?}");
    }

    /// All faults of a kind between two bits of a line, in the order of `within`.
    fn inside_a_line(aggressor: FaultCell, victim: FaultCell, kind: Kind) -> Vec<FaultKind> {
        let changes = [TransitionDirection::Up, TransitionDirection::Down];
        match kind {
            Kind::Inversion => changes.map(|on| FaultKind::Inversion { aggressor, on, victim }).to_vec(),
            Kind::Idempotent => {
                let of = |on| [true, false].map(|value| Idempotent { aggressor, on, victim, value });
                changes.into_iter().flat_map(of).map(FaultKind::Idempotent).collect()
            }
            Kind::State => {
                let of = |holds| [true, false].map(|reads| FaultKind::State { aggressor, holds, victim, reads });
                [false, true].into_iter().flat_map(of).collect()
            }
            _ => vec![],
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// The two ways to prove a fault inside a line: from the values that the background gives two bits, and by the
        /// emulator on whole lines.
        #[test]
        fn what_the_pairs_of_bits_promise_the_emulator_promises(
            a in 0_u16..512, v in 0_u16..512, fidelity in 1_u32..14
        ) {
            prop_assume!(a != v);
            let (aggressor, victim) = (cell(7, a), cell(7, v));
            for name in ["MATS", "March C-", "March SS"] {
                let plan = plan(name, fidelity, &[AddressSequence::Sequential]);
                for kind in [Kind::State, Kind::Inversion, Kind::Idempotent] {
                    let found = plan.passes().iter().fold(0, |found, pass| {
                        let data = pass.background.data;
                        let pair = BitPair { aggressor: data.bit(aggressor.bit), victim: data.bit(victim.bit) };
                        found | within::found(&pass.test, kind, pair)
                    });
                    for (place, fault) in inside_a_line(aggressor, victim, kind).into_iter().enumerate() {
                        let (by_pair, guaranteed) = (found >> place & 1 == 1, guaranteed(&plan, fault));
                        prop_assert!(guaranteed || !by_pair, "{}: {}", name, fault);
                        // The state that one pass leaves may help the next one; a single pass has no such help.
                        prop_assert!(fidelity > 1 || guaranteed == by_pair, "{}: {}", name, fault);
                    }
                }
            }
        }

        /// Many faults at once, each on lines of its own, in memory with any content: none hides another.
        #[test]
        fn every_promised_fault_is_found_among_many(
            seed in 0_u64..1 << 32, held in prop::array::uniform8(any::<u64>()),
            name in prop::sample::select(vec!["MATS+", "MATS++", "March C-", "March LR", "March G", "March RAW"]),
            fidelity in 1_u32..12, strided in any::<bool>(), rests in any::<bool>()
        ) {
            let orders = [AddressSequence::Sequential, AddressSequence::Strided];
            let plan = plan(name, fidelity, &orders[..1 + usize::from(strided)]);
            let plan = if rests { plan.with_delayed_reads() } else { plan };
            let kinds = "stuck-at:10,transition:10,coupling:30,address:20,stuck-open:20,retention:5,linked:30,multi-bit:5";
            let spec: InjectionSpec = format!("{kinds},seed={seed}").parse().expect("a specification");
            let faults = Campaign::new(&spec, REGION, REGION).expect("room for 130 faults").in_region(0);
            let wrong = wrong_bits_of_all(&plan, &faults, LineData(held));
            for fault in faults.iter().filter(|fault| guarantees(&plan, fault, REGION, &settings())) {
                let is_seen = |(line, bits): &(RegionLine, LineBits)| {
                    let wrong = wrong.get(line).copied().unwrap_or_default();
                    bits.iter().any(|bit| wrong.0.bit(bit))
                };
                prop_assert!(fault.victims().iter().any(is_seen), "{} misses {}", name, fault);
            }
        }
    }

    fn wrong_bits_of_all(plan: &Plan, faults: &[PlacedFault], held: LineData) -> BTreeMap<RegionLine, LineBits> {
        let emulator = Emulator::new(faults.to_vec(), 1);
        let mut order = emulator.lines().to_vec();
        let memory = ToyMemory(order.iter().map(|&line| (line, held)).collect());
        let mut run = Run { memory, emulator, wrong: BTreeMap::new() };
        for (number, pass) in plan.passes().iter().enumerate() {
            let visit = settings().visit(pass.order, REGION);
            order.sort_unstable_by_key(|&line| visit.position(line));
            run.pass(pass, &order, &delays(plan, number, &settings()));
        }
        run.wrong
    }
}
