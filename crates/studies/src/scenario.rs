//! A scenario: programs on a machine, and how its memory is tested meanwhile.

use std::time::Duration;

use rampart_memory::{Fidelity, FreeList, TestLifetime};

use rampart_diagnostic::control::{ControlSettings, PolicyLimits, PolicyName};

/// The machines of [Rahman16, 5.3.1, tab. 2].
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
    /// The programs, one instance each, by their names in the tables of [Rahman16]; the nth on the nth core, wrapping
    /// around.
    pub programs: Vec<&'static str>,
    /// How memory is tested; `None` for the baseline run.
    pub setup: Option<Setup>,
}

/// How memory is tested.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// Timers, limits, and inputs of the dispatcher.
    pub settings: ControlSettings,
    /// Fidelity and threads.
    pub policy: PolicyName,
    /// The number of blocks of each list.
    pub rule: Rule,
    /// Whether a line is written through the caches and flushed [Rahman16, 5.2.3.4], instead of word by word past them.
    pub cache_indirect: bool,
    /// Whether a returned page expires and goes to the end [Rahman16, 5.2.3.2].
    pub recycling: bool,
    /// Whether tests on demand run on the core that needs them [Rahman16, 5.2.3.1].
    pub core_local: bool,
    /// Whether pages in use are renewed before they expire [Rahman16, 4.1.6].
    pub migration: bool,
    /// The fidelity of a test that a program waits for.
    pub on_demand: Fidelity,
}

/// The number of blocks of each list to test.
#[derive(Clone, Debug, PartialEq)]
pub enum Rule {
    /// None before allocation.
    Nothing,
    /// COMeT's five states for each list [Rahman16, 4.1.5].
    RateMachine,
    /// Asteroid's *memblocks* [Rahman16, 5.2.4.2].
    FromDemand,
    /// So many blocks of each list in each monitoring period; none of unnamed lists.
    Steady(Vec<(FreeList, f64)>),
}

/// COMeT's stock of free frames with a good test, per gigabyte of memory, above which it rests. *Calibrated* on
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

/// Patterns, the unit of fidelity in [Rahman16, ch. 5]: two for each of ours.
pub fn patterns(count: u32) -> Fidelity {
    assert!(count.is_multiple_of(2), "a background and its complement");
    Fidelity::new(count / 2).expect("some patterns")
}

impl Setup {
    /// COMeT as in [Rahman16, ch. 4, tab. 1]: one tester, past the caches, none of Asteroid's optimizations.
    pub fn comet() -> Self {
        Self::comet_on(TestedMachine::PentiumD, Fidelity::MIN)
    }

    /// The same on another machine, with a test that takes `iterations` times as long everywhere.
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

    /// Each page is tested when a program requests it, and again when it expires in use [Rahman16, 3.2, 4.2.1].
    pub fn on_demand() -> Self {
        Self { policy: PolicyName::OnDemand, rule: Rule::Nothing, ..Self::comet() }
    }

    /// The same with another lifetime and δ.
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
