//! Binary trees, as in the Computer Language Benchmarks Game: objects of 16 B with two references.

use crate::heap::{HeapUnderTest, Reference};

/// The depth of the smallest trees.
const LEAST: u32 = 4;

/// Builds and counts trees up to a depth; returns how many nodes were counted.
pub fn run(heap: &mut impl HeapUnderTest, depth: u32) -> u64 {
    let depth = depth.max(LEAST + 2);
    let mut nodes = build_and_count(heap, depth + 1);
    let tree = build(heap, depth);
    let long_lived = heap.roots().push(tree);
    for each in (LEAST..=depth).step_by(2) {
        for _ in 0..1_u64 << (depth - each + LEAST) {
            nodes += build_and_count(heap, each);
        }
    }
    nodes += count(heap, heap.roots().get(long_lived));
    heap.roots().pop(1);
    nodes
}

fn build_and_count(heap: &mut impl HeapUnderTest, depth: u32) -> u64 {
    let tree = build(heap, depth);
    count(heap, tree)
}

#[inline(never)]
fn build<H: HeapUnderTest>(heap: &mut H, depth: u32) -> Reference {
    if depth == 0 {
        return heap.allocate(2, 0);
    }
    let left = build(heap, depth - 1);
    let left = heap.roots().push(left);
    let right = build(heap, depth - 1);
    let right = heap.roots().push(right);
    let node = heap.allocate(2, 0);
    heap.store(node, 0, heap.roots().get(left));
    heap.store(node, 1, heap.roots().get(right));
    heap.roots().pop(2);
    node
}

fn count<H: HeapUnderTest>(heap: &H, node: Reference) -> u64 {
    match heap.load(node, 0) {
        0 => 1,
        left => 1 + count(heap, left) + count(heap, heap.load(node, 1)),
    }
}
