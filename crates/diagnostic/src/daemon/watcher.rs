//! The watching thread's work every few milliseconds: programs first, then the controller, then the observer.

use std::time::{Duration, Instant};

use rampart_memory::{Bytes, TestConfig, Tested, Timestamp};

use super::errors::ErrorWatch;
use super::keep::{self, summarize};
use super::pace::{DaemonPace, Urgency};
use super::shared::DaemonContext;
use super::{DaemonEvent, DaemonSettings, DaemonState, FrameCounts, STATE_SCHEMA, TestingCost, WatchSummary};
use crate::sources::free_memory::PoolNews;
use crate::testing::publishing::lock;

/// The period of state reports.
const TELL: Duration = Duration::from_secs(1);

/// The thread's state between ticks.
pub struct DaemonLoop<'a, 'b> {
    shared: &'a DaemonContext<'b>,
    began: Timestamp,
    knobs: DaemonSettings,
    errors: ErrorWatch,
    told: Last,
    pace: DaemonPace,
    sweeps: u64,
    pressure: u64,
    relieved: Bytes,
    peak_own: Bytes,
}

/// The last report, for rates.
struct Last {
    at: Instant,
    frames: u64,
    traffic: u64,
    busy: Duration,
    config: Option<TestConfig>,
    alarms: u64,
    state: Option<DaemonState>,
}

impl<'a, 'b> DaemonLoop<'a, 'b> {
    pub fn new(shared: &'a DaemonContext<'b>, began: Timestamp) -> Self {
        let told = Last {
            at: Instant::now(),
            frames: 0,
            traffic: 0,
            busy: Duration::ZERO,
            config: None,
            alarms: 0,
            state: None,
        };
        let knobs = shared.request.knobs;
        Self {
            errors: ErrorWatch::listen(shared, knobs),
            shared,
            began,
            knobs,
            told,
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

    /// The most testers that may be needed.
    pub fn max_cores(&self) -> usize {
        usize::try_from(self.knobs.settings.limits.max_cores).unwrap_or(usize::MAX)
    }

    pub fn tick(&mut self) {
        let now = self.shared.clock.now();
        if let Some(knobs) = self.shared.observer.reload() {
            self.reconfigure(knobs, now);
        }
        self.relieve(now);
        if let Some(erring) = self.errors.look(self.shared, now) {
            lock(&self.shared.diagnostic).erring(erring);
        }
        self.keep_pace(now);
        lock(&self.shared.diagnostic).tick(now);
        self.hear();
        self.shared.publish_if_due();
        if self.told.at.elapsed() >= TELL || self.told.state.is_none() {
            self.tell(now);
        }
    }

    /// Sets the testers' share from now on. Without the kernel's counts, programs are assumed to run.
    fn keep_pace(&mut self, now: Timestamp) {
        if !self.pace.is_due(now) {
            return;
        }
        let machine = self.shared.machine;
        if let Some(busy) = machine.others_busy() {
            self.pace.look(now, busy, u32::try_from(machine.cpus().len()).unwrap_or(u32::MAX));
        }
        let diagnostic = lock(&self.shared.diagnostic);
        let (rate, overdue) = (diagnostic.source().rate(), diagnostic.source().is_overdue(now));
        drop(diagnostic);
        let limits = self.knobs.settings.limits;
        let urgency = match overdue {
            true => Urgency::Overdue,
            false => Urgency::Needs(self.shared.share_needed(rate, limits.min_fidelity, limits.max_cores)),
        };
        self.shared.set_share(self.pace.share(self.knobs.shares, urgency));
    }

    /// Programs first: held steps go back, then waiting ones, then those that wait for a tester, then those under test.
    fn relieve(&self, now: Timestamp) {
        let mut diagnostic = lock(&self.shared.diagnostic);
        diagnostic.source_mut().relieve();
        if diagnostic.source().missing() > Bytes::ZERO {
            diagnostic.stop(now);
        }
        self.shared.want_back(diagnostic.source().missing() > Bytes::ZERO);
    }

    fn reconfigure(&mut self, knobs: DaemonSettings, now: Timestamp) {
        let mut diagnostic = lock(&self.shared.diagnostic);
        if knobs.settings.lifetime != self.knobs.settings.lifetime {
            diagnostic.source_mut().rebound(knobs.settings.lifetime, now);
        }
        diagnostic.reconfigure(knobs.settings, knobs.policy.policy(knobs.settings.limits));
        drop(diagnostic);
        self.errors.change(knobs);
        self.knobs = knobs;
        self.shared.happened(&DaemonEvent::Reloaded);
    }

    /// Reports the news of the pool and the controller.
    fn hear(&mut self) {
        let mut diagnostic = lock(&self.shared.diagnostic);
        let news = diagnostic.source_mut().take_news();
        let (config, demand, alarms) = (diagnostic.config(), diagnostic.demand(), diagnostic.counts().alarms);
        drop(diagnostic);
        for news in news {
            match news {
                PoolNews::SweepBegan => self.shared.happened(&DaemonEvent::SweepBegan),
                PoolNews::SweepEnded(took) => self.end_sweep(took),
                PoolNews::Pressure(bytes) => self.relieved = Bytes::new(self.relieved.get() + bytes.get()),
            }
        }
        if alarms > self.told.alarms {
            self.shared.happened(&DaemonEvent::Alarm);
            self.told.alarms = alarms;
        }
        if self.told.config != Some(config) {
            self.shared.happened(&DaemonEvent::ConfigChanged { config, demand });
            self.told.config = Some(config);
        }
    }

    fn end_sweep(&mut self, took: Duration) {
        self.sweeps += 1;
        let diagnostic = lock(&self.shared.diagnostic);
        let ages = diagnostic.source().ages();
        let fresh = ages.fresh(self.knobs.settings.lifetime, self.shared.clock.now());
        let reached = ages.seen();
        let rows = keep::rows(ages, self.knobs.settings.lifetime);
        drop(diagnostic);
        lock(&self.shared.published.recorder).keep_ages(&rows);
        self.shared.happened(&DaemonEvent::SweepEnded { seconds: took.as_secs_f64(), fresh, reached });
    }

    fn tell(&mut self, now: Timestamp) {
        if self.relieved > Bytes::ZERO {
            self.shared.happened(&DaemonEvent::Pressure { bytes: self.relieved });
            self.pressure += 1;
            self.relieved = Bytes::ZERO;
        }
        let state = self.state(now);
        self.shared.observer.state(&state);
        self.told.state = Some(state);
    }

    /// Frames tested per second since the last call, and the cost.
    #[expect(clippy::cast_precision_loss, reason = "rates")]
    fn rates(&mut self) -> (f64, TestingCost) {
        let elapsed = self.told.at.elapsed().as_secs_f64().max(1e-3);
        let sums = lock(&self.shared.sums);
        let (frames, traffic, busy) = (sums.frames, sums.traffic, sums.busy);
        drop(sums);
        let cpus = self.shared.machine.cpus().len().max(1) as f64;
        let memory_traffic = (traffic - self.told.traffic) as f64 / elapsed;
        let cost = TestingCost {
            cpu: (busy - self.told.busy).as_secs_f64() / elapsed / cpus,
            memory_traffic,
            slowdown: 1.0 + memory_traffic / self.shared.prepared.limit.read,
        };
        let test_rate = (frames - self.told.frames) as f64 / elapsed;
        (self.told.frames, self.told.traffic, self.told.busy, self.told.at) = (frames, traffic, busy, Instant::now());
        (test_rate, cost)
    }

    fn state(&mut self, now: Timestamp) -> DaemonState {
        let (test_rate, cost) = self.rates();
        let bound = self.knobs.settings.lifetime;
        let diagnostic = lock(&self.shared.diagnostic);
        let pool = diagnostic.source();
        let claimed = pool.claimed();
        let own = self.shared.machine.resident().map(|resident| resident.saturating_sub(claimed));
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
            policy: self.knobs.policy,
            frames: FrameCounts {
                total: self.shared.machine.outlook().map_or(0, |seen| seen.total.frames()),
                reached: pool.ages().seen(),
                fresh: pool.ages().fresh(bound, now),
            },
            oldest_seconds: oldest.map(|tested| now.since(tested).as_secs_f64()),
            claimed,
            demand: diagnostic.demand(),
            config: diagnostic.config(),
            tested: self.told.frames,
            test_rate,
            cost,
            pressure: self.pressure,
            alarms: self.told.alarms,
            errors: self.errors.reports(),
            bad_frames,
            emulated_frames,
            own,
        }
    }

    /// Gives all memory back and sums up.
    pub fn end(mut self) -> WatchSummary {
        let now = self.shared.clock.now();
        let mut diagnostic = lock(&self.shared.diagnostic);
        diagnostic.stop(now);
        diagnostic.source_mut().let_go();
        let rows = keep::rows(diagnostic.source().ages(), self.knobs.settings.lifetime);
        drop(diagnostic);
        lock(&self.shared.published.recorder).keep_ages(&rows);
        self.hear();
        self.shared.publish();
        let state = DaemonState { own: Some(self.peak_own), ..self.state(now) };
        let summary = summarize(self.shared, state);
        self.shared.happened(&DaemonEvent::Stopped { verdict: summary.verdict.clone() });
        summary
    }
}
