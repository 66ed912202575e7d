//! Error-triggered: tests first, and at the highest fidelity, where the hardware corrects more errors than the
//! threshold allows. Rahman leaves it to future work [Rahman16, 6.2].

use rampart_memory::TestConfig;

use super::{Policy, PolicyInput};

/// Applies another policy while there are no errors; MAX-FIDELITY while there are some.
///
/// The order of tests is not part of the configuration: [`super::super::Diagnostic::erring`] passes the frames to the
/// source.
#[derive(Clone, Copy, Debug, Default)]
pub struct ErrorTriggered<P>(pub P);

impl<P: Policy> Policy for ErrorTriggered<P> {
    fn decide(&mut self, seen: &PolicyInput<'_>) -> TestConfig {
        let config = self.0.decide(seen);
        if seen.erring.is_empty() { config } else { TestConfig { fidelity: seen.limits.max_fidelity, ..config } }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Adaptive, Bandwidth};
    use super::*;
    use crate::control::ControlSettings;
    use rampart_memory::{Frame, FrameRange};

    #[test]
    fn errors_call_for_the_highest_fidelity_and_calm_ends_it() {
        let erring = [FrameRange::new(Frame::new(512).unwrap(), 512).unwrap()];
        let limits = ControlSettings::rahman16().limits;
        let bandwidth = Bandwidth { at_fidelity_1: 1000.0 };
        let mut policy = ErrorTriggered(Adaptive);
        let mut decide = |erring| policy.decide(&PolicyInput { request: 900.0, bandwidth, limits, erring });
        assert_eq!(decide(&[]).fidelity.backgrounds(), 1);
        assert_eq!(decide(&erring).fidelity, limits.max_fidelity);
        assert_eq!(decide(&[]).fidelity.backgrounds(), 1);
    }
}
