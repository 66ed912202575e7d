//! Data of objects is lost with a line: what a runtime learns of it.

use rampart_heap::wear::FailedLines;
use rampart_heap::{Collection, HeapSettings, LOST, LineFailure, LineSize, ObjectRef, Shape};

use super::Program;

/// On a heap of pages of which these lines have failed.
fn start(failed: FailedLines) -> Program {
    Program::new(lines_of_64(), vec![failed; 256])
}

fn lines_of_64() -> HeapSettings {
    HeapSettings { line: LineSize::L64, ..HeapSettings::default() }
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
    let ages = [None, Some(Collection::Nursery), Some(Collection::Full)];
    let kinds = [Collection::Nursery, Collection::Full, Collection::Compacting];
    for (age, kind) in ages.into_iter().flat_map(|age| kinds.map(|kind| (age, kind))) {
        let mut program = start(FailedLines::NONE);
        let [before, first, second, behind] = [1000, 100, 8, 1000].map(|bytes| program.add(1, bytes));
        age.into_iter().for_each(|kind| program.collect(kind));
        // The last bytes of one, and all of another that lies behind it.
        let at = program.roots.clone();
        let line = at[second] / 64 * 64;
        let lost: Vec<usize> = [before, first, second, behind]
            .into_iter()
            .filter(|root| {
                let bytes = Shape::new(1, [1000, 100, 8, 1000][*root]).unwrap().size();
                at[*root] < line + 64 && line < at[*root] + bytes
            })
            .collect();
        assert!(lost.contains(&second) && !lost.contains(&before));
        assert_eq!(program.lose(line), LineFailure::Lost);
        spoil(&program, line);
        program.collect(kind);
        for root in [before, first, second, behind] {
            let is_lost = lost.contains(&root);
            assert_eq!(program.roots[root] >= LOST, is_lost, "{root}, {age:?}, {kind:?}");
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
    // In the second case, no page is perfect: these objects lie on borrowed ones.
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

#[test]
fn an_object_that_lies_on_a_page_of_its_own_and_a_borrowed_one_is_lost_with_either() {
    for (line, failure) in [(0, LineFailure::Lost), (4096, LineFailure::Lost), (8192, LineFailure::NotThere)] {
        // One page is perfect: it comes first, and the next is borrowed.
        let mut program =
            Program::new(lines_of_64(), [vec![FailedLines::NONE], vec![FailedLines::from_bits(1); 255]].concat());
        let object = program.add(1, 5000);
        let at = program.roots[object];
        assert_eq!((program.heap.demand().requested, program.heap.demand().borrowed), (2, 1));
        assert_eq!(program.lose(at + line), failure);
        if failure == LineFailure::Lost {
            spoil(&program, at + line);
        }
        program.collect(Collection::Nursery);
        assert_eq!(program.roots[object] >= LOST, failure == LineFailure::Lost, "line {line}");
    }
}

#[test]
fn a_weak_reference_to_a_lost_object_becomes_what_all_references_to_it_are() {
    for age in [None, Some(Collection::Full)] {
        let mut program = start(FailedLines::NONE);
        let objects: Vec<usize> = (0..8).map(|_| program.add(1, 132)).collect();
        age.into_iter().for_each(|kind| program.collect(kind));
        let weak: Vec<ObjectRef> = program.roots.iter().map(|root| ObjectRef::new(*root).unwrap()).collect();
        // Objects of 144 B in lines of 64 B: of the second object the first line is gone, of the fifth the last one.
        let lines = [weak[1].offset() / 64 * 64, (weak[4].offset() + 143) / 64 * 64];
        let is_in = |object: &ObjectRef, line: u32| object.offset() < line + 64 && line < object.offset() + 144;
        // Some that lie in these lines, too, cannot be reached any more.
        for dead in [0, 5, 7] {
            program.roots[objects[dead]] = 0;
        }
        for line in lines {
            assert_eq!(program.lose(line), LineFailure::Lost);
            spoil(&program, line);
        }
        let mut after = Vec::new();
        let Program { heap, local, roots } = &mut program;
        heap.collect(Collection::Nursery, &mut [local], roots, &mut |survivors| {
            after = weak.iter().map(|object| survivors.at(*object)).collect();
        });
        for (number, object) in weak.iter().enumerate() {
            assert_eq!(after[number], ObjectRef::new(program.roots[number]), "{number}, {age:?}");
            let is_lost = program.roots[number] != 0 && lines.iter().any(|line| is_in(object, *line));
            assert_eq!(program.roots[number] >= LOST, is_lost, "{number}, {age:?}");
        }
        assert!(program.roots[1] >= LOST && program.roots[4] >= LOST);
        // They stay lost.
        let lost = ObjectRef::new(program.roots[4]);
        let mut later = None;
        let Program { heap, local, roots } = &mut program;
        heap.collect(Collection::Full, &mut [local], roots, &mut |survivors| later = survivors.at(lost.unwrap()));
        assert_eq!(later, lost);
    }
}

#[test]
fn what_is_told_of_a_lost_object_is_what_it_began_with_as_far_as_that_is_there() {
    let mut seen = Vec::new();
    for number in 0..8 {
        // They begin at all multiples of 8 in a line of 64 B. Which line of it is lost?
        for line in 0..3 {
            let mut program = start(FailedLines::NONE);
            let objects: Vec<usize> = (0..9).map(|_| program.add(1, 124)).collect();
            program.collect(Collection::Full);
            let at = program.roots[objects[number]];
            let words: Vec<u32> = (0..5).map(|word| at + 4 * word).collect();
            // Behind the collector's bits, the size, and the reference.
            (3..5)
                .for_each(|word| program.heap.region().write(words[word], 0x1234_0000 + u32::try_from(word).unwrap()));
            let before: Vec<u32> = words.iter().map(|word| program.heap.region().read(*word)).collect();
            let lost = (at / 64 + line) * 64;
            assert_eq!(program.lose(lost), LineFailure::Lost);
            spoil(&program, lost);
            program.collect(Collection::Full);
            let told = program.heap.lost_objects().iter().find(|lost| lost.was_at == at).expect("it is lost");
            let are_there = |count: usize| words[..count].iter().all(|word| word / 64 * 64 != lost);
            assert_eq!(told.header.map(|header| header.to_vec()), are_there(4).then(|| before[..4].to_vec()));
            assert_eq!(told.first, are_there(5).then_some(before[4]));
            seen.push((told.header.is_some(), told.first.is_some()));
        }
    }
    assert!([(false, false), (true, false), (true, true)].iter().all(|kind| seen.contains(kind)), "{seen:?}");
}

#[test]
fn an_object_of_a_header_alone_has_less_to_tell_and_its_neighbours_stay() {
    let mut program = start(FailedLines::NONE);
    let objects: Vec<usize> = (0..24).map(|_| program.add(0, 0)).collect();
    program.collect(Collection::Full);
    let at = program.roots.clone();
    let line = at[objects[12]] / 64 * 64;
    assert_eq!(program.lose(line), LineFailure::Lost);
    spoil(&program, line);
    program.collect(Collection::Full);
    assert_eq!(program.heap.lost_objects().len(), 8, "as many lie in a line");
    assert!(program.heap.lost_objects().iter().all(|lost| lost.header.is_none() && lost.was_at / 64 * 64 == line));
    assert_eq!(program.objects(), 16);
}

#[test]
fn old_objects_are_those_that_a_collection_has_seen() {
    let mut program = start(FailedLines::NONE);
    let added = [100, 20_000].map(|bytes| program.add(1, bytes));
    assert_eq!(program.heap.old_objects().count(), 0);
    program.collect(Collection::Nursery);
    let seen: Vec<u32> = program.heap.old_objects().map(ObjectRef::offset).collect();
    assert_eq!(seen, added.map(|root| program.roots[root]));
    for bytes in [100, 20_000] {
        program.add(1, bytes);
    }
    assert_eq!(program.heap.old_objects().count(), 2);
}
