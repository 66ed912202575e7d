//! A whole run of the daemon.

use rampart_memory::FrameDemand;

use super::*;

#[test]
fn the_daemon_runs_over_any_source_and_says_of_each_step_whether_it_is_good() {
    let fixture = Fixture::new(request());
    let odd = Bytes::from_mib(4);
    assert_eq!(fixture.prepared(&fixture.machine()).step, SMALLEST_CLAIM, "random faults lie in such steps only");
    fixture.steps().waiting = [SMALLEST_CLAIM, odd, SMALLEST_CLAIM].map(|bytes| fixture.step(bytes, 1000)).into();
    let (summary, ended) = fixture.watch(|steps| steps.verdicts.len() == 3);
    assert!(ended && fixture.steps().was_let_go && !summary.bad_frames.is_empty());
    let verdicts = std::mem::take(&mut fixture.steps().verdicts);
    let failed = verdicts.iter().filter(|verdict| matches!(verdict, BlockVerdict::Failed(_))).count();
    let good = verdicts.iter().filter(|verdict| matches!(verdict, BlockVerdict::Good)).count();
    assert_eq!((failed, good), (2, 1), "{verdicts:?}");
}

/// The test would last an hour: only who gives its memory back in the middle of it ends in time.
#[test]
fn memory_that_programs_need_comes_back_though_its_test_has_not_ended() {
    let march = "{⇕(w0); Del; ⇕(r0)}".parse().unwrap();
    let fixture = Fixture::new(WatchRequest { march, delay: Duration::from_hours(1), ..plain() });
    fixture.steps().waiting = [1000, 2000].map(|first| fixture.step(SMALLEST_CLAIM, first)).into();
    fixture.steps().needed_after = Some(10);
    let (summary, ended) = fixture.watch(|steps| steps.verdicts.len() == 2);
    assert!(ended, "all came back before the daemon's time was up");
    assert_eq!(fixture.steps().verdicts, [BlockVerdict::NotTested, BlockVerdict::NotTested]);
    assert_eq!(summary.state.tested, 0);
}

#[test]
fn a_daemon_whose_time_is_up_makes_no_further_turn() {
    let fixture = Fixture::new(WatchRequest { duration: Some(Duration::ZERO), ..plain() });
    assert!(!fixture.watch(|_| true).1);
}

#[test]
fn testers_start_in_order_up_to_what_is_allowed_now() {
    let mut waiting = (0..5).map(|number| (Tester(number), number)).peekable();
    let mut start = |max| std::iter::from_fn(|| Some(next_tester(&mut waiting, max)?.1)).collect::<Vec<_>>();
    assert_eq!([start(1), start(1), start(3), start(2), start(9)], [vec![0], vec![], vec![1, 2], vec![], vec![3, 4]]);
}

/// The queue of a tester is as long as what it can test in an epoch, in its share of the time.
#[test]
fn as_much_is_taken_as_testers_can_test_in_their_share_of_the_time() {
    let mut request = plain();
    request.settings.policy = PolicyName::Fixed;
    request.settings.shares.beside_programs = share(0.25);
    let fixture = Fixture::new(request);
    fixture.steps().demand = 1 << 40;
    fixture.with(|shared| {
        let asked = |second| {
            lock(&shared.diagnostic).tick(shared.clock.now().after(Duration::from_secs(second)));
            fixture.steps().asked.pop()
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "frames of a second")]
        let within = |share: f64| (shared.prepared.bandwidth(shared.request).at_fidelity_1 * share) as u64;
        assert_eq!(asked(1), Some(within(0.25)));
        shared.set_share(share(0.5));
        assert_eq!(asked(2), Some(within(0.5)));
    });
}

#[test]
fn a_policy_has_its_own_rule_of_how_much_to_test_ahead() {
    let needed = FrameDemand { allocated_untested: 100, ..FrameDemand::default() };
    let control = ControlSettings { alpha: 2.0, ..ControlSettings::rahman16() };
    let asked = PolicyName::ALL.map(|policy| rule(policy, control, 512).blocks(needed));
    assert_eq!(asked, [0, 2, 200, 200, 200, 200], "nothing; twice the least; by demand");
}
