use super::*;
use crate::fake::Ram;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn injector(faults: &[&str]) -> Injector<Ram> {
    let mut injector = Injector::new(Ram::frames(4));
    for (number, fault) in faults.iter().enumerate() {
        assert_eq!(injector.add(fault, seconds(0)), Ok(number));
    }
    injector
}

#[test]
fn many_faults_act_at_once_and_each_is_counted_with_its_times() {
    let faults: Vec<String> = (0..200).map(|bit| format!("stuck-at@1/{}/{bit}=1", bit % 64)).collect();
    let faults: Vec<&str> = faults.iter().map(String::as_str).collect();
    let mut injector = injector(&faults);
    assert!(injector.poll(seconds(1)));
    assert_eq!(injector.obey("acted", seconds(1)), format!("acted{}", " 1".repeat(200)));
    injector.ram.store(512, 0);
    injector.poll(seconds(2));
    assert!(injector.obey("acted", seconds(2)).starts_with("acted 2 1 1"));
    let report = injector.report(seconds(3));
    assert_eq!(report[0], "acted 2 times from 1.000 s to 2.000 s: stuck-at@1/0/0=1");
    assert_eq!(report.last().unwrap(), "2 polls in 3.0 s; late for 1.0 s, 1000.0 ms at the most");
}

#[test]
fn a_fault_that_sleeps_does_not_act_and_forgets_what_it_saw() {
    let mut injector = injector(&["coupling-in@1/0/0=up>2/0/0", "stuck-at@1/1/0=1"]);
    assert!(injector.poll(seconds(1)));
    assert_eq!(injector.obey("sleep 0", seconds(1)), "done");
    injector.ram.store(512, 1);
    injector.poll(seconds(2));
    assert_eq!(injector.obey("wake", seconds(2)), "done");
    injector.poll(seconds(3));
    assert_eq!(injector.obey("acted", seconds(3)), "acted 0 1", "the aggressor changed while the fault slept");
    assert_eq!(injector.obey("sleep", seconds(3)), "done");
    assert!(!injector.poll(seconds(4)));
}

#[test]
fn a_fault_is_awake_from_its_start_to_its_end_after_it_was_added() {
    let mut injector = injector(&[]);
    injector.add("stuck-at@1/0/0=1,from=2s,until=4s", seconds(10)).unwrap();
    let busy = [11, 12, 13, 14].map(|second| injector.poll(seconds(second)));
    assert_eq!(busy, [false, true, true, false]);
}

#[test]
fn commands_are_answered_by_one_line_each() {
    let mut injector = injector(&[]);
    injector.ram.store(513, 0xdead_beef);
    injector.ram.store(1024, 0xdead_beef);
    for (command, answer) in [
        ("add stuck-at@1/0/0=1", "added 0"),
        ("add address@1>2,intermittent=0.5", "added 1"),
        ("add stuck-at@4/0/0=1", "error: this place lies outside the RAM"),
        ("add stuck-at@1/9/0=1 stuck-at@1/9/1=1", "added 2 3"),
        ("add stuck-at", "error: write KIND@PLACE..., as in stuck-at@0x5000/3/65=1"),
        ("sleep 4", "error: no such fault"),
        ("acted", "acted 0 0 0 0"),
        ("bit 1/0/64", "bit 1"),
        ("bit 1/0/68", "bit 0"),
        ("bit 4/0/0", "error: this place lies outside the RAM"),
        ("bit 1/0", "error: a cell is FRAME/LINE/BIT, with lines 0 to 63 and bits 0 to 511, as in 0x5000/3/65"),
        ("find deadbeef", "found 0x1008 0x2000"),
        ("find 1", "found"),
        ("find x", "error: a word is up to 16 hexadecimal digits"),
        ("corrupt 4 1 7 a line of zeros", "error: this place lies outside the RAM"),
        (
            "corrupt 1 2 7 a line of ones",
            "error: write FRAME OTHER-FRAME SEED CLASS; a class is named as in docs/corruption.md",
        ),
        ("jump", "error: commands are add, clear, sleep, wake, acted, bit, find, corrupt"),
    ] {
        assert_eq!(injector.obey(command, seconds(0)), answer, "{command}");
    }
}

#[test]
fn what_is_cleared_acts_no_more_and_stays_in_the_report() {
    let mut injector = injector(&["stuck-at@1/0/0=1"]);
    injector.poll(seconds(1));
    assert_eq!(injector.obey("clear", seconds(1)), "done");
    injector.ram.store(512, 0);
    assert!(!injector.poll(seconds(2)));
    assert_eq!(injector.ram.load(512), 0);
    assert_eq!(injector.obey("add stuck-at@2/0/0=1", seconds(2)), "added 0");
    let report = injector.report(seconds(3));
    assert_eq!(
        report[..2],
        ["acted 1 times from 1.000 s to 1.000 s: stuck-at@1/0/0=1", "never acted: stuck-at@2/0/0=1"]
    );
}

#[test]
fn polls_that_come_late_are_told_and_pauses_without_a_fault_are_not() {
    let mut injector = injector(&["stuck-at@1/0/0=1,from=1s,until=2s"]);
    for micros in [0, 500_000, 1_000_000, 1_000_900, 1_005_900, 1_006_000, 2_500_000, 4_000_000] {
        injector.poll(Duration::from_micros(micros));
    }
    assert_eq!(injector.report(seconds(4)).last().unwrap(), "4 polls in 4.0 s; late for 0.0 s, 5.0 ms at the most");
}

#[test]
fn a_frame_is_corrupted_as_its_class_says_and_no_other_is() {
    let mut injector = injector(&[]);
    (0..2048).for_each(|word| injector.ram.store(word, 0x0101_0101 * (word as u64 + 1)));
    let before: Vec<u64> = (0..2048).map(|word| injector.ram.load(word)).collect();
    let changed = |injector: &Injector<Ram>| -> Vec<usize> {
        (0..2048).filter(|&word| injector.ram.load(word) != before[word]).collect()
    };
    assert_eq!(injector.obey("corrupt 2 3 7 a line of zeros", seconds(0)), "done");
    let line = changed(&injector);
    assert_eq!(line.len(), 8);
    assert!(line.iter().all(|&word| word / 8 == line[0] / 8 && word / 512 == 2 && injector.ram.load(word) == 0));
    assert_eq!(injector.obey("corrupt 1 3 7 the content of another page", seconds(0)), "done");
    assert!((0..512).all(|word| injector.ram.load(512 + word) == before[1536 + word]));
    assert_eq!(changed(&injector).len(), 512 + 8);
}

#[test]
fn places_are_addresses_and_what_lies_below_the_first_is_outside() {
    let mut injector = Injector::new(Ram::frames_from(0x100, 2));
    injector.ram.store(0x101 * 512 + 3, 0xdead_beef);
    for (command, answer) in [
        ("find deadbeef", "found 0x101018"),
        ("bit 0x101/0/192", "bit 1"),
        ("add stuck-at@0x100/63/511=1", "added 0"),
        ("add stuck-at@0xff/63/511=1", "error: this place lies outside the RAM"),
        ("add stuck-at@0x102/0/0=1", "error: this place lies outside the RAM"),
        ("bit 0xff/0/0", "error: this place lies outside the RAM"),
        ("corrupt 0xff 0x101 1 a line of zeros", "error: this place lies outside the RAM"),
    ] {
        assert_eq!(injector.obey(command, seconds(0)), answer, "{command}");
    }
    assert!(injector.poll(seconds(1)));
    assert_eq!(injector.obey("find 8000000000000000", seconds(1)), "found 0x100ff8");
}

#[test]
fn a_ram_begins_at_a_frame() {
    assert_eq!(Base::parse("0x40000000").map(Base::first_word), Some(0x800_0000));
    for wrong in ["0x40000001", "40000000", "0x", "1GiB"] {
        assert_eq!(Base::parse(wrong), None, "{wrong}");
    }
}
