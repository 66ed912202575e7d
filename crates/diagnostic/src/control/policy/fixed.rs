//! Fixed: always the administrator's configuration [Rahman16, 5.2.4.4].

use rampart_memory::TestConfig;

use super::{Policy, PolicyInput};

/// Always this configuration.
#[derive(Clone, Copy, Debug)]
pub struct Fixed(pub TestConfig);

impl Policy for Fixed {
    fn decide(&mut self, _seen: &PolicyInput<'_>) -> TestConfig {
        self.0
    }
}
