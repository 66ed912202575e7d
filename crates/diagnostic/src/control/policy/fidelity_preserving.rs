//! Fidelity-preserving: the highest fidelity, and for it the fewest threads, that keep up. Rahman leaves it to future
//! work [Rahman16, 6.2].

use rampart_memory::TestConfig;

use super::{Policy, PolicyInput, fastest};

/// Prefers higher fidelity, then fewer threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct FidelityPreserving;

impl Policy for FidelityPreserving {
    fn decide(&mut self, seen: &PolicyInput<'_>) -> TestConfig {
        let by_fidelity = seen
            .limits
            .fidelities()
            .flat_map(|fidelity| (1..=seen.limits.max_cores).map(move |threads| TestConfig { fidelity, threads }));
        let keeps_up = |config: &TestConfig| seen.request <= seen.bandwidth.of_config(*config);
        by_fidelity.into_iter().find(keeps_up).unwrap_or_else(|| fastest(seen.limits))
    }
}
