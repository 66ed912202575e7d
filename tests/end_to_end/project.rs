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
    assert_eq!((list["systems"].as_array().unwrap().len(), list["workloads"].as_array().unwrap().len()), (10, 9 + 5));
    let workloads = list["workloads"].as_array().unwrap();
    assert!(workloads.iter().all(|one| !one["source"].as_str().unwrap().is_empty()), "{list}");
    assert_eq!(workloads.iter().filter(|one| one["kind"] == "trace").count(), 5, "{list}");
    assert!(workloads.iter().all(|one| one["computing_seconds"].as_f64().unwrap() > 0.0), "{list}");
    let text = Rampart::new().run(&["project", "--list"]).out;
    let [traces, skeletons] = ["traces of real programs", "\nskeletons"].map(|heading| text.find(heading).unwrap());
    let place = |name: &str| text.find(&format!("\n  {name:<21} ")).unwrap();
    assert!((traces..skeletons).contains(&place("minife")) && place("minife-skeleton") > skeletons, "{text}");
}

/// An error a second on one of 16,384 nodes, logged by firmware, which takes 133 ms: all feel each error, less what
/// slower ranks of its copy hide.
#[test]
fn a_workload_is_its_trace_where_there_is_one_and_its_skeleton_by_name() {
    let rampart = Rampart::new();
    let asked = ["project", "--one-node", "--mtbce", "1s", "--reporting", "firmware", "--nodes", "1000", "--json"];
    let of = |name| rampart.json(&[&asked[..], &["--seeds", "8", "--workload", name]].concat());
    let (trace, skeleton) = (of("minife"), of("minife-skeleton"));
    assert_eq!((trace["kind"].as_str(), skeleton["kind"].as_str()), (Some("trace"), Some("skeleton")), "{trace}");
    assert_eq!((trace["program"].as_str(), skeleton["program"].as_str()), (Some("minife"), Some("minife-skeleton")));
    assert_eq!(trace["nodes"], 1000, "125 copies of eight ranks");
    for (json, cycle) in [(&trace, 4.0..8.0), (&skeleton, 0.1..0.12)] {
        assert!(cycle.contains(&json["cycle_seconds"].as_f64().unwrap()), "{json}");
        assert!((0.10..0.20).contains(&json["slowdown"].as_f64().unwrap()), "{json}");
    }
    let text = rampart.run(&["project", "--workload", "hpcg", "--mtbce", "1h", "--nodes", "9", "--seeds", "2"]);
    assert!(text.out.starts_with("program     hpcg (trace) on 8 nodes, cray-xc40, a cycle of "), "{text:?}");
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
    let rare = |cost| rampart.run(&["project", "--goal", file, "--mtbce", "1000s", "--cost", cost, "--seeds", "2"]);
    let (much, little) = (rare("133ms"), rare("1us"));
    assert_eq!(
        much.last_line(),
        "answer      errors slow the program by at most 0.027 %",
        "2 · 133 ms / 1000 s: {much:?}"
    );
    assert!(much.out.contains("slowdown    at most 0.027 %, as if each error delayed all ranks"), "{much:?}");
    assert_eq!(little.last_line(), "answer      errors slow the program by less than 0.001 %", "{little:?}");
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
    let asked = ["project", "sweep", "--figure", "4", "--workload", "cth", "--workload", "lulesh-skeleton"];
    let asked = [&asked[..], &["--workload", "lulesh", "--seeds", "2"]].concat();
    let json = rampart.json(&[&asked[..], &["--errors", "1", "--html", &html, "--csv", &csv, "--json"]].concat());
    let groups = json["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 9, "three systems, three who log: {json}");
    assert!(groups.iter().all(|group| group["bars"].as_array().unwrap().len() == 3), "{json}");
    let claim = &json["claims"][0];
    assert!(claim["skeletons"]["holds"] == true && claim["traces"]["holds"] == true, "{json}");
    let csv = fs::read_to_string(csv).unwrap();
    assert_eq!(csv.lines().next(), Some("panel,path,nodes,mtbce_seconds,workload,slowdown,uncertainty"));
    let of_summit = csv.lines().filter(|line| line.starts_with("summit,firmware,")).collect::<Vec<_>>();
    assert!(
        of_summit.len() == 3 && of_summit[1].contains(",lulesh-skeleton,") && of_summit[2].contains(",lulesh,"),
        "{csv}"
    );
    assert_eq!(csv.lines().count(), 1 + 9 * 3);
    let html = fs::read_to_string(html).unwrap();
    assert_eq!(
        (html.matches("<svg").count(), html.matches("<h2>").count()),
        (2 * 3, 4),
        "two drawings a system, of skeletons and of traces, and the claims"
    );
    for expected in ["summit: an error every", "\nlulesh\n", "\nfirmware\n", "slowdown, %", "below 10 %"] {
        assert!(html.contains(expected), "{expected}: {html}");
    }
}

#[test]
fn what_cannot_be_projected_is_refused_in_one_line() {
    let rampart = Rampart::new();
    let refused: [(&[&str], &str); 20] = [
        (&["project"], "--mtbce"),
        (&["project", "--system", "sumit"], "summit"),
        (&["project", "--system", "summit", "--workload", "linpack"], "hpcg"),
        (&["project", "--system", "summit", "--network", "token-ring"], "cray-xc40, slingshot, loggopsim, or a file"),
        (&["project", "--mtbce", "10ms", "--nodes", "4", "--reporting", "firmware"], "leave no time"),
        (&["project", "--from-errors", "/nowhere", "--dimm", "A1"], "/nowhere"),
        (&["project", "sweep", "--figure", "2"], "3 to 7"),
        (&["project", "sweep", "--figure", "3.2"], "3.1 of Fiala 2015"),
        (&["project", "sweep", "--figure", "3.1", "--seeds", "4"], "leave out"),
        (&["project", "sweep", "--figure", "3.1", "--workload", "milc"], "leave out"),
        (&["project", "--node-mtbf", "5years"], "--replicas"),
        (&["project", "--replicas", "4"], "1..=3"),
        (&["project", "--replicas", "--system", "summit"], "--system"),
        (&["project", "--replicas", "--job", "0s"], "the time is 0"),
        (&["project", "--replicas", "--node-mtbf", "20000years"], "10,000 years"),
        (&["project", "--replicas", "--communication", "120%"], "from 0 to 1"),
        (&["project", "--replicas", "--nodes", "0"], "1..=16777216"),
        (&["project", "sweep", "--figure", "4", "--workload", "linpack"], "hpcg"),
        (&["project", "sweep", "--figure", "4", "--whole", "--workload", "hpcg"], "name hpcg-skeleton"),
        (&["project", "--system", "summit", "--workload", "linpack"], "minife (traces); lammps-lj-skeleton, "),
    ];
    for (arguments, expected) in refused {
        let output = rampart.run(arguments);
        assert_eq!((output.code, output.err.lines().count(), output.out.as_str()), (Some(2), 1, ""), "{output:?}");
        assert!(output.err.contains(expected), "{output:?}");
    }
}

/// [Fiala15, 3.1.1]: on all of Jaguar, a job is fastest without replicas; to detect errors, with two of each rank.
#[test]
fn replicas_of_a_job_on_failing_nodes_are_compared() {
    let rampart = Rampart::new();
    let asked = ["project", "--replicas", "--nodes", "18688", "--simulate", "--seeds", "20", "--json"];
    let json = rampart.json(&asked);
    let completions = json["completions"].as_array().unwrap();
    assert_eq!(completions.len(), 3, "{json}");
    let hours = |replicas: usize| completions[replicas - 1]["hours"].as_f64().unwrap();
    assert!(145.0 < hours(1) && hours(1) < hours(2) && hours(2) < 155.0 && hours(3) < 180.0, "{json}");
    for one in completions {
        let simulated = one["simulated"]["hours"].as_f64().unwrap();
        assert!((simulated / one["hours"].as_f64().unwrap() - 1.0).abs() < 0.02, "{one}");
        let shares: f64 = one["shares"].as_object().unwrap().values().map(|share| share.as_f64().unwrap()).sum();
        assert!((shares - 1.0).abs() < 1e-9, "{one}");
    }
    assert_eq!(completions[2]["nodes"], 3 * 18_688);
    let best = ["fastest", "fewest_node_hours", "fastest_to_detect", "fastest_to_correct"];
    assert_eq!(best.map(|which| json[which].as_u64()), [1, 1, 2, 3].map(Some), "{json}");
    let crossover = json["crossovers"][0]["nodes"].as_u64().unwrap();
    assert!((18_689..100_000).contains(&crossover), "{json}");
    assert_eq!(rampart.run(&asked).out, rampart.run(&asked).out, "a seed is one result");
}

#[test]
fn a_comparison_of_replicas_is_told_in_words_drawn_and_written_down() {
    let rampart = Rampart::new();
    let file = |name: &str| rampart.folder().join(name).to_str().unwrap().to_owned();
    let (html, csv) = (file("replicas.html"), file("replicas.csv"));
    let more = ["--node-mtbf", "30d", "--nodes", "1000000", "--html", &html, "--csv", &csv];
    let output = rampart.run(&[&["project", "--replicas", "2"][..], &more].concat());
    assert_eq!((output.code, output.err.as_str()), (Some(0), ""), "{output:?}");
    for expected in
        ["never ends", "fastest     2x: ", "note        2x fails so often", "crossover   2x is faster than 1x from"]
    {
        assert!(output.out.contains(expected), "{expected}: {output:?}");
    }
    let csv = fs::read_to_string(csv).unwrap();
    assert_eq!(csv.lines().next(), Some("nodes,replicas,hours,node_hours"));
    assert_eq!(csv.lines().count(), 1 + 2 * 97);
    assert!(csv.lines().any(|line| line == "1000000,1,,"), "a job that never ends has no hours: {csv}");
    let html = fs::read_to_string(html).unwrap();
    for expected in ["<svg", "2 replicas (2x)", "hours to completion", "1,000,000 nodes", "never ends"] {
        assert!(html.contains(expected), "{expected}: {html}");
    }
    assert!(!html.contains("3 replicas"), "{html}");
}

#[test]
fn figure_3_1_is_repeated_with_each_statement_and_table_beside_ours() {
    let rampart = Rampart::new();
    let file = |name: &str| rampart.folder().join(name).to_str().unwrap().to_owned();
    let (html, csv) = (file("figure.html"), file("figure.csv"));
    let asked = ["project", "sweep", "--figure", "3.1"];
    let json = rampart.json(&[&asked[..], &["--json", "--html", &html, "--csv", &csv]].concat());
    let length = |what: &str| json[what].as_array().unwrap().len();
    assert_eq!(["rows", "claims", "reliability", "shares"].map(length), [7, 19, 5, 7], "{json}");
    let agreeing = json["claims"].as_array().unwrap().iter().filter(|claim| claim["agrees"] == true).count();
    assert_eq!(agreeing, 13, "docs/replicas.md says so: {json}");
    let output = rampart.run(&asked);
    assert_eq!((output.code, output.err.as_str()), (Some(0), ""), "{output:?}");
    assert_eq!(output.out.lines().filter(|line| line.starts_with("agrees ")).count(), agreeing, "{output:?}");
    assert!(
        ["are assumed", "23.5 h", "ASCI White", "35 / 34.4"].iter().all(|part| output.out.contains(part)),
        "{output:?}"
    );
    assert_eq!(fs::read_to_string(csv).unwrap().lines().count(), 1 + 3 * 97);
    let html = fs::read_to_string(html).unwrap();
    assert_eq!((html.matches("<svg").count(), html.matches("class=\"bad\"").count()), (1, 19 - agreeing), "{html}");
    for expected in ["3 replicas (3x)", "\nA\n", "\nB\n", "\nC\n", "hours to completion"] {
        assert!(html.contains(expected), "{expected}: {html}");
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
