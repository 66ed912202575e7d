//! Frames that are in the fault map when testing begins.
//!
//! **Problem.** At each boot, a kernel forgets which frames it retired. A test that claims such a frame while its fault
//! is inactive finds no error and gives it back to programs. **Idea.** All frames of the fault map that are in use are
//! retired before the first claim. **Why not only skip them.** A program can still get a frame that no test claims.

use std::collections::BTreeSet;

use rampart_memory::Frame;
use rampart_memory::fault_map::{MapOrigin, Retirement};
use rampart_store::Store;

use crate::machine::MachineUnderTest;
use crate::testing::observer::TestObserver;

/// The result of the attempt to retire them.
#[derive(Debug, Default)]
pub struct KnownBadFrames {
    /// Frames that were in use, and the kernel's answers.
    pub tried: Vec<(Frame, Retirement)>,
    /// Of these, frames that are still in use: they must never be given back as good.
    pub in_use: BTreeSet<Frame>,
}

/// Retires all frames of the fault map that have real errors and are in use. Reports in one line how many were retired,
/// and warns in another if some remain in use.
pub fn retire(machine: &MachineUnderTest, store: &mut Store, observer: &dyn TestObserver) -> KnownBadFrames {
    let map = match store.failures(MapOrigin::Real) {
        Ok(map) => map,
        Err(error) => {
            observer.warned(&format!("{error}; bad frames known from before may be used"));
            return KnownBadFrames::default();
        }
    };
    let uses = machine.frame_uses();
    let in_use = map.iter().map(|failed| failed.frame).filter(|frame| !uses.of(*frame).is_out_of_use());
    let mut known = KnownBadFrames::default();
    for frame in in_use {
        let retirement = machine.retire(frame);
        if let Err(error) = store.keep_retirement(frame, &retirement) {
            observer.warned(&format!("{error}; the retirement of frame {frame} is not recorded"));
        }
        if retirement != Retirement::Offlined {
            known.in_use.insert(frame);
        }
        known.tried.push((frame, retirement));
    }
    describe(&known).iter().for_each(|line| observer.said(line));
    shortfall(&known).iter().for_each(|line| observer.warned(line));
    known
}

fn describe(known: &KnownBadFrames) -> Option<String> {
    let retired = known.tried.len() - known.in_use.len();
    (retired > 0).then(|| format!("known bad   {retired} frames of the map were in use and are retired again"))
}

fn shortfall(known: &KnownBadFrames) -> Option<String> {
    let refused = known.tried.iter().find_map(|(frame, retirement)| match retirement {
        Retirement::Refused(why) => Some((frame, why)),
        Retirement::Pending | Retirement::Offlined => None,
    });
    let (frame, why) = refused?;
    Some(format!(
        "NOT retired: {} frames of the map (frame {frame}: {why}); those that are claimed are held",
        known.in_use.len()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::observed::Observed;
    use rampart_linux::Roots;
    use rampart_memory::Timestamp;
    use rampart_memory::fault_map::FailedFrame;
    use std::fs;

    const NOW: Timestamp = Timestamp::from_micros(1);
    const POISONED: u64 = 1 << 19;

    fn frame(number: u64) -> Frame {
        Frame::new(number).unwrap()
    }

    /// A machine with memory in frames 0 to 15, of which 4 and 5 are reserved and 6 is retired, and a store with frames
    /// 3 to 6 and 99 in the fault map. If `marks` is false, it has no page flags, and only the kernel's answers count.
    fn machine(marks: bool) -> (tempfile::TempDir, MachineUnderTest, Store) {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::new(folder.path().join("proc"), folder.path().join("sys"));
        fs::create_dir_all(roots.proc("")).unwrap();
        fs::create_dir_all(roots.sys("devices/system/memory")).unwrap();
        fs::write(roots.sys("devices/system/memory/soft_offline_page"), "").unwrap();
        let iomem = "00000000-00003fff : System RAM\n00004000-00005fff : Reserved\n00006000-0000ffff : System RAM\n";
        fs::write(roots.proc("iomem"), iomem).unwrap();
        if marks {
            let flags: Vec<u8> = (0..16_u64).flat_map(|n| if n == 6 { POISONED } else { 0 }.to_ne_bytes()).collect();
            fs::write(roots.proc("kpageflags"), flags).unwrap();
        }
        let mut store = Store::open(&folder.path().join("r.db"), NOW).unwrap().store;
        for number in [3, 4, 5, 6, 99] {
            store.keep_failure(None, MapOrigin::Real, &FailedFrame::condemned(frame(number), NOW)).unwrap();
        }
        (folder, MachineUnderTest::below(roots), store)
    }

    fn asked(machine: &MachineUnderTest) -> String {
        fs::read_to_string(machine.roots().sys("devices/system/memory/soft_offline_page")).unwrap()
    }

    #[test]
    fn a_known_bad_frame_in_use_is_retired_before_anything_is_tested() {
        let (_folder, machine, mut store) = machine(false);
        let lines = Observed::default();
        // 6 is retired, which is not visible here: retiring it again does no harm.
        let known = retire(&machine, &mut store, &lines);
        assert_eq!(known.tried, [(frame(3), Retirement::Offlined), (frame(6), Retirement::Offlined)]);
        assert!(known.in_use.is_empty());
        assert!(asked(&machine).contains("0x6000"), "{}", asked(&machine));
        let kept = store.failures(MapOrigin::Real).unwrap();
        assert_eq!(kept.get(frame(3)).unwrap().retirement, Retirement::Offlined);
        assert_eq!(kept.get(frame(4)).unwrap().retirement, Retirement::Pending, "reserved at boot: nothing to do");
        assert_eq!(lines.take_lines(), ["known bad   2 frames of the map were in use and are retired again"]);
    }

    #[test]
    fn one_that_the_kernel_does_not_retire_stays_excluded_and_is_said() {
        let (_folder, machine, mut store) = machine(true);
        let lines = Observed::default();
        let known = retire(&machine, &mut store, &lines);
        assert_eq!(known.in_use, BTreeSet::from([frame(3)]));
        assert_eq!(asked(&machine), "0x3000", "the retired and the reserved ones are left alone");
        let lines = lines.take_lines();
        assert!(
            lines.len() == 1 && lines[0].contains("NOT retired: 1 frames") && lines[0].contains("0x3"),
            "{lines:?}"
        );
    }
}
