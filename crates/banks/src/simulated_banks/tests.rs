//! The simulated machine, by hand.

use super::*;

pub const MACHINE: MachineSettings = MachineSettings {
    allocator: AllocatorName::Buddy,
    memory: Bytes::from_mib(256),
    low_memory: HOLE_END,
    bank: Bytes::from_mib(32),
    nodes: 1,
    ways: 1,
    reserve_percent: 5,
    migrates: true,
    patience_micros: 0,
};

#[test]
fn only_banks_without_memory_of_the_kernel_can_go() {
    on_machine(MACHINE, |machine| {
        for bank in 2..8 {
            let page = FrameBlock::of(Frame::new(bank * 8192).unwrap());
            machine.uses.count(page, Migratetype::Unmovable, UseChange::Taken);
        }
        let seen = machine.sample();
        assert_eq!((seen.removable, seen.optimum, seen.offlinable, seen.tainted_gib), (2, 7, 2, 1));
    })
    .unwrap();
}

#[test]
fn each_node_has_its_share_of_the_memory_and_a_machine_is_made_up_of_whole_banks() {
    let machine =
        MachineSettings { memory: Bytes::from_mib(32 << 10), bank: Bytes::from_mib(256), nodes: 2, ..MACHINE };
    let zones: Vec<(u32, ZoneKind, u64)> =
        zones(machine).into_iter().map(|zone| (zone.node.0, zone.kind, zone.frames.count() * 4 / 1024)).collect();
    let (dma, dma32, normal) = (ZoneKind::Dma, ZoneKind::Dma32, ZoneKind::Normal);
    assert_eq!(zones, [(0, dma, 16), (0, dma32, 4080), (0, normal, 12_288), (1, normal, 16_384)]);
    assert!(bank_size(machine).is_ok());
    assert!(bank_size(MachineSettings { memory: Bytes::from_mib(256 * 3), ..machine }).is_err());
    assert!(bank_size(MachineSettings { nodes: 0, ..machine }).is_err());
}

#[test]
fn the_zone_above_the_hole_begins_where_the_memory_below_ends() {
    let machine = MachineSettings { memory: HOLE_END, low_memory: Bytes::from_mib(2 << 10), ..MACHINE };
    let zones: Vec<(ZoneKind, u64)> =
        zones(machine).into_iter().map(|zone| (zone.kind, zone.frames.count() * 4 / 1024)).collect();
    assert_eq!(zones, [(ZoneKind::Dma, 16), (ZoneKind::Dma32, 2032), (ZoneKind::Normal, 2048)]);
}

#[test]
fn what_was_in_use_keeps_its_frames_and_above_the_hole_they_follow_those_below() {
    let low_memory = Bytes::from_mib(128);
    let above = |mib: u64| Frame::new(((4 << 10) + mib) << 8).unwrap();
    let place = |machine: &mut SimulatedBanks<'_>, first| {
        let held = machine.allocate_in_place(first, BlockOrder::MAX, Migratetype::Unmovable);
        held.map(|held| held.block.first().number() >> 8)
    };
    on_machine(MachineSettings { low_memory, ..MACHINE }, |machine| {
        let below = Frame::new(100 << 8).unwrap();
        assert_eq!([below, above(0), above(124)].map(|first| place(machine, first)), [Some(100), Some(128), Some(252)]);
        assert_eq!([below, above(128)].map(|first| place(machine, first)), [None; 2], "in use; beyond the memory");
        assert_eq!((machine.sample().removable, machine.report().requests), (5, 3));
    })
    .unwrap();
    let adaptive = MachineSettings { allocator: AllocatorName::Adaptive, low_memory, ..MACHINE };
    on_machine(adaptive, |machine| assert_eq!(place(machine, above(0)), None, "it chooses a bank")).unwrap();
}

/// Leaves a block of 4 MiB and 56 pages in a bank; of the other banks, each page in so many is free.
fn fill(machine: &mut SimulatedBanks<'_>, free_each: u64) -> Vec<Held> {
    let take = |machine: &mut SimulatedBanks<'_>, order| machine.allocate(order, Migratetype::Movable, Cpu(0), Node(0));
    let [first, large] = [(); 2].map(|()| take(machine, BlockOrder::MAX).unwrap());
    machine.free(first, Cpu(0));
    let mut held: Vec<Held> = std::iter::from_fn(|| take(machine, BlockOrder::ZERO)).collect();
    let bank = |held: &Held| held.block.first().address() / MACHINE.bank.get();
    held.retain(|page| {
        let frame = page.block.first().number();
        let keeps = if bank(page) == bank(&large) { frame % 128 == 0 } else { frame % free_each != 0 };
        if !keeps {
            machine.free(*page, Cpu(0));
        }
        keeps
    });
    held.push(large);
    held
}

#[test]
fn a_large_block_that_finds_no_room_is_split_and_comes_back_whole() {
    for allocator in [AllocatorName::Adaptive, AllocatorName::Fullest] {
        let report = on_machine(MachineSettings { allocator, ..MACHINE }, |machine| {
            let mut held = fill(machine, 10);
            let used = machine.uses.used();
            machine.observe(1, held.iter_mut());
            assert_eq!(machine.uses.used(), used);
            held.into_iter().for_each(|held| machine.free(held, Cpu(0)));
            assert_eq!(machine.uses.used(), 0);
        });
        let seen = report.unwrap().migration;
        assert_eq!((seen.split, seen.emptied, seen.failed), (1, 1, 0), "{allocator:?}");
        assert!(seen.moved > Bytes::from_mib(4) && seen.moved_again == Bytes::ZERO, "{allocator:?} {seen:?}");
    }
}

#[test]
fn no_page_moves_out_of_a_bank_that_has_to_keep_a_large_block() {
    let settings = MachineSettings { allocator: AllocatorName::Adaptive, reserve_percent: 0, ..MACHINE };
    let report = on_machine(settings, |machine| {
        // The kernel's bank is full.
        while let Some(page) = machine.allocate(BlockOrder::ZERO, Migratetype::Unmovable, Cpu(0), Node(0)) {
            if machine.uses.bank_of(page.block) > 0 {
                machine.free(page, Cpu(0));
                break;
            }
        }
        let mut held = fill(machine, 45);
        // What is free in other banks of programs is only just what has to move: the watermarks forbid it.
        let free = |machine: &SimulatedBanks<'_>, banks: std::ops::Range<usize>| {
            machine.uses.banks()[banks].iter().map(|bank| 8192 - bank.movable).sum::<u64>()
        };
        while free(machine, 2..8) > 8192 - free(machine, 1..2) {
            held.push(machine.allocate(BlockOrder::ZERO, Migratetype::Movable, Cpu(0), Node(0)).unwrap());
        }
        let used = machine.uses.used();
        machine.observe(1, held.iter_mut());
        assert_eq!(machine.uses.used(), used);
    });
    let migration = MigrationCounts { failed: 1, ..MigrationCounts::default() };
    assert_eq!(report.unwrap().migration, migration);
}

#[test]
fn a_page_that_moves_again_is_counted_and_none_moves_twice_in_a_pass() {
    let settings = MachineSettings { allocator: AllocatorName::Adaptive, reserve_percent: 0, ..MACHINE };
    let report = on_machine(settings, |machine| {
        let mut held: Vec<Held> =
            std::iter::from_fn(|| machine.allocate(BlockOrder::MAX, Migratetype::Movable, Cpu(0), Node(0))).collect();
        // The fullest bank always loses a block, so what moved to it is pushed on.
        for micros in 1.. {
            let bank = |held: &Held| held.block.first().address() / MACHINE.bank.get();
            let fullest = |held: &[Held]| {
                held.iter().map(bank).max_by_key(|of| held.iter().filter(|held| bank(held) == *of).count())
            };
            let Some(full) = fullest(&held) else { break };
            let gone = held.iter().position(|held| bank(held) == full).expect("the bank is of one");
            machine.free(held.remove(gone), Cpu(0));
            machine.observe(micros, held.iter_mut());
        }
    });
    let report = report.unwrap();
    let seen = report.migration;
    assert!(seen.moved_again > Bytes::ZERO && seen.moved_again < seen.moved, "{seen:?}");
    assert_eq!(seen.moved_twice_in_a_pass, Bytes::ZERO);
    let last = report.samples.last().unwrap();
    assert_eq!((last.moved, last.emptied), (seen.moved, seen.emptied));
}

#[test]
fn a_bank_of_movable_pages_waits_for_as_long_as_it_is_full() {
    let emptied_after = |micros: u64| {
        let settings = MachineSettings { allocator: AllocatorName::Adaptive, patience_micros: 1000, ..MACHINE };
        let report = on_machine(settings, |machine| {
            let mut take = || machine.allocate(BlockOrder::MAX, Migratetype::Movable, Cpu(0), Node(0)).unwrap();
            // One bank of eight blocks, and a quarter of another one; then the first keeps six.
            let mut held: Vec<Held> = (0..10).map(|_| take()).collect();
            [0, 0].into_iter().for_each(|place| machine.free(held.remove(place), Cpu(0)));
            machine.observe(1, held.iter_mut());
            machine.observe(micros + 1, held.iter_mut());
        });
        report.unwrap().migration.emptied
    };
    assert_eq!([emptied_after(249), emptied_after(250)], [0, 1]);
}

#[test]
fn interleaved_banks_are_removable_and_go_offline_only_together() {
    for allocator in [AllocatorName::Adaptive, AllocatorName::Fullest] {
        let settings = MachineSettings { allocator, ways: 2, ..MACHINE };
        let report = on_machine(settings, |machine| {
            let mut take = |kind, order| machine.allocate(order, kind, Cpu(0), Node(0)).unwrap();
            // The kernel's set has the bank in two zones, and the one four banks after it.
            take(Migratetype::Unmovable, BlockOrder::ZERO);
            let mut held: Vec<Held> = (0..20).map(|_| take(Migratetype::Movable, BlockOrder::MAX)).collect();
            let seen = machine.sample();
            assert_eq!((seen.removable, seen.offline), (6, Some(2)));
            held.drain(..10).for_each(|held| machine.free(held, Cpu(0)));
            machine.observe(1000, held.iter_mut());
            let seen = machine.sample();
            assert_eq!((seen.removable, seen.offline, seen.optimum % 2), (6, Some(4), 0));
        });
        let report = report.unwrap();
        assert_eq!(report.most.offline, Some(4));
        // Off from the beginning on, as long as no bank of the set is used.
        assert_eq!(report.times.off_micros, 2 * 1000);
    }
    for allocator in [AllocatorName::Array, AllocatorName::List] {
        let refused = on_machine(MachineSettings { allocator, ways: 2, ..MACHINE }, |_| {}).unwrap_err();
        assert!(refused.to_string().starts_with("this allocator knows no interleaved banks"), "{refused}");
    }
    for ways in [0, 3, 16] {
        let refused = on_machine(MachineSettings { ways, ..MACHINE }, |_| {}).unwrap_err().to_string();
        assert!(refused.starts_with("a node of the machine has 8 banks"), "{refused}");
    }
}

#[test]
fn large_requests_and_what_is_free_for_them_are_counted() {
    let report = on_machine(MACHINE, |machine| {
        let order = |order| BlockOrder::new(order).unwrap();
        let mut take = |of| machine.allocate(order(of), Migratetype::Movable, Cpu(0), Node(0));
        let held: Vec<Held> = std::iter::from_fn(|| take(0)).collect();
        assert!(take(9).is_none() && take(10).is_none() && take(8).is_none());
        // One frame of two stays in use, but for one block of 2 MiB.
        let frame = |held: &&Held| held.block.first().number();
        let free = |held: &&Held| frame(held) % 2 == 0 || frame(held) / 512 == 100;
        let free: Vec<Held> = held.iter().filter(free).copied().collect();
        free.iter().for_each(|held| machine.free(*held, Cpu(0)));
        machine.observe(1, std::iter::empty());
        let all = machine.free_frames() as f64;
        let seen = machine.sample();
        assert!((seen.unusable_9 - (1.0 - 512.0 / all)).abs() < 1e-9 && seen.unusable_10 == 1.0, "{seen:?}");
        assert!(machine.allocate(order(9), Migratetype::Movable, Cpu(0), Node(0)).is_some());
        machine.observe(2, std::iter::empty());
    });
    let last = *report.unwrap().samples.last().unwrap();
    assert_eq!(last.order_9, LargeRequests { requests: 2, refused: 1 });
    assert_eq!(last.order_10, LargeRequests { requests: 1, refused: 1 });
}

#[test]
fn averages_are_taken_by_the_memory_in_use() {
    let report = on_machine(MACHINE, |machine| {
        machine.observe(1, std::iter::empty());
        let take = |machine: &mut SimulatedBanks<'_>| {
            machine.allocate(BlockOrder::MAX, Migratetype::Unmovable, Cpu(0), Node(0)).unwrap()
        };
        // 6.25 and 7.8 % in use.
        let _four: Vec<Held> = (0..4).map(|_| take(machine)).collect();
        machine.observe(2, std::iter::empty());
        take(machine);
        machine.observe(3, std::iter::empty());
    });
    let report = report.unwrap();
    let seen: Vec<_> = report.by_use.iter().map(|uses| (uses.from_percent, uses.samples, uses.touched)).collect();
    // The first four blocks lie in a bank that begins in another zone, the fifth in the next bank.
    assert_eq!(seen, [(0, 1, 0.0), (5, 2, 0.1875)]);
    assert_eq!((report.by_use[1].tainted, report.most.tainted, report.most.tainted_gib), (0.1875, 2, 1));
    let footprint = &report.footprint;
    assert_eq!((footprint.section, footprint.kernel.len()), (Bytes::from_mib(128), 2));
    assert_eq!(footprint.kernel.iter().map(|kernel| kernel.get()).sum::<u64>(), 20 << 20);
}

#[test]
fn pages_move_out_of_the_emptiest_bank_and_it_goes_offline() {
    for allocator in [AllocatorName::Array, AllocatorName::List, AllocatorName::Adaptive, AllocatorName::Fullest] {
        let mut offline = Vec::new();
        let report = on_machine(MachineSettings { allocator, ..MACHINE }, |machine| {
            let mut take = || machine.allocate(BlockOrder::MAX, Migratetype::Movable, Cpu(0), Node(0)).unwrap();
            // Three banks of eight blocks each, of which the first keeps two and the others six.
            let mut held: Vec<Held> = (0..24).map(|_| take()).collect();
            let gone = [2, 3, 4, 5, 6, 7, 8, 9, 16, 17];
            gone.iter().rev().for_each(|&place| machine.free(held.remove(place), Cpu(0)));
            offline.push(machine.sample().offline);
            machine.observe(1, held.iter_mut());
            offline.push(machine.sample().offline);
            assert_eq!(machine.free_frames(), 65_536 - 14 * 1024);
        });
        // The first bank is in two zones, and so never goes.
        assert_eq!(offline, [Some(4), Some(5)], "{allocator:?}");
        let migration = MigrationCounts { moved: Bytes::from_mib(8), emptied: 1, ..MigrationCounts::default() };
        assert_eq!(report.unwrap().migration, migration, "{allocator:?}");
    }
}
