//! Memory that is used up fast: when a pool grows, what an attempt is given up for, and how often the zones are seen.

use super::*;

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn a_pool_grows_early_if_its_memory_is_used_up_fast() {
    // 20 blocks, so the reserve is 1,000 frames; 3,000 are free in both pools.
    let zones = |kernel: u64, user: u64| {
        let mut zones = closed_zones(kernel, user);
        zones[0].protected = Bytes::new(PROTECTED * 4096);
        zones
    };
    let machine = Machine((0..20).map(|number| if number < 10 { kernel(900, 0) } else { user(900) }).collect());
    let wants = |pools: &mut Pools, kernel, user, millis| {
        pools.demand(PoolsSeen { zones: &zones(kernel, user), pressed: false }, Duration::from_millis(millis))
    };
    for (pool, free) in [(Pool::Kernel, [1000, 3000]), (Pool::User, [PROTECTED, 1000])] {
        let mut pools = pools_of(&machine);
        let grow = Some(PoolDemand::Grow(pool, Node(0)));
        let later =
            |frames: u64| if pool == Pool::Kernel { [free[0] - frames, free[1]] } else { [free[0], free[1] - frames] };
        assert_ne!(wants(&mut pools, free[0], free[1], 0), grow);
        // At this rate 400 or 2,200 frames would be used up before a block is online; the latter counts as 250.
        let [kernel, user] = later(100);
        assert_ne!(wants(&mut pools, kernel, user, 50), grow, "{pool:?}");
        let [kernel, user] = later(650);
        assert_eq!(wants(&mut pools, kernel, user, 100), grow, "{pool:?}");
        assert_ne!(wants(&mut pools, kernel, user, 2000), grow, "{pool:?}: the burst is over");
    }
}

#[test]
fn an_attempt_goes_on_unless_somebody_takes_more_than_the_block_s_own_memory() {
    // The reserve is 1,000 frames: a pool grows below 125, or earlier in a burst, which counts for 250 at most.
    let machine = Machine((0..20).map(|number| if number < 10 { kernel(900, 0) } else { user(900) }).collect());
    let frames = |frames: u64| Bytes::new(frames * 4096);
    let lacks = |pool, [free, movable]: [u64; 2], left| {
        let mut pools = pools_of(&machine);
        let zones = |free| if pool == Pool::Kernel { closed_zones(free, 3000) } else { closed_zones(3000, free) };
        pools.demand(PoolsSeen { zones: &zones(500), pressed: false }, at(0));
        let demand = PoolDemand::Shrink(Node(0));
        let block = EmptiedBlock { demand, pool, free: frames(free), movable: frames(movable) };
        pools.lacks_memory(PoolsSeen { zones: &zones(left), pressed: false }, block, Duration::from_millis(50))
    };
    for (pool, own) in [(Pool::Kernel, [50, 100]), (Pool::User, [150, 50])] {
        assert_eq!(lacks(pool, own, 350), None, "{pool:?}: 150 frames are the block's own");
        assert_eq!(
            lacks(pool, own, 299),
            Some(pool),
            "{pool:?}: 51 more in 50 ms make 204 until a block is online, of 174 left"
        );
        assert_eq!(lacks(pool, [0, 0], 350), Some(pool), "{pool:?}: a burst");
    }
}

#[test]
fn an_attempt_ends_only_for_something_more_urgent() {
    let machine = Machine(vec![kernel(0, 0); 20]);
    let lacks = |demand| {
        let block = EmptiedBlock { demand, pool: Pool::User, free: Bytes::ZERO, movable: Bytes::ZERO };
        let zones = [closed_zones(100, 3000), closed_zones(3000, 100)];
        zones.map(|zones| pools_of(&machine).lacks_memory(PoolsSeen { zones: &zones, pressed: false }, block, at(0)))
    };
    assert_eq!(lacks(PoolDemand::Shrink(Node(0))), [Some(Pool::Kernel), Some(Pool::User)]);
    assert_eq!(lacks(PoolDemand::Grow(Pool::User, Node(0))), [Some(Pool::Kernel), None]);
    assert_eq!(lacks(PoolDemand::Grow(Pool::Kernel, Node(0))), [None; 2], "it is what the block is emptied for");
}

/// What the attempt isolates lies on its own node; on the other one, use that falls and rises again is a burst.
#[test]
fn an_attempt_ends_for_a_burst_on_another_node() {
    let machine = Machine((0..20).map(|number| if number < 10 { kernel(900, 0) } else { user(900) }).collect());
    let mut survey = machine.survey();
    survey.blocks.extend(machine.survey().blocks.into_iter().map(|block| {
        let number = HotplugBlock(block.number.0 + 20);
        BlockSurvey { node: Some(Node(1)), number, ..block }
    }));
    let zones = |other| {
        let of_other = closed_zones(3000, other).into_iter().map(|zone| ZoneMemory { node: Node(1), ..zone });
        closed_zones(3000, 3000).into_iter().chain(of_other).collect::<Vec<_>>()
    };
    let lacks = |start, looks: &[u64]| {
        let mut pools = Pools::new(SETTINGS, &survey);
        pools.demand(PoolsSeen { zones: &zones(start), pressed: false }, at(0));
        let (free, movable) = (Bytes::ZERO, Bytes::ZERO);
        let block = EmptiedBlock { demand: PoolDemand::Shrink(Node(0)), pool: Pool::User, free, movable };
        let times = (1..).map(|look| Duration::from_millis(50 * look));
        let seen = looks
            .iter()
            .zip(times)
            .map(|(&free, now)| pools.lacks_memory(PoolsSeen { zones: &zones(free), pressed: false }, block, now));
        seen.last().expect("a look")
    };
    assert_eq!(lacks(400, &[400, 370]), None, "30 frames in 50 ms make 120 more, of 245 left");
    assert_eq!(lacks(520, &[520, 370]), Some(Pool::User), "150 would make 600, which count as 250");
    assert_eq!(lacks(400, &[600, 370]), Some(Pool::User), "what was freed before does not hide it");
}

#[test]
fn looks_are_frequent_only_while_memory_is_used_up_fast() {
    // The reserve is 1,000 frames, and the core grows below 125 of them; 900 more are free.
    let machine = Machine((0..20).map(|number| if number < 10 { kernel(900, 0) } else { user(900) }).collect());
    let mut pools = pools_of(&machine);
    let mut look = |free, millis| {
        let zones = closed_zones(free, 3000);
        pools.demand(PoolsSeen { zones: &zones, pressed: false }, Duration::from_millis(millis));
        pools.next_look(&zones).as_millis()
    };
    assert_eq!(look(1025, 0), 50, "nothing is taken");
    assert_eq!(look(925, 50), 50, "800 frames last 400 ms at 2,000 a second");
    assert_eq!(look(725, 100), 37, "600 frames last 150 ms at 4,000 a second");
    assert_eq!(look(205, 150), 10, "80 frames last 8 ms");
    assert_eq!(look(100, 200), 10, "it must grow");
    assert_eq!(look(1000, 2200), 50, "the burst is over");
}

#[test]
fn the_kernel_gets_a_block_ahead_of_its_need_only_if_programs_can_spare_one() {
    // The reserve is 1,000 frames: the core is short below 125, and programs keep 250.
    let pools = pools_of(&Machine(vec![kernel(0, 0); 20]));
    let grow = PoolDemand::Grow(Pool::Kernel, Node(0));
    let search = |kernel, user| pools.search(grow, &closed_zones(kernel, user));
    assert_eq!([search(125, 1249), search(125, 1250)], [None, Some(FrameSearch::Sampled)]);
    assert_eq!(search(124, 0), Some(FrameSearch::Sampled), "it is short already");
    let zones = closed_zones(0, 0);
    assert_eq!(pools.search(PoolDemand::Grow(Pool::User, Node(0)), &zones), None);
    assert_eq!(pools.search(PoolDemand::Shrink(Node(0)), &zones), Some(FrameSearch::Full));
}

#[test]
fn a_block_that_programs_will_soon_need_is_not_spare() {
    let mut pools = pools_of(&Machine(vec![kernel(0, 0); 20]));
    let grow = PoolDemand::Grow(Pool::Kernel, Node(0));
    for (now, user) in [(0, 1350), (50, 1300)] {
        let zones = closed_zones(130, user);
        pools.demand(PoolsSeen { zones: &zones, pressed: false }, millis(now));
    }
    // 50 frames in 50 ms make 200 until a block is online.
    assert_eq!([1449, 1450].map(|user| pools.search(grow, &closed_zones(130, user)).is_some()), [false, true]);
}

#[test]
fn growth_that_no_block_meets_is_tried_again_soon() {
    let machine = Machine(vec![kernel(900, 0); 20]);
    let (grow, zones) = (PoolDemand::Grow(Pool::Kernel, Node(0)), closed_zones(100, 3000));
    for (search, rest) in [(0, 50), (3, 60), (10, 200), (80, 1000)] {
        let mut pools = pools_of(&machine);
        let mut asks = |now| pools.demand(PoolsSeen { zones: &zones, pressed: false }, millis(now)) == Some(grow);
        assert!(asks(0));
        pools.unmet(grow, millis(search), millis(0));
        let mut asks = |now| pools.demand(PoolsSeen { zones: &zones, pressed: false }, millis(now)) == Some(grow);
        assert_eq!([asks(rest - 1), asks(rest)], [false, true], "a search of {search} ms");
    }
}

/// Programs have given back most of their blocks, all of which are online. The kernel takes memory at a steady rate,
/// and a block needs a tenth of a second to get from programs to the kernel. In that time the kernel takes up to 200
/// frames: more than the 125 at which the core is short, so only growth ahead of that is in time.
#[test]
fn the_kernel_gets_the_free_blocks_of_programs_before_it_lacks_memory() {
    for rate in [1, 5, 10, 20] {
        let mut machine = Machine(vec![kernel(800, 0); 2]);
        machine.0.extend(vec![user(100); 18]);
        let mut pools = pools_of(&machine);
        let mut move_under_way = None;
        let (mut now, mut next_look, mut taken) = (0, 0, 0);
        while taken < 10_000 {
            assert_eq!(machine.allocate_kernel(rate), 0, "{rate} frames per 10 ms: {taken} taken after {now} ms");
            taken += rate;
            if let Some((at, next)) = move_under_way
                && now >= at
            {
                let survey = machine.survey();
                assert!(machine.apply(next));
                pools.moved(next, &survey, millis(now));
                move_under_way = None;
            }
            if move_under_way.is_none() && now >= next_look {
                let zones = machine.zones();
                let demand = pools.demand(PoolsSeen { zones: &zones, pressed: false }, millis(now));
                if let Some(demand @ PoolDemand::Grow(Pool::Kernel, _)) = demand {
                    let survey = machine.survey();
                    let wanted =
                        pools.search(demand, &zones).and_then(|_| pools.step(demand, &zones, &survey, millis(now)));
                    match wanted {
                        Some(next) => move_under_way = Some((now + 100, next)),
                        None => pools.unmet(demand, Duration::ZERO, millis(now)),
                    }
                }
                next_look = now + u64::try_from(pools.next_look(&zones).as_millis()).unwrap();
            }
            now += 10;
        }
        assert!(machine.count(Pool::Kernel) >= 11);
    }
}
