//! The cost of memory errors at scale.

use std::fs;

use rusqlite::Connection;

use crate::errors::TABLE;
use crate::harness::Rampart;

/// Few nodes, so that an answer takes a moment.
const SMALL: [&str; 7] = ["project", "--workload", "milc", "--nodes", "16", "--seeds", "2"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&SMALL[..], more].concat()
}

#[test]
fn a_question_is_answered_in_words_and_as_json() {
    let rampart = Rampart::new();
    let output = rampart.run(&with(&["--mtbce", "20s", "--reporting", "firmware"]));
    assert_eq!((output.code, output.err.as_str()), (Some(0), ""), "{output:?}");
    assert!(output.last_line().starts_with("answer "), "{output:?}");
    let json = rampart.json(&with(&["--mtbce", "20s", "--reporting", "firmware", "--json"]));
    let slowdown = json["slowdown"].as_f64().unwrap();
    assert!((0.02..0.3).contains(&slowdown), "16 nodes, 133 ms every 20 s: about a tenth: {slowdown}");
    assert!(json["by_software"].as_f64().unwrap() < 0.01);
    assert!(json["bearable"]["mtbce_seconds"].as_f64().unwrap() > 1.33);
}

#[test]
fn a_seed_of_a_projection_is_one_result() {
    let rampart = Rampart::new();
    let run = |seed| rampart.run(&with(&["--mtbce", "20s", "--one-node", "--json", "--seed", seed]));
    assert_eq!(run("7").out, run("7").out);
    assert_ne!(run("7").out, run("8").out);
}

#[test]
fn systems_and_workloads_are_listed_with_their_sources() {
    let list = Rampart::new().json(&["project", "--list", "--json"]);
    assert_eq!((list["systems"].as_array().unwrap().len(), list["workloads"].as_array().unwrap().len()), (10, 9));
    assert!(list["workloads"].as_array().unwrap().iter().all(|one| !one["source"].as_str().unwrap().is_empty()));
}

#[test]
fn a_goal_schedule_is_projected() {
    let rampart = Rampart::new();
    let file = rampart.folder().join("two.goal");
    let rank = "rank 0 { a: calc 1000000000\nb: send 8b to 1\nb requires a }\nrank 1 { recv 8b from 0 }\n";
    fs::write(&file, format!("num_ranks 2\n{rank}")).unwrap();
    let file = file.to_str().unwrap();
    let json = rampart.json(&["project", "--goal", file, "--mtbce", "10ms", "--seeds", "2", "--json"]);
    assert!((0.05..0.12).contains(&json["slowdown"].as_f64().unwrap()), "775 us every 10 ms: {json}");
    fs::write(rampart.folder().join("two.goal"), "num_ranks 2\nrank 0 { calk 1 }").unwrap();
    let refused = rampart.run(&["project", "--goal", file, "--mtbce", "10ms"]);
    assert_eq!((refused.code, refused.err.lines().count()), (Some(2), 1), "{refused:?}");
    assert!(refused.err.contains("line 2"), "{refused:?}");
}

#[test]
fn a_figure_is_swept_drawn_and_written_down() {
    let rampart = Rampart::new();
    let file = |name: &str| rampart.folder().join(name).to_str().unwrap().to_owned();
    let (html, csv) = (file("figure.html"), file("figure.csv"));
    let asked = ["project", "sweep", "--figure", "4", "--workload", "cth", "--workload", "lulesh", "--seeds", "2"];
    let json = rampart.json(&[&asked[..], &["--errors", "1", "--html", &html, "--csv", &csv, "--json"]].concat());
    let groups = json["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 9, "three systems, three who log: {json}");
    assert!(groups.iter().all(|group| group["bars"].as_array().unwrap().len() == 2), "{json}");
    let csv = fs::read_to_string(csv).unwrap();
    assert_eq!(csv.lines().next(), Some("panel,path,nodes,mtbce_seconds,workload,slowdown,uncertainty"));
    let of_summit = csv.lines().filter(|line| line.starts_with("summit,firmware,")).collect::<Vec<_>>();
    assert!(of_summit.len() == 2 && of_summit[1].contains(",lulesh,"), "{csv}");
    assert_eq!(csv.lines().count(), 1 + 9 * 2);
    let html = fs::read_to_string(html).unwrap();
    assert_eq!(
        (html.matches("<svg").count(), html.matches("<h2>").count()),
        (3, 4),
        "a drawing a system, and the claims"
    );
    for expected in ["summit: an error every", "\nlulesh\n", "\nfirmware\n", "slowdown, %", "below 10 %"] {
        assert!(html.contains(expected), "{expected}: {html}");
    }
}

#[test]
fn what_cannot_be_projected_is_refused_in_one_line() {
    let rampart = Rampart::new();
    let refused: [(&[&str], &str); 8] = [
        (&["project"], "--mtbce"),
        (&["project", "--system", "sumit"], "summit"),
        (&["project", "--system", "summit", "--workload", "linpack"], "hpcg"),
        (&["project", "--system", "summit", "--network", "token-ring"], "cray-xc40, slingshot, loggopsim, or a file"),
        (&["project", "--mtbce", "10ms", "--nodes", "4", "--reporting", "firmware"], "leave no time"),
        (&["project", "--from-errors", "/nowhere", "--dimm", "A1"], "/nowhere"),
        (&["project", "sweep", "--figure", "2"], "3 to 7"),
        (&["project", "sweep", "--figure", "4", "--workload", "linpack"], "hpcg"),
    ];
    for (arguments, expected) in refused {
        let output = rampart.run(arguments);
        assert_eq!((output.code, output.err.lines().count(), output.out.as_str()), (Some(2), 1, ""), "{output:?}");
        assert!(output.err.contains(expected), "{output:?}");
    }
}

/// A sparse terabyte takes no room on the disk.
#[test]
fn a_program_that_would_not_fit_into_memory_is_refused_before_it_is_read() {
    let rampart = Rampart::new();
    let file = rampart.folder().join("large");
    fs::File::create(&file).unwrap().set_len(1 << 40).unwrap();
    let file = file.to_str().unwrap();
    for (what, remedy) in [("--goal", "use a shorter one"), ("--trace", "use a shorter one, or fewer nodes")] {
        let output = rampart.run(&["project", what, file, "--mtbce", "720s"]);
        assert_eq!((output.code, output.err.lines().count(), output.out.as_str()), (Some(2), 1, ""), "{output:?}");
        assert!(output.err.contains("of memory and") && output.err.ends_with(&format!("{remedy}\n")), "{output:?}");
    }
}

/// A DIMM with no corrected errors has no rate to project.
#[test]
fn only_dimms_that_have_a_rate_are_named_to_be_asked_about() {
    let rampart = Rampart::new();
    let file = rampart.folder().join("ras-mc_event.db");
    let rasdaemon = Connection::open(&file).unwrap();
    rasdaemon.execute_batch(TABLE).unwrap();
    let ask = |dimm| {
        rampart.run(&["project", "--from-errors", file.to_str().unwrap(), "--dimm", dimm, "--nodes", "16", "--json"])
    };
    let refused = |dimm, why: &str| {
        let output = ask(dimm);
        assert_eq!((output.code, output.err.lines().count(), output.out.as_str()), (Some(2), 1, ""), "{output:?}");
        assert!(output.err.contains(why), "{output:?}");
    };
    refused("DIMM_A1", "has no corrected errors of any DIMM");
    let row = "INSERT INTO mc_event VALUES (NULL, ?1, 1, ?2, 'read error', ?3, 0, 1, 0, -1, 0, 3, 0, '')";
    rasdaemon.execute(row, ("2024-05-01 10:00:00 +0000", "Corrected", "DIMM_A1")).unwrap();
    rasdaemon.execute(row, ("2024-05-02 10:00:00 +0000", "Uncorrected", "DIMM_B2")).unwrap();
    refused("DIMM_B2", "name one of DIMM_A1\n");
    let known = ask("DIMM_A1");
    assert!(known.code == Some(0) && known.out.contains("leave DIMM_A1"), "{known:?}");
}

#[test]
fn errors_of_this_machine_are_shown_or_why_there_are_none() {
    let rampart = Rampart::new();
    let output = rampart.run(&["errors"]);
    assert!(matches!(output.code, Some(0 | 1)) && output.err.is_empty(), "{output:?}");
    assert!(["counters", "recorded", "live"].iter().all(|what| output.out.contains(what)), "{output:?}");
    let refused = rampart.run(&["errors", "--database", "/nowhere/ras.db"]);
    assert_eq!((refused.code, refused.err.lines().count()), (Some(2), 1), "{refused:?}");
}
