//! What is settled before the first frame is tested: how much, by whom, with which loops.

use std::num::NonZero;

use rampart_linux::{Block, Cpu, PageKind};
use rampart_march::Plan;
use rampart_march::execute::honesty::{self, Honesty, Verdict};
use rampart_march::execute::{Engine, Method, Region, Settings};
use rampart_memory::fault::Campaign;
use rampart_memory::{Bytes, LINE_BYTES};

use super::Request;
use crate::ledger::Goal;
use crate::polite::{Outlook, Politeness, SMALLEST_CLAIM};
use crate::{Error, Machine};

/// The largest block: large enough for the widest window that both orders together make harmless, small enough to be
/// given back at once.
const LARGEST_BLOCK: Bytes = Bytes::from_mib(64);

/// All that is settled.
pub struct Prepared {
    pub outlook: Outlook,
    pub politeness: Politeness,
    pub goal: Goal,
    pub block: Bytes,
    pub cpus: Vec<Cpu>,
    pub engine: Engine,
    pub settings: Settings,
    pub honesty: Honesty,
    pub campaign: Option<Campaign>,
}

impl Prepared {
    pub fn new(request: &Request, machine: &Machine) -> Result<Self, Error> {
        let outlook = machine.outlook()?;
        let politeness = Politeness::new(&outlook);
        let claimable = politeness.claimable(&outlook);
        let cpus = choose_cpus(request.threads, machine.cpus())?;
        let goal = choose_goal(request.memory, claimable)?;
        let scope = match goal {
            Goal::Free => claimable,
            Goal::Exactly(bytes) => bytes,
        };
        let block = choose_block(scope, cpus.len());
        let campaign = match &request.inject {
            Some(spec) => Some(Campaign::new(spec, lines(scope), lines(block))?),
            None => None,
        };
        let engine = Engine::detect();
        let honesty = settle_method(request.method, engine, block)?;
        let settings = Settings { delay: request.delay, ..Settings::new(honesty.method) };
        Ok(Self { outlook, politeness, goal, block, cpus, engine, settings, honesty, campaign })
    }

    /// The plan of one pass, 1 first: each pass of a repeated test draws other random backgrounds.
    pub fn plan(&self, request: &Request, pass: u32) -> Plan {
        let seed = request.seed.wrapping_add(u64::from(pass - 1));
        Plan::new(request.march.clone(), request.fidelity, &request.orders, seed)
    }

    pub fn describe(&self, request: &Request) -> String {
        let scope = match self.goal {
            Goal::Free => format!("free memory, about {}", self.politeness.claimable(&self.outlook)),
            Goal::Exactly(bytes) => bytes.to_string(),
        };
        let name = request.name.as_ref().map_or_else(String::new, |name| format!("{name} "));
        let plural = if self.cpus.len() == 1 { "" } else { "s" };
        format!(
            "testing     {scope} with {name}{}, fidelity {}, on {} CPU{plural} ({}, {})",
            request.march,
            request.fidelity,
            self.cpus.len(),
            self.engine,
            self.settings.method
        )
    }
}

/// A line on the reads that do not come from the DRAM, if too many do not.
pub fn warning(honesty: &Honesty) -> Option<String> {
    let cached = 100.0 * honesty.cached;
    match honesty.verdict {
        Verdict::ReachesDram => None,
        Verdict::Unclear => Some("it cannot be told here whether they come from the DRAM".to_owned()),
        Verdict::ReadsCache => Some(format!("{cached:.0} % come from a cache: this tests less than it says")),
    }
}

/// Lines of so much memory.
pub const fn lines(bytes: Bytes) -> u64 {
    bytes.get() / LINE_BYTES
}

pub fn choose_cpus(wanted: Option<NonZero<usize>>, allowed: &[Cpu]) -> Result<Vec<Cpu>, Error> {
    let count = match wanted {
        Some(wanted) if wanted.get() > allowed.len() => {
            return Err(Error::TooManyThreads { wanted: wanted.get(), allowed: allowed.len() });
        }
        Some(wanted) => wanted.get(),
        None => allowed.len().div_ceil(2),
    };
    Ok(allowed[..count].to_vec())
}

fn choose_goal(wanted: Option<Bytes>, claimable: Bytes) -> Result<Goal, Error> {
    if claimable < SMALLEST_CLAIM {
        return Err(Error::NothingFree);
    }
    match wanted.map(|bytes| bytes.round_down(SMALLEST_CLAIM)) {
        Some(bytes) if bytes > claimable => Err(Error::TooMuchMemory { wanted: bytes, claimable }),
        Some(bytes) => Ok(Goal::Exactly(bytes)),
        None => Ok(Goal::Free),
    }
}

/// Blocks of 64 MiB, or smaller where each tester would not get two.
fn choose_block(scope: Bytes, testers: usize) -> Bytes {
    let share = scope.get() / (2 * testers as u64);
    let block = Bytes::new(share).min(LARGEST_BLOCK).round_down(SMALLEST_CLAIM);
    block.max(SMALLEST_CLAIM)
}

/// The method asked for, or the fastest honest one, tried on a block that is given back at once.
pub fn settle_method(wanted: Option<Method>, engine: Engine, bytes: Bytes) -> Result<Honesty, Error> {
    let mut block = Block::claim(bytes, PageKind::Huge)?;
    let mut region = Region::from(&mut block);
    Ok(match wanted {
        Some(method) => honesty::measure(engine, method, &mut region),
        None => honesty::honest_method(engine, &mut region),
    })
}
