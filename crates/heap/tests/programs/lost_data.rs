//! Data of objects is lost with a line: what a runtime learns of it.

use rampart_heap::wear::FailedLines;
use rampart_heap::{Collection, HeapSettings, LOST, LineFailure, LineSize, ObjectRef};

use super::Program;

/// On a heap of pages of which these lines have failed.
fn start(failed: FailedLines) -> Program {
    Program::new(HeapSettings { line: LineSize::L64, ..HeapSettings::default() }, vec![failed; 256])
}

/// The line that an offset is in becomes unreadable: whoever reads it goes wrong.
fn spoil(program: &Program, offset: u32) {
    program.heap.region().fill(offset / 64 * 64, 64, 0xff);
}

#[test]
fn what_is_free_or_dead_is_lost_silently() {
    let mut program = start(FailedLines::NONE);
    let dead = program.add(1, 100);
    program.collect(Collection::Full);
    let at = program.roots[dead];
    program.roots[dead] = 0;
    program.collect(Collection::Full);
    assert_eq!(program.lose(at), LineFailure::Free);
    assert_eq!(program.lose(at), LineFailure::Known);
    assert_eq!(program.lose(3 << 30), LineFailure::NotThere);
    // This one dies, and no collection has seen it.
    let dead = program.add(1, 100);
    let at = program.roots[dead];
    program.roots[dead] = 0;
    assert_eq!(program.lose(at), LineFailure::Lost);
    spoil(&program, at);
    program.collect(Collection::Nursery);
    assert_eq!(program.heap.lost_objects(), []);
}

#[test]
fn only_objects_in_the_line_are_lost_and_what_is_known_of_them_is_told() {
    for age in [None, Some(Collection::Nursery), Some(Collection::Full)] {
        let mut program = start(FailedLines::NONE);
        let [before, first, second, behind] = [1000, 100, 8, 1000].map(|bytes| program.add(1, bytes));
        age.into_iter().for_each(|kind| program.collect(kind));
        // The last bytes of one, and all of another that lies behind it.
        let at = program.roots.clone();
        let line = at[second] / 64 * 64;
        let lost: Vec<usize> = [before, first, second, behind]
            .into_iter()
            .filter(|root| {
                let bytes = [1000, 100, 8, 1000][*root] + 16;
                at[*root] < line + 64 && line < at[*root] + bytes
            })
            .collect();
        assert!(lost.contains(&second) && !lost.contains(&before));
        assert_eq!(program.lose(line), LineFailure::Lost);
        spoil(&program, line);
        program.collect(Collection::Nursery);
        for root in [before, first, second, behind] {
            let is_lost = lost.contains(&root);
            assert_eq!(program.roots[root] >= LOST, is_lost, "{root}, {age:?}");
            let told = program.heap.lost_objects().iter().find(|lost| lost.was_at == at[root]);
            assert_eq!(told.map(|told| told.reference), ObjectRef::new(program.roots[root]).filter(|_| is_lost));
            let has_header = at[root] / 64 * 64 != line;
            assert_eq!(told.is_some_and(|told| told.header.is_some()), is_lost && has_header);
        }
        assert_eq!(program.objects(), 4 - lost.len() as u64);
        // References stay what they are, in all later collections.
        let now = program.roots[second];
        for kind in [Collection::Nursery, Collection::Full, Collection::Compacting] {
            program.collect(kind);
        }
        assert_eq!(program.roots[second], now);
    }
}

#[test]
fn a_large_object_and_one_on_borrowed_pages_are_lost_too() {
    // Nothing is perfect: large objects lie on borrowed pages.
    for failed in [FailedLines::NONE, FailedLines::from_bits(1)] {
        let mut program = start(failed);
        let [large, medium] = [20_000, 5_000].map(|bytes| program.add(1, bytes));
        program.collect(Collection::Full);
        for root in [large, medium] {
            let line = program.roots[root] + 4096;
            assert_eq!(program.lose(line), LineFailure::Lost);
            spoil(&program, line);
            program.collect(Collection::Nursery);
            assert!(program.roots[root] >= LOST);
        }
        assert_eq!(program.heap.lost_objects().len(), 2);
        assert!(program.heap.lost_objects().iter().all(|lost| lost.header.is_some()));
        assert_eq!(program.objects(), 0);
    }
}
