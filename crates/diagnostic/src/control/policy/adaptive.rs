//! Adaptive, core-preserving: the fewest threads, and with them the highest fidelity, that keep up
//! [Rahman16, 5.2.4.5, fig. 30].

use rampart_memory::TestConfig;

use super::{Policy, PolicyInput, fastest};

/// Prefers fewer threads, then higher fidelity.
#[derive(Clone, Copy, Debug, Default)]
pub struct Adaptive;

impl Policy for Adaptive {
    fn decide(&mut self, seen: &PolicyInput<'_>) -> TestConfig {
        let by_threads = (1..=seen.limits.max_cores)
            .flat_map(|threads| seen.limits.fidelities().map(move |fidelity| TestConfig { fidelity, threads }));
        let keeps_up = |config: &TestConfig| seen.request <= seen.bandwidth.of_config(*config);
        by_threads.into_iter().find(keeps_up).unwrap_or_else(|| fastest(seen.limits))
    }
}
