//! Bad input gets one clear line and exit code 2, and nothing else happens.

use crate::harness::Rampart;

#[test]
fn bad_input_gets_one_line_and_exit_code_2() {
    let rampart = Rampart::new();
    for (arguments, says) in [
        (&["test", "--memory", "0"] as &[&str], "too little"),
        (&["test", "--memory", "plenty"], "not a size"),
        (&["test", "--memory", "99999999TiB"], "2^64"),
        (&["test", "--memory", "8000TiB"], "more than"),
        (&["test", "--march", "March Q"], "March Q"),
        (&["test", "--march", "*(w0); ^(r0,x1)"], "x"),
        (&["test", "--march", "*(r0)"], "read"),
        (&["test", "--march", ""], "name one of"),
        (&["test", "--march", "*(w0); *(w1)"], "reads nothing"),
        (&["test", "--fidelity", "0"], "1 to 1024"),
        (&["test", "--threads", "0"], "zero"),
        (&["test", "--threads", "100000"], "CPU"),
        (&["test", "--for", "0s"], "the time is 0"),
        (&["test", "--for", "yesterday"], "time"),
        (&["test", "--passes", "0"], "zero"),
        (&["test", "--inject", "stuck-at:0"], "stuck-at:0"),
        (&["test", "--inject", "gremlins:7"], "gremlins"),
        (&["test", "--memory", "2MiB", "--inject", "stuck-at:900000"], "fewer"),
        (&["test", "--frames", "7"], "0x40000..0x80000"),
        (&["test", "--source", "free", "--used"], "leave it out"),
        (&["test", "--node", "0", "--memory", "16MiB"], "leave --memory"),
        (&["test", "--source", "kernel", "--inject", "stuck-at:7"], "--inject out"),
        (&["watch", "--source", "kernel", "--for", "1s"], "rampart kernel load"),
        (&["march", "show", "March Q"], "March Q"),
        (&["map", "forget", "0xnope"], "frame"),
        (&["map", "forget", "0x123"], "not on the map"),
        (&["map", "export", "--format", "xml"], "memmap"),
        (&["frobnicate"], "frobnicate"),
    ] {
        let output = rampart.run(arguments);
        assert_eq!(output.code, Some(2), "{arguments:?}: {output:?}");
        assert_eq!(output.err.lines().count(), 1, "{arguments:?}: {output:?}");
        assert!(output.err.contains(says), "{arguments:?} should mention {says:?}: {output:?}");
        assert!(output.out.is_empty(), "{arguments:?}: {output:?}");
    }
}

#[test]
fn a_store_that_cannot_be_written_is_refused_before_anything_is_tested() {
    let rampart = Rampart::new();
    let file = rampart.folder().join("file");
    std::fs::write(&file, "in the way").unwrap();
    let under = file.join("rampart.db");
    for store in [under.to_str().unwrap(), rampart.folder().to_str().unwrap(), "/proc/rampart.db"] {
        let output = rampart.run(&["--store", store, "test", "--memory", "2MiB"]);
        assert_eq!(output.code, Some(2), "{output:?}");
        assert_eq!(output.err.lines().count(), 1, "{output:?}");
        assert!(output.err.contains(store), "{output:?}");
    }
}
