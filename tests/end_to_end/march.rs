//! `rampart march`.

use crate::harness::Rampart;

#[test]
fn fourteen_tests_are_listed_shown_and_proved() {
    let rampart = Rampart::new();
    let list = rampart.json(&["march", "list", "--json"]);
    assert_eq!(list.as_array().unwrap().len(), 14);
    let shown = rampart.run(&["march", "show", "march c-"]);
    assert!(shown.out.contains("{⇕(w0); ⇑(r0,w1); ⇑(r1,w0); ⇓(r0,w1); ⇓(r1,w0); ⇕(r0)}"), "{shown:?}");
    let proof = rampart.run(&["march", "prove", "MATS+"]);
    assert_eq!(proof.code, Some(0));
    assert!(proof.out.contains("37.5"), "MATS+ finds 37.5 % of CFid: {proof:?}");
}
