//! The test of a step, and its verdict.

use super::*;

#[test]
fn testers_rest_for_the_rest_of_their_share_and_their_speed_is_an_average() {
    let mut request = plain();
    request.settings.shares.beside_programs = Share::new(0.25).unwrap();
    Fixture::new(request).with(|shared| {
        assert!(is_about(shared.share(), 0.25));
        assert_eq!(shared.rest_after(Duration::from_secs(3)), Duration::from_secs(9));
        shared.set_share(Share::new(0.5).unwrap());
        assert!(is_about(shared.share(), 0.5));
        let (one, two) = (Fidelity::MIN, Fidelity::new(2).unwrap());
        let speed = shared.prepared.bandwidth(shared.request).at_fidelity_1;
        let plan = shared.request.plan(one);
        assert!(is_about(speed, shared.prepared.limit.of(plan.reads(), plan.writes()) / 4096.0));
        assert!(is_about(shared.share_needed(3.0 * speed, two, 4), 1.5));
        shared.took(Bytes::from_mib(2), two, Duration::from_secs(4));
        let speed = speed + 0.2 * (256.0 - speed);
        assert!(is_about(shared.share_needed(7.0, one, 1), 7.0 / speed));
        assert_eq!([shared.next_region(), shared.next_region(), shared.next_region()], [0, 1, 2]);
    });
}

#[test]
fn a_bad_frame_is_told_as_an_event_too_and_emulated_ones_are_counted_apart() {
    let fixture = Fixture::new(plain());
    fixture.with(|shared| {
        find(shared, 7);
        shared.publish_if_due();
        assert_eq!((shared.bad_frames(), fixture.told.take_names()), ((1, 0), vec!["bad_frame".to_owned()]));
        find(shared, 8);
        shared.publish();
        assert_eq!((shared.bad_frames(), fixture.told.take_events().len()), ((2, 0), 1));
        assert_eq!(fixture.told.of_tests.bad.lock().unwrap().len(), 2);
    });
    let injected = Fixture::new(WatchRequest { inject: Some("stuck-at@0x3eb".parse().unwrap()), ..request() });
    injected.with(|shared| {
        let mut job = injected.job(shared);
        assert!(!job.test(shared).goes_on());
        let (_, verdict) = job.judge(shared);
        assert_eq!((verdict, shared.bad_frames()), (BlockVerdict::Failed(vec![frame(1003)]), (0, 1)));
        assert!(lock(&shared.sums).missed.is_empty());
    });
}

#[test]
fn a_step_rests_before_its_delayed_read_and_what_is_left_out_is_counted() {
    let fixture = Fixture::new(WatchRequest { retention: Duration::from_hours(1), ..plain() });
    fixture.with(|shared| {
        for skips in [true, false] {
            let mut job = fixture.job(shared);
            assert!(!job.is_tested() && job.test(shared).goes_on() && job.is_tested());
            if !skips {
                assert!(!job.test(shared).goes_on());
            }
            assert_eq!(job.judge(shared).1, BlockVerdict::Good);
            assert_eq!(lock(&shared.sums).not_read_late, 512, "of the first only");
        }
        let sums = lock(&shared.sums);
        let plan = shared.request.plan(Fidelity::MIN);
        assert_eq!((sums.frames, sums.moved), (1024, 0));
        let once = (plan.reads() + plan.writes()) as u64 * SMALLEST_CLAIM.get();
        assert!(sums.traffic > once && sums.traffic <= 2 * once, "{} {once}", sums.traffic);
        assert!(sums.busy > Duration::ZERO && sums.hold.is_some());
    });
}

#[test]
fn a_step_whose_test_is_stopped_counts_for_nothing() {
    let fixture = Fixture::new(plain());
    fixture.with(|shared| {
        let mut job = fixture.job(shared);
        shared.interruption.set_needed_back(true);
        assert!(!job.test(shared).goes_on() && !job.is_tested());
        assert_eq!(job.judge(shared).1, BlockVerdict::NotTested);
        shared.interruption.halt();
        let mut job = fixture.job(shared);
        assert!(!job.test(shared).goes_on());
        find(shared, 1003);
        let (step, verdict) = job.judge(shared);
        assert_eq!((verdict, step.frames[3]), (BlockVerdict::NotTested, Some(frame(1003))));
        let sums = lock(&shared.sums);
        assert_eq!((sums.frames, sums.not_read_late), (0, 0));
    });
}

#[test]
fn a_frame_that_its_page_left_during_the_test_does_not_count_as_tested() {
    let fixture = Fixture::new(plain());
    fixture.with(|shared| {
        let step = fixture.step(SMALLEST_CLAIM, 1000);
        let StepMemory::Program(block) = &step.region else { unreachable!("it is memory of this process") };
        let seventh = block.base().addr().get() as u64 + 7 * 4096;
        let mut job = Job::begin(shared, Work { block: step, fidelity: Fidelity::MIN }).unwrap();
        assert!(!job.test(shared).goes_on());
        fixture.fake.put(seventh, 5000);
        let (step, verdict) = job.judge(shared);
        assert_eq!(verdict, BlockVerdict::Good, "the others were tested");
        let tested: Vec<_> = step.frames.iter().flatten().map(|frame| frame.number()).collect();
        let stayed: Vec<_> = (1000..1512).filter(|&frame| frame != 1007).collect();
        assert_eq!(tested, stayed);
        let sums = lock(&shared.sums);
        assert_eq!((sums.frames, sums.moved), (511, 1));
    });
}

/// Where memory is only locked, its pages may move at any time.
#[test]
fn a_mismatch_in_a_page_that_moved_just_before_says_nothing_about_its_frame() {
    let fixture = Fixture::new(bad_1003());
    fixture.with(|shared| {
        fixture.fake.add_user_zone();
        let step = fixture.step(SMALLEST_CLAIM, 1000);
        let StepMemory::Program(block) = &step.region else { unreachable!("it is memory of this process") };
        let third = block.base().addr().get() as u64 + 3 * 4096;
        let mut job = Job::begin(shared, Work { block: step, fidelity: Fidelity::MIN }).unwrap();
        let fake = Arc::clone(&fixture.fake);
        *fixture.clock.0.lock().unwrap() = Some(Box::new(move || fake.put(third, 5000)));
        assert!(!job.test(shared).goes_on());
        assert!(fixture.clock.0.lock().unwrap().is_none(), "the time of the mismatch was taken");
        let found: Vec<_> = lock(&shared.published.findings).bad_frames().iter().map(|bad| bad.frame).collect();
        assert_eq!(found, [None]);
    });
}

/// A fault is injected in frame 1003.
fn bad_1003() -> WatchRequest {
    WatchRequest { inject: Some("stuck-at@0x3eb".parse().unwrap()), ..plain() }
}

/// The test stops in its delay, after the fault was found and before it ends.
#[test]
fn a_step_whose_test_is_stopped_after_an_error_has_failed_and_its_other_frames_are_not_tested() {
    let march = "{⇕(w0); ⇕(r0,w1); ⇕(r1); Del; ⇕(r1)}".parse().unwrap();
    let fixture = Fixture::new(WatchRequest { march, delay: Duration::from_hours(1), ..bad_1003() });
    fixture.with(|shared| {
        let mut job = fixture.job(shared);
        thread::scope(|scope| {
            scope.spawn(|| {
                while lock(&shared.published.findings).count() == 0 {
                    thread::yield_now();
                }
                shared.interruption.halt();
            });
            assert!(!job.test(shared).goes_on());
        });
        let (step, verdict) = job.judge(shared);
        assert_eq!(verdict, BlockVerdict::Failed(vec![frame(1003)]));
        let kept: Vec<_> = step.frames.into_iter().flatten().collect();
        assert_eq!(kept, [frame(1003)], "it was not retired, and is kept");
        let sums = lock(&shared.sums);
        assert_eq!((sums.frames, sums.moved), (0, 0));
    });
}

#[test]
fn the_kernel_is_asked_to_retire_frames_with_real_errors_only_and_keeps_those_that_it_refuses() {
    for (is_real, is_refused) in [(false, false), (true, false), (true, true)] {
        let fixture = Fixture::new(bad_1003());
        if is_refused {
            fixture.fake.use_frames([0; 2000]);
        }
        fixture.with(|shared| {
            let mut job = fixture.job(shared);
            assert!(!job.test(shared).goes_on());
            if is_real {
                find(shared, 1003);
            }
            let (step, verdict) = job.judge(shared);
            assert_eq!(verdict, BlockVerdict::Failed(vec![frame(1003)]));
            let is_retired = is_real && !is_refused;
            assert_eq!(step.frames[3].is_none(), is_retired);
            assert_eq!(step.frames.iter().flatten().count(), if is_retired { 511 } else { 512 });
            assert_eq!(fixture.fake.was_asked_to_retire(frame(1003)), is_real);
            let events = fixture.told.take_names();
            assert_eq!(events.iter().filter(|name| *name == "retired").count(), usize::from(is_real), "{events:?}");
            assert_eq!(fixture.told.of_tests.take_lines().len(), usize::from(is_refused));
        });
    }
}

/// The speed of a tester is that of whole march tests; a read after a rest is none.
#[test]
fn the_time_of_a_test_is_taken_when_the_march_tests_are_complete() {
    let fixture = Fixture::new(WatchRequest { retention: Duration::from_hours(1), ..plain() });
    fixture.with(|shared| {
        let speed = || shared.share_needed(1.0, Fidelity::MIN, 1);
        let mut job = fixture.job(shared);
        let before = speed();
        assert!(job.test(shared).goes_on());
        let tested = speed();
        assert!(!job.test(shared).goes_on());
        assert!(before != tested && tested == speed());
    });
}

/// A cell that loses its value after an hour is found by who lets the step rest for two.
#[test]
fn an_injected_fault_that_must_be_found_and_was_not_is_missed() {
    let resting = |retention| {
        let inject = Some("retention@0x3eb,retention=3600s".parse().unwrap());
        Fixture::new(WatchRequest { retention, inject, ..plain() })
    };
    let (hasty, patient) = (resting(Duration::from_millis(1)), resting(Duration::from_hours(2)));
    patient.with(|shared| {
        let mut job = patient.job(shared);
        while job.test(shared).goes_on() {}
        job.judge(shared);
        assert_eq!(lock(&shared.sums).missed, [""; 0]);
        let mut job = patient.job(shared);
        hasty.with(|shared| while job.test(shared).goes_on() {});
        job.judge(shared);
        assert_eq!(lock(&shared.sums).missed.len(), 1);
    });
}
