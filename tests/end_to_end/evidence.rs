//! `rampart evidence`.

use serde_json::Value;

use crate::harness::Rampart;

#[test]
fn every_work_is_listed_with_its_counts_in_100_columns() {
    let rampart = Rampart::new();
    let list = rampart.run(&["evidence"]);
    assert_eq!((list.code, list.err.as_str()), (Some(0), ""));
    for line in list.out.lines() {
        assert!(line.chars().count() <= 100, "{line:?}");
    }
    for row in [
        "figure 12    regenerated  Slowdown by testing on demand and by COMeT, SPEC CPU2006",
        "             command      rampart simulate figure12",
        "             result       docs/experiments.md",
        "table 4      not here     Energy of a run of SPEC",
        "             absent       a power meter",
        "table 4.3    not here     NAS FT: time and unlocked memory, copied to a co-processor",
        "figure 10    in part      Clusters of one and of two pages, for each program of DaCapo",
        "             command      rampart heap bench --figure 10",
        "figure 5.4   missing      Interrupts and system calls of NAS CG",
        "figure 4.4   illustration Parts of FlipSphere",
    ] {
        assert!(list.out.lines().any(|line| line == row), "{row}: {}", list.out);
    }
    let counted = |name: &str| {
        let line = list.out.lines().rfind(|line| line.starts_with(name)).expect("each work is counted");
        line.split_whitespace().skip(1).map(|number| number.parse().expect("a count")).collect::<Vec<u64>>()
    };
    let works = ["Rahman16", "Gao13", "Fiala15", "Panwar15", "Ferreira21"].map(counted);
    for (i, &sum) in counted("all ").iter().enumerate() {
        assert_eq!(works.iter().map(|counts| counts[i]).sum::<u64>(), sum, "column {i}");
    }
    assert_eq!(works.map(|counts| counts[0]), [43, 10, 59, 25, 9]);
}

#[test]
fn one_work_or_only_what_is_missing_is_listed() {
    let rampart = Rampart::new();
    let one = rampart.run(&["evidence", "panwar15"]);
    assert_eq!(one.code, Some(0), "{}", one.err);
    assert!(one.out.starts_with("Panwar15 ") && !one.out.contains("Rahman16"), "{}", one.out);
    assert!(one.out.contains("cargo xtask bench banks figures"), "{}", one.out);
    let missing = rampart.run(&["evidence", "--missing"]);
    assert_eq!(missing.code, Some(0), "{}", missing.err);
    let rows = |start: &str| missing.out.lines().filter(|line| line.starts_with(start)).count();
    assert!(rows("figure ") > 0 && !missing.out.contains("             command"), "{}", missing.out);
    // Counts are of all tables and figures, also then.
    assert!(missing.out.lines().any(|line| line.starts_with("Ferreira21       9")), "{}", missing.out);
    let none = rampart.run(&["evidence", "Ferreira21", "--missing"]);
    assert!(none.code == Some(0) && none.out.contains("\nnothing is missing\n"), "{}", none.out);
}

#[test]
fn the_json_has_the_same_rows() {
    let rampart = Rampart::new();
    let document = rampart.json(&["evidence", "--json"]);
    assert_eq!(document["schema"], "rampart.evidence/1");
    let exhibits = |document: &Value, work: usize| document["works"][work]["exhibits"].as_array().unwrap().clone();
    let all: usize = (0..5).map(|work| exhibits(&document, work).len()).sum();
    assert_eq!(all, 146);
    let (row, counts) = (&exhibits(&document, 2)[9], &document["works"][2]["counts"]);
    assert_eq!(
        (&row["kind"], &row["number"], &row["state"]),
        (&"figure".into(), &"3.10".into(), &"regenerated".into())
    );
    assert!(row["commands"][0].as_str().unwrap().starts_with("rampart mpirun -n 64 --replicas 2"), "{row}");
    assert_eq!(counts["all"], 59);
    let missing = rampart.json(&["evidence", "--missing", "--json", "Fiala15"]);
    assert_eq!(missing["works"].as_array().unwrap().len(), 1);
    assert_eq!(exhibits(&missing, 0).len(), 14);
    assert!(exhibits(&missing, 0).iter().all(|row| row["state"] == "missing" && row["remark"].is_string()));
}

#[test]
fn an_unknown_work_gets_one_line_and_exit_code_2() {
    let rampart = Rampart::new();
    let refused = rampart.run(&["evidence", "Knuth68"]);
    assert_eq!((refused.code, refused.out.as_str(), refused.err.lines().count()), (Some(2), "", 1), "{refused:?}");
    assert!(refused.err.contains("Knuth68") && refused.err.contains("Rahman16, Gao13, Fiala15"), "{}", refused.err);
}
