//! Properties of every fault, for any accesses.

use proptest::collection::vec;
use proptest::prelude::*;

use super::tests::{Memory, ONES, ZEROS};
use super::*;
use crate::LINE_WORDS;
use crate::fault::{Campaign, FaultClass, InjectionSpec};

/// An access of a tester.
#[derive(Clone, Debug)]
enum Access {
    Write(RegionLine, LineData),
    Read(RegionLine),
    Pause(Duration),
}

const LINES: u64 = 64;

fn lines() -> impl Strategy<Value = RegionLine> {
    (0..LINES).prop_map(RegionLine)
}

fn contents() -> impl Strategy<Value = LineData> {
    prop_oneof![Just(ZEROS), Just(ONES), any::<[u64; LINE_WORDS]>().prop_map(LineData)]
}

fn accesses() -> impl Strategy<Value = Vec<Access>> {
    let access = prop_oneof![
        4 => (lines(), contents()).prop_map(|(line, data)| Access::Write(line, data)),
        4 => lines().prop_map(Access::Read),
        1 => (0..200_u64).prop_map(|millis| Access::Pause(Duration::from_millis(millis))),
    ];
    vec(access, 0..100)
}

/// One fault of any class and persistence, somewhere in the memory.
fn faults() -> impl Strategy<Value = PlacedFault> {
    let acts = prop_oneof![Just(""), Just(",intermittent=0.5"), Just(",pattern=on")];
    (0..FaultClass::ALL.len(), any::<u64>(), acts).prop_map(|(class, seed, acts)| {
        let spec: InjectionSpec = format!("{}:1,seed={seed}{acts}", FaultClass::ALL[class].0).parse().unwrap();
        Campaign::new(&spec, LINES, LINES).unwrap().in_region(0)[0]
    })
}

/// The answers to a tester's reads, and the final content of the memory.
fn run(faults: Vec<PlacedFault>, accesses: &[Access], focus: &[RegionLine]) -> (Vec<(RegionLine, LineData)>, Memory) {
    let mut memory = Memory(vec![ZEROS; usize::try_from(LINES).unwrap()]);
    let mut emulator = Emulator::new(faults, 3);
    let mut answers = Vec::new();
    // Accesses are folded onto the lines in question, so that some meet a fault.
    let near = |line: RegionLine| focus.get(usize::try_from(line.0).unwrap() % (focus.len() * 2).max(1)).copied();
    for access in accesses {
        match *access {
            Access::Write(line, data) => emulator.write(&mut memory, near(line).unwrap_or(line), data),
            Access::Read(line) => {
                let line = near(line).unwrap_or(line);
                answers.push((line, emulator.read(&mut memory, line)));
            }
            Access::Pause(elapsed) => emulator.pause(&mut memory, elapsed),
        }
    }
    (answers, memory)
}

proptest! {
    #[test]
    fn without_faults_memory_is_as_it_is(accesses in accesses()) {
        let (answers, memory) = run(Vec::new(), &accesses, &[]);
        let mut plain = Memory(vec![ZEROS; usize::try_from(LINES).unwrap()]);
        let mut expected = Vec::new();
        for access in &accesses {
            match *access {
                Access::Write(line, data) => plain.store(line, data),
                Access::Read(line) => expected.push((line, plain.load(line))),
                Access::Pause(_) => {}
            }
        }
        prop_assert_eq!((answers, memory), (expected, plain));
    }

    #[test]
    fn a_fault_makes_only_its_victims_wrong_and_they_are_among_its_lines(
        fault in faults(),
        accesses in accesses(),
    ) {
        let lines = fault.lines();
        let (answers, memory) = run(vec![fault], &accesses, &lines);
        let (sound_answers, sound_memory) = run(Vec::new(), &accesses, &lines);
        let victims = |line: RegionLine| {
            fault.victims().into_iter().find(|(victim, _)| *victim == line).map(|(_, bits)| bits).unwrap_or_default()
        };
        let held = (0..).map(RegionLine).zip(memory.0).zip((0..).map(RegionLine).zip(sound_memory.0));
        for ((line, answer), (_, sound)) in answers.into_iter().zip(sound_answers).chain(held) {
            let wrong = answer.differs(&sound);
            prop_assert_eq!(victims(line).union(&wrong), victims(line), "{} at line {}: {:?}", fault, line.0, wrong);
            prop_assert!(wrong.is_empty() || lines.contains(&line));
        }
        for (line, _) in fault.victims() {
            prop_assert!(lines.contains(&line));
        }
    }

    #[test]
    fn the_same_seed_does_the_same(fault in faults(), accesses in accesses()) {
        prop_assert_eq!(run(vec![fault], &accesses, &fault.lines()), run(vec![fault], &accesses, &fault.lines()));
    }

    #[test]
    fn the_lines_of_an_emulator_are_those_of_its_faults_ascending_each_once(faults in vec(faults(), 0..6)) {
        let mut expected: Vec<_> = faults.iter().flat_map(PlacedFault::lines).collect();
        expected.sort_unstable();
        expected.dedup();
        let emulator = Emulator::new(faults, 0);
        prop_assert_eq!(emulator.lines(), expected);
    }

    #[test]
    fn a_fault_survives_being_stored(fault in faults()) {
        let stored = serde_json::to_string(&fault).unwrap();
        prop_assert_eq!(serde_json::from_str::<PlacedFault>(&stored).unwrap(), fault);
    }
}
