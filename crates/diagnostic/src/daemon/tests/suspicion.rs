//! A node whose replicas of MPI ranks had something wrong.

use rampart_memory::ReplicaError;

use super::*;
use crate::daemon::suspicion::SuspicionWatch;

#[test]
fn a_suspect_node_is_tested_anew_and_is_none_after_a_sweep() {
    let fixture = Fixture::new(WatchRequest { node: Some("n7".to_owned()), ..plain() });
    fixture.with(|shared| {
        let (now, mut watch) = (shared.clock.now(), SuspicionWatch::new());
        let error =
            |node: &str| ReplicaError { node: Some(node.to_owned()), ..ReplicaError::unplaced(now, now, "message") };
        fixture.disk.open().keep_replica_errors(&[error("n8"), error("n8")]).unwrap();
        let later = |seconds| now.after(Duration::from_secs(seconds));
        watch.poll(shared, later(1));
        assert!(!watch.is_urgent(), "it is another one");
        fixture.disk.open().keep_replica_errors(&[error("n7"), error("n7")]).unwrap();
        watch.poll(shared, later(5));
        assert!(!watch.is_urgent(), "the store was read a moment ago");
        watch.poll(shared, later(6));
        assert!(watch.is_urgent());
        watch.sweep_began(later(3601));
        watch.sweep_ended(shared);
        assert!(!watch.is_urgent());
        assert_eq!(fixture.told.take_names(), ["node_suspected", "node_tested"]);
        watch.poll(shared, later(7200));
        assert!(!watch.is_urgent());
    });
}
