//! The time to wait before a refused request is retried: each refusal doubles it.

use std::time::Duration;

/// The most doublings: the wait is then 1024 times the first one.
const DOUBLINGS: u32 = 10;

/// The wait after a refusal that followed `earlier` others. `first` is the wait after the first one.
pub fn wait_after(first: Duration, earlier: u32) -> Duration {
    first * (1 << earlier.min(DOUBLINGS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_doubles_the_wait_up_to_a_limit() {
        let waits = [0, 1, 2, 10, 11, u32::MAX].map(|earlier| wait_after(Duration::from_millis(10), earlier));
        assert_eq!(waits.map(|wait| wait.as_millis()), [10, 20, 40, 10_240, 10_240, 10_240]);
    }
}
