//! How long to wait before something is tried again that the machine refused: each refusal doubles the wait.

use std::time::Duration;

/// A wait doubles so often at most: it is 1024 times the first one then.
const DOUBLINGS: u32 = 10;

/// The wait after a refusal that came after so many others. `first` is the wait after the first one.
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
