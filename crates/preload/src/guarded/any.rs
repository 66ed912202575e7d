//! The engine of this process: one of three.

use rampart_codes::{PageData, Pages};
use rampart_guard::{Engine, Frames, PageIndex, Refusal, Span, Writes};
use rampart_memory::Frame;

use super::engine::VaultEngine;
use super::minor::MinorEngine;
use super::protect::ProtectEngine;

/// One of the engines. The guard is compiled once, and which of them it has costs it a comparison.
pub enum AnyEngine {
    Moved(VaultEngine),
    Shared(MinorEngine),
    Protected(ProtectEngine),
}

impl AnyEngine {
    /// As [`VaultEngine::replace_lost`]; what is read by the kernel is not read by a thread of ours.
    pub fn replace_lost(&self, address: usize) -> Option<(PageIndex, Option<Frame>)> {
        match self {
            Self::Moved(engine) => engine.replace_lost(address),
            Self::Shared(engine) => engine.replace_lost(address),
            Self::Protected(_) => None,
        }
    }
}

impl Engine for AnyEngine {
    fn open(&self, span: Span) -> Result<(), Refusal> {
        match self {
            Self::Moved(engine) => engine.open(span),
            Self::Shared(engine) => engine.open(span),
            Self::Protected(engine) => engine.open(span),
        }
    }

    fn open_watched(&self, span: Span) -> Result<Writes, Refusal> {
        match self {
            Self::Moved(engine) => engine.open_watched(span),
            Self::Shared(engine) => engine.open_watched(span),
            Self::Protected(engine) => engine.open_watched(span),
        }
    }

    fn settle_watched(&self, page: PageIndex) -> bool {
        match self {
            Self::Moved(engine) => engine.settle_watched(page),
            Self::Shared(engine) => engine.settle_watched(page),
            Self::Protected(engine) => engine.settle_watched(page),
        }
    }

    fn allow_writes(&self, span: Span) {
        match self {
            Self::Moved(engine) => engine.allow_writes(span),
            Self::Shared(engine) => engine.allow_writes(span),
            Self::Protected(engine) => engine.allow_writes(span),
        }
    }

    fn close(&self, span: Span) -> Result<Frames, Refusal> {
        match self {
            Self::Moved(engine) => engine.close(span),
            Self::Shared(engine) => engine.close(span),
            Self::Protected(engine) => engine.close(span),
        }
    }

    fn supply(&self, span: Span) -> Frames {
        match self {
            Self::Moved(engine) => engine.supply(span),
            Self::Shared(engine) => engine.supply(span),
            Self::Protected(engine) => engine.supply(span),
        }
    }

    fn fill(&self, span: Span) -> Result<Frames, Refusal> {
        match self {
            Self::Moved(engine) => engine.fill(span),
            Self::Shared(engine) => engine.fill(span),
            Self::Protected(engine) => engine.fill(span),
        }
    }

    fn renew(&self, span: Span) -> Result<Frames, Refusal> {
        match self {
            Self::Moved(engine) => engine.renew(span),
            Self::Shared(engine) => engine.renew(span),
            Self::Protected(engine) => engine.renew(span),
        }
    }

    fn settle(&self, page: PageIndex) -> Result<Frames, Refusal> {
        match self {
            Self::Moved(engine) => engine.settle(page),
            Self::Shared(engine) => engine.settle(page),
            Self::Protected(engine) => engine.settle(page),
        }
    }

    fn leave(&self, span: Span) -> Result<(), Refusal> {
        match self {
            Self::Moved(engine) => engine.leave(span),
            Self::Shared(engine) => engine.leave(span),
            Self::Protected(engine) => engine.leave(span),
        }
    }

    fn discard(&self, span: Span) {
        match self {
            Self::Moved(engine) => engine.discard(span),
            Self::Shared(engine) => engine.discard(span),
            Self::Protected(engine) => engine.discard(span),
        }
    }

    fn zero(&self, span: Span) {
        match self {
            Self::Moved(engine) => engine.zero(span),
            Self::Shared(engine) => engine.zero(span),
            Self::Protected(engine) => engine.zero(span),
        }
    }

    fn wake(&self, span: Span) {
        match self {
            Self::Moved(engine) => engine.wake(span),
            Self::Shared(engine) => engine.wake(span),
            Self::Protected(engine) => engine.wake(span),
        }
    }

    fn most_open(&self) -> usize {
        match self {
            Self::Moved(engine) => engine.most_open(),
            Self::Shared(engine) => engine.most_open(),
            Self::Protected(engine) => engine.most_open(),
        }
    }

    fn replace(&self, page: PageIndex, content: &PageData) -> Result<(), Refusal> {
        match self {
            Self::Moved(engine) => engine.replace(page, content),
            Self::Shared(engine) => engine.replace(page, content),
            Self::Protected(engine) => engine.replace(page, content),
        }
    }

    fn was_given_back(&self, page: PageIndex) -> bool {
        match self {
            Self::Moved(engine) => engine.was_given_back(page),
            Self::Shared(engine) => engine.was_given_back(page),
            Self::Protected(engine) => engine.was_given_back(page),
        }
    }

    fn with_vault<R>(&self, span: Span, look: impl FnOnce(&mut Pages<'_>) -> R) -> R {
        match self {
            Self::Moved(engine) => engine.with_vault(span, look),
            Self::Shared(engine) => engine.with_vault(span, look),
            Self::Protected(engine) => engine.with_vault(span, look),
        }
    }

    fn flip(&self, page: PageIndex, bit: u32) {
        match self {
            Self::Moved(engine) => engine.flip(page, bit),
            Self::Shared(engine) => engine.flip(page, bit),
            Self::Protected(engine) => engine.flip(page, bit),
        }
    }

    fn give_up(&self, page: PageIndex) -> bool {
        match self {
            Self::Moved(engine) => engine.give_up(page),
            Self::Shared(engine) => engine.give_up(page),
            Self::Protected(engine) => engine.give_up(page),
        }
    }

    fn frame(&self, page: PageIndex) -> Option<Frame> {
        match self {
            Self::Moved(engine) => engine.frame(page),
            Self::Shared(engine) => engine.frame(page),
            Self::Protected(engine) => engine.frame(page),
        }
    }
}
