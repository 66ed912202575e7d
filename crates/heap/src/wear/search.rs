//! A search through all states of a model, for tests.

use std::collections::HashSet;
use std::hash::Hash;

/// All states that can be reached from `start`, each checked once.
pub fn reachable<S: Clone + Eq + Hash>(start: S, successors: impl Fn(&S) -> Vec<S>, check: impl Fn(&S)) -> HashSet<S> {
    let mut next = vec![start.clone()];
    let mut seen = HashSet::from([start]);
    while let Some(state) = next.pop() {
        check(&state);
        for successor in successors(&state) {
            if seen.insert(successor.clone()) {
                next.push(successor);
            }
        }
    }
    seen
}
