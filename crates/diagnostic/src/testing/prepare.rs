//! The shared preparation of `rampart test` and `rampart watch`: the CPUs, and an access method that reaches the DRAM.

use std::num::NonZero;
use std::time::Duration;

use rampart_linux::{Block, CpuNumber, PageKind};
use rampart_march::execute::bypass::{self, BypassCheck, BypassVerdict, NoneBypasses};
use rampart_march::execute::{Executor, MarchEngine, MarchSettings, Method, Region};
use rampart_memory::{Bytes, LINE_BYTES};

use crate::error::Error;

/// A warning, if it is not known whether reads come from the DRAM.
pub const fn warning(check: &BypassCheck) -> Option<&'static str> {
    match check.verdict {
        // A method that reads a cache was refused before.
        BypassVerdict::ReachesDram | BypassVerdict::ReadsCache => None,
        BypassVerdict::Unclear => Some("whether reads come from the DRAM or from a cache cannot be measured here"),
    }
}

/// The number of lines in this much memory.
pub const fn lines(bytes: Bytes) -> u64 {
    bytes.get() / LINE_BYTES
}

pub fn choose_cpus(requested: Option<NonZero<usize>>, allowed: &[CpuNumber]) -> Result<Vec<CpuNumber>, Error> {
    let count = match requested {
        Some(count) if count.get() > allowed.len() => {
            return Err(Error::TooManyThreads { requested: count.get(), allowed: allowed.len() });
        }
        Some(count) => count.get(),
        None => allowed.len().div_ceil(2),
    };
    Ok(allowed[..count].to_vec())
}

/// How testers run a march test on this machine.
#[derive(Clone, Debug)]
pub struct MarchSetup {
    pub engine: MarchEngine,
    pub settings: MarchSettings,
    /// The result of the cache-bypass check.
    pub check: BypassCheck,
}

impl MarchSetup {
    /// Takes the requested engine and method, or else the fastest engine, and the fastest method that bypasses the
    /// cache. The check uses a block of `bytes`, which is given back immediately.
    pub fn new(
        engine: Option<MarchEngine>,
        method: Option<Method>,
        delay: Duration,
        retention: Duration,
        bytes: Bytes,
    ) -> Result<Self, Error> {
        let engine = engine.unwrap_or_else(MarchEngine::detect);
        let check = settle_method(method, engine, bytes)?;
        let settings = MarchSettings { delay, retention, ..MarchSettings::new(check.method) };
        Ok(Self { engine, settings, check })
    }

    pub const fn executor(&self) -> Executor {
        Executor { engine: self.engine, settings: self.settings }
    }
}

fn settle_method(requested: Option<Method>, engine: MarchEngine, bytes: Bytes) -> Result<BypassCheck, Error> {
    let mut block = Block::claim(bytes, PageKind::Huge)?;
    let _survives = block.access();
    let mut region = Region::from(&mut block);
    let checked = match requested {
        Some(method) => bypass::check_method(engine, method, &mut region),
        None => bypass::bypassing_method(engine, &mut region),
    };
    checked.map_err(|seen| refusal(requested, seen))
}

fn refusal(requested: Option<Method>, seen: NoneBypasses) -> Error {
    match requested {
        Some(method) => Error::MethodReadsCache { method: method.name(), seen },
        None => Error::NoneBypasses(seen),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_that_reads_the_cache_is_refused_in_one_line_with_the_share_that_was_measured() {
        let seen = |method| BypassCheck {
            method,
            verdict: BypassVerdict::ReadsCache,
            cached: 0.43,
            cache_ticks: 20,
            dram_ticks: 145,
        };
        let refused = |methods: &[Method]| NoneBypasses { methods: methods.iter().copied().map(seen).collect() };
        let named = refusal(Some(Method::NonTemporal), refused(&[Method::NonTemporal])).to_string();
        assert!(named.contains("--method non-temporal") && named.contains("43 %"), "{named}");
        let none = refusal(None, refused(&[Method::FlushBehind, Method::NonTemporal])).to_string();
        assert!(none.contains("flush behind: 43 %") && none.contains("non-temporal: 43 %"), "{none}");
        assert!(!named.contains('\n') && !none.contains('\n'));
    }

    #[test]
    fn half_of_the_cpus_test_and_never_more_than_there_are() {
        let cpus = [0, 2, 5].map(CpuNumber);
        let chosen = |count| choose_cpus(NonZero::new(count), &cpus);
        assert_eq!(chosen(0).unwrap(), cpus[..2]);
        assert_eq!(chosen(1).unwrap(), cpus[..1]);
        assert_eq!(chosen(3).unwrap(), cpus);
        assert!(matches!(chosen(4), Err(Error::TooManyThreads { requested: 4, allowed: 3 })));
    }

    #[test]
    fn that_nobody_knows_whether_a_cache_was_read_is_a_warning() {
        let warned = |verdict| {
            warning(&BypassCheck { method: Method::NonTemporal, verdict, cached: 0.0, cache_ticks: 1, dram_ticks: 1 })
        };
        assert!(warned(BypassVerdict::Unclear).is_some_and(|text| text.contains("cannot be measured")));
        assert_eq!(warned(BypassVerdict::ReachesDram), None);
    }
}
