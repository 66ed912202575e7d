//! What several targets share.

#![forbid(unsafe_code)]

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Bytes of the input that choose a value.
const SEED: usize = 4;

/// Returns a value of the strategy for each four bytes, which are the seed of its random numbers. So a change of the
/// input changes, adds, moves or removes single values.
///
/// The generator of proptest that passes bytes through would be of no use: each choice between strategies takes half of
/// the bytes that are left, and a few dozens later all numbers are zero.
pub fn drawn<S: Strategy>(strategy: &S, bytes: &[u8]) -> impl Iterator<Item = S::Value> {
    bytes.chunks_exact(SEED).map(|chosen| {
        let mut seed = [0; 32];
        seed[..SEED].copy_from_slice(chosen);
        let random = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
        let mut runner = TestRunner::new_with_rng(Config::default(), random);
        strategy.new_tree(&mut runner).expect("no value is rejected").current()
    })
}
