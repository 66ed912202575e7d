//! Turns of the main loop.

use rampart_memory::ReplicaError;

use super::*;

#[test]
fn a_turn_of_the_loop_hands_on_news_settings_and_the_needs_of_programs() {
    let fixture = Fixture::new(WatchRequest { duration: Some(Duration::from_hours(1)), ..plain() });
    let took = Duration::from_secs(5);
    let news = vec![PoolNews::SweepBegan, PoolNews::SweepEnded(took), PoolNews::Pressure(SMALLEST_CLAIM)];
    *fixture.steps() = Steps { news, is_overdue: true, ..Steps::default() };
    fixture.fake.set_used(Bytes::from_mib(7));
    let mut changed = fixture.request.settings;
    changed.control.limits.max_cores = 3;
    *fixture.told.settings.lock().unwrap() = Some(changed);
    fixture.with(|shared| {
        let mut watcher = DaemonLoop::new(shared, shared.clock.now());
        assert_eq!((watcher.time_is_up(), watcher.max_cores()), (false, 1));
        {
            let mut sums = lock(&shared.sums);
            (sums.frames, sums.traffic, sums.busy) = (600, 3000, Duration::from_secs(12));
        }
        watcher.tick();
        assert_eq!((watcher.time_is_up(), watcher.max_cores()), (false, 3));
        let events = fixture.told.take_names();
        assert_eq!(events, ["reloaded", "sweep_began", "sweep_ended", "config_changed", "pressure"]);
        let state = fixture.told.states.lock().unwrap()[0].clone();
        assert_eq!((state.sweeps, state.pressure, state.tested, state.overdue), (1, 1, 600, true));
        assert_eq!((state.frames.total, state.own), (FakeMachine::TOTAL.frames(), Some(Bytes::from_mib(7))));
        assert!(state.last_test.is_some() && !shared.interruption.takes_back());
        // Over the same time: 600 frames, 3000 bytes and 12 s.
        let (rate, cost) = (state.test_rate, state.cost);
        assert!(rate > 0.0 && is_about(cost.memory_traffic, 5.0 * rate));
        #[expect(clippy::cast_precision_loss, reason = "a few CPUs")]
        let cpus = shared.machine.cpus().len() as f64;
        assert!(is_about(cost.cpu * cpus, rate / 50.0));
        assert!(is_about(cost.slowdown, 1.0 + cost.memory_traffic / shared.prepared.limit.read));

        fixture.fake.set_used(Bytes::from_mib(3));
        watcher.tick();
        assert_eq!(fixture.told.take_names(), [""; 0], "nothing is new");
        assert_eq!(fixture.told.states.lock().unwrap().len(), 1, "one a second");
        let summary = watcher.end();
        assert_eq!((summary.state.test_rate, summary.state.last_test), (0.0, state.last_test));
        assert_eq!((summary.state.cost.cpu, summary.state.cost.memory_traffic), (0.0, 0.0), "nothing since");
        assert_eq!(summary.state.own, Some(Bytes::from_mib(7)), "the most");
        assert_eq!(fixture.told.take_names(), ["stopped"]);
    });
    let over = Fixture::new(WatchRequest { duration: Some(Duration::ZERO), ..plain() });
    over.with(|shared| assert!(DaemonLoop::new(shared, shared.clock.now()).time_is_up()));
    let endless = Fixture::new(WatchRequest { duration: None, ..plain() });
    endless.with(|shared| assert!(!DaemonLoop::new(shared, shared.clock.now()).time_is_up()));
}

#[test]
fn a_run_is_incomplete_until_a_sweep_has_ended() {
    let fixture = Fixture::new(plain());
    fixture.with(|shared| {
        let state = DaemonLoop::new(shared, shared.clock.now()).end().state;
        let ended = |tested, sweeps| {
            let at = state.started.after(Duration::from_secs(4));
            keep::summarize(shared, DaemonState { tested, sweeps, at, ..state.clone() })
        };
        assert_eq!(ended(0, 3).incomplete.as_deref(), Some("no memory was tested"));
        let first = ended(512, 0);
        assert_eq!(first.incomplete.as_deref(), Some("stopped in the first sweep, with 2 MiB tested"));
        let whole = ended(512, 1);
        assert_eq!((whole.incomplete, whole.verdict), (None, crate::testing::verdict::TestVerdict::Pass));
        let end = fixture.disk.open().history(1).unwrap()[0].end.clone().unwrap();
        assert_eq!((end.frames_tested, end.bytes_per_second), (512, 512 * 1024));
        find(shared, 7);
        shared.publish();
        assert_eq!(known_bad(&fixture.disk.open(), &fixture.told), [frame(7)]);
    });
}

#[test]
fn testers_may_hurry_while_frames_are_overdue_or_the_node_is_suspect() {
    let share_when = |is_overdue, is_suspect| {
        let mut request = WatchRequest { node: Some("n7".to_owned()), ..plain() };
        request.settings.shares = Shares { maximum: share(0.75), beside_programs: share(0.25) };
        let fixture = Fixture::new(request);
        fixture.steps().is_overdue = is_overdue;
        fixture.with(|shared| {
            let now = shared.clock.now();
            let error = ReplicaError { node: Some("n7".to_owned()), ..ReplicaError::unplaced(now, now, "message") };
            let errors = vec![error; if is_suspect { 2 } else { 0 }];
            fixture.disk.open().keep_replica_errors(&errors).unwrap();
            let a_second_ago = Timestamp::from_micros(now.micros() - 1_000_000);
            DaemonLoop::new(shared, a_second_ago).tick();
            shared.share()
        })
    };
    let shares = [(false, false), (true, false), (false, true)].map(|(overdue, suspect)| share_when(overdue, suspect));
    assert_eq!(shares, [0.25, 0.75, 0.75]);
}

#[test]
fn programs_get_first_what_waits_for_a_tester_and_then_what_a_tester_has() {
    let fixture = Fixture::new(plain());
    fixture.steps().waiting = [1000, 2000].map(|first| fixture.step(SMALLEST_CLAIM, first)).into();
    fixture.with(|shared| {
        let mut watcher = DaemonLoop::new(shared, shared.clock.now());
        while lock(&shared.diagnostic).waiting() < 1024 {
            watcher.tick();
            assert_eq!(fixture.steps().verdicts, [], "nobody needs it");
        }
        watcher.tick();
        assert_eq!((fixture.steps().verdicts.len(), shared.interruption.takes_back()), (0, false));
        let under_test = shared.next(Tester(0)).expect("two wait").block;
        let needed = fixture.steps().out;
        assert_eq!(needed, Bytes::from_mib(4));
        fixture.steps().missing = needed;
        watcher.tick();
        assert_eq!(fixture.steps().verdicts, [BlockVerdict::NotTested], "one waited");
        assert!(shared.interruption.takes_back(), "the other is with a tester");
        lock(&shared.diagnostic).finish(under_test, BlockVerdict::NotTested, shared.clock.now());
        watcher.tick();
        assert!(!shared.interruption.takes_back(), "all came back");
    });
}

#[test]
fn only_a_new_lifetime_is_told_to_the_source() {
    let fixture = Fixture::new(plain());
    fixture.with(|shared| {
        let mut watcher = DaemonLoop::new(shared, shared.clock.now());
        let mut settings = fixture.request.settings;
        let lifetime = TestLifetime::new(Duration::from_secs(77), Duration::from_secs(7)).unwrap();
        for (alpha, bound) in [(3.0, settings.control.lifetime), (3.0, lifetime), (4.0, lifetime)] {
            settings.control = ControlSettings { alpha, lifetime: bound, ..settings.control };
            *fixture.told.settings.lock().unwrap() = Some(settings);
            watcher.tick();
        }
        assert_eq!(fixture.steps().rebounds, [lifetime]);
    });
}

/// At the lowest of two fidelities, more is tested.
#[test]
fn a_sudden_demand_is_told_as_an_alarm_and_no_pressure_is_told_without_any() {
    let mut request = plain();
    request.settings.control.limits.max_fidelity = Fidelity::new(2).unwrap();
    let fixture = Fixture::new(request);
    fixture.steps().demand = 1 << 40;
    fixture.with(|shared| {
        let mut watcher = DaemonLoop::new(shared, shared.clock.now());
        thread::sleep(shared.request.settings.control.monitoring);
        watcher.tick();
        assert_eq!(fixture.told.take_names(), ["alarm", "config_changed"]);
        watcher.tick();
        assert_eq!(fixture.told.take_names(), [""; 0]);
        let state = fixture.told.states.lock().unwrap()[0].clone();
        assert_eq!((state.alarms, state.pressure), (1, 0));
    });
}
