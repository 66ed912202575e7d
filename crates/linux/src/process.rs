//! Other processes.

use rustix::process::{Pid, Signal, kill_process};

/// Asks a process to end, by SIGTERM. One that has ended already, or is another's, does not mind.
pub fn terminate(process: u32) {
    if let Some(process) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        let _gone = kill_process(process, Signal::TERM);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;

    #[test]
    fn a_process_that_is_asked_ends() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        terminate(child.id());
        assert_eq!(child.wait().unwrap().signal(), Some(15));
        terminate(child.id());
        terminate(0);
    }
}
