//! What is settled before the first frame is tested: how much, by whom, with which loops.

use std::num::NonZero;
use std::time::Duration;

use rampart_linux::{Block, Cpu, PageKind};
use rampart_march::Plan;
use rampart_march::execute::honesty::{self, Honesty, NoneBypasses, Verdict};
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
        let scope = goal.bytes();
        let block = choose_block(scope, cpus.len());
        let campaign = match &request.inject {
            Some(spec) => Some(Campaign::new(spec, lines(scope), lines(block))?),
            None => None,
        };
        let engine = Engine::detect();
        let honesty = settle_method(request.method, engine, block)?;
        let (delay, retention) = (request.delay, request.retention);
        let settings = Settings { delay, retention, ..Settings::new(honesty.method) };
        Ok(Self { outlook, politeness, goal, block, cpus, engine, settings, honesty, campaign })
    }

    /// The plan of one pass, 1 first: each pass of a repeated test draws other random backgrounds.
    pub fn plan(&self, request: &Request, pass: u32) -> Plan {
        let seed = request.seed.wrapping_add(u64::from(pass - 1));
        let plan = Plan::new(request.march.clone(), request.fidelity, &request.orders, seed);
        if request.retention > Duration::ZERO { plan.with_delayed_reads() } else { plan }
    }

    pub fn describe(&self, request: &Request) -> String {
        let scope = match self.goal {
            Goal::Free(bytes) => format!("free memory, {bytes},"),
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

/// A line on it, if it is not known whether reads come from the DRAM.
pub const fn warning(honesty: &Honesty) -> Option<&'static str> {
    match honesty.verdict {
        // A method that reads a cache was refused before.
        Verdict::ReachesDram | Verdict::ReadsCache => None,
        Verdict::Unclear => Some("whether reads come from the DRAM or from a cache cannot be measured here"),
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
        None => Ok(Goal::Free(claimable)),
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
    let settled = match wanted {
        Some(method) => honesty::is_honest(engine, method, &mut region),
        None => honesty::honest_method(engine, &mut region),
    };
    settled.map_err(|seen| refusal(wanted, seen))
}

fn refusal(wanted: Option<Method>, seen: NoneBypasses) -> Error {
    match wanted {
        Some(Method::FlushBehind) => Error::MethodReadsCache { method: "flush-behind", seen },
        Some(Method::NonTemporal) => Error::MethodReadsCache { method: "non-temporal", seen },
        None => Error::NoneBypasses(seen),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_that_reads_the_cache_is_refused_in_one_line_with_the_share_that_was_measured() {
        let seen =
            |method| Honesty { method, verdict: Verdict::ReadsCache, cached: 0.43, cache_ticks: 20, dram_ticks: 145 };
        let refused = |methods: &[Method]| NoneBypasses { methods: methods.iter().copied().map(seen).collect() };
        let named = refusal(Some(Method::NonTemporal), refused(&[Method::NonTemporal])).to_string();
        assert!(named.contains("--method non-temporal") && named.contains("43 %"), "{named}");
        let none = refusal(None, refused(&[Method::FlushBehind, Method::NonTemporal])).to_string();
        assert!(none.contains("flush behind: 43 %") && none.contains("non-temporal: 43 %"), "{none}");
        assert!(!named.contains('\n') && !none.contains('\n'));
    }
}
