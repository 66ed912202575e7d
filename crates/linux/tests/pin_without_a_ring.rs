//! A process that may open no more files gets no ring, and so a weaker pin. Alone in its process, since the limit is
//! the process' own.

use rampart_linux::{Block, Feature, PageKind, PinRefusal, Pinning, Roots, capabilities};
use rampart_skips::{Feature as Needed, granted, lacks};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
fn the_next_best_pin_is_had_and_says_why() {
    let may_lock = getrlimit(Resource::Memlock).current != Some(0) || lacks(Needed::LockedMemory).is_none();
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(0), maximum }).unwrap();

    let mut block = Block::claim(PageKind::Base.granule(), PageKind::Base).unwrap();
    let report = block.pin();
    assert_eq!(report.pinning, if may_lock { Pinning::Locked } else { Pinning::None });
    assert!(!report.pinning.holds_frames());
    let no_ring = report.refusals[0];
    if no_ring == PinRefusal::Ring(Errno::MFILE) {
        assert!(no_ring.remedy().contains("open files"));
        let pinning = capabilities::of(Feature::Pinning, &Roots::default());
        assert_eq!(pinning.absence().unwrap().remedy, no_ring.remedy());
    } else {
        assert!(matches!(no_ring, PinRefusal::Ring(_)), "a kernel or sandbox without io_uring: {no_ring}");
        granted(&[Needed::IoUring], Err::<(), _>(no_ring));
    }
}
