//! The whole controller: timers, monitor, policy, dispatcher and guarantee over one source of frames [Rahman16, fig. 26
//! and 29].
//!
//! Call [`Diagnostic::tick`] when its timers are due, [`Diagnostic::next`] when a tester is idle, and
//! [`Diagnostic::finish`] when a tester is done. The controller does not depend on its caller or on real time.

use rampart_memory::{BlockVerdict, Fidelity, FrameRange, FrameSource, Node, RePlacementCounts, TestConfig, Timestamp};
use serde::Serialize;

use super::dispatch::{Dispatcher, Tester};
use super::monitor::{Monitor, Reading};
use super::policy::{Bandwidth, Policy, PolicyInput, fastest};
use super::replenish::Replenish;
use super::{Alarm, ControlSettings, Guarantee};

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Frames that testers tested ahead of allocation, good or bad.
    pub tested: u64,
    /// Blocks taken from free lists.
    pub taken: u64,
    /// How often demand was read.
    pub readings: u64,
    /// Frames whose test did not complete.
    pub not_tested: u64,
    /// Frames found bad by testers.
    pub failed: u64,
    /// How often the alarm was raised.
    pub alarms: u64,
    /// Decisions of the policy.
    pub epochs: u64,
    /// How often the clock went back.
    pub clock_went_back: u64,
    /// The re-placements by the guarantee timer.
    pub re_placed: RePlacementCounts,
}

/// A block for a tester, and the fidelity of its test.
#[derive(Debug)]
pub struct Work<B> {
    /// The block.
    pub block: B,
    /// The fidelity.
    pub fidelity: Fidelity,
}

/// The weight of the last epoch's demand ([Rahman16, 5.3.1] decays monitored demand, and does not say how fast).
const DECAY: f64 = 0.75;

/// The diagnostic over one source.
pub struct Diagnostic<S: FrameSource> {
    source: S,
    settings: ControlSettings,
    policy: Box<dyn Policy + Send>,
    refills: Vec<Refill>,
    monitor: Monitor,
    readings: Vec<Reading>,
    alarm: Alarm,
    guarantee: Guarantee,
    dispatcher: Dispatcher<S::Block>,
    bandwidth: Bandwidth,
    erring: Vec<FrameRange>,
    config: TestConfig,
    /// Whether enough free frames were tested at the end of the last epoch.
    enough: bool,
    /// Frames allocated in the epoch so far.
    allocated: u64,
    /// The decayed demand, in frames per second.
    demand: f64,
    latest: Timestamp,
    reading_due: Timestamp,
    epoch_began: Timestamp,
    counts: Counts,
}

/// The rule of one list, and the blocks that it requested and that were not taken yet.
struct Refill {
    rule: Box<dyn Replenish + Send>,
    requested: u64,
}

impl<S: FrameSource> Diagnostic<S> {
    /// Starts a diagnostic with testers on these nodes; `rule` makes the replenish rule of a list.
    pub fn new(
        source: S,
        settings: ControlSettings,
        policy: Box<dyn Policy + Send>,
        mut rule: impl FnMut(rampart_memory::FreeList) -> Box<dyn Replenish + Send>,
        testers: &[Node],
        bandwidth: Bandwidth,
        now: Timestamp,
    ) -> Self {
        let monitor = Monitor::new(&source);
        let refills = monitor.lists().map(|list| Refill { rule: rule(list), requested: 0 }).collect();
        let mut diagnostic = Self {
            monitor,
            refills,
            readings: Vec::new(),
            alarm: Alarm::new(settings.alarm),
            guarantee: Guarantee::new(settings.lifetime, now),
            dispatcher: Dispatcher::new(testers, settings.node_local),
            config: fastest(settings.limits),
            erring: Vec::new(),
            enough: false,
            allocated: 0,
            demand: 0.0,
            latest: now,
            reading_due: now.after(settings.monitoring),
            epoch_began: now,
            counts: Counts::default(),
            source,
            settings,
            policy,
            bandwidth,
        };
        diagnostic.decide();
        diagnostic
    }

    /// The source of frames.
    pub const fn source(&self) -> &S {
        &self.source
    }

    /// The source of frames, mutably.
    pub const fn source_mut(&mut self) -> &mut S {
        &mut self.source
    }

    /// The configuration in force.
    pub const fn config(&self) -> TestConfig {
        self.config
    }

    /// The demand that the policy last used, in frames per second, before α.
    pub const fn demand(&self) -> f64 {
        self.demand
    }

    /// The counts so far.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Frames that wait for a tester.
    pub fn waiting(&self) -> u64 {
        self.dispatcher.waiting()
    }

    /// Sets the measured test rate of one thread, for decisions from now on.
    pub const fn measured(&mut self, bandwidth: Bandwidth) {
        self.bandwidth = bandwidth;
    }

    /// Sets the frames around which the hardware corrects more errors than the threshold allows; an empty list ends the
    /// special treatment.
    pub fn erring(&mut self, frames: Vec<FrameRange>) {
        if frames != self.erring {
            self.source.prefer(&frames);
            self.erring = frames;
            self.decide();
        }
    }

    /// Replaces settings and policy; demand and blocks under test are kept.
    pub fn reconfigure(&mut self, settings: ControlSettings, policy: Box<dyn Policy + Send>) {
        self.alarm = Alarm::new(settings.alarm);
        self.guarantee = Guarantee::new(settings.lifetime, self.latest);
        self.settings = settings;
        self.policy = policy;
        self.decide();
    }

    /// Runs the timers that are due at `now`.
    pub fn tick(&mut self, now: Timestamp) {
        if now < self.latest {
            self.counts.clock_went_back += 1;
            self.source.forget();
            self.guarantee.hurry(now);
            (self.reading_due, self.epoch_began) = (now, now);
        }
        self.latest = now;
        if let Some(re_placed) = self.guarantee.tick(&mut self.source, now) {
            self.counts.re_placed = self.counts.re_placed + re_placed;
        }
        if now >= self.reading_due {
            self.reading_due = now.after(self.settings.monitoring);
            self.read();
            self.refill(now);
        }
        let epoch = now.since(self.epoch_began);
        if epoch >= self.settings.epoch {
            #[expect(clippy::cast_precision_loss, reason = "frames of one epoch")]
            let rate = self.allocated as f64 / epoch.as_secs_f64();
            self.demand = rate.max(DECAY * self.demand);
            (self.allocated, self.epoch_began) = (0, now);
            self.enough = self.settings.enough.is_some_and(|enough| self.source.tested_free(now) >= enough);
            self.decide();
        }
    }

    /// When [`Self::tick`] must be called next.
    pub fn due(&self) -> Timestamp {
        self.reading_due.min(self.guarantee.due())
    }

    /// Returns the next block for a tester.
    pub fn next(&mut self, tester: Tester) -> Option<Work<S::Block>> {
        let block = self.dispatcher.next(tester)?;
        Some(Work { block, fidelity: self.config.fidelity })
    }

    /// Takes back a block that a tester is done with.
    pub fn finish(&mut self, block: S::Block, verdict: BlockVerdict, now: Timestamp) {
        let (_, frames) = self.source.shape(&block);
        match &verdict {
            BlockVerdict::Good => self.counts.tested += frames,
            BlockVerdict::Failed(bad) => {
                self.counts.tested += frames;
                self.counts.failed += bad.len() as u64;
            }
            BlockVerdict::NotTested => self.counts.not_tested += frames,
        }
        self.source.give_back(block, verdict, now);
    }

    /// Gives back every block that waits for a tester.
    pub fn stop(&mut self, now: Timestamp) {
        for block in self.dispatcher.drain() {
            self.finish(block, BlockVerdict::NotTested, now);
        }
        self.refills.iter_mut().for_each(|refill| refill.requested = 0);
    }

    fn decide(&mut self) {
        self.counts.epochs += 1;
        self.config = self.policy.decide(&PolicyInput {
            request: self.settings.alpha * self.demand,
            bandwidth: self.bandwidth,
            limits: self.settings.limits,
            erring: &self.erring,
        });
    }

    fn read(&mut self) {
        self.monitor.read(&self.source, &mut self.readings);
        self.counts.readings += 1;
        let frames = self.readings.iter().map(Reading::frames).sum();
        self.allocated += frames;
        let rate = self.bandwidth.of_config(self.config);
        let raised = self.alarm.raised(frames, self.settings.monitoring, rate);
        let emergency = self.settings.emergency();
        if raised && self.config.threads > 0 && self.config != emergency {
            self.counts.alarms += 1;
            self.config = emergency;
        }
    }

    /// The lists, at each call those of another node first: where more blocks are requested than can be tested, the
    /// first lists get them.
    fn in_turn(&self) -> impl Iterator<Item = usize> + use<S> {
        let node = |at: usize| self.readings[at].list.node;
        let begins: Vec<usize> = (0..self.readings.len()).filter(|&at| at == 0 || node(at) != node(at - 1)).collect();
        let turn = usize::try_from(self.counts.readings).unwrap_or(0);
        let first = if begins.is_empty() { 0 } else { begins[turn % begins.len()] };
        (first..self.readings.len()).chain(0..first)
    }

    /// Takes the blocks that the rules request, up to the number that the testers can test in an epoch: a longer queue
    /// would withhold memory from the allocator and test it no sooner.
    fn refill(&mut self, now: Timestamp) {
        if self.config.threads == 0 {
            return;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "frames of one epoch, not negative"
        )]
        let capacity = (self.bandwidth.of(self.config.fidelity) * self.settings.epoch.as_secs_f64()) as u64;
        for at in self.in_turn() {
            let (reading, refill) = (&self.readings[at], &mut self.refills[at]);
            let middle = (3..=8).contains(&reading.list.order.number());
            if self.settings.skip_middle && middle {
                continue;
            }
            refill.requested += refill.rule.blocks(reading.since);
            if self.enough {
                refill.requested = 0;
                continue;
            }
            let room = self.dispatcher.room(reading.list.node, self.config.threads, capacity.max(1));
            let count = refill.requested.min(room.div_ceil(reading.list.order.frames()));
            let blocks = self.source.take(reading.list, count, now);
            // A list without further untested blocks has no open requests.
            self.counts.taken += blocks.len() as u64;
            refill.requested = if (blocks.len() as u64) < count { 0 } else { refill.requested - count };
            for block in blocks {
                let (node, frames) = self.source.shape(&block);
                if self.source.is_urgent(&block) {
                    self.dispatcher.dispatch_first(block, node, frames, self.config.threads);
                } else {
                    self.dispatcher.dispatch(block, node, frames, self.config.threads);
                }
            }
        }
        if self.enough {
            self.source.rest(now);
        }
    }
}

#[cfg(test)]
mod tests;
