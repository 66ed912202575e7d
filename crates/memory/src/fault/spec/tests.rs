use super::*;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;

fn parse(text: &str) -> InjectionSpec {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn a_specification_reads_as_it_is_written() {
    let spec = parse("stuck-at:100, coupling:20 ,retention@0x1a2b3,seed=7,intermittent=0.25,retention=100ms");
    assert_eq!(spec.random(), [(FaultClass::StuckAt, 100), (FaultClass::Coupling, 20)]);
    assert_eq!(spec.in_frames(), [(FaultClass::Retention, Frame::new(0x1a2b3).unwrap())]);
    assert_eq!((spec.seed(), spec.retention()), (7, Duration::from_millis(100)));
    assert_eq!(spec.intermittent().map(Probability::get), Some(0.25));
    assert_eq!(spec.to_string(), "stuck-at:100,coupling:20,retention@0x1a2b3,seed=7,intermittent=0.25,retention=100ms");
    let plain = parse("stuck-open:1");
    assert_eq!((plain.seed(), plain.retention()), (0, InjectionSpec::RETENTION));
    assert!(plain.intermittent().is_none() && !plain.is_pattern_sensitive());
    assert!(parse("linked@5,pattern=on").is_pattern_sensitive());
}

#[test]
fn every_kind_is_known_by_its_name() {
    for (name, class) in FaultClass::ALL {
        assert_eq!(parse(&format!("{name}:1")).random(), [(class, 1)]);
        assert_eq!(class.name(), name);
    }
}

#[test]
fn every_option_that_is_listed_is_read() {
    for (option, _) in InjectionSpec::OPTIONS {
        let example = option.replace("NUMBER", "7").replace("PROBABILITY", "0.5").replace("TIME", "100ms");
        assert_ne!(parse(&format!("stuck-at:1,{example}")), parse("stuck-at:1"), "{example}");
    }
}

#[test]
fn an_error_points_at_the_item_and_says_what_is_accepted() {
    for (text, place, problem) in [
        ("", 1, Problem::Form),
        ("stuck-at:1,", 2, Problem::Form),
        ("stuck-at", 1, Problem::Form),
        ("stuck-at:1,stuckat:1", 2, Problem::Kind),
        ("Stuck-At:1", 1, Problem::Kind),
        (":1", 1, Problem::Kind),
        ("stuck-at:0", 1, Problem::Count),
        ("stuck-at:-1", 1, Problem::Count),
        ("stuck-at:+1", 1, Problem::Count),
        ("stuck-at:", 1, Problem::Count),
        ("stuck-at:1000001", 1, Problem::Count),
        ("stuck-at:99999999999999999999", 1, Problem::Count),
        ("stuck-at:999999,linked:1,address:1", 3, Problem::TooMany),
        ("stuck-at:1000000,linked@1", 2, Problem::TooMany),
        ("stuck-at@frame", 1, Problem::Frame),
        ("stuck-at@0x10000000000", 1, Problem::Frame),
        ("stuck-at:1,stuck-at:2", 2, Problem::Twice),
        ("stuck-at@16,stuck-at@0x10", 2, Problem::Twice),
        ("seed=1,seed=1,stuck-at:1", 2, Problem::Twice),
        ("stuck-at:1,sed=1", 2, Problem::Option),
        ("stuck-at:1,seed=-1", 2, Problem::Seed),
        ("stuck-at:1,intermittent=0", 2, Problem::Probability),
        ("stuck-at:1,intermittent=1.5", 2, Problem::Probability),
        ("stuck-at:1,intermittent=nan", 2, Problem::Probability),
        ("stuck-at:1,pattern=yes", 2, Problem::Pattern),
        ("retention:1,retention=100", 2, Problem::Time),
        ("retention:1,retention=0ms", 2, Problem::Time),
        ("retention:1,retention=99999999999999999999s", 2, Problem::Time),
        ("retention:1,retention=18446744073710s", 2, Problem::Time),
        ("stuck-at:1,intermittent=0.5,pattern=on", 3, Problem::Both),
        ("seed=7", 1, Problem::Nothing),
    ] {
        let error = text.parse::<InjectionSpec>().expect_err(text);
        assert_eq!((error.place, error.problem), (place, problem), "{text}");
        assert!(!error.to_string().contains('\n'));
    }
    let error = "stuck-at:1,stuck-up:2".parse::<InjectionSpec>().unwrap_err().to_string();
    assert!(error.starts_with("item 2, \"stuck-up:2\": no such kind of fault; there are stuck-at,"), "{error}");
}

fn classes() -> impl Strategy<Value = FaultClass> {
    (0..FaultClass::ALL.len()).prop_map(|place| FaultClass::ALL[place].1)
}

fn specs() -> impl Strategy<Value = InjectionSpec> {
    let frames = btree_set((classes(), (0..1_u64 << 40).prop_map(|n| Frame::new(n).unwrap())), 0..4);
    let acts = prop_oneof![
        Just((None, false)),
        Just((None, true)),
        (0.000_1..=1.0).prop_map(|p| (Some(Probability::try_from(p).unwrap()), false)),
    ];
    let retention = option::of((1..10_000_000_u64).prop_map(Duration::from_micros));
    (btree_map(classes(), 1..80_000_u32, 1..11), frames, any::<u64>(), acts, retention).prop_map(
        |(random, frames, seed, (intermittent, pattern_sensitive), retention)| InjectionSpec {
            random: random.into_iter().collect(),
            in_frames: frames.into_iter().collect(),
            seed,
            intermittent,
            pattern_sensitive,
            retention: retention.unwrap_or(InjectionSpec::RETENTION),
        },
    )
}

proptest! {
    #[test]
    fn a_specification_comes_back_as_it_was_shown(spec in specs()) {
        prop_assert_eq!(spec.to_string().parse::<InjectionSpec>(), Ok(spec));
    }

    #[test]
    fn no_text_at_all_makes_the_parser_panic_and_an_error_is_one_short_line(text in any::<String>()) {
        if let Err(error) = text.parse::<InjectionSpec>() {
            let shown = error.to_string();
            prop_assert!(!shown.contains(['\n', '\u{1b}']) && shown.len() < 1000, "{}", shown);
        }
    }

    #[test]
    fn nothing_near_the_notation_makes_the_parser_panic(
        pieces in vec(
            prop_oneof![
                Just("stuck-at"), Just("retention"), Just("seed"), Just("intermittent"), Just("pattern"),
                Just(":"), Just("@"), Just("="), Just(","), Just("0x"), Just("7"), Just("0.5"), Just("."),
                Just("1000000"), Just("on"), Just("ms"), Just(" "), Just("é"), Just("18446744073709551616"),
            ],
            0..12,
        ),
    ) {
        let text = pieces.concat();
        if let Ok(spec) = text.parse::<InjectionSpec>() {
            prop_assert_eq!(spec.to_string().parse::<InjectionSpec>(), Ok(spec));
        }
    }
}
