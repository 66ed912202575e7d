//! Free memory where the kernel's own memory and that of programs lie in different zones.

use rampart_linux::memory_state::ZoneMemory;
use rampart_memory::Bytes;

/// The zones of a machine with memory that only programs get (`ZONE_MOVABLE`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZonesOutlook {
    /// Free memory that only programs get.
    pub user: Bytes,
    /// Free memory that the kernel gets too, without the lowest zone, which it keeps for old devices.
    pub core: Bytes,
    /// As much of that as programs can get.
    pub core_open: Bytes,
    /// Below this, the kernel reclaims in its zones.
    pub core_high: Bytes,
}

impl ZonesOutlook {
    /// Sums the zones of all nodes; `None` if no memory is for programs alone.
    #[must_use]
    pub fn of(zones: &[ZoneMemory]) -> Option<Self> {
        let sum = |is_wanted: fn(&str) -> bool, of: fn(&ZoneMemory) -> Bytes| {
            Bytes::new(zones.iter().filter(|zone| is_wanted(&zone.name)).map(|zone| of(zone).get()).sum())
        };
        let is_core = |name: &str| !matches!(name, "DMA" | "Movable" | "Device");
        zones.iter().any(|zone| zone.name == "Movable").then(|| Self {
            user: sum(|name| name == "Movable", |zone| zone.free),
            core: sum(is_core, |zone| zone.free),
            core_open: sum(is_core, ZoneMemory::open),
            core_high: sum(is_core, |zone| zone.high),
        })
    }

    /// What stays free for programs and for the kernel each: three quarters of the reserve above what makes the kernel
    /// reclaim, and well above the latter. Pools of memory blocks bring memory online at three eighths or less.
    #[must_use]
    pub fn floor(&self, reserve: Bytes) -> Bytes {
        Bytes::new((reserve.get() / 4 * 3 + self.core_high.get()).max(4 * self.core_high.get()))
    }

    /// How much may be claimed if so much is to stay free for programs and for the kernel each. The kernel serves
    /// claims from the zone for programs first.
    #[must_use]
    pub fn claimable(&self, floor: Bytes) -> Bytes {
        let spare = self.core_open.min(self.core.saturating_sub(floor));
        Bytes::new(self.user.get() + spare.get()).saturating_sub(floor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rampart_memory::Node;

    const MIB: fn(u64) -> Bytes = Bytes::from_mib;

    fn zone(name: &str, free: u64, protected: u64) -> ZoneMemory {
        let [managed, free, high, protected] = [1000, free, 4, protected].map(MIB);
        ZoneMemory { node: Node(0), name: name.to_owned(), managed, free, high, protected, lru: Bytes::ZERO }
    }

    #[test]
    fn the_zones_of_programs_and_of_the_kernel_are_summed_apart() {
        let zones = [zone("DMA", 14, 9), zone("DMA32", 300, 100), zone("Normal", 50, 100), zone("Movable", 70, 0)];
        let [user, core, core_open, core_high] = [70, 350, 196, 8].map(MIB);
        assert_eq!(ZonesOutlook::of(&zones), Some(ZonesOutlook { user, core, core_open, core_high }));
        assert_eq!(ZonesOutlook::of(&zones[..3]), None, "one kind of memory needs no second count");
    }

    #[test]
    fn a_full_core_leaves_only_what_programs_have_for_themselves() {
        let zones = ZonesOutlook { user: MIB(500), core: MIB(40), core_open: MIB(30), core_high: MIB(2) };
        assert_eq!(zones.claimable(MIB(50)), MIB(450), "50 MiB stay with programs, and the core's 40 with the kernel");
        let zones = ZonesOutlook { core: MIB(90), core_open: MIB(70), ..zones };
        assert_eq!(zones.claimable(MIB(50)), MIB(490), "40 of the core can be spared");
        let zones = ZonesOutlook { core_open: MIB(5), ..zones };
        assert_eq!(zones.claimable(MIB(50)), MIB(455), "the kernel keeps the rest back itself");
        assert_eq!(
            zones.floor(MIB(200)),
            MIB(152),
            "three quarters of the reserve above what makes the kernel reclaim"
        );
        assert_eq!(zones.floor(MIB(4)), MIB(8), "four times that");
    }

    proptest! {
        /// Whatever is claimed as allowed, from the zone for programs first: the kernel keeps its floor, if it had it,
        /// and programs find a floor of memory.
        #[test]
        fn a_claim_leaves_both_their_floor(user in 0_u64..600, core in 0_u64..600, open in 0_u64..600, high in 0_u64..9) {
            let open = open.min(core);
            let zones = ZonesOutlook { user: MIB(user), core: MIB(core), core_open: MIB(open), core_high: MIB(high) };
            let floor = (150 + high).max(4 * high);
            let claimed = zones.claimable(zones.floor(MIB(200))).get() >> 20;
            let from_core = claimed.saturating_sub(user);
            prop_assert!(from_core <= open, "the kernel would refuse it");
            prop_assert!(from_core == 0 || core - from_core >= floor, "{from_core} of {core}");
            let room = user.saturating_sub(claimed) + open.min(core.saturating_sub(floor)).saturating_sub(from_core);
            prop_assert!(claimed == 0 || room >= floor, "{room} left");
        }
    }
}
