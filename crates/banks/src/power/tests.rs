use super::*;
use proptest::prelude::*;

const GIB: Bytes = Bytes::from_mib(1024);

const FREE: PowerModel =
    PowerModel { off_state: BankPowerState::DeepPowerDown, change: None, bandwidth: None, watts_per_gib: None };

/// 100 µs a change, and 1 GB/s.
const COSTLY: PowerModel =
    PowerModel { change: Some(Duration::from_micros(100)), bandwidth: Some(Bytes::new(1_000_000_000)), ..FREE };

const NONE_MOVED: MovedPages = MovedPages { bytes: Bytes::ZERO, emptied: 0 };

fn times(on_micros: u128, off_micros: u128, changes: u64) -> BankTimes {
    BankTimes { on_micros, off_micros, changes }
}

fn close(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-12 * other.abs()
}

#[test]
fn the_shares_are_those_of_table_1_2() {
    let states = [
        BankPowerState::ReadWrite,
        BankPowerState::ActiveIdle,
        BankPowerState::SelfRefresh,
        BankPowerState::DeepPowerDown,
        BankPowerState::Unpowered,
    ];
    assert_eq!(states.map(BankPowerState::percent), [100, 63, 7, 1, 0]);
}

#[test]
fn three_banks_of_four_that_are_off_save_what_the_table_says() {
    for (off_state, expected) in [
        (BankPowerState::ActiveIdle, 1.0),
        (BankPowerState::SelfRefresh, (63.0 + 3.0 * 7.0) / (4.0 * 63.0)),
        (BankPowerState::DeepPowerDown, (63.0 + 3.0) / (4.0 * 63.0)),
        (BankPowerState::Unpowered, 0.25),
    ] {
        let report = PowerModel { off_state, ..FREE }.report(times(10, 30, 6), NONE_MOVED, GIB).unwrap();
        assert!(close(report.share, expected) && report.share == report.states, "{report:?}");
        assert_eq!((report.changes, report.migration, report.joules, report.change_count), (None, None, None, 6));
    }
}

#[test]
fn changes_and_moved_pages_cost_what_is_given() {
    // 1 s of a bank: 63 percent-seconds. Ten changes: 10 * 100 µs * 100 %. Moved: 2 * 10 MB at 1 GB/s, 37 % more.
    let moved = MovedPages { bytes: Bytes::new(10_000_000), emptied: 4 };
    let report = COSTLY.report(times(1_000_000, 0, 10), moved, GIB).unwrap();
    assert!(close(report.changes.unwrap(), 0.1 / 63.0), "{report:?}");
    assert!(close(report.migration.unwrap(), 0.02 * 37.0 / 63.0), "{report:?}");
    assert!(close(report.share, 1.0 + (0.1 + 0.74) / 63.0), "{report:?}");
    // 2 * 100 µs * 100 %, and 2 * 2.5 MB at 1 GB/s, 37 % more; of 62 % saved.
    assert_eq!(report.break_even_nanos, Some((20_000_000_u64 + 5_000_000 * 37).div_ceil(62)));
}

#[test]
fn joules_are_those_of_the_watts_and_the_size_of_a_bank() {
    let model = PowerModel { watts_per_gib: Some(2.0), ..FREE };
    let half = model.report(times(1_000_000, 1_000_000, 0), NONE_MOVED, Bytes::from_mib(512)).unwrap();
    let joules = half.joules.unwrap();
    // A bank draws 1 W at full power.
    assert!(close(joules.all_on, 1.26) && close(joules.used, 0.64), "{joules:?}");
    assert!(close(joules.used / joules.all_on, half.share));
}

#[test]
fn what_is_assumed_is_said_and_so_is_what_is_left_out() {
    let said = |model: &PowerModel| model.report(times(1, 0, 0), NONE_MOVED, GIB).unwrap().assumed.join("\n");
    let free = said(&FREE);
    assert!(
        free.contains("active-idle 63 % of read/write, deep power-down 1 %, of which the table says less"),
        "{free}"
    );
    assert!(free.contains("changes of state cost nothing") && free.contains("pages that move cost nothing"), "{free}");
    assert!(!free.contains(" W "), "{free}");
    let costly = said(&PowerModel { watts_per_gib: Some(1.5), off_state: BankPowerState::SelfRefresh, ..COSTLY });
    assert!(costly.contains("self-refresh 7 %") && costly.contains("takes 100µs at full power"), "{costly}");
    assert!(costly.contains("read once and written once") && costly.contains("1.5 W"), "{costly}");
    assert!(!costly.contains("cost nothing"), "{costly}");
}

#[test]
fn without_time_there_is_no_energy() {
    assert_eq!(COSTLY.report(times(0, 0, 9), NONE_MOVED, GIB), None);
}

#[test]
fn a_bank_that_is_off_too_briefly_costs_more_than_it_saves() {
    let moved = Bytes::new(1_000_000);
    // 20,000,000 percent-nanoseconds for two changes, 74,000,000 for 2 ms at 37 % more; 62 % are saved.
    let needed = COSTLY.break_even(moved).unwrap();
    assert_eq!(needed, Duration::from_nanos(1_516_130));
    assert!(COSTLY.break_even(Bytes::ZERO).unwrap() == Duration::from_nanos(322_581));
    let saves = |micros: u128| {
        let moved = MovedPages { bytes: moved, emptied: 1 };
        COSTLY.report(times(5_000 - micros, micros, 2), moved, GIB).unwrap().share < 1.0
    };
    assert!(saves(needed.as_micros() + 1) && !saves(needed.as_micros()));
    assert_eq!(FREE.break_even(moved), Some(Duration::ZERO));
    for off_state in [BankPowerState::ActiveIdle, BankPowerState::ReadWrite] {
        assert_eq!(PowerModel { off_state, ..COSTLY }.break_even(moved), None);
    }
}

#[test]
fn a_year_of_the_largest_machine_does_not_overflow() {
    let model = PowerModel { change: Some(Duration::from_secs(366 * 86_400)), bandwidth: Some(Bytes::new(1)), ..FREE };
    let moved = MovedPages { bytes: Bytes::new(u64::MAX), emptied: 1 };
    let report = model.report(times(1 << 90, 1 << 90, u64::MAX), moved, GIB).unwrap();
    assert!(report.share.is_finite() && report.break_even_nanos == Some(u64::MAX));
}

proptest! {
    /// The meter against a sum over every bank and every microsecond.
    #[test]
    fn times_are_those_of_every_microsecond(
        first in proptest::collection::vec(any::<bool>(), 1..6),
        steps in proptest::collection::vec((0_u64..40, 0_usize..6, any::<bool>()), 0..30),
    ) {
        let mut meter = BankMeter::new(first.clone());
        let (mut states, mut now, mut naive) = (first, 0, BankTimes::default());
        for (micros, bank, is_off) in steps {
            let bank = bank % states.len();
            // A time in the past is no time.
            meter.advance(micros);
            while now < micros {
                for is_off in &states {
                    if *is_off { naive.off_micros += 1 } else { naive.on_micros += 1 }
                }
                now += 1;
            }
            meter.set(bank, is_off);
            naive.changes += u64::from(states[bank] != is_off);
            states[bank] = is_off;
        }
        prop_assert_eq!(meter.times(), naive);
    }

    /// The energy of the states against a sum over every microsecond, and the break-even time as the least that pays.
    #[test]
    fn energy_is_the_sum_of_its_parts(
        on in 0_u32..300, off in 1_u32..300, changes in 0_u64..9, moved in 0_u64..100_000,
        state in 0_usize..3, latency in 0_u64..100_000, rate in 1_u64..1_000_000_000,
    ) {
        let off_state =
            [BankPowerState::SelfRefresh, BankPowerState::DeepPowerDown, BankPowerState::Unpowered][state];
        let (change, bandwidth) = (Some(Duration::from_nanos(latency)), Some(Bytes::new(rate)));
        let model = PowerModel { off_state, change, bandwidth, watts_per_gib: None };
        let moved = MovedPages { bytes: Bytes::new(moved), emptied: 1 };
        let report = model.report(times(on.into(), off.into(), changes), moved, GIB).unwrap();
        let each = |state: BankPowerState| f64::from(state.percent()) / 100.0;
        let mut sum = 0.0;
        (0..on).for_each(|_| sum += each(BankPowerState::ActiveIdle));
        (0..off).for_each(|_| sum += each(off_state));
        let all_on = f64::from(on + off) * each(BankPowerState::ActiveIdle);
        prop_assert!((report.states - sum / all_on).abs() < 1e-9);
        let parts = report.states + report.changes.unwrap() + report.migration.unwrap();
        prop_assert!((report.share - parts).abs() <= 1e-9 * parts);
        let saved = u128::from(63 - off_state.percent());
        let cost = model.changes(2).0 + model.migration(moved.bytes).0;
        let least = u128::from(report.break_even_nanos.unwrap());
        prop_assert!(least * saved >= cost && (least == 0 || (least - 1) * saved < cost));
    }
}
