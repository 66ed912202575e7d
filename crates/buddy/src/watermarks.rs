//! The reserves of a zone.

use rampart_memory::FRAME_BYTES;

/// Numbers of free frames of a zone at which its allocator changes its behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    /// Only urgent requests may leave fewer frames free.
    pub min: u64,
    /// A request that would leave fewer free tries the other zones first. A kernel begins to reclaim here.
    pub low: u64,
    /// A kernel stops reclaiming here.
    pub high: u64,
}

impl Watermarks {
    /// Returns the watermarks of a zone of `zone` frames in a machine of `machine` frames, as Linux sets them: the
    /// machine reserves 4·√(KiB of memory) KiB, between 128 KiB and 64 MiB, and a zone its share of that; low is 5/4
    /// and high 6/4 of min (`init_per_zone_wmark_min` and `setup_per_zone_wmarks` in mm/page_alloc.c, Linux 2.6.31 to
    /// 4.5).
    #[must_use]
    pub fn of(zone: u64, machine: u64) -> Self {
        assert!(zone <= machine, "a zone is a part of its machine");
        let kib_per_frame = FRAME_BYTES / 1024;
        let reserve_kib = (machine * kib_per_frame * 16).isqrt().clamp(128, 65_536);
        let reserve = reserve_kib / kib_per_frame;
        let min = u64::try_from(u128::from(reserve) * u128::from(zone) / u128::from(machine.max(1)))
            .expect("a share is no larger than the whole");
        Self { min, low: min + min / 4, high: min + min / 2 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 256;

    /// The table in the comment above `init_per_zone_wmark_min`.
    #[test]
    fn a_machine_keeps_back_what_linux_keeps_back() {
        for (mib, reserve_kib) in [(16, 512), (64, 1024), (256, 2048), (1024, 4096), (4096, 8192), (16_384, 16_384)] {
            let all = Watermarks::of(mib * MIB, mib * MIB);
            assert_eq!(all.min, reserve_kib / 4, "{mib} MiB");
            assert_eq!((all.low, all.high), (all.min * 5 / 4, all.min * 6 / 4));
        }
    }

    #[test]
    fn it_is_never_less_than_128_kib_nor_more_than_64_mib() {
        assert_eq!(Watermarks::of(64, 64).min, 32);
        assert_eq!(Watermarks::of(1 << 30, 1 << 30).min, 16_384);
    }

    #[test]
    fn a_zone_keeps_back_its_share() {
        let machine = 1024 * MIB;
        assert_eq!(Watermarks::of(machine / 4, machine).min, Watermarks::of(machine, machine).min / 4);
    }
}
