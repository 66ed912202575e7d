//! A small machine for the checkers, and what must hold on it when no thread is at work.

use rampart_memory::FrameBlock;

use super::cpu::PageUser;
use super::sync::Ordering::SeqCst;
use super::*;
use crate::BankPool;
use crate::Migratetype::{self, Movable};
use crate::ZoneKind::Normal;
use crate::testing::{block, request, zone};

/// The smallest bank: two chunks, which is one block of the largest order.
pub const BANK: u64 = 1024;

/// Returns a machine of one zone. A checker lets its threads outlive the test's frame, so the memory is leaked.
pub fn machine(banks: u64, cpus: u32) -> &'static FullestBank<'static> {
    let zones = [zone(0, Normal, 0, banks * BANK)];
    let bank = BankSize::of_frames(BANK).expect("the smallest bank");
    let slices = Box::leak(Box::new(FullestSlices::of(&zones, cpus, bank)));
    let vacant = Box::leak(slices.vacant_zones().into_boxed_slice());
    let machine =
        FullestBank::new(&zones, cpus, bank, &BankSets::plain(), slices.lend(vacant)).expect("the memory is enough");
    settle(&machine.zones[0]);
    Box::leak(Box::new(machine))
}

/// Writes each word again as sequentially consistent: Loom lets a load see an older store that is not, and the threads
/// of a real machine begin after its words are written.
fn settle(zone: &FullestZone<'_>) {
    let memory = &zone.memory;
    for words in [memory.words, memory.retired] {
        words.iter().flat_map(|chunk| &chunk.0).for_each(|word| _ = word.fetch_or(0, SeqCst));
    }
    memory.groups.iter().for_each(GroupState::settle);
    for part in memory.parts {
        part.set_flags(part.flags());
        part.bucket.fetch_or(0, SeqCst);
    }
    for cpu in memory.cpus {
        for user in [PageUser::Kernel, PageUser::Program] {
            cpu.reserve(user, cpu.reservation(user), cpu.reservation(user));
        }
    }
    zone.retired.fetch_add(0, SeqCst);
    zone.count_free_at_once(0);
    zone.moves.begin();
    zone.moves.end();
}

/// Returns a request of a CPU that no watermark stops.
pub fn urgent(number: u8, migratetype: Migratetype, cpu: u32) -> Request {
    Request { cpu: Cpu(cpu), urgent: true, ..request(number, migratetype) }
}

/// Checks a machine that no thread uses: what is held is not free, everything else is, and can be claimed.
pub fn check(machine: &FullestBank<'_>, held: &[(FrameBlock, Migratetype)], retired: &[Frame]) {
    let zone = &machine.zones[0];
    let frames = zone.memory.parts.len() as u64 * BANK;
    let mut used = vec![false; usize::try_from(frames).expect("few frames")];
    let place = |frame: Frame| usize::try_from(frame.number()).expect("few frames");
    let blocks = held.iter().flat_map(|(block, _)| block.frames());
    for frame in blocks {
        assert!(!used[place(frame)], "{frame} is given twice");
        used[place(frame)] = true;
    }
    for &frame in retired {
        used[place(frame)] = true;
    }
    let free = |used: &[bool]| used.iter().filter(|used| !**used).count() as u64;
    assert_eq!(machine.free_frames(ZoneIndex(0)), free(&used), "the count is the truth");
    for (part, used) in used.chunks(usize::try_from(BANK).expect("small")).enumerate() {
        let state = machine.part(part);
        assert_eq!(state.free, free(used), "the bits of part {part}");
        assert!(state.pool != BankPool::Offline || free(used) == BANK, "offline part {part} holds a page");
    }
    check_hints(zone);
    for (block, migratetype) in held {
        let part = place(block.first()) / usize::try_from(BANK).expect("small");
        assert!(
            *migratetype == Movable || machine.part(part).pool == BankPool::Kernel,
            "{block} of the kernel lies among programs"
        );
    }
}

/// Checks that a search by the hints finds each chunk with a free frame: it is on offer, or a CPU has it for itself.
fn check_hints(zone: &FullestZone<'_>) {
    let memory = &zone.memory;
    for chunk in 0..memory.words.len() {
        let (group, bit) = zone.group(chunk);
        let unit = zone.part(group.unit());
        let (whole, some) = (group.is_whole(bit), group.some() & bit != 0);
        let reserved = memory.cpus.iter().any(|cpu| cpu.has_reserved(chunk));
        assert!(whole || some || reserved || zone.is_exhausted(chunk), "chunk {chunk} is on offer");
        assert!(!(whole || some) || unit.is_listed() || unit.flags().is_isolated(), "the unit of {chunk} is listed");
    }
}

/// Gives back what is held, and claims the whole memory.
pub fn check_and_claim(machine: &FullestBank<'_>, held: &[(FrameBlock, Migratetype)], retired: &[Frame]) {
    check(machine, held, retired);
    held.iter().for_each(|(block, _)| machine.free(*block, Cpu(0)));
    check(machine, &[], retired);
    for bank in 0..machine.zones[0].memory.parts.len() as u64 {
        let whole = block(bank * BANK, 10);
        let hurt = retired.iter().any(|&frame| whole.contains(frame));
        assert_eq!(machine.claim(whole), !hurt, "bank {bank} can be claimed as a whole");
    }
}
