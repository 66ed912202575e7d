//! The pools on machines that the tests make: each rule, then whole days under load from one seed.

mod bursts;

use std::iter;

use super::*;
use crate::BankLayout;
use proptest::prelude::*;
use rampart_linux::{BlockZones, Census, FrameClass, MemoryBlock, MemoryBlocks, MemoryOrigin};

/// Frames of a block.
const FRAMES: u64 = 1000;
const BLOCK: Bytes = Bytes::new(FRAMES * 4096);
const SETTINGS: PoolSettings = PoolSettings { reserve_percent: 5, core_percent: 10, dwell: Duration::from_secs(10) };

/// Frames of the kernel core that programs do not get.
const PROTECTED: u64 = 300;

/// A block: its pool, and its frames in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Made {
    pool: Option<Pool>,
    kernel: u64,
    user: u64,
    bad: u64,
}

fn kernel(kernel: u64, user: u64) -> Made {
    Made { pool: Some(Pool::Kernel), kernel, user, bad: 0 }
}

fn user(user: u64) -> Made {
    Made { pool: Some(Pool::User), user, ..Made::default() }
}

const OFFLINE: Made = Made { pool: Some(Pool::Offline), kernel: 0, user: 0, bad: 0 };

impl Made {
    fn free(&self) -> u64 {
        if self.pool == Some(Pool::Offline) { 0 } else { FRAMES - self.kernel - self.user - self.bad }
    }
}

/// A machine of one node.
#[derive(Clone, Debug)]
struct Machine(Vec<Made>);

impl Machine {
    fn survey(&self) -> MemorySurvey {
        let block = |(number, made): (u32, &Made)| MemoryBlock {
            number: HotplugBlock(number),
            state: if made.pool == Some(Pool::Offline) { HotplugState::Offline } else { HotplugState::Online },
            zones: BlockZones::In(if made.pool == Some(Pool::User) { "Movable" } else { "Normal" }.to_owned()),
            node: Some(Node(0)),
        };
        let census = |made: &Made| -> Census {
            let classes = [
                (FrameClass::Slab, made.kernel),
                (FrameClass::Anonymous, made.user),
                (FrameClass::Poisoned, made.bad),
                (FrameClass::Free, FRAMES - made.kernel - made.user - made.bad),
            ];
            classes.into_iter().collect()
        };
        let blocks = MemoryBlocks { size: BLOCK, blocks: (0..).zip(&self.0).map(block).collect() };
        let censuses: Vec<Census> = self.0.iter().map(census).collect();
        MemorySurvey::new(&blocks, Some(&censuses), BankLayout::requested(BLOCK))
    }

    fn of(&self, pool: Pool) -> impl Iterator<Item = &Made> {
        self.0.iter().filter(move |made| made.pool == Some(pool))
    }

    fn free(&self, pool: Pool) -> u64 {
        self.of(pool).map(Made::free).sum()
    }

    fn zones(&self) -> Vec<ZoneMemory> {
        let zone = |name: &str, pool| ZoneMemory {
            node: Node(0),
            name: name.to_owned(),
            managed: Bytes::new(self.of(pool).count() as u64 * BLOCK.get()),
            free: Bytes::new(self.free(pool) * 4096),
            high: Bytes::ZERO,
            protected: if pool == Pool::Kernel { Bytes::new(PROTECTED * 4096) } else { Bytes::ZERO },
            lru: Bytes::new(self.of(pool).map(|made| made.user).sum::<u64>() * 4096),
        };
        vec![zone("Normal", Pool::Kernel), zone("Movable", Pool::User)]
    }

    /// Allocates frames as Linux does: for programs of the user pool first. Returns how many there were not.
    fn allocate(&mut self, mut frames: u64, pools: &[Pool], of: impl Fn(&mut Made) -> &mut u64) -> u64 {
        for pool in pools {
            for made in self.0.iter_mut().filter(|made| made.pool == Some(*pool)) {
                let taken = frames.min(made.free());
                *of(made) += taken;
                frames -= taken;
            }
        }
        frames
    }

    fn allocate_user(&mut self, frames: u64) -> u64 {
        let left = self.allocate(frames, &[Pool::User], |made| &mut made.user);
        let open = left.min(self.free(Pool::Kernel).saturating_sub(PROTECTED));
        left - open + self.allocate(open, &[Pool::Kernel], |made| &mut made.user)
    }

    fn allocate_kernel(&mut self, frames: u64) -> u64 {
        self.allocate(frames, &[Pool::Kernel], |made| &mut made.kernel)
    }

    fn release(&mut self, mut frames: u64, from: usize, of: impl Fn(&mut Made) -> &mut u64) {
        let blocks = self.0.len();
        for step in 0..blocks {
            let held = of(&mut self.0[(from + step * 7) % blocks]);
            let freed = frames.min(*held);
            *held -= freed;
            frames -= freed;
        }
    }

    /// Does what the kernel does for a move; false if memory in the block cannot move.
    fn apply(&mut self, moved: PoolMove) -> bool {
        let place = moved.block.0 as usize;
        let before = self.0[place];
        if before.pool != Some(Pool::Offline) {
            if before.kernel > 0 {
                return false;
            }
            self.0[place] = Made { pool: Some(Pool::Offline), bad: before.bad, ..Made::default() };
            let left = if before.pool == Some(Pool::Kernel) {
                self.allocate(before.user, &[Pool::Kernel], |made| &mut made.user)
            } else {
                self.allocate_user(before.user)
            };
            assert_eq!(left, 0, "programs lose no memory: {moved:?}");
        }
        self.0[place].pool = Some(moved.to);
        true
    }

    /// Lets the pools act until they want no more. Returns the moves.
    fn settle(&mut self, pools: &mut Pools, now: Duration) -> Vec<PoolMove> {
        let mut moves = Vec::new();
        while let Some(demand) = pools.demand(PoolsSeen { zones: &self.zones(), pressed: false }, now) {
            let survey = self.survey();
            match pools.step(demand, &self.zones(), &survey, now) {
                None => pools.unmet(demand, Duration::ZERO, now),
                Some(moved) if self.apply(moved) => {
                    pools.moved(moved, &survey, now);
                    moves.push(moved);
                }
                Some(moved) => pools.failed(moved.block, now),
            }
            assert!(moves.len() < 1000, "no end: {moves:?}");
        }
        moves
    }

    fn count(&self, pool: Pool) -> usize {
        self.of(pool).count()
    }

    /// As many blocks as could be offline, with the reserve free.
    fn optimum(&self) -> u64 {
        let offline = self.count(Pool::Offline) as u64 * FRAMES;
        let free = self.free(Pool::Kernel) + self.free(Pool::User) + offline;
        (free - (self.0.len() as u64 * FRAMES * 5 / 100)) / FRAMES
    }
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn pools_of(machine: &Machine) -> Pools {
    Pools::new(SETTINGS, &machine.survey())
}

fn to(block: u32, to: Pool) -> PoolMove {
    PoolMove { block: HotplugBlock(block), to }
}

/// A machine in use: the kernel in four blocks, programs in the next six, half of each.
fn in_use() -> Machine {
    let block = |number| match number {
        0..4 => kernel(500, 0),
        4..10 => kernel(0, 500),
        _ => kernel(0, 0),
    };
    Machine((0..40).map(block).collect())
}

#[test]
fn a_stock_machine_gets_its_three_pools_at_once() {
    let mut machine = in_use();
    let mut pools = pools_of(&machine);
    machine.settle(&mut pools, at(0));
    assert_eq!(machine.of(Pool::User).map(|made| made.kernel).sum::<u64>(), 0);
    let of_programs = machine.of(Pool::Kernel).map(|made| made.user).sum::<u64>();
    assert_eq!(of_programs, 6 * 500, "nothing moves from the core into the user pool");
    assert_eq!((machine.count(Pool::Kernel), machine.count(Pool::User)), (6, 1));
    assert_eq!(machine.count(Pool::Offline) as u64, machine.optimum());
    assert_eq!(machine.settle(&mut pools, at(100)), [], "it is at rest");
}

#[test]
fn programs_and_the_kernel_get_memory_before_they_lack_it() {
    let mut machine = in_use();
    let mut pools = pools_of(&machine);
    machine.settle(&mut pools, at(0));
    let offline = machine.count(Pool::Offline);
    // An eighth of the reserve, 250 frames, is there at any time.
    for second in 1..=60 {
        assert_eq!(machine.allocate_user(240), 0, "{second}");
        machine.settle(&mut pools, at(second));
    }
    assert!(machine.count(Pool::Offline) < offline - 12);
    for second in 61..=80 {
        assert_eq!(machine.allocate_kernel(240), 0, "{second}");
        machine.settle(&mut pools, at(second));
    }
}

#[test]
fn the_kernel_takes_the_emptiest_block_of_programs_when_none_is_offline() {
    let mut made = vec![kernel(1000, 0), user(400), user(100), user(300)];
    made.extend((0..16).map(|_| user(900)));
    let machine = Machine(made);
    let pools = pools_of(&machine);
    let demand = PoolDemand::Grow(Pool::Kernel, Node(0));
    let step = |machine: &Machine| pools.step(demand, &machine.zones(), &machine.survey(), at(0));
    assert_eq!(step(&machine), Some(to(2, Pool::Kernel)));
    let mut with_failure = pools.clone();
    with_failure.failed(HotplugBlock(2), at(0));
    let next = |now| with_failure.step(demand, &machine.zones(), &machine.survey(), now);
    assert_eq!([0, 60].map(|now| next(at(now))), [Some(to(3, Pool::Kernel)); 2], "after its rest it comes last too");
    let mut with_offline = machine.clone();
    with_offline.0.extend([OFFLINE, OFFLINE]);
    assert_eq!(step(&with_offline), Some(to(20, Pool::Kernel)), "the lowest offline block comes first");
    let users = PoolDemand::Grow(Pool::User, Node(0));
    let for_users = |machine: &Machine| pools.step(users, &machine.zones(), &machine.survey(), at(0));
    assert_eq!((for_users(&machine), for_users(&with_offline)), (None, Some(to(21, Pool::User))));
}

#[test]
fn memory_goes_offline_only_after_it_was_idle_for_the_dwell() {
    let mut machine = in_use();
    let mut pools = pools_of(&machine);
    machine.settle(&mut pools, at(0));
    for _ in 0..25 {
        assert_eq!(machine.allocate_user(200), 0);
        machine.settle(&mut pools, at(20));
    }
    let offline = machine.count(Pool::Offline);
    machine.release(5000, 0, |made| &mut made.user);
    machine.settle(&mut pools, at(29));
    assert_eq!(machine.count(Pool::Offline), offline);
    machine.settle(&mut pools, at(31));
    assert!(machine.count(Pool::Offline) >= offline + 4);
}

#[test]
fn programs_that_wait_for_memory_get_it_and_nothing_goes_offline() {
    let mut machine = in_use();
    let mut pools = pools_of(&machine);
    machine.settle(&mut pools, at(0));
    let zones = machine.zones();
    let seen = |pressed| PoolsSeen { zones: &zones, pressed };
    assert_eq!(pools.demand(seen(true), at(50)), None, "the reserve is free: more memory would not help");
    assert_eq!(pools.demand(seen(false), at(59)), None, "nothing goes offline");
    let mut short = machine.zones();
    let free = |zones: &[ZoneMemory]| zones.iter().map(|zone| zone.free.get()).sum::<u64>();
    short[0].free = Bytes::new(short[0].free.get() + pools.whole_reserve().get() - 4096 - free(&short));
    let seen = |pressed| PoolsSeen { zones: &short, pressed };
    assert_eq!(pools.demand(seen(false), at(100)), None);
    assert_eq!(pools.demand(seen(true), at(101)), Some(PoolDemand::Grow(Pool::User, Node(0))));
}

#[test]
fn bad_memory_goes_first_and_comes_back_last() {
    let mut machine = in_use();
    machine.0[20].bad = 1;
    let mut pools = pools_of(&machine);
    let moves = machine.settle(&mut pools, at(0));
    assert_eq!(moves[0], to(20, Pool::Offline));
    while machine.count(Pool::Offline) > 1 {
        assert_eq!(machine.allocate_user(240), 0);
        machine.settle(&mut pools, at(1));
    }
    assert_eq!(machine.0[20].pool, Some(Pool::Offline));
}

/// The machine's survey, in which these blocks are of virtio-mem.
fn with_virtio_mem(machine: &Machine, blocks: &[usize]) -> MemorySurvey {
    let mut survey = machine.survey();
    blocks.iter().for_each(|block| survey.blocks[*block].origin = MemoryOrigin::VirtioMem);
    survey
}

#[test]
fn what_the_host_can_have_back_goes_first_and_comes_back_last() {
    let mut made: Vec<Made> = (0..6).map(|_| kernel(100, 0)).collect();
    made.extend((0..14).map(|_| kernel(0, 0)));
    made.extend((0..18).map(|_| user(100)));
    made.extend([OFFLINE; 2]);
    let machine = Machine(made);
    let step = |demand, blocks: &[usize]| {
        pools_of(&machine).step(demand, &machine.zones(), &with_virtio_mem(&machine, blocks), at(0))
    };
    let (shrink, grow) = (PoolDemand::Shrink(Node(0)), |pool| PoolDemand::Grow(pool, Node(0)));
    assert_eq!(step(shrink, &[]), Some(to(19, Pool::Offline)), "idle memory of the core");
    assert_eq!(step(shrink, &[25]), Some(to(25, Pool::Offline)));
    assert_eq!(step(grow(Pool::User), &[39]), Some(to(38, Pool::User)));
    assert_eq!(step(grow(Pool::Kernel), &[38]), Some(to(39, Pool::Kernel)));
    assert_eq!(step(grow(Pool::User), &[38, 39]), Some(to(39, Pool::User)), "rather than nothing");
}

#[test]
fn the_reserve_is_a_share_of_the_memory_that_a_node_has_now() {
    let machine = in_use();
    let mut pools = pools_of(&machine);
    let reserve = pools.reserve(Node(0));
    let mut less = machine.survey();
    less.blocks.truncate(10);
    pools.resized(&less);
    assert_eq!(pools.reserve(Node(0)).get(), reserve.get() / 4);
    less.blocks.clear();
    pools.resized(&less);
    assert_eq!(pools.reserve(Node(0)).get(), reserve.get() / 4, "a node without a block keeps what it had");
}

#[test]
fn a_block_of_programs_that_turns_bad_goes_before_idle_memory_of_the_core() {
    let mut made: Vec<Made> = (0..6).map(|_| kernel(100, 0)).collect();
    made.extend((0..14).map(|_| kernel(0, 0)));
    made.extend((0..20).map(|_| user(100)));
    made[25].bad = 1;
    let machine = Machine(made);
    let step = pools_of(&machine).step(PoolDemand::Shrink(Node(0)), &machine.zones(), &machine.survey(), at(0));
    assert_eq!(step, Some(to(25, Pool::Offline)));
}

/// Zones with so many free frames, of which programs get none of the kernel's.
fn closed_zones(kernel: u64, user: u64) -> Vec<ZoneMemory> {
    let zone = |name: &str, free: u64, protected: u64| ZoneMemory {
        node: Node(0),
        name: name.to_owned(),
        managed: Bytes::new(20 * BLOCK.get()),
        free: Bytes::new(free * 4096),
        high: Bytes::ZERO,
        protected: Bytes::new(protected * 4096),
        lru: Bytes::ZERO,
    };
    vec![zone("Normal", kernel, kernel), zone("Movable", user, 0)]
}

#[test]
fn a_pool_keeps_a_quarter_of_the_reserve_when_a_block_leaves_it() {
    let mut made = vec![kernel(1000, 0); 20];
    made.extend([user(500); 20]);
    let machine = Machine(made);
    let step = |kernel, user| {
        let zones = closed_zones(kernel, user);
        pools_of(&machine).step(PoolDemand::Shrink(Node(0)), &zones, &machine.survey(), at(0)).is_some()
    };
    // A block takes 1000 frames with it, and a quarter of the reserve is 500.
    assert_eq!([step(3000, 1499), step(3000, 1500)], [false, true]);
    // The whole reserve, 2000, in both.
    assert_eq!([step(1000, 1999), step(1000, 2000)], [false, true]);
}

#[test]
fn a_pool_grows_at_an_eighth_of_the_reserve_or_at_half_in_both() {
    let machine = in_use();
    let demand = |kernel, user| {
        pools_of(&machine).demand(PoolsSeen { zones: &closed_zones(kernel, user), pressed: false }, at(0))
    };
    let grow = |pool| Some(PoolDemand::Grow(pool, Node(0)));
    assert_eq!([demand(249, 1700), demand(250, 1700)], [grow(Pool::Kernel), None]);
    assert_eq!([demand(1700, 249), demand(1700, 250)], [grow(Pool::User), None]);
    assert_eq!([demand(500, 499), demand(500, 500)], [grow(Pool::User), None]);
}

#[test]
fn the_thresholds_of_a_pool_lie_above_the_kernel_s_own() {
    let zones = |kernel, user| {
        let mut zones = closed_zones(kernel, user);
        zones.iter_mut().for_each(|zone| zone.high = Bytes::new(300 * 4096));
        zones
    };
    let machine = in_use();
    let demand =
        |kernel, user| pools_of(&machine).demand(PoolsSeen { zones: &zones(kernel, user), pressed: false }, at(0));
    let grow = |pool| Some(PoolDemand::Grow(pool, Node(0)));
    assert_eq!([demand(549, 1400), demand(550, 1400)], [grow(Pool::Kernel), None]);
    assert_eq!([demand(1400, 549), demand(1400, 550)], [grow(Pool::User), None]);
    // Only the last block of the core can go, or a block of programs.
    let mut made = vec![kernel(1000, 0); 19];
    made.push(kernel(0, 0));
    made.extend([user(500); 20]);
    let machine = Machine(made);
    let step = |kernel, user| {
        let zones = zones(kernel, user);
        let step = pools_of(&machine).step(PoolDemand::Shrink(Node(0)), &zones, &machine.survey(), at(0));
        step.map(|step| step.block.0)
    };
    assert_eq!([step(1799, 1799), step(1800, 1799)], [None, Some(19)]);
    assert_eq!([step(1799, 1799), step(1799, 1800)], [None, Some(39)]);
}

#[test]
fn a_block_of_the_core_goes_only_if_the_core_has_room_for_what_moves() {
    // One block of the core can be emptied, of 600 frames; the user pool has room for them, and takes none.
    let mut made = vec![kernel(1000, 0); 19];
    made.push(kernel(0, 600));
    made.extend([user(1000); 20]);
    let machine = Machine(made);
    let step = |kernel| {
        let zones = closed_zones(kernel, 1499);
        let step = pools_of(&machine).step(PoolDemand::Shrink(Node(0)), &zones, &machine.survey(), at(0));
        step.map(|step| step.block.0)
    };
    assert_eq!([step(1499), step(1500)], [None, Some(19)]);
}

#[test]
fn a_pool_that_could_not_grow_does_as_soon_as_a_block_is_offline() {
    let machine = in_use();
    let (mut pools, zones) = (pools_of(&machine), closed_zones(3000, 0));
    let grow = PoolDemand::Grow(Pool::User, Node(0));
    let asked = |pools: &mut Pools| pools.demand(PoolsSeen { zones: &zones, pressed: false }, at(0));
    assert_eq!(asked(&mut pools), Some(grow));
    pools.unmet(grow, Duration::ZERO, at(0));
    assert_eq!(asked(&mut pools), Some(PoolDemand::Shrink(Node(0))));
    pools.moved(to(30, Pool::Offline), &machine.survey(), at(0));
    assert_eq!(asked(&mut pools), Some(grow));
}

#[test]
fn the_core_keeps_its_share_although_the_kernel_uses_less() {
    let mut machine = Machine(vec![kernel(0, 0); 40]);
    machine.0[0].kernel = 10;
    let mut pools = pools_of(&machine);
    machine.settle(&mut pools, at(0));
    assert_eq!(machine.count(Pool::Kernel), 4);
}

#[test]
fn bad_memory_stays_offline_unless_memory_is_short() {
    let mut made = vec![kernel(600, 0); 4];
    made.extend([user(900); 35]);
    made.push(Made { bad: 1, ..kernel(0, 0) });
    let mut machine = Machine(made);
    let mut pools = pools_of(&machine);
    let bad = to(39, Pool::Offline);
    pools.moved(bad, &machine.survey(), at(0));
    assert!(machine.apply(bad));
    let step =
        |zones: &[ZoneMemory]| pools.step(PoolDemand::Grow(Pool::User, Node(0)), zones, &machine.survey(), at(0));
    assert_eq!([step(&closed_zones(900, 100)), step(&closed_zones(899, 100))], [None, Some(to(39, Pool::User))]);
}

#[test]
fn a_block_of_programs_is_taken_only_if_what_lies_in_it_fits_elsewhere() {
    let mut made = vec![kernel(1000, 0); 4];
    made.extend([user(1000); 35]);
    made.push(user(400));
    let mut machine = Machine(made);
    let step = |machine: &Machine| {
        let zones = machine.zones();
        pools_of(machine).step(PoolDemand::Grow(Pool::Kernel, Node(0)), &zones, &machine.survey(), at(0))
    };
    assert_eq!(step(&machine), None);
    machine.0[10].user = 600;
    assert_eq!(step(&machine), Some(to(39, Pool::Kernel)));
}

#[test]
fn a_node_without_memory_for_the_kernel_gets_none() {
    let mut machine = Machine((0..40).map(|_| user(100)).collect());
    let mut pools = pools_of(&machine);
    for second in 0..60 {
        let left = machine.allocate_user(600);
        let moves = machine.settle(&mut pools, at(second));
        assert!(moves.iter().all(|moved| moved.to != Pool::Kernel), "{left} {moves:?}");
    }
}

#[test]
fn a_block_that_did_not_go_rests() {
    let mut machine = in_use();
    let mut pools = pools_of(&machine);
    let zones = machine.zones();
    let demand = PoolDemand::Shrink(Node(0));
    let first = pools.step(demand, &zones, &machine.survey(), at(5)).unwrap();
    pools.failed(first.block, at(5));
    assert_ne!(pools.step(demand, &zones, &machine.survey(), at(5)).unwrap().block, first.block);
    let survey = machine.survey();
    let failed = |pools: &mut Pools| {
        let block = pools.step(demand, &zones, &survey, at(6))?.block;
        pools.failed(block, at(6));
        Some(block)
    };
    let order: Vec<HotplugBlock> = iter::from_fn(|| failed(&mut pools)).collect();
    assert!(order.len() > 1 && order.last() == Some(&first.block), "again once its rest is over, after all others");
    machine.settle(&mut pools, at(6));
}

#[test]
fn blocks_that_somebody_brings_back_are_left_alone_for_longer_each_time() {
    let mut machine = in_use();
    let mut pools = pools_of(&machine);
    let mut went = Vec::new();
    for second in 0..900 {
        let moves = machine.settle(&mut pools, at(second));
        went.extend(moves.iter().filter(|moved| moved.to == Pool::Offline).map(|_| second));
        for (number, made) in (0..).zip(&mut machine.0).filter(|(_, made)| made.pool == Some(Pool::Offline)) {
            made.pool = Some(Pool::User);
            pools.came_back(HotplugBlock(number), at(second));
        }
    }
    let between = |seconds: std::ops::Range<u64>| went.iter().filter(|second| seconds.contains(second)).count();
    assert!(between(0..100) > 30 && between(800..900) < between(0..100) / 3, "{went:?}");
}

#[test]
fn a_long_search_in_vain_is_rare() {
    let machine = in_use();
    let (mut pools, demand) = (pools_of(&machine), PoolDemand::Shrink(Node(0)));
    let zones = machine.zones();
    let asked = |pools: &mut Pools, now| pools.demand(PoolsSeen { zones: &zones, pressed: false }, at(now));
    assert_eq!(asked(&mut pools, 0), Some(demand));
    pools.unmet(demand, Duration::from_millis(10), at(0));
    assert_eq!([9, 10].map(|now| asked(&mut pools, now)), [None, Some(demand)]);
    pools.unmet(demand, at(3), at(10));
    // Twenty times as long as it took, and twice that, as it was the second in vain.
    assert_eq!([129, 130].map(|now| asked(&mut pools, now)), [None, Some(demand)]);
}

#[test]
fn a_search_in_vain_is_repeated_ever_more_rarely_until_something_changes() {
    let machine = in_use();
    let (mut pools, demand) = (pools_of(&machine), PoolDemand::Shrink(Node(0)));
    let with_free = |frames: u64| {
        let mut zones = machine.zones();
        zones[0].free = Bytes::new(zones[0].free.get() + frames * 4096);
        zones
    };
    let asked = |pools: &mut Pools, free, now| {
        pools.demand(PoolsSeen { zones: &with_free(free), pressed: false }, at(now)).is_some()
    };
    let mut now = 0;
    for rest in [10, 20, 40, 80, 160, 320, 320] {
        assert!(asked(&mut pools, 0, now));
        pools.unmet(demand, Duration::ZERO, at(now));
        now += rest;
        assert!(!asked(&mut pools, 0, now - 1), "{rest}");
    }
    assert!(asked(&mut pools, 0, now));
    pools.unmet(demand, Duration::ZERO, at(now));
    assert!(!asked(&mut pools, FRAMES / 2 - 1, now + 1));
    let half = [1, 10, 11].map(|later| asked(&mut pools, FRAMES / 2, now + later));
    assert_eq!(half, [false, false, true], "half a block more is free, and has lain idle for the dwell");
    now += 11;
    pools.unmet(demand, Duration::ZERO, at(now));
    assert_eq!([9, 10].map(|later| asked(&mut pools, FRAMES / 2, now + later)), [false, true], "it begins anew");
    now += 10;
    pools.unmet(demand, Duration::ZERO, at(now));
    pools.moved(to(0, Pool::Offline), &machine.survey(), at(now));
    assert!(asked(&mut pools, FRAMES / 2, now + 1), "a block has moved");
    pools.unmet(demand, Duration::ZERO, at(now + 1));
    assert_eq!([10, 11].map(|later| asked(&mut pools, FRAMES / 2, now + later)), [false, true]);
}

proptest! {
    /// Hours of load, in steps of a second: each step allocates or frees at most an eighth of the reserve. Nobody lacks
    /// memory that is offline or idle in the other pool, programs do not settle in the core, and what lies idle at the
    /// end is offline.
    #[test]
    fn pools_serve_any_slow_load_and_end_near_the_optimum(
        seed_kernel in 100_u64..900,
        steps in proptest::collection::vec((-240_i64..240, -60_i64..60, 0_usize..40), 200..600),
    ) {
        let mut machine = in_use();
        machine.0[0].kernel = seed_kernel;
        let mut pools = pools_of(&machine);
        machine.settle(&mut pools, at(0));
        let mut now = 0;
        for (programs, core, place) in steps {
            now += 1;
            if core > 0 {
                let lacking = machine.allocate_kernel(core.unsigned_abs());
                prop_assert!(lacking == 0 || machine.free(Pool::User) < FRAMES, "the kernel lacks {lacking} at {now}");
            } else {
                machine.release(core.unsigned_abs(), place, |made| &mut made.kernel);
            }
            if programs > 0 {
                let room = machine.free(Pool::User) + machine.count(Pool::Offline) as u64 * FRAMES;
                let lacking = machine.allocate_user(programs.unsigned_abs().min(room));
                prop_assert_eq!(lacking, 0, "programs lack memory at {}", now);
            } else {
                machine.release(programs.unsigned_abs(), place, |made| &mut made.user);
            }
            machine.settle(&mut pools, at(now));
        }
        for quiet in 1..=10 {
            machine.settle(&mut pools, at(now + quiet * 20));
        }
        let (offline, optimum) = (machine.count(Pool::Offline) as u64, machine.optimum());
        let tainted = machine.of(Pool::Kernel).filter(|made| made.kernel > 0).count() as u64;
        // A block may be lost in each pool by the floors, and the core stays, at least four blocks.
        prop_assert!(offline + 2 + tainted.max(4) >= optimum, "{offline} of {optimum}, {tainted} tainted");
        let moves = machine.settle(&mut pools, at(now + 1000));
        prop_assert!(moves.is_empty(), "it rests: {moves:?}");
    }
}
