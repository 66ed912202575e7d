//! Free frames in a block of 2 MiB with a page that cannot be moved.
//!
//! **Problem.** The kernel refuses to hand over such frames by their numbers. **Idea.** When all pieces have been
//! tried, the kernel's free lists are claimed, one at a time, and what of them is wanted and was not tested is tested.
//! **Why this way.** Which blocks a list has, the kernel says only when it hands them over; so a list is held as a
//! whole, and goes back as a whole. By now little of it was not tested.

use rampart_linux::kernel_module::{ClaimedFrames, KernelFreeList, ListPart, VerdictRefusal};
use rampart_memory::FrameRange;

use super::piece::{ClaimedPiece, StageEnd};
use super::schedule::{FramePiece, ListsOfKind};
use super::shared::ChosenContext;

use crate::sources::step::claim_list;
use crate::testing::interruption::rest;
use crate::testing::publishing::lock;

/// Tests what is wanted of these lists.
pub fn test(shared: &ChosenContext<'_>, lists: ListsOfKind) {
    for list in lists {
        if !shared.interruption.halted() {
            test_list(shared, list);
        }
    }
}

fn test_list(shared: &ChosenContext<'_>, list: KernelFreeList) {
    let mut claims = Vec::new();
    claim_list(&shared.test.device, list, ListPart::Whole, shared.spare().frames(), &mut claims);
    // What is not wanted is held all the same: given back now, it would be handed over again.
    let (wanted, _held): (Vec<_>, Vec<_>) = claims.into_iter().partition(|claim| is_wanted(shared, claim.frames()));
    let begin = |frames: ClaimedFrames| ClaimedPiece::begin(shared, FramePiece::new(frames.frames()), frames);
    let pieces = wanted.into_iter().map(begin).collect();
    for mut piece in tested(shared, pieces) {
        let (pass, frames) = (piece.pass, piece.frames.frames());
        match piece.give_back(shared) {
            Err(VerdictRefusal::Late) => lock(&shared.sums).lost += frames.count(),
            Ok(()) | Err(_) => lock(&shared.sums).add_tested(pass, frames),
        }
    }
}

fn is_wanted(shared: &ChosenContext<'_>, frames: FrameRange) -> bool {
    let is_within = |range: &FrameRange| range.contains(frames.start()) && range.contains(frames.last());
    let sums = lock(&shared.sums);
    shared.ranges.iter().any(is_within) && frames.frames().any(|frame| !sums.frames.contains(frame))
}

/// Runs all stages over all pieces, with one delay for all; returns those that were not taken away.
fn tested(shared: &ChosenContext<'_>, mut pieces: Vec<ClaimedPiece>) -> Vec<ClaimedPiece> {
    let stages = pieces.first().map_or(0, |piece| piece.plan.rests() + 1);
    for stage in 0..stages {
        if stage > 0 && rest(shared.test.request.retention, || shared.interruption.halted()).is_break() {
            return Vec::new();
        }
        pieces.retain_mut(|piece| {
            piece.stage = stage;
            let end = piece.march(shared);
            if end == StageEnd::Lost {
                lock(&shared.sums).lost += piece.frames.frames().count();
            }
            end == StageEnd::Whole
        });
    }
    pieces
}
