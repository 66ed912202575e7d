//! Scenarios: programs on a machine, and how its memory is tested while they run.

use std::time::Duration;

use rampart_memory::{Fidelity, FreeList, TestLifetime};

use rampart_diagnostic::control::{ControlSettings, PolicyLimits, PolicyName};

/// Rahman's machines [Rahman16, 5.3.1, tab. 2].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestedMachine {
    /// Pentium D 930: 2 cores, 1 GB.
    PentiumD,
    /// PowerEdge T620: 2 nodes of 8 cores and 32 GB.
    T620,
}

/// Programs on a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The machine.
    pub machine: TestedMachine,
    /// The programs, one instance each, by their names in Rahman's tables, assigned to the cores in turn.
    pub programs: Vec<&'static str>,
    /// How memory is tested; `None` for the baseline without testing.
    pub setup: Option<Setup>,
}

/// How memory is tested.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// Timers, limits, and options of the dispatcher.
    pub settings: ControlSettings,
    /// The policy for fidelity and threads.
    pub policy: PolicyName,
    /// The rule for how many blocks of each list to test.
    pub rule: Rule,
    /// Whether a test writes lines through the caches and flushes them [Rahman16, 5.2.3.4], instead of words past them.
    pub cache_indirect: bool,
    /// Whether a page that a program frees is marked expired and put last [Rahman16, 5.2.3.2].
    pub recycling: bool,
    /// Whether each core tests on demand the pages that it needs [Rahman16, 5.2.3.1].
    pub core_local: bool,
    /// Whether pages in use are re-placed before they expire [Rahman16, 4.1.6].
    pub migration: bool,
    /// How thoroughly a page is tested when a program waits for it.
    pub on_demand: Fidelity,
}

/// The rule for how many blocks of each list to test.
#[derive(Clone, Debug, PartialEq)]
pub enum Rule {
    /// None ahead of allocation.
    Nothing,
    /// COMeT's five states for each list [Rahman16, 4.1.5].
    RateMachine,
    /// Asteroid's *memblocks* [Rahman16, 5.2.4.2].
    FromDemand,
    /// A fixed number of blocks of each list in each monitoring period; none of lists that are not named.
    Steady(Vec<(FreeList, f64)>),
}

/// The number of free frames with a good test, per gigabyte of memory, at which COMeT stops testing. *Calibrated* on
/// povray's coverage in [Rahman16, fig. 11]: 19.5 % of 1 GB, where 14.9 % are in use.
const ENOUGH: u64 = 12_000;

impl TestedMachine {
    const fn gigabytes(self) -> u64 {
        match self {
            Self::PentiumD => 1,
            Self::T620 => 64,
        }
    }
}

/// Returns the fidelity with this number of patterns, the unit of [Rahman16, ch. 5]: two patterns for each of ours.
pub fn patterns(count: u32) -> Fidelity {
    assert!(count.is_multiple_of(2), "a background and its complement");
    Fidelity::new(count / 2).expect("some patterns")
}

impl Setup {
    /// Returns COMeT as in [Rahman16, ch. 4, tab. 1]: one tester, past the caches, no optimizations of Asteroid's.
    pub fn comet() -> Self {
        Self::comet_on(TestedMachine::PentiumD, Fidelity::MIN)
    }

    /// Returns COMeT on another machine, with every test `iterations` times as long.
    pub fn comet_on(machine: TestedMachine, iterations: Fidelity) -> Self {
        let published = ControlSettings::rahman16();
        let limits =
            PolicyLimits { min_fidelity: iterations, max_fidelity: iterations, fidelity_step: 1, max_cores: 1 };
        Self {
            settings: ControlSettings {
                limits,
                alpha: 1.0,
                skip_middle: false,
                node_local: false,
                enough: Some(ENOUGH * machine.gigabytes()),
                ..published
            },
            policy: PolicyName::Comet,
            rule: Rule::RateMachine,
            cache_indirect: false,
            recycling: false,
            core_local: true,
            migration: true,
            on_demand: iterations,
        }
    }

    /// Each page is tested when a program asks for it, and again when it expires in use [Rahman16, 3.2, 4.2.1].
    pub fn on_demand() -> Self {
        Self { policy: PolicyName::OnDemand, rule: Rule::Nothing, ..Self::comet() }
    }

    /// Returns the setup with another lifetime and δ.
    pub fn with_lifetime(self, lifetime: Duration, delta: Duration) -> Self {
        let lifetime = TestLifetime::new(lifetime, delta).expect("δ is shorter");
        Self { settings: ControlSettings { lifetime, ..self.settings }, ..self }
    }

    /// Asteroid as in [Rahman16, 5.3, tab. 6]: 8 to 32 patterns in four levels, on demand 8, all optimizations.
    pub fn adaptive() -> Self {
        let limits =
            PolicyLimits { min_fidelity: patterns(8), max_fidelity: patterns(32), fidelity_step: 4, max_cores: 4 };
        Self {
            settings: ControlSettings { limits, ..ControlSettings::rahman16() },
            policy: PolicyName::Adaptive,
            rule: Rule::FromDemand,
            cache_indirect: true,
            recycling: true,
            core_local: true,
            migration: true,
            on_demand: patterns(8),
        }
    }

    /// Fixx.yy: x threads and yy patterns [Rahman16, 5.3.1].
    pub fn fix(threads: u32, count: u32) -> Self {
        let adaptive = Self::adaptive();
        let fidelity = patterns(count);
        let limits =
            PolicyLimits { min_fidelity: fidelity, max_fidelity: fidelity, fidelity_step: 1, max_cores: threads };
        Self { settings: ControlSettings { limits, ..adaptive.settings }, policy: PolicyName::Fixed, ..adaptive }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fidelities(limits: PolicyLimits) -> (u32, u32, u32) {
        (limits.min_fidelity.patterns(), limits.max_fidelity.patterns(), limits.max_cores)
    }

    /// [Rahman16, ch. 4, tab. 1]; the number of frames that are enough is per GB.
    #[test]
    fn comet_has_one_tester_of_two_patterns_and_no_optimization() {
        let comet = Setup::comet();
        let ControlSettings { alpha, skip_middle, node_local, enough, limits, lifetime, .. } = comet.settings;
        assert_eq!((alpha, skip_middle, node_local, enough), (1.0, false, false, Some(12_000)));
        assert_eq!(fidelities(limits), (2, 2, 1));
        assert_eq!((lifetime.lifetime(), lifetime.delta()), (Duration::from_secs(180), Duration::from_secs(10)));
        assert_eq!((comet.policy, comet.rule), (PolicyName::Comet, Rule::RateMachine));
        assert!(!comet.cache_indirect && !comet.recycling && comet.core_local && comet.migration);
        let server = Setup::comet_on(TestedMachine::T620, patterns(8));
        assert_eq!((server.settings.enough, fidelities(server.settings.limits)), (Some(64 * 12_000), (8, 8, 1)));
        assert_eq!(server.on_demand.patterns(), 8);
    }

    #[test]
    fn testing_on_demand_tests_nothing_ahead() {
        let on_demand = Setup::on_demand();
        assert_eq!((on_demand.policy, &on_demand.rule), (PolicyName::OnDemand, &Rule::Nothing));
        assert_eq!(Setup { policy: PolicyName::Comet, rule: Rule::RateMachine, ..on_demand }, Setup::comet());
    }

    #[test]
    fn a_lifetime_is_all_that_a_window_changes() {
        let (lifetime, delta) = (Duration::from_secs(120), Duration::from_secs(5));
        let changed = Setup::comet().with_lifetime(lifetime, delta);
        assert_eq!((changed.settings.lifetime.lifetime(), changed.settings.lifetime.delta()), (lifetime, delta));
        assert_eq!(changed.with_lifetime(Duration::from_secs(180), Duration::from_secs(10)), Setup::comet());
    }

    /// [Rahman16, 5.3, tab. 6, 5.3.1].
    #[test]
    fn adaptive_chooses_from_8_to_32_patterns_and_4_threads_and_fix_has_no_choice() {
        let adaptive = Setup::adaptive();
        assert_eq!((fidelities(adaptive.settings.limits), adaptive.settings.limits.fidelity_step), ((8, 32, 4), 4));
        assert_eq!((adaptive.policy, &adaptive.rule), (PolicyName::Adaptive, &Rule::FromDemand));
        assert!(adaptive.settings.skip_middle && adaptive.settings.node_local && adaptive.settings.enough.is_none());
        let fix = Setup::fix(3, 16);
        assert_eq!((fidelities(fix.settings.limits), fix.policy), ((16, 16, 3), PolicyName::Fixed));
        let settings = ControlSettings { limits: adaptive.settings.limits, ..fix.settings };
        assert_eq!(Setup { settings, policy: PolicyName::Adaptive, ..fix }, adaptive);
    }
}
