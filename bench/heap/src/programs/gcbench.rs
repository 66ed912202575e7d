//! The benchmark of John Ellis, Pete Kovac and Hans Boehm: nodes with two references and two integers.

use crate::heap::{HeapUnderTest, Reference};

/// The depth of the smallest trees.
const LEAST: u32 = 4;
/// How much deeper the first tree is, which stretches the heap.
const STRETCH: u32 = 2;
/// The references and bytes of a node.
const NODE: (u32, u32) = (2, 8);

/// Builds trees up to a depth; returns how many nodes were made, and the references of the long-lived tree that are
/// there.
pub fn run(heap: &mut impl HeapUnderTest, depth: u32) -> u64 {
    let mut nodes = nodes_of(depth + STRETCH);
    let _dropped = make(heap, depth + STRETCH);
    let root = heap.allocate(NODE.0, NODE.1);
    let long_lived = heap.roots().push(root);
    populate(heap, depth, long_lived);
    nodes += nodes_of(depth);
    // In the original, half a million doubles beside trees of depth 16.
    let doubles = u32::try_from(500_000_u64 << depth >> 16).expect("an array that fits a heap");
    let array = heap.allocate(0, 8 * doubles);
    let array = heap.roots().push(array);
    for index in 1..doubles / 2 {
        heap.write_double(heap.roots().get(array), 0, index, (1.0 / f64::from(index)).to_bits());
    }
    for each in (LEAST..=depth).step_by(2) {
        let trees = 2 * nodes_of(depth + STRETCH) / nodes_of(each);
        for _ in 0..trees {
            let root = heap.allocate(NODE.0, NODE.1);
            let tree = heap.roots().push(root);
            populate(heap, each, tree);
            heap.roots().pop(1);
        }
        for _ in 0..trees {
            let _dropped = make(heap, each);
        }
        nodes += 2 * trees * nodes_of(each);
    }
    nodes += count(heap, heap.roots().get(long_lived));
    heap.roots().pop(2);
    nodes
}

const fn nodes_of(depth: u32) -> u64 {
    (1 << (depth + 1)) - 1
}

/// Builds a tree top down, below a node.
fn populate<H: HeapUnderTest>(heap: &mut H, depth: u32, node: usize) {
    if depth == 0 {
        return;
    }
    for slot in 0..2 {
        let child = heap.allocate(NODE.0, NODE.1);
        heap.store(heap.roots().get(node), slot, child);
    }
    for slot in 0..2 {
        let child = heap.load(heap.roots().get(node), slot);
        let child = heap.roots().push(child);
        populate(heap, depth - 1, child);
        heap.roots().pop(1);
    }
}

/// Builds a tree bottom up.
fn make<H: HeapUnderTest>(heap: &mut H, depth: u32) -> Reference {
    if depth == 0 {
        return heap.allocate(NODE.0, NODE.1);
    }
    let left = make(heap, depth - 1);
    let left = heap.roots().push(left);
    let right = make(heap, depth - 1);
    let right = heap.roots().push(right);
    let node = heap.allocate(NODE.0, NODE.1);
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
