use std::collections::BTreeSet;

use proptest::collection::btree_set;
use proptest::prelude::*;

use std::num::NonZeroUsize;

use super::badram::blocks;
use super::memmap::gap;
use super::*;
use crate::fault_map::FailedFrame;

fn map_of(frames: impl IntoIterator<Item = u64>) -> FaultMap {
    let mut map = FaultMap::new(MapOrigin::Real);
    for number in frames {
        map.insert(FailedFrame::condemned(Frame::new(number).unwrap(), Timestamp::default()));
    }
    map
}

fn memmap(frames: impl IntoIterator<Item = u64>) -> Memmap {
    Memmap::new(&map_of(frames)).unwrap()
}

fn badram(frames: impl IntoIterator<Item = u64>) -> BadRam {
    BadRam::new(&map_of(frames)).unwrap()
}

/// The kernel's `memparse`: a number in C notation and a unit.
fn memparse(text: &str) -> u64 {
    let (number, shift) = match text.chars().last().unwrap() {
        'K' => (&text[..text.len() - 1], 10),
        'M' => (&text[..text.len() - 1], 20),
        'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number = match number.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).unwrap(),
        None => number.parse().unwrap(),
    };
    number << shift
}

/// The frames that the kernel reserves for an argument, as `parse_memmap_one` reads each item.
fn reserved(argument: &str) -> BTreeSet<u64> {
    let items = argument.strip_prefix("memmap=").expect("one argument");
    let mut frames = BTreeSet::new();
    for item in items.split(',') {
        let (size, start) = item.split_once('$').expect("a size and a start");
        let (size, start) = (memparse(size), memparse(start));
        assert!(size.is_multiple_of(FRAME_BYTES) && start.is_multiple_of(FRAME_BYTES));
        frames.extend(start / FRAME_BYTES..(start + size) / FRAME_BYTES);
    }
    frames
}

/// Removes backslashes as a shell does in double quotes: `\\`, `\$`, `\"` and `` \` `` lose one.
fn unescaped(text: &str) -> String {
    let mut plain = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let kept = if c == '\\' { chars.next().expect("no backslash at the end") } else { c };
        assert!(c == '\\' || c != '$', "a bare $ starts a variable");
        plain.push(kept);
    }
    plain
}

/// Whether GRUB filters an address for one of these pairs: its manual's rule, word for word.
fn is_filtered(line: &str, address: u64) -> bool {
    let list = line.strip_prefix("GRUB_BADRAM=\"").and_then(|rest| rest.strip_suffix('"')).expect("one assignment");
    let numbers: Vec<u64> = list.split(',').map(memparse).collect();
    numbers.chunks(2).any(|pair| address & pair[1] == pair[0] & pair[1])
}

/// The fewest aligned blocks that hold exactly these frames out of `start .. start + count`, by halving.
fn fewest_blocks(frames: &BTreeSet<u64>, start: u64, count: u64) -> usize {
    let held = frames.range(start..start + count).count() as u64;
    match held {
        0 => 0,
        _ if held == count => 1,
        _ => fewest_blocks(frames, start, count / 2) + fewest_blocks(frames, start + count / 2, count / 2),
    }
}

#[test]
fn the_forms_read_as_their_readers_want_them() {
    // The kernel's own example: memmap=64K$0x18690000 (kernel-parameters.txt).
    let frames = || (0x18690..0x186a0).chain([0x1_0000_0001]).chain(0x4_0000..0x8_0000);
    let exact = memmap(frames());
    assert_eq!(exact.kernel_argument(), "memmap=64K$0x18690000,1G$0x40000000,4K$0x100000001000");
    assert_eq!(
        exact.grub_default(),
        r#"GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX memmap=64K\\\$0x18690000,1G\\\$0x40000000,4K\\\$0x100000001000""#
    );
    assert_eq!(
        badram(frames()).grub_default(),
        "GRUB_BADRAM=\"0x18690000,0x7fffffffffff0000,0x40000000,0x7fffffffc0000000,\
         0x100000001000,0x7ffffffffffff000\""
    );
    assert_eq!((exact.check(100), exact.obstacles()), (Ok(()), vec![]));
}

#[test]
fn no_failed_frame_gives_nothing_to_add() {
    let nothing = memmap([]);
    assert_eq!((nothing.kernel_argument().as_str(), nothing.grub_default().as_str()), ("", ""));
    assert_eq!(badram([]).grub_default(), "");
    assert_eq!((nothing.check(5000), nothing.obstacles()), (Ok(()), vec![]), "not this list's fault");
}

#[test]
fn emulated_errors_are_never_exported() {
    let map = FaultMap::new(MapOrigin::Emulated);
    assert_eq!(Memmap::new(&map), Err(Emulated));
    assert_eq!(BadRam::new(&map), Err(Emulated));
    assert_eq!(Document::new(&map), Err(Emulated));
}

#[test]
fn the_last_frame_and_all_frames_in_a_row_stay_in_range() {
    let last = Frame::MAX.number();
    assert_eq!(badram([last]).pairs(), [AddressMask { address: last << 12, mask: 0x7fff_ffff_ffff_f000 }]);
    let all = blocks(FrameRange::new(Frame::new(0).unwrap(), 1 << 40).unwrap());
    assert_eq!(all, [AddressMask { address: 0, mask: 0x7ff0_0000_0000_0000 }]);
}

#[test]
fn what_a_reader_would_ignore_is_said() {
    let sparse = |count: u64| memmap((0..count).map(|n| 0x10_0000 + 2 * n));
    assert_eq!(sparse(4).obstacles(), []);
    assert_eq!(sparse(5).obstacles(), [Obstacle::LoadAddress(5)]);
    assert_eq!(memmap(250..260).obstacles(), [Obstacle::FirstMib(6)]);
    assert_eq!(badram([0, 300]).obstacles(), [Obstacle::FirstMib(1)]);
}

#[test]
fn what_the_kernel_would_cut_off_is_refused_with_the_count_and_what_fits() {
    let one = memmap([0x10_0000]);
    let room = COMMAND_LINE_BYTES - 1 - one.kernel_argument().len();
    assert_eq!(one.check(room), Ok(()));
    assert_eq!(one.check(room + 1), Err(ExportRefusal::NoRoom { ranges: 1, bytes: COMMAND_LINE_BYTES + 1 }));
    // 15 bytes each, with a comma.
    let many = memmap((0..200).map(|n| 0x10_0000 + 2 * n));
    let Err(ExportRefusal::CommandLine { ranges: 200, bytes, fit }) = many.check(100) else { panic!("too long") };
    assert_eq!(bytes, 100 + 1 + many.kernel_argument().len());
    let of = |count| many.coarser(NonZeroUsize::new(count).unwrap());
    assert_eq!(of(fit).check(100), Ok(()));
    assert!(of(fit + 1).check(100).is_err());
    let said = many.check(100).unwrap_err().to_string();
    assert!(said.contains("200 ranges") && said.contains(&format!("--ranges {fit}")), "{said}");
}

#[test]
fn a_coarser_list_says_what_it_costs() {
    let exact = memmap([10, 12, 20, 21, 30]);
    let coarser = exact.coarser(NonZeroUsize::new(2).unwrap());
    assert_eq!(coarser.kernel_argument(), "memmap=48K$0xa000,4K$0x1e000");
    assert_eq!((exact.sound_frames(), coarser.sound_frames()), (0, 8));
    assert_eq!(exact.coarser(NonZeroUsize::new(4).unwrap()), exact, "as few already");
}

#[test]
fn the_document_keeps_what_a_reader_needs() {
    let mut map = map_of([5, 6, 9]);
    let mut failed = map.get(Frame::new(9).unwrap()).unwrap().clone();
    failed.lines = 1 << 63 | 1 << 2;
    failed.cause = Cause::MarchTest;
    failed.retirement = Retirement::Refused("in use".to_owned());
    map.insert(failed);
    let document = Document::new(&map).unwrap();
    assert_eq!(document.ranges.len(), 2);
    assert_eq!(document.frames[2].lines, [2, 63]);
    let value = serde_json::to_value(&document).unwrap();
    assert_eq!(value["schema"], 1);
    assert_eq!(value["ranges"][0], serde_json::json!({"first_frame": 5, "frames": 2, "address": "0x5000"}));
    assert_eq!(value["frames"][2]["cause"], "march-test");
    assert_eq!(serde_json::from_value::<Document>(value).unwrap(), document);
}

const WINDOW: u64 = 256;

/// Bad frames, many of them neighbours, in a window at any place.
fn failed_frames() -> impl Strategy<Value = (u64, BTreeSet<u64>)> {
    let window = (0..(1_u64 << 40) / WINDOW).prop_map(|number| number * WINDOW);
    let runs = btree_set((0..WINDOW, 1..20_u64), 1..12);
    (window, runs).prop_map(|(window, runs)| {
        let frames = runs.into_iter().flat_map(|(start, count)| start..(start + count).min(WINDOW));
        (window, frames.map(|frame| window + frame).collect())
    })
}

proptest! {
    #[test]
    fn the_kernel_reserves_exactly_the_failed_frames((_, frames) in failed_frames()) {
        let exact = memmap(frames.iter().copied());
        prop_assert_eq!(reserved(&exact.kernel_argument()), frames);
    }

    #[test]
    fn through_both_shells_the_kernel_sees_its_argument((_, frames) in failed_frames()) {
        let exact = memmap(frames);
        let line = exact.grub_default();
        let added = line.strip_prefix("GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX ").unwrap().strip_suffix('"').unwrap();
        prop_assert_eq!(unescaped(&unescaped(added)), exact.kernel_argument());
    }

    #[test]
    fn grub_filters_exactly_the_failed_frames((window, frames) in failed_frames(), far in 0..63_u32) {
        let list = badram(frames.iter().copied());
        let line = list.grub_default();
        for frame in window..window + WINDOW {
            let address = frame * FRAME_BYTES;
            prop_assert_eq!(is_filtered(&line, address), frames.contains(&frame));
            prop_assert_eq!(is_filtered(&line, address + FRAME_BYTES - 1), frames.contains(&frame));
            let elsewhere = address ^ 1 << far;
            if !frames.contains(&(elsewhere / FRAME_BYTES)) {
                prop_assert!(!is_filtered(&line, elsewhere), "{:#x}", elsewhere);
            }
        }
        prop_assert_eq!(list.pairs().len(), fewest_blocks(&frames, window, WINDOW));
    }

    #[test]
    fn a_coarser_list_holds_all_failed_frames_at_the_least_cost(
        (_, frames) in failed_frames(),
        most in 1..6_usize,
    ) {
        let exact = memmap(frames.iter().copied());
        let coarser = exact.coarser(NonZeroUsize::new(most).unwrap());
        let held = reserved(&coarser.kernel_argument());
        prop_assert!(coarser.ranges().len() <= most.max(1));
        prop_assert!(held.is_superset(&frames));
        prop_assert_eq!(coarser.sound_frames(), (held.len() - frames.len()) as u64);
        prop_assert_eq!(coarser.sound_frames(), cheapest(exact.ranges(), most));
    }
}

/// The fewest sound frames that any choice of at most `most` ranges gives up: tries all.
fn cheapest(ranges: &[FrameRange], most: usize) -> u64 {
    let gaps: Vec<u64> = ranges.windows(2).map(|pair| gap(pair[0], pair[1])).collect();
    let choices = (0_u32..1 << gaps.len()).filter(|kept| (kept.count_ones() as usize) < most);
    let cost =
        |kept: u32| gaps.iter().enumerate().filter(|(place, _)| kept >> place & 1 == 0).map(|(_, gap)| gap).sum();
    choices.map(cost).min().expect("closing every gap is a choice")
}
