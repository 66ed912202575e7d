//! What all runs with one policy have in common: figures to compare page allocators by.

use rampart_diagnostic::control::PolicyName;

use super::outcome::{PolicySummary, mean};
use super::scenario::Scenario;
use super::simulate::Run;

/// The runs of an experiment so far.
#[derive(Debug, Default)]
pub struct Summary(Vec<ScenarioFigures>);

/// The figures of one scenario, each a mean over its seeds.
#[derive(Debug)]
struct ScenarioFigures {
    policy: Option<PolicyName>,
    slowdown: Option<f64>,
    on_demand: Option<f64>,
    coverage: f64,
    empty_banks: f64,
    offline_banks: Option<f64>,
}

impl Summary {
    /// Adds the runs of a scenario, one for each seed.
    pub fn add(&mut self, scenario: &Scenario, runs: &[Run], slowdown: Option<f64>) {
        let of = |figure: &dyn Fn(&Run) -> f64| mean(runs.iter().map(figure)).unwrap_or(0.0);
        self.0.push(ScenarioFigures {
            policy: scenario.setup.as_ref().map(|setup| setup.policy),
            slowdown,
            on_demand: mean(runs.iter().filter_map(on_demand)),
            coverage: of(&|run| run.coverage),
            empty_banks: of(&|run| run.empty_banks),
            offline_banks: mean(runs.iter().filter_map(|run| run.offline_banks)),
        });
    }

    /// Returns the means over the scenarios of each policy, those without tests first.
    pub fn by_policy(&self) -> Vec<PolicySummary> {
        let policies = std::iter::once(None).chain(PolicyName::ALL.map(Some));
        policies.filter_map(|policy| self.of_policy(policy)).collect()
    }

    fn of_policy(&self, policy: Option<PolicyName>) -> Option<PolicySummary> {
        let all = || self.0.iter().filter(|figures| figures.policy == policy);
        let tested = |value: Option<f64>| value.filter(|_| policy.is_some());
        Some(PolicySummary {
            policy: policy.map_or("no tests", PolicyName::as_str),
            scenarios: all().count(),
            slowdown: mean(all().filter_map(|figures| figures.slowdown)),
            on_demand: tested(mean(all().filter_map(|figures| figures.on_demand))),
            coverage: tested(mean(all().map(|figures| figures.coverage))),
            empty_banks: mean(all().map(|figures| figures.empty_banks))?,
            offline_banks: mean(all().filter_map(|figures| figures.offline_banks)),
        })
    }
}

/// Returns the share of the frames that programs got or kept for which they had to wait for a test.
#[expect(clippy::cast_precision_loss, reason = "frames of a run")]
fn on_demand(run: &Run) -> Option<f64> {
    let seen = run.machine;
    let given = seen.allocated + seen.migrated + seen.in_place;
    (given > 0).then(|| seen.on_demand as f64 / given as f64)
}

#[cfg(test)]
mod tests {
    use super::super::fake::run;
    use super::super::scenario::{Setup, TestedMachine};
    use super::*;
    use rampart_sim::MachineStatistics;

    fn scenario(setup: Option<Setup>) -> Scenario {
        Scenario { machine: TestedMachine::PentiumD, programs: vec!["mcf"], setup }
    }

    fn seen(on_demand: u64, allocated: u64, migrated: u64, in_place: u64) -> Run {
        let machine = MachineStatistics { allocated, on_demand, migrated, in_place, ..MachineStatistics::default() };
        Run { machine, coverage: 0.5, empty_banks: 0.25, offline_banks: Some(0.125), ..run(vec![1.0]) }
    }

    #[test]
    fn the_share_on_demand_is_of_all_frames_that_programs_got_or_kept() {
        assert_eq!(on_demand(&seen(5, 10, 6, 4)), Some(0.25));
        assert_eq!(on_demand(&seen(0, 10, 0, 0)), Some(0.0));
        assert_eq!(on_demand(&seen(0, 0, 0, 0)), None);
    }

    #[test]
    fn each_policy_has_the_means_of_its_scenarios() {
        let mut summary = Summary::default();
        let still = Run { coverage: 0.0, offline_banks: None, ..seen(0, 0, 0, 0) };
        summary.add(&scenario(Some(Setup::comet())), &[seen(1, 2, 0, 0), seen(0, 2, 0, 0)], Some(1.5));
        summary.add(&scenario(None), &[seen(1, 2, 0, 0)], None);
        summary.add(&scenario(Some(Setup::comet())), &[seen(3, 4, 0, 0)], Some(2.5));
        summary.add(&scenario(Some(Setup::on_demand())), &[still], None);
        let expected = PolicySummary {
            policy: "no tests",
            scenarios: 1,
            slowdown: None,
            on_demand: None,
            coverage: None,
            empty_banks: 0.25,
            offline_banks: Some(0.125),
        };
        let comet = PolicySummary {
            policy: "comet",
            scenarios: 2,
            slowdown: Some(2.0),
            on_demand: Some(0.5),
            coverage: Some(0.5),
            ..expected.clone()
        };
        let on_demand =
            PolicySummary { policy: "on-demand", coverage: Some(0.0), offline_banks: None, ..expected.clone() };
        assert_eq!(summary.by_policy(), [expected, on_demand, comet]);
    }
}
