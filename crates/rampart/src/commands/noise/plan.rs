//! The plan of a dry run: which errors a real run would inject, when and where, and what it would lack here.

use std::time::Duration;

use rampart_linux::{Absence, InjectionTarget};
use serde_json::{Value, json};

use crate::output::text::count;
use crate::parsing::time;

/// What a run with the same options would do if it injected errors.
#[derive(Debug)]
pub struct InjectionPlan {
    /// The time between two errors, and before the first one.
    pub every: Duration,
    /// How many errors come before the end.
    pub errors: u64,
    /// The physical address of their page, if this process may know it.
    pub address: Result<u64, Absence>,
    /// What the real run lacks here.
    pub absent: Vec<Absence>,
}

/// How many errors there are before the end of a measurement.
pub fn errors_within(duration: Duration, every: Duration) -> u64 {
    let most = duration.as_nanos().saturating_sub(1) / every.as_nanos().max(1);
    u64::try_from(most).unwrap_or(u64::MAX)
}

impl InjectionPlan {
    fn last(&self) -> Duration {
        let nanos = self.every.as_nanos().saturating_mul(self.errors.into());
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Lines for people.
    pub fn text(&self) -> String {
        let [every, last] = [self.every, self.last()].map(humantime::format_duration);
        let (errors, kind) = (count(self.errors), InjectionTarget::ERROR_TYPE);
        let plural = if self.errors == 1 { "" } else { "s" };
        let place = match &self.address {
            Ok(address) => format!("a page of this process, now at physical address {address:#x}"),
            Err(absence) => format!("a page of this process, whose physical address is unknown: {absence}"),
        };
        format!(
            "dry run     nothing is injected; without --dry-run, this would be:\n\
             what        {errors} corrected memory error{plural} (type {kind:#x} of EINJ)\n\
             when        one every {every}, the first after {every}, the last after {last}\n\
             where       {place}\n{}\n",
            self.requirements()
        )
    }

    /// One line on what a real run lacks.
    fn requirements(&self) -> String {
        if self.absent.is_empty() {
            return "real run    nothing is absent: leave out --dry-run".to_owned();
        }
        let absent: Vec<String> = self.absent.iter().map(Absence::to_string).collect();
        format!("absent      for the real run: {}", absent.join("; also: "))
    }

    /// JSON, for programs.
    pub fn document(&self) -> Value {
        json!({
            "errors": self.errors,
            "einj_type": InjectionTarget::ERROR_TYPE,
            "every_ns": time(self.every).nanos(),
            "first_ns": time(self.every).nanos(),
            "last_ns": time(self.last()).nanos(),
            "address": self.address.as_ref().ok(),
            "absent": self.absent,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_come_at_an_interval_and_the_last_before_the_end() {
        let seconds = Duration::from_secs;
        assert_eq!(errors_within(seconds(10), seconds(1)), 9);
        assert_eq!(errors_within(seconds(10), seconds(3)), 3);
        assert_eq!(errors_within(seconds(10), seconds(9)), 1);
        assert_eq!(errors_within(seconds(10), Duration::from_millis(999)), 10);
    }

    #[test]
    fn a_plan_says_what_when_where_and_what_is_absent_in_a_line_each() {
        let absence = |what: &str| Absence { reason: format!("no {what}"), remedy: format!("get {what}") };
        let plan = InjectionPlan {
            every: Duration::from_secs(20),
            errors: 14,
            address: Ok(0x1234_5000),
            absent: vec![absence("EINJ"), absence("counter")],
        };
        let text = plan.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "what        14 corrected memory errors (type 0x8 of EINJ)");
        assert_eq!(lines[2], "when        one every 20s, the first after 20s, the last after 4m 40s");
        assert!(lines[3].ends_with("physical address 0x12345000"), "{text}");
        assert_eq!(lines[4], "absent      for the real run: no EINJ; get EINJ; also: no counter; get counter");
        assert_eq!(lines.len(), 5);
        let document = plan.document();
        assert_eq!((&document["last_ns"], &document["address"]), (&280_000_000_000_u64.into(), &0x1234_5000.into()));
        let hidden = InjectionPlan { address: Err(absence("address")), absent: Vec::new(), ..plan };
        let text = hidden.text();
        assert!(text.contains("unknown: no address; get address\nreal run    nothing is absent"), "{text}");
    }
}
