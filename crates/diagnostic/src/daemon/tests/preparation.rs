//! What is settled before the daemon starts.

use rampart_linux::topology::NodeResources;
use rampart_linux::{CpuNumber, Topology};

use super::*;
use crate::daemon::prepare;

#[test]
fn each_cpu_has_a_tester_and_too_short_a_lifetime_is_said() {
    let fixture = Fixture::new(WatchRequest { retention: Duration::from_nanos(1), ..plain() });
    fixture.with(|shared| {
        let (request, prepared) = (shared.request, shared.prepared);
        assert_eq!(prepared.testers.len(), shared.machine.cpus().len());
        assert!(prepared.testers.iter().all(|(_, cpus)| !cpus.is_empty()));
        assert_eq!(request.plan(Fidelity::MIN).rests(), 1);
        assert_eq!(plain().plan(Fidelity::MIN).rests(), 0);
        let text = prepared.describe(request);
        assert!(text.starts_with("watching    each frame in reach once in"), "{text}");
        assert!(text.contains("on at most 1 CPU, 100 % of each"), "{text}");
        assert_eq!(prepared.shortage(request), None);
        let mut short = request.clone();
        short.settings.control.lifetime =
            TestLifetime::new(Duration::from_millis(2), Duration::from_millis(1)).unwrap();
        let warning = prepared.shortage(&short).expect("memory takes longer");
        assert!(warning.starts_with("a lifetime of 2ms is too short to test 24 MiB: set at least"), "{warning}");
    });
}

#[test]
fn a_lifetime_in_which_all_testers_in_their_shares_can_test_all_is_long_enough() {
    let mut settings = plain().settings;
    settings.control = ControlSettings { alpha: 2.0, ..settings.control };
    settings.control.limits.max_cores = 4;
    settings.shares.maximum = share(0.5);
    // 2 · 1000 frames at 4 · 250 a second, and a second to expire a test.
    let mut is_too_short = |millis| {
        let lifetime = TestLifetime::new(Duration::from_millis(millis), Duration::from_secs(1));
        settings.control.lifetime = lifetime.unwrap();
        prepare::shortage(settings, Bytes::new(1000 * 4096), Bandwidth { at_fidelity_1: 500.0 }).is_some()
    };
    assert_eq!([2999, 3000].map(&mut is_too_short), [true, false]);
}

#[test]
fn testers_are_spread_over_the_nodes_with_memory_and_cpus() {
    let cpus = |numbers: &[u32]| numbers.iter().copied().map(CpuNumber).collect::<Vec<_>>();
    let node = |node, own: &[u32], mib| NodeResources {
        node: Node(node),
        cpus: cpus(own),
        total: Bytes::from_mib(mib),
        free: Bytes::ZERO,
    };
    let topology = |nodes| Topology { nodes, allowed: cpus(&[0, 1, 2, 3, 4]), model: None };
    let (first, second) = ((Node(0), cpus(&[0, 1])), (Node(3), cpus(&[3, 4])));
    let nodes = vec![node(0, &[0, 1], 9), node(1, &[], 9), node(2, &[2], 0), node(3, &[3, 4], 9)];
    let spread = prepare::testers(&topology(nodes));
    assert_eq!(spread, [first.clone(), second.clone(), first.clone(), second, first]);
    let anywhere = prepare::testers(&topology(vec![node(1, &[], 9), node(2, &[2], 0)]));
    assert_eq!(anywhere, vec![(Node(0), cpus(&[0, 1, 2, 3, 4])); 5]);
}
