use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::fault::{Emulator, FaultKind, LineAccess};
use crate::{LineBits, LineData, RegionLine};

const ALL_KINDS: &str = "stuck-at:20,transition:20,coupling:60,address:40,stuck-open:20,retention:20,linked:20,\
                         multi-bit:20,coupling-in:9,coupling-id:9,coupling-st:9";
const REGION: u64 = 1000;

fn campaign(spec: &str, total: u64, region: u64) -> Campaign {
    Campaign::new(&spec.parse().unwrap(), total, region).unwrap_or_else(|error| panic!("{spec}: {error}"))
}

/// Each line of the faults, and how many of them touch it.
fn touched(faults: &[PlacedFault]) -> BTreeMap<RegionLine, usize> {
    let mut counts = BTreeMap::new();
    for line in faults.iter().flat_map(PlacedFault::lines) {
        *counts.entry(line).or_default() += 1;
    }
    counts
}

fn assert_apart(faults: &[PlacedFault]) {
    for (line, count) in touched(faults) {
        assert_eq!(count, 1, "faults at line {}", line.0);
    }
}

/// Counts the faults by the names of their kinds in a specification.
fn count_kinds(faults: &[PlacedFault]) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for fault in faults {
        let name = match fault.kind {
            FaultKind::StuckAt { .. } => "stuck-at",
            FaultKind::Transition { .. } => "transition",
            FaultKind::Inversion { .. } | FaultKind::Idempotent(_) | FaultKind::State { .. } => "coupling",
            FaultKind::Address(_) => "address",
            FaultKind::StuckOpen { .. } => "stuck-open",
            FaultKind::Retention { .. } => "retention",
            FaultKind::Linked { .. } => "linked",
            FaultKind::MultiBit { .. } => "multi-bit",
        };
        *counts.entry(name).or_default() += 1;
    }
    counts
}

#[test]
fn the_regions_share_exactly_the_faults_asked_for() {
    let campaign = campaign(ALL_KINDS, 10 * REGION - 300, REGION);
    let all: Vec<_> = (0..12).flat_map(|region| campaign.in_region(region)).collect();
    let expected = [
        ("stuck-at", 20),
        ("transition", 20),
        ("coupling", 87),
        ("address", 40),
        ("stuck-open", 20),
        ("retention", 20),
        ("linked", 20),
        ("multi-bit", 20),
    ];
    assert_eq!(count_kinds(&all), BTreeMap::from(expected));
    assert!(campaign.in_region(10).is_empty(), "a region that is not in the test");
}

#[test]
fn a_region_has_the_same_faults_whenever_it_is_asked_for() {
    let one = campaign(ALL_KINDS, 10 * REGION, REGION);
    let other = campaign(ALL_KINDS, 10 * REGION, REGION);
    let forward: Vec<_> = (0..10).map(|region| one.in_region(region)).collect();
    let mut backward: Vec<_> = (0..10).rev().map(|region| other.in_region(region)).collect();
    backward.reverse();
    assert_eq!(forward, backward);
    let reseeded = campaign(&format!("{ALL_KINDS},seed=1"), 10 * REGION, REGION);
    assert_ne!(forward[0], reseeded.in_region(0));
}

#[test]
fn faults_fall_everywhere() {
    let campaign = campaign("stuck-at:10000", 1_000_000, 100_000);
    for region in 0..10 {
        let faults = campaign.in_region(region);
        assert!((800..1200).contains(&faults.len()), "{} in region {region}", faults.len());
        let lower = faults.iter().filter(|fault| fault.lines()[0].0 < 50_000).count();
        assert!((2 * faults.len() / 5..=3 * faults.len() / 5).contains(&lower), "{lower} in the lower half");
    }
}

#[test]
fn half_of_the_pairs_are_near() {
    let campaign = campaign("coupling:4000", 1_000_000, 1_000_000);
    let faults = campaign.in_region(0);
    let distance = |fault: &PlacedFault| fault.lines().last().unwrap().0 - fault.lines()[0].0;
    let same = faults.iter().filter(|fault| distance(fault) == 0).count();
    let near = faults.iter().filter(|fault| distance(fault) <= 300).count();
    assert!((400..600).contains(&same), "{same} in one line");
    assert!((1900..2600).contains(&near), "{near} near");
}

#[test]
fn what_does_not_fit_is_refused() {
    let spec = |text: &str| text.parse::<InjectionSpec>().unwrap();
    for (text, total, region) in
        [("stuck-at:26", 100, 100), ("stuck-at:1", 0, 100), ("stuck-at:1", 100, 0), ("address:1", 15, 15)]
    {
        let error = Campaign::new(&spec(text), total, region).expect_err(text);
        assert!(error.to_string().contains("plant fewer"), "{error}");
    }
    assert_eq!(campaign("stuck-at:25", 100, 100).in_region(0).len(), 25);
    assert!(campaign("stuck-at@5", 0, 0).in_region(0).is_empty());
}

fn frame(number: u64) -> Frame {
    Frame::new(number).unwrap()
}

/// One fault of every kind in frame 7, and one in frame 9.
fn every_kind_in_a_frame() -> String {
    let named: Vec<String> = FaultClass::ALL.into_iter().map(|(name, _)| format!("{name}@7")).collect();
    format!("{},stuck-at@9", named.join(","))
}

#[test]
fn a_named_frame_has_its_faults_wherever_it_comes_up() {
    let campaign = campaign(&every_kind_in_a_frame(), 64 * 100, 64 * 10);
    let faults = campaign.in_frames(&[None, Some(frame(8)), Some(frame(7)), Some(frame(9))]);
    assert_eq!(faults.len(), 12);
    assert_apart(&faults);
    let pages: BTreeSet<u64> = touched(&faults).into_keys().map(RegionLine::page).collect();
    assert_eq!(pages, BTreeSet::from([2, 3]));
    let elsewhere = campaign.in_frames(&[Some(frame(7))]);
    let places = |faults: &[PlacedFault]| faults.iter().map(|fault| fault.lines()[0].in_page()).collect::<Vec<_>>();
    assert_eq!(places(&faults[..11]), places(&elsewhere));
    assert!(campaign.in_frames(&[None; 5]).is_empty());
    assert!(campaign.in_region(0).is_empty());
}

/// A region of memory, all lines alike.
struct Memory(Vec<LineData>);

impl LineAccess for Memory {
    fn load(&mut self, line: RegionLine) -> LineData {
        self.0[usize::try_from(line.0).unwrap()]
    }

    fn store(&mut self, line: RegionLine, data: LineData) {
        self.0[usize::try_from(line.0).unwrap()] = data;
    }
}

/// March C- with a pause before each element that reads, as an executor runs it: only the emulator's lines pass through
/// it. Returns the wrong bits by line.
fn march_c_minus(faults: &[PlacedFault], lines: u64) -> BTreeMap<RegionLine, LineData> {
    let (zeros, ones) = (LineData::ZERO, LineData::ZERO.inverted());
    let mut memory = Memory(vec![LineData([0x1234_5678_9abc_def0; 8]); usize::try_from(lines).unwrap()]);
    let mut emulator = Emulator::new(faults.to_vec(), 5);
    let emulated: BTreeSet<RegionLine> = emulator.lines().iter().copied().collect();
    let mut wrong: BTreeMap<RegionLine, LineData> = BTreeMap::new();
    let up: Vec<RegionLine> = (0..lines).map(RegionLine).collect();
    let down: Vec<RegionLine> = up.iter().rev().copied().collect();
    let elements = [
        (&up, None, Some(zeros)),
        (&up, Some(zeros), Some(ones)),
        (&up, Some(ones), Some(zeros)),
        (&down, Some(zeros), Some(ones)),
        (&down, Some(ones), Some(zeros)),
        (&up, Some(zeros), None),
    ];
    for (order, read, write) in elements {
        emulator.pause(&mut memory, Duration::from_millis(64));
        for &line in order {
            let emulated = emulated.contains(&line);
            if let Some(expected) = read {
                let found = if emulated { emulator.read(&mut memory, line) } else { memory.load(line) };
                let bits = wrong.entry(line).or_default();
                *bits = found.differs(&expected).union(&LineBits(*bits)).0;
            }
            match write {
                Some(data) if emulated => emulator.write(&mut memory, line, data),
                Some(data) => memory.store(line, data),
                None => {}
            }
        }
    }
    wrong.retain(|_, bits| *bits != LineData::ZERO);
    wrong
}

#[test]
fn march_c_minus_finds_all_that_it_promises_and_names_no_other_bit() {
    let campaign = campaign(&format!("{ALL_KINDS},seed=11"), 3 * REGION, REGION);
    for faults in (0..3).map(|region| campaign.in_region(region)) {
        let wrong = march_c_minus(&faults, REGION);
        let mut explained = BTreeMap::new();
        for fault in &faults {
            let hits = |(line, bits): &(RegionLine, LineBits)| {
                wrong.get(line).is_some_and(|found| !bits.intersection(&LineBits(*found)).is_empty())
            };
            let found = fault.victims().iter().any(hits);
            let guaranteed = match fault.kind {
                FaultKind::StuckOpen { .. } | FaultKind::Linked { .. } => false,
                FaultKind::Inversion { aggressor, victim, .. } | FaultKind::State { aggressor, victim, .. } => {
                    aggressor.line != victim.line
                }
                FaultKind::Idempotent(coupling) => coupling.aggressor.line != coupling.victim.line,
                _ => true,
            };
            assert!(found || !guaranteed, "missed: {fault}");
            explained.extend(fault.victims());
        }
        for (line, found) in wrong {
            let bits = explained.get(&line).copied().unwrap_or_default();
            assert!(LineBits(found).minus(&bits).is_empty(), "invented at line {}", line.0);
        }
    }
}

proptest! {
    #[test]
    fn no_two_faults_of_a_region_share_a_line_and_all_lie_inside(seed in any::<u64>(), lines in 1100..3000_u64) {
        let campaign = campaign(&format!("{ALL_KINDS},seed={seed}"), 2 * lines, lines);
        for region in 0..2 {
            let faults = campaign.in_region(region);
            assert_apart(&faults);
            prop_assert!(touched(&faults).into_keys().all(|line| line.0 < lines));
        }
    }

    #[test]
    fn faults_of_named_frames_and_at_random_places_never_share_a_line(seed in any::<u64>()) {
        let spec = format!("stuck-at:100,address:20,stuck-open:20,coupling:50,{},seed={seed}", every_kind_in_a_frame());
        let lines = 64 * 40;
        let campaign = campaign(&spec, lines, lines);
        let frames: Vec<_> = (0..40).map(|number| Some(frame(number))).collect();
        let mut faults = campaign.in_region(0);
        prop_assert_eq!(faults.len(), 190);
        faults.extend(campaign.in_frames(&frames));
        prop_assert_eq!(faults.len(), 202);
        assert_apart(&faults);
    }

    #[test]
    fn a_crowded_region_still_holds_all_that_fits(seed in any::<u64>()) {
        let campaign = campaign(&format!("stuck-open:83,seed={seed}"), REGION, REGION);
        assert_apart(&campaign.in_region(0));
        prop_assert_eq!(campaign.in_region(0).len(), 83);
    }
}
