//! What `rampart banks pools` prints, as text or as JSON.

use std::fmt::Write as _;
use std::time::Instant;

use rampart_banks::{BankLayout, Pool, PoolSizes};
use rampart_linux::memory_state::Overcommit;
use rampart_memory::HotplugBlock;
use serde::Serialize;

use super::culprits::Culprits;
use super::mover::RestoredBlock;
use crate::error::Error;
use crate::output::text;

/// What happens, as it is printed.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum PoolEvent {
    /// The banks, of which those go first that can go as a whole.
    Banks { banks: BankLayout },
    /// The kernel refuses requests that it would grant if nothing were offline.
    Overcommit { setting: Overcommit },
    /// The kernel does not say when it begins to reclaim.
    NoReclaimNotice { reason: String },
    /// A block is in another pool, or stays.
    Block {
        block: HotplugBlock,
        from: Pool,
        to: Pool,
        /// Why it stays; `None` if it went.
        refusal: Option<String>,
    },
    /// Something else brought an offline block online.
    CameBack {
        block: HotplugBlock,
        #[serde(flatten)]
        culprits: Culprits,
    },
    /// A block that the machine did not have before came online.
    Added {
        block: HotplugBlock,
        to: Pool,
        #[serde(flatten)]
        culprits: Culprits,
    },
    /// No block has moved for a while.
    Rest(PoolSizes),
    /// Everything is as it was before.
    Restored { blocks: Vec<RestoredBlock> },
}

/// Prints events as text or as JSON.
pub struct Printer {
    pub json: bool,
    pub began: Instant,
}

/// An event with its time.
#[derive(Serialize)]
struct Timed<'a> {
    schema: &'static str,
    seconds: f64,
    #[serde(flatten)]
    event: &'a PoolEvent,
}

impl Printer {
    pub fn print(&self, event: &PoolEvent) -> Result<(), Error> {
        let seconds = self.began.elapsed().as_secs_f64();
        if self.json {
            let line = serde_json::to_string(&Timed { schema: "rampart.pools/1", seconds, event });
            return text::print(&format!("{}\n", line.expect("events are plain data")));
        }
        text::print(&shown(event))
    }
}

fn shown(event: &PoolEvent) -> String {
    match event {
        PoolEvent::Banks { banks } => format!("banks       {banks}\n"),
        PoolEvent::Overcommit { setting } => overcommit(*setting).to_owned(),
        PoolEvent::NoReclaimNotice { reason } => format!(
            "note        the kernel does not say when it begins to reclaim, so very fast bursts may find too little \
             memory online: {reason}\n"
        ),
        PoolEvent::Block { block, from, to, refusal: None } => format!("block {}: from {from} to {to}\n", block.0),
        PoolEvent::Block { block, from, to, refusal: Some(refusal) } => {
            format!("block {}: stays in {from}, and does not go to {to}: {refusal}\n", block.0)
        }
        PoolEvent::CameBack { block, culprits } => {
            format!("block {}: brought online by something else: {culprits}\n", block.0)
        }
        PoolEvent::Added { block, to, culprits } => {
            format!("block {}: new, and brought online to the {to} by something else: {culprits}\n", block.0)
        }
        PoolEvent::Rest(sizes) => {
            format!("pools       kernel core {}, user pool {}, offline {}\n", sizes.kernel, sizes.user, sizes.offline)
        }
        PoolEvent::Restored { blocks } => {
            let astray: Vec<&RestoredBlock> = blocks.iter().filter(|block| !block.is_back()).collect();
            let mut text = format!(
                "restored    {} of {} blocks are in their former zone\n",
                blocks.len() - astray.len(),
                blocks.len()
            );
            for block in astray {
                let zone = block.zone.as_deref().unwrap_or("no zone, offline");
                let refusal = block.refusal.as_deref().unwrap_or("the kernel chose so");
                let _ = writeln!(
                    text,
                    "block {} is in {zone}: {refusal}; `rampart banks restore` tries again",
                    block.block.0
                );
            }
            text
        }
    }
}

const fn overcommit(setting: Overcommit) -> &'static str {
    match setting {
        Overcommit::Guess => {
            "note        vm.overcommit_memory is 0: Linux refuses a single request for more than all memory online; \
             `sysctl vm.overcommit_memory=1` permits it\n"
        }
        Overcommit::Never => {
            "note        vm.overcommit_memory is 2: what all programs may ask for shrinks with the memory online; \
             `sysctl vm.overcommit_memory=1` permits everything\n"
        }
        Overcommit::Always => "",
    }
}
