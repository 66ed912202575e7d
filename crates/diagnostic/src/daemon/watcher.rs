//! The daemon's main loop. Every few milliseconds it gives memory back to programs, runs the controller, and reports.

use std::time::{Duration, Instant};

use rampart_memory::{Bytes, TestConfig, Tested, Timestamp};

use super::errors::ErrorWatch;
use super::keep::{self, summarize};
use super::pace::{DaemonPace, Urgency};
use super::shared::DaemonContext;
use super::suspicion::SuspicionWatch;
use super::{DaemonEvent, DaemonSettings, DaemonState, FrameCounts, STATE_SCHEMA, TestingCost, WatchSummary};
use crate::sources::free_memory::PoolNews;
use crate::testing::publishing::lock;

/// How often the state is reported.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// If the machine has got so much more memory, a sweep begins. The smallest memory block on x86-64 has 128 MiB, of
/// which some frames may be retired, or hold what the kernel keeps of the block itself.
const ADDED: Bytes = Bytes::from_mib(64);

/// The state of the main loop.
pub struct DaemonLoop<'a, 'b> {
    shared: &'a DaemonContext<'b>,
    began: Timestamp,
    settings: DaemonSettings,
    errors: ErrorWatch,
    suspicion: SuspicionWatch,
    last: LastReport,
    pace: DaemonPace,
    sweeps: u64,
    pressure: u64,
    relieved: Bytes,
    peak_own: Bytes,
}

/// The values of the last report; rates are computed from them.
struct LastReport {
    at: Instant,
    frames: u64,
    traffic: u64,
    busy: Duration,
    config: Option<TestConfig>,
    alarms: u64,
    /// When `frames` last grew.
    test: Option<Timestamp>,
    state: Option<DaemonState>,
}

impl<'a, 'b> DaemonLoop<'a, 'b> {
    pub fn new(shared: &'a DaemonContext<'b>, began: Timestamp) -> Self {
        let last = LastReport {
            at: Instant::now(),
            frames: 0,
            traffic: 0,
            busy: Duration::ZERO,
            config: None,
            alarms: 0,
            test: None,
            state: None,
        };
        let settings = shared.request.settings;
        Self {
            errors: ErrorWatch::listen(shared, settings),
            suspicion: SuspicionWatch::new(),
            shared,
            began,
            settings,
            last,
            pace: DaemonPace::new(began, shared.machine.others_busy().unwrap_or_default()),
            sweeps: 0,
            pressure: 0,
            relieved: Bytes::ZERO,
            peak_own: Bytes::ZERO,
        }
    }

    pub fn time_is_up(&self) -> bool {
        let passed = self.shared.clock.now().since(self.began);
        self.shared.request.duration.is_some_and(|limit| passed >= limit)
    }

    /// The maximum number of testers.
    pub fn max_cores(&self) -> usize {
        usize::try_from(self.settings.control.limits.max_cores).unwrap_or(usize::MAX)
    }

    pub fn tick(&mut self) {
        let now = self.shared.clock.now();
        if let Some(settings) = self.shared.observer.reload() {
            self.reconfigure(settings, now);
        }
        self.relieve(now);
        if let Some(erring) = self.errors.poll(self.shared, now) {
            lock(&self.shared.diagnostic).erring(erring);
        }
        self.suspicion.poll(self.shared, now);
        self.update_share(now);
        lock(&self.shared.diagnostic).tick(now);
        self.report_changes();
        self.shared.publish_if_due();
        if self.last.at.elapsed() >= REPORT_EVERY || self.last.state.is_none() {
            self.report(now);
        }
    }

    /// Sets the testers' share of time. If the kernel does not report the CPU time of programs, programs are assumed to
    /// run.
    fn update_share(&mut self, now: Timestamp) {
        if !self.pace.is_due(now) {
            return;
        }
        let machine = self.shared.machine;
        if let Some(busy) = machine.others_busy() {
            self.pace.measure(now, busy, u32::try_from(machine.cpus().len()).unwrap_or(u32::MAX));
        }
        let diagnostic = lock(&self.shared.diagnostic);
        let (rate, overdue) = (diagnostic.source().rate(), diagnostic.source().is_overdue(now));
        drop(diagnostic);
        let limits = self.settings.control.limits;
        let urgency = match overdue || self.suspicion.is_urgent() {
            true => Urgency::Overdue,
            false => Urgency::Needs(self.shared.share_needed(rate, limits.min_fidelity, limits.max_cores)),
        };
        self.shared.set_share(self.pace.share(self.settings.shares, urgency));
    }

    /// Gives memory back to programs: first held steps, then waiting ones, then those that wait for a tester, then
    /// those under test.
    fn relieve(&self, now: Timestamp) {
        let mut diagnostic = lock(&self.shared.diagnostic);
        diagnostic.source_mut().relieve();
        if diagnostic.source().missing() > Bytes::ZERO {
            diagnostic.stop(now);
        }
        self.shared.interruption.set_needed_back(diagnostic.source().missing() > Bytes::ZERO);
    }

    fn reconfigure(&mut self, settings: DaemonSettings, now: Timestamp) {
        let mut diagnostic = lock(&self.shared.diagnostic);
        if settings.control.lifetime != self.settings.control.lifetime {
            diagnostic.source_mut().rebound(settings.control.lifetime, now);
        }
        diagnostic.reconfigure(settings.control, settings.policy.policy(settings.control.limits));
        drop(diagnostic);
        self.errors.change(settings);
        self.settings = settings;
        self.shared.happened(&DaemonEvent::Reloaded);
    }

    /// Reports the changes in the pool and the controller.
    fn report_changes(&mut self) {
        let mut diagnostic = lock(&self.shared.diagnostic);
        let news = diagnostic.source_mut().take_news();
        let (config, demand, alarms) = (diagnostic.config(), diagnostic.demand(), diagnostic.counts().alarms);
        drop(diagnostic);
        for news in news {
            match news {
                PoolNews::SweepBegan => {
                    self.shared.happened(&DaemonEvent::SweepBegan);
                    self.suspicion.sweep_began(self.shared.clock.now());
                }
                PoolNews::SweepEnded(took) => self.end_sweep(took),
                PoolNews::Pressure(bytes) => self.relieved = Bytes::new(self.relieved.get() + bytes.get()),
            }
        }
        if alarms > self.last.alarms {
            self.shared.happened(&DaemonEvent::Alarm);
            self.last.alarms = alarms;
        }
        if self.last.config != Some(config) {
            self.shared.happened(&DaemonEvent::ConfigChanged { config, demand });
            self.last.config = Some(config);
        }
    }

    fn end_sweep(&mut self, took: Duration) {
        self.sweeps += 1;
        let diagnostic = lock(&self.shared.diagnostic);
        let ages = diagnostic.source().ages();
        let fresh = ages.fresh(self.settings.control.lifetime, self.shared.clock.now());
        let reached = ages.seen();
        let stored = keep::ages_to_store(ages, self.settings.control.lifetime);
        drop(diagnostic);
        lock(&self.shared.published.recorder).keep_ages(&stored);
        self.shared.happened(&DaemonEvent::SweepEnded { seconds: took.as_secs_f64(), fresh, reached });
        self.suspicion.sweep_ended(self.shared);
    }

    fn report(&mut self, now: Timestamp) {
        if self.relieved > Bytes::ZERO {
            self.shared.happened(&DaemonEvent::Pressure { bytes: self.relieved });
            self.pressure += 1;
            self.relieved = Bytes::ZERO;
        }
        let state = self.state(now);
        let before = self.last.state.as_ref().map(|last| last.frames.total);
        if has_grown(before, state.frames.total) {
            lock(&self.shared.diagnostic).source_mut().hurry(now);
        }
        self.shared.observer.state(&state);
        self.last.state = Some(state);
    }

    /// Returns the frames tested per second since the last call, and the cost.
    #[expect(clippy::cast_precision_loss, reason = "rates")]
    fn rates(&mut self, now: Timestamp) -> (f64, TestingCost) {
        let elapsed = self.last.at.elapsed().as_secs_f64().max(1e-3);
        let sums = lock(&self.shared.sums);
        let (frames, traffic, busy) = (sums.frames, sums.traffic, sums.busy);
        drop(sums);
        let cpus = self.shared.machine.cpus().len().max(1) as f64;
        let memory_traffic = (traffic - self.last.traffic) as f64 / elapsed;
        let cost = TestingCost {
            cpu: (busy - self.last.busy).as_secs_f64() / elapsed / cpus,
            memory_traffic,
            slowdown: 1.0 + memory_traffic / self.shared.prepared.limit.read,
        };
        let test_rate = (frames - self.last.frames) as f64 / elapsed;
        if frames > self.last.frames {
            self.last.test = Some(now);
        }
        (self.last.frames, self.last.traffic, self.last.busy, self.last.at) = (frames, traffic, busy, Instant::now());
        (test_rate, cost)
    }

    fn state(&mut self, now: Timestamp) -> DaemonState {
        let (test_rate, cost) = self.rates(now);
        let bound = self.settings.control.lifetime;
        let diagnostic = lock(&self.shared.diagnostic);
        let pool = diagnostic.source();
        let claimed = pool.claimed();
        let own = own_memory(|| self.shared.machine.used_memory(), || pool.in_use());
        self.peak_own = self.peak_own.max(own.unwrap_or_default());
        let (bad_frames, emulated_frames) = self.shared.bad_frames();
        let oldest = pool.ages().oldest_fresh(bound, now).and_then(Tested::moment);
        DaemonState {
            schema: STATE_SCHEMA.to_owned(),
            pid: std::process::id(),
            started: self.began,
            at: now,
            sweeping: pool.is_sweeping(),
            sweeps: self.sweeps,
            lifetime_seconds: bound.lifetime().as_secs_f64(),
            policy: self.settings.policy,
            frames: FrameCounts {
                total: self.shared.machine.outlook().map_or(0, |seen| seen.total.frames()),
                reached: pool.ages().seen(),
                fresh: pool.ages().fresh(bound, now),
            },
            oldest_seconds: oldest.map(|tested| now.since(tested).as_secs_f64()),
            claimed,
            guarantee: pool.guarantee(),
            demand: diagnostic.demand(),
            config: diagnostic.config(),
            tested: self.last.frames,
            last_test: self.last.test,
            overdue: pool.is_overdue(now),
            test_rate,
            cost,
            pressure: self.pressure,
            alarms: self.last.alarms,
            errors: self.errors.reports(),
            offline: self.shared.machine.offline(),
            bad_frames,
            emulated_frames,
            own,
        }
    }

    /// Gives all memory back and returns the summary.
    pub fn end(mut self) -> WatchSummary {
        let now = self.shared.clock.now();
        let mut diagnostic = lock(&self.shared.diagnostic);
        diagnostic.stop(now);
        diagnostic.source_mut().let_go();
        let stored = keep::ages_to_store(diagnostic.source().ages(), self.settings.control.lifetime);
        drop(diagnostic);
        lock(&self.shared.published.recorder).keep_ages(&stored);
        self.report_changes();
        self.shared.publish();
        let state = DaemonState { own: Some(self.peak_own), ..self.state(now) };
        let summary = summarize(self.shared, state);
        self.shared.happened(&DaemonEvent::Stopped { verdict: summary.verdict.clone() });
        summary
    }
}

/// How often memory is looked at before a claim that grows meanwhile is put up with.
const LOOKS: usize = 4;

/// What this process uses beyond its claims, from what it uses in all. Another thread may fill a claim meanwhile: of
/// some looks the one counts during which it came least far.
fn own_memory(all: impl Fn() -> Option<Bytes>, claimed: impl Fn() -> Bytes) -> Option<Bytes> {
    let mut looks = Vec::new();
    for _ in 0..LOOKS {
        let before = claimed();
        let all = all()?;
        let grown = claimed().saturating_sub(before);
        looks.push((grown, all.saturating_sub(before)));
        if grown == Bytes::ZERO {
            break;
        }
    }
    looks.into_iter().min_by_key(|(grown, _)| *grown).map(|(_, own)| own)
}

/// Whether the machine has so much more memory than it had, in frames, that it is worth a sweep.
fn has_grown(before: Option<u64>, now: u64) -> bool {
    before.is_some_and(|before| now >= before.saturating_add(ADDED.frames()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Claims that grow while one looks; the second look is undisturbed.
    #[test]
    fn own_memory_is_what_is_left_of_all_when_no_claim_grows() {
        let mib = Bytes::from_mib;
        let looks = std::cell::Cell::new(0);
        let sees = |claims: &'static [u64], all: &'static [u64]| {
            looks.set(0);
            let claimed = || mib(claims[looks.replace(looks.get() + 1)]);
            (own_memory(|| Some(mib(all[looks.get() / 2])), claimed), looks.get())
        };
        assert_eq!(sees(&[64, 64], &[82]), (Some(mib(18)), 2));
        assert_eq!(sees(&[64, 72, 80, 80], &[88, 98]), (Some(mib(18)), 4));
        let (own, looked) = sees(&[0, 9, 9, 11, 11, 17, 17, 20], &[18, 27, 40, 40]);
        assert_eq!((own, looked), (Some(mib(18)), 8), "the second look, during which the claim grew least");
        assert_eq!(own_memory(|| None, || Bytes::ZERO), None);
    }

    #[test]
    fn a_memory_block_that_comes_online_is_worth_a_sweep() {
        let block = Bytes::from_mib(128).frames();
        assert!(has_grown(Some(1000), 1000 + block - 512), "512 frames describe the block");
        assert!(!has_grown(Some(1000), 1000 + block / 3), "a balloon takes and gives memory in small parts");
        assert!(!has_grown(Some(1000 + block), 1000) && !has_grown(None, block));
    }
}
