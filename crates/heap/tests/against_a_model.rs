//! The heap beside a model of it: random programs on heaps with random failures, in which every object keeps its
//! identity, its bytes and its references. The fuzz target `heap_graphs` does the same.

mod model;

use model::{Pair, setup, step};
use proptest::prelude::*;
use rampart_heap::Collection;

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn every_object_keeps_its_identity_whatever_has_failed(
        setup in setup(),
        steps in prop::collection::vec(step(), 1..400),
    ) {
        let mut pair = Pair::new(setup);
        steps.into_iter().for_each(|step| pair.run(step));
        pair.collect(Collection::Nursery);
        pair.collect(Collection::Full);
        pair.collect(Collection::Full);
    }
}
