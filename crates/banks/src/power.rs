//! Power of banks: their states over time become energy.
//!
//! **Problem.** Banks that are offline save power, but to switch them and to empty them costs some. **Idea.** Each
//! state of a bank draws a share of its full power [Panwar15, table 1.2]. [`BankTimes`] says how long the banks were in
//! which state; a [`PowerModel`] makes energy of it, and adds what changes of state and moved pages cost. **Why this
//! way.** Table 1.2 has no watts and no latencies. So energy is a share of that of a machine with all banks on; what
//! the table lacks is given by the caller, or counts nothing, and the report says so.

use std::time::Duration;

use rampart_memory::Bytes;
use serde::Serialize;

/// A power state of a bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, displaydoc::Display)]
#[serde(rename_all = "kebab-case")]
pub enum BankPowerState {
    /// read/write
    ReadWrite,
    /// active-idle
    ActiveIdle,
    /// self-refresh
    SelfRefresh,
    /// deep power-down
    DeepPowerDown,
    /// no power
    Unpowered,
}

impl BankPowerState {
    /// Returns its power in per cent of that of read/write [Panwar15, table 1.2]. The table has deep power-down below
    /// 1 %: 1 is its upper bound. It does not have banks without power, which draw none.
    #[must_use]
    pub const fn percent(self) -> u8 {
        match self {
            Self::ReadWrite => 100,
            Self::ActiveIdle => 63,
            Self::SelfRefresh => 7,
            Self::DeepPowerDown => 1,
            Self::Unpowered => 0,
        }
    }

    /// Returns the energy of a bank in this state.
    const fn energy(self, nanos: u128) -> BankEnergy {
        BankEnergy(nanos * self.percent() as u128)
    }
}

/// Energy, in per cent of the full power of a bank, times nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct BankEnergy(u128);

impl BankEnergy {
    #[expect(clippy::cast_precision_loss, reason = "a share for people")]
    fn share_of(self, whole: Self) -> f64 {
        self.0 as f64 / whole.0 as f64
    }

    /// In joules, for banks with this full power in watts.
    #[expect(clippy::cast_precision_loss, reason = "joules for people")]
    fn joules(self, watts: f64) -> f64 {
        self.0 as f64 / 100.0 / 1e9 * watts
    }
}

/// How long banks were on and off. Times are sums over all banks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BankTimes {
    /// Time on.
    pub on_micros: u128,
    /// Time off.
    pub off_micros: u128,
    /// How often a bank went off or came on.
    pub changes: u64,
}

/// Records the states of banks while time passes.
#[derive(Debug)]
pub struct BankMeter {
    now: u64,
    is_off: Vec<bool>,
    off: u64,
    times: BankTimes,
}

impl BankMeter {
    /// Begins at time 0. The states of the banks then are no changes.
    pub fn new(is_off: Vec<bool>) -> Self {
        let off = is_off.iter().filter(|is_off| **is_off).count() as u64;
        Self { now: 0, is_off, off, times: BankTimes::default() }
    }

    /// Lets time pass until `micros`; an earlier time than the present one changes nothing.
    pub const fn advance(&mut self, micros: u64) {
        let passed = micros.saturating_sub(self.now) as u128;
        self.times.off_micros += passed * self.off as u128;
        self.times.on_micros += passed * (self.is_off.len() as u64 - self.off) as u128;
        self.now += micros.saturating_sub(self.now);
    }

    /// Sets the state of a bank from now on.
    pub fn set(&mut self, bank: usize, is_off: bool) {
        if std::mem::replace(&mut self.is_off[bank], is_off) != is_off {
            self.times.changes += 1;
            self.off = if is_off { self.off + 1 } else { self.off - 1 };
        }
    }

    /// Whether a bank is off.
    pub fn is_off(&self, bank: usize) -> bool {
        self.is_off[bank]
    }

    /// Returns the times up to now.
    pub const fn times(&self) -> BankTimes {
        self.times
    }
}

/// What banks draw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PowerModel {
    /// The state of banks that are off.
    pub off_state: BankPowerState,
    /// How long a change of state takes, at full power; `None` if that is unknown.
    pub change: Option<Duration>,
    /// How much of a bank is read or written in a second, at least a byte; `None` if that is unknown.
    pub bandwidth: Option<Bytes>,
    /// The full power of a GiB in watts; `None` if it is unknown.
    pub watts_per_gib: Option<f64>,
}

/// The energy of a run. Shares are of the energy of the same banks if all are in active-idle all the time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EnergyReport {
    /// The energy.
    pub share: f64,
    /// The part of it for the states of the banks.
    pub states: f64,
    /// That for changes of state; `None` if their latency is unknown.
    pub changes: Option<f64>,
    /// That for moved pages; `None` if the bandwidth is unknown.
    pub migration: Option<f64>,
    /// How often a bank went off or came on.
    pub change_count: u64,
    /// The state of banks that were off.
    pub off_state: BankPowerState,
    /// How long a bank must be off to save energy, for what moved on average to empty one, in nanoseconds. `None` if
    /// the off state saves nothing.
    pub break_even_nanos: Option<u64>,
    /// The energy in joules, and that of banks that are all in active-idle; `None` if watts are unknown.
    pub joules: Option<Joules>,
    /// What is assumed, a sentence each.
    pub assumed: Vec<String>,
}

/// Energy in joules.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Joules {
    /// Of the run.
    pub used: f64,
    /// Of the same banks, if all are in active-idle.
    pub all_on: f64,
}

/// What moved to empty banks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MovedPages {
    /// Memory moved.
    pub bytes: Bytes,
    /// Banks emptied.
    pub emptied: u64,
}

impl PowerModel {
    /// Returns the energy of banks of a size; `None` if no time passed.
    #[must_use]
    pub fn report(&self, times: BankTimes, moved: MovedPages, bank: Bytes) -> Option<EnergyReport> {
        let all_on = BankPowerState::ActiveIdle.energy((times.on_micros + times.off_micros) * 1000);
        if all_on == BankEnergy::default() {
            return None;
        }
        let (states, changes, migration) =
            (self.states(times), self.changes(times.changes), self.migration(moved.bytes));
        let used = BankEnergy(states.0 + changes.0 + migration.0);
        let watts = self.watts_per_gib.map(|watts| watts * gib(bank));
        let on_average = moved.bytes.get().checked_div(moved.emptied).unwrap_or(0);
        let break_even = self.break_even(Bytes::new(on_average));
        Some(EnergyReport {
            share: used.share_of(all_on),
            states: states.share_of(all_on),
            changes: self.change.map(|_| changes.share_of(all_on)),
            migration: self.bandwidth.map(|_| migration.share_of(all_on)),
            change_count: times.changes,
            off_state: self.off_state,
            break_even_nanos: break_even.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
            joules: watts.map(|watts| Joules { used: used.joules(watts), all_on: all_on.joules(watts) }),
            assumed: self.assumed(),
        })
    }

    /// Returns how long a bank must be off to save as much as it costs to empty it of `moved`, to switch it off, and to
    /// switch it on again, rounded up to a nanosecond; `None` if the off state saves nothing.
    #[must_use]
    pub fn break_even(&self, moved: Bytes) -> Option<Duration> {
        let saved =
            BankPowerState::ActiveIdle.percent().checked_sub(self.off_state.percent()).filter(|&saved| saved > 0)?;
        let cost = self.changes(2).0 + self.migration(moved).0;
        let nanos = cost.div_ceil(u128::from(saved));
        Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }

    const fn states(&self, times: BankTimes) -> BankEnergy {
        let on = BankPowerState::ActiveIdle.energy(times.on_micros * 1000);
        BankEnergy(on.0 + self.off_state.energy(times.off_micros * 1000).0)
    }

    /// A change of state costs its latency at full power, beside the states before and after it.
    fn changes(&self, count: u64) -> BankEnergy {
        let nanos = self.change.map_or(0, |latency| latency.as_nanos());
        BankPowerState::ReadWrite.energy(nanos * u128::from(count))
    }

    /// A page that moves is read once and written once. Meanwhile a bank draws full power instead of that of
    /// active-idle. Rounded up.
    fn migration(&self, moved: Bytes) -> BankEnergy {
        let Some(bandwidth) = self.bandwidth else { return BankEnergy::default() };
        let more = u128::from(BankPowerState::ReadWrite.percent() - BankPowerState::ActiveIdle.percent());
        let read_and_written = 2 * u128::from(moved.get());
        BankEnergy((read_and_written * 1_000_000_000 * more).div_ceil(u128::from(bandwidth.get().max(1))))
    }

    fn assumed(&self) -> Vec<String> {
        let off = self.off_state;
        let off_share = match off {
            BankPowerState::DeepPowerDown => "1 %, of which the table says less".to_owned(),
            BankPowerState::Unpowered => "0 %, which the table does not have".to_owned(),
            _ => format!("{} %", off.percent()),
        };
        let mut assumed = vec![
            format!(
                "power is that of mobile DRAM [Panwar15, table 1.2]: active-idle {} % of read/write, {off} {off_share}",
                BankPowerState::ActiveIdle.percent()
            ),
            "online banks are in active-idle: what the load itself reads and writes counts nowhere".to_owned(),
            format!("a bank is in {off} as soon as it is in the offline pool, until the first page is allocated in it"),
        ];
        assumed.push(match self.change {
            Some(latency) => format!("a change of state takes {latency:?} at full power, and nobody waits for it"),
            None => "changes of state cost nothing, as their latency is not given".to_owned(),
        });
        assumed.push(match self.bandwidth {
            Some(rate) => format!("a page that moves is read once and written once, at {rate} a second and full power"),
            None => "pages that move cost nothing, as the bandwidth of a bank is not given".to_owned(),
        });
        if let Some(watts) = self.watts_per_gib {
            assumed.push(format!("a GiB draws {watts} W at full power"));
        }
        assumed
    }
}

#[expect(clippy::cast_precision_loss, reason = "banks are powers of two")]
fn gib(size: Bytes) -> f64 {
    size.get() as f64 / (1_u64 << 30) as f64
}

#[cfg(test)]
mod tests;
