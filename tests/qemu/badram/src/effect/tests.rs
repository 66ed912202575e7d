use super::*;
use crate::fake::Ram;
use crate::spec::Spec;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

const NOW: Duration = Duration::from_secs(5);

/// A word that no fault of these tests names.
const ELSEWHERE: usize = 1030;

/// One fault on a RAM of four frames, and the dice.
struct Trial {
    ram: Ram,
    watcher: Watcher,
    chance: ChaCha8Rng,
}

impl Trial {
    /// The RAM holds the content of `prepare` when the fault begins.
    fn after(fault: &str, prepare: impl FnOnce(&Ram)) -> Self {
        let ram = Ram::frames(4);
        ram.store(ELSEWHERE, 0xabc);
        prepare(&ram);
        let watcher = Watcher::new(&Spec::parse(fault).unwrap().faults[0], &ram, NOW).unwrap();
        Self { ram, watcher, chance: ChaCha8Rng::seed_from_u64(7) }
    }

    fn new(fault: &str) -> Self {
        Self::after(fault, |_| {})
    }

    fn look(&mut self) -> bool {
        self.look_after(Duration::ZERO)
    }

    fn look_after(&mut self, time: Duration) -> bool {
        let acted = self.watcher.act(&self.ram, NOW + time, &mut self.chance);
        assert_eq!(self.ram.load(ELSEWHERE), 0xabc);
        acted
    }
}

/// The word of line 2, bit 65 of frame 1.
const WORD: usize = 512 + 2 * 8 + 1;

#[test]
fn a_stuck_cell_is_forced_after_each_write_and_only_its_bit() {
    let mut trial = Trial::new("stuck-at@1/2/65=1");
    assert!(trial.look());
    assert_eq!(trial.ram.load(WORD), 2);
    assert!(!trial.look(), "it holds the value already");
    trial.ram.store(WORD, 0xf0);
    assert!(trial.look());
    assert_eq!(trial.ram.load(WORD), 0xf2);
    let mut trial = Trial::after("stuck-at@1/2/65=0", |ram| ram.store(WORD, u64::MAX));
    assert!(trial.look());
    assert_eq!(trial.ram.load(WORD), !2);
}

#[test]
fn a_blocked_transition_is_undone_and_the_other_goes_through() {
    let mut trial = Trial::new("transition@1/2/65=up");
    trial.ram.store(WORD, 3);
    assert!(trial.look());
    assert_eq!(trial.ram.load(WORD), 1);
    let mut trial = Trial::new("transition@1/2/65=down");
    trial.ram.store(WORD, 3);
    assert!(!trial.look());
    trial.ram.store(WORD, 0);
    assert!(trial.look());
    assert_eq!(trial.ram.load(WORD), 2);
    assert!(!trial.look());
}

#[test]
fn an_inversion_coupling_acts_once_at_each_change_in_its_direction() {
    let mut trial = Trial::new("coupling-in@1/2/65=up>2/0/3");
    assert!(!trial.look());
    trial.ram.store(WORD, 2);
    assert!(trial.look());
    assert_eq!(trial.ram.load(1024), 8);
    assert!(!trial.look(), "no change since");
    trial.ram.store(WORD, 0);
    assert!(!trial.look(), "the other direction");
    trial.ram.store(WORD, 3);
    assert!(trial.look());
    assert_eq!(trial.ram.load(1024), 0);
}

#[test]
fn an_idempotent_coupling_forces_its_victim_and_counts_only_where_that_changes_it() {
    let mut trial = Trial::after("coupling-id@1/2/65=down>2/0/3=1", |ram| ram.store(WORD, 2));
    trial.ram.store(WORD, 0);
    assert!(trial.look());
    assert_eq!(trial.ram.load(1024), 8);
    trial.ram.store(WORD, 2);
    assert!(!trial.look());
    trial.ram.store(WORD, 0);
    assert!(!trial.look(), "the victim holds 1 already");
    assert_eq!(trial.ram.load(1024), 8);
}

#[test]
fn an_aliased_address_shows_the_others_cells_and_what_is_written_by_either_stands_at_both() {
    let mut trial = Trial::after("address@1/2>2/0", |ram| {
        ram.store(WORD, 5);
        ram.store(1025, 6);
    });
    assert!(trial.look());
    assert_eq!((trial.ram.load(WORD), trial.ram.load(1025)), (6, 6));
    assert!(!trial.look());
    trial.ram.store(WORD, 7);
    assert!(trial.look());
    assert_eq!(trial.ram.load(1025), 7);
    trial.ram.store(1031, 9);
    assert!(trial.look());
    assert_eq!(trial.ram.load(WORD + 6), 9);
    trial.ram.store(WORD, 1);
    trial.ram.store(1025, 1);
    assert!(!trial.look(), "both were written with the same");
    trial.ram.store(1025, 2);
    assert!(trial.look());
    assert_eq!(trial.ram.load(WORD), 2);
}

#[test]
fn a_leaking_cell_falls_when_its_line_was_not_written_for_the_time_it_holds() {
    let millis = Duration::from_millis;
    let mut trial = Trial::after("retention@1/2/65=1,retention=300ms", |ram| ram.store(WORD, 3));
    assert!(!trial.look_after(millis(299)));
    // Another word of the line: the whole line is written at once.
    trial.ram.store(WORD + 3, 1);
    assert!(!trial.look_after(millis(300)));
    assert!(!trial.look_after(millis(599)));
    assert!(trial.look_after(millis(600)));
    assert_eq!(trial.ram.load(WORD), 1);
    assert!(!trial.look_after(millis(2000)), "the other value is not lost");
    trial.ram.store(WORD, 2);
    assert!(!trial.look_after(millis(2100)));
    assert!(trial.look_after(millis(2400)));
    assert_eq!(trial.ram.load(WORD), 0);
}

#[test]
fn an_intermittent_fault_draws_once_for_each_write_and_not_for_each_look() {
    let mut trial = Trial::new("stuck-at@1/2/65=1,intermittent=0.25");
    let mut acted = 0_u64;
    for write in 0..2000 {
        trial.ram.store(WORD, write << 8);
        let times = (0..20).filter(|_| trial.look()).count();
        assert!(times <= 1);
        acted += times as u64;
    }
    assert!((400..600).contains(&acted), "{acted} of 2000");
}

#[test]
fn intermittent_couplings_aliases_and_leaks_draw_too() {
    for (fault, time) in [
        ("transition@1/2/65=up,intermittent=0.5", 0),
        ("coupling-in@1/2/65=up>2/0/3,intermittent=0.5", 0),
        ("coupling-id@1/2/65=up>2/0/3=1,intermittent=0.5", 0),
        ("address@1/2>2/0,intermittent=0.5", 0),
        ("retention@1/2/65=1,retention=1ms,intermittent=0.5", 2),
    ] {
        let mut trial = Trial::new(fault);
        let mut acted = 0;
        for round in 0..200_u32 {
            for (word, value) in [(WORD, 0), (1024, 0), (1025, 0), (WORD, 2)] {
                trial.ram.store(word, value);
                let time = Duration::from_millis(time) * 2 * round;
                acted += u32::from(trial.look_after(time));
            }
            acted += u32::from(trial.look_after(Duration::from_millis(time) * (2 * round + 1)));
        }
        assert!((20..=380).contains(&acted), "{fault}: {acted} of 200 rounds");
    }
}

#[test]
fn what_cannot_be_forced_or_lies_outside_is_refused() {
    let ram = Ram::frames(4);
    for fault in ["stuck-at@4/0/0=1", "coupling-in@1/0/0=up>4/0/0", "coupling-in@4/0/0=up>1/0/0", "address@0>4"] {
        assert!(Watcher::new(&Spec::parse(fault).unwrap().faults[0], &ram, NOW).is_none(), "{fault}");
    }
    assert!(Watcher::new(&Spec::parse("stuck-at@3/63/511=1").unwrap().faults[0], &ram, NOW).is_some());
    let cell = crate::spec::cell("1/2/65").unwrap();
    let state = FaultKind::State { aggressor: cell, holds: true, victim: cell, reads: false };
    assert!(Watcher::new(&PlacedFault::permanent(state), &ram, NOW).is_none());
}
