//! One tester of chosen frames: a thread on its own CPU that claims, tests and gives back.

use std::collections::VecDeque;
use std::thread;
use std::time::Duration;

use rampart_linux::kernel_module::{ClaimWay, VerdictRefusal};
use rampart_linux::{CpuNumber, cpu};
use rampart_march::execute::Region;
use rampart_march::execute::limit::Limit;

use super::choice::free_runs;
use super::lists;
use super::piece::{ClaimedPiece, StageEnd};
use super::schedule::{FramePiece, NextPiece};
use super::shared::ChosenContext;
use crate::testing::publishing::lock;

/// How long a tester without work sleeps before it asks again.
const IDLE: Duration = Duration::from_millis(5);

/// The most pieces that rest at once before their delayed read: 64 MiB a tester.
const MOST_RESTING: usize = 4;

/// Tests pieces until the test is over.
pub fn work(shared: &ChosenContext<'_>, on: CpuNumber) {
    // A tester that cannot be bound or given a lower priority tests nevertheless.
    let _unbound = cpu::bind(on);
    let _unslowed = cpu::be_nice(cpu::Niceness::MOST);
    let mut resting: VecDeque<ClaimedPiece> = VecDeque::new();
    let mut measured = false;
    while !shared.interruption.halted() {
        if let Some(piece) = resting.pop_front_if(|piece| piece.ready <= shared.elapsed()) {
            go_on(shared, piece, &mut resting);
            continue;
        }
        let next = if resting.len() < MOST_RESTING { shared.next() } else { NextPiece::Wait };
        match next {
            NextPiece::Claim(piece) => {
                let Some(mut claimed) = claim(shared, piece) else { continue };
                if !measured {
                    measured = true;
                    measure(shared, &mut claimed);
                }
                go_on(shared, claimed, &mut resting);
            }
            NextPiece::Wait => thread::sleep(IDLE),
            // Nothing rests then: what rests is under way.
            NextPiece::Finished => match shared.next_lists() {
                Some(kind) => lists::test(shared, kind),
                None => return,
            },
        }
    }
}

fn measure(shared: &ChosenContext<'_>, claimed: &mut ClaimedPiece) {
    let limit = Limit::measure(shared.test.march.engine, &mut Region::from(&mut claimed.frames.access()));
    lock(&shared.sums).limits.push(limit);
}

fn claim(shared: &ChosenContext<'_>, piece: FramePiece) -> Option<ClaimedPiece> {
    let way = if shared.test.choice.used { ClaimWay::Move } else { ClaimWay::Free };
    match shared.test.device.claim(piece.frames, way) {
        Ok(frames) => {
            lock(&shared.sums).moved += frames.moved();
            Some(ClaimedPiece::begin(shared, piece, frames))
        }
        Err(refusal) => {
            let free = free_runs(piece.frames, &shared.test.machine.classes(piece.frames));
            shared.schedule().refused(piece, &refusal, &free, shared.elapsed());
            None
        }
    }
}

/// Runs the next stage of a piece; then it rests, or is given back.
fn go_on(shared: &ChosenContext<'_>, mut claimed: ClaimedPiece, resting: &mut VecDeque<ClaimedPiece>) {
    match claimed.march(shared) {
        StageEnd::Stopped => {}
        StageEnd::Lost => lost(shared, claimed.abandon(shared)),
        StageEnd::Whole => {
            claimed.stage += 1;
            if claimed.stage <= claimed.plan.rests() {
                claimed.ready = shared.elapsed() + shared.test.request.retention;
                return resting.push_back(claimed);
            }
            if claimed.give_back(shared) == Err(VerdictRefusal::Late) {
                return lost(shared, claimed.piece);
            }
            lock(&shared.sums).add_tested(claimed.pass, claimed.piece.frames);
            shared.schedule().tested(shared.elapsed());
        }
    }
}

/// The kernel has taken a piece back before its test ended.
fn lost(shared: &ChosenContext<'_>, piece: FramePiece) {
    lock(&shared.sums).lost += piece.frames.count();
    shared.schedule().lost(piece, shared.elapsed());
}
