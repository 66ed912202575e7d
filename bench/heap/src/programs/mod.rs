//! The programs. Each returns a number that must be the same on all heaps.

mod binary_trees;
mod churn;
mod gcbench;

use crate::heap::HeapUnderTest;

/// A program, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// Trees of small objects that are built bottom up and dropped, beside one that lives on.
    BinaryTrees,
    /// Boehm's version of the benchmark by Ellis and Kovac: trees top down and bottom up, a long-lived tree and array.
    GcBench,
    /// Small objects that replace others in a table.
    Churn,
    /// The same with many objects of 256 B to 8 KiB.
    Medium,
    /// The same with many objects of more than 8 KiB.
    Large,
}

impl Program {
    /// The program of a name.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "binary-trees" => Self::BinaryTrees,
            "gcbench" => Self::GcBench,
            "churn" => Self::Churn,
            "medium" => Self::Medium,
            "large" => Self::Large,
            _ => return None,
        })
    }

    /// Runs it once. `size` is the depth of the trees, or how many objects are made.
    #[inline(never)]
    pub fn run(self, heap: &mut impl HeapUnderTest, size: u64) -> u64 {
        let depth = || u32::try_from(size).expect("a tree of this depth fits no heap");
        match self {
            Self::BinaryTrees => binary_trees::run(heap, depth()),
            Self::GcBench => gcbench::run(heap, depth()),
            Self::Churn => churn::run(heap, size, &churn::SMALL),
            Self::Medium => churn::run(heap, size, &churn::MEDIUM),
            Self::Large => churn::run(heap, size, &churn::LARGE),
        }
    }
}
