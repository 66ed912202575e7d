//! What another thread sees of a replica that waits for decisions: always a moment that there was.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rampart_redmpi::History;

/// Kinds of decisions, which take turns.
const KINDS: u8 = 7;

/// How often it is seen to wait.
const LOOKS: usize = 2_000_000;

#[test]
fn what_is_waited_for_fits_the_decisions_so_far() {
    let is_over = AtomicBool::new(false);
    let hashes = thread::scope(|scope| {
        scope.spawn(|| {
            for kind in (1..=KINDS).cycle().take_while(|_| !is_over.load(Ordering::Relaxed)) {
                History::expect(kind);
                History::decide();
            }
        });
        let mut hashes = BTreeMap::new();
        let waits = std::iter::repeat_with(History::waits).flatten();
        let differs = waits
            .take(LOOKS)
            .find(|&(decisions, hash)| *hashes.entry(decisions % u64::from(KINDS)).or_insert(hash) != hash);
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(differs, None, "{hashes:?}");
        hashes
    });
    assert!(hashes.len() > 1, "kinds have hashes of their own: {hashes:?}");
}
