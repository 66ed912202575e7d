//! The messages about events, one line each.

use rampart_memory::Frame;
use rampart_memory::fault_map::Retirement;

use crate::error::Error;
use crate::guards::report::GuardEvent;

/// Follows the message about a frame into which errors were injected.
pub const INJECTED: &str = "the error was injected: the frame does not go on the map";

/// A page changed for the second time in the same frame.
pub const ERRING: &str = "memory changed a second time in a frame that passes its test";

/// A process ended before the tests of a suspect frame did.
pub const UNJUDGED: &str = "memory changed in a frame whose tests had not ended when the process did";

/// Whether the frame of an event is on the map, and how it is retired.
pub fn mapped(event: &GuardEvent, stored: &Result<(), Error>, retires: bool) -> String {
    let Some(frame) = event.frame.and_then(Frame::new) else {
        return "its frame is unknown: reading frame numbers needs root".to_owned();
    };
    match stored {
        Ok(()) if retires => {
            format!(
                "frame {frame} is on the map of bad frames, and is retired when the process has ended at the latest"
            )
        }
        Ok(()) => format!("frame {frame} is on the map of bad frames; `rampart map restore` retires it"),
        Err(error) => format!("frame {frame} could not be put on the map of bad frames: {error}"),
    }
}

/// A frame failed its test.
pub fn failed(event: &GuardEvent) -> String {
    let seen = event.evidence.as_ref();
    let line = seen
        .map_or_else(String::new, |seen| format!(", with {} wrong bits in line {}", seen.bits().count(), seen.line));
    format!("memory failed its test{line}")
}

/// A page is beyond correction.
pub fn uncorrectable(process: u32, event: &GuardEvent) -> String {
    let site = event.site.as_deref().unwrap_or("an unknown place");
    format!("memory changed beyond correction: {}, allocated at {site}", page(process, event))
}

/// The hardware reported a page lost.
pub fn given_up(process: u32, event: &GuardEvent) -> String {
    format!("the hardware gave memory up: {}", page(process, event))
}

fn page(process: u32, event: &GuardEvent) -> String {
    let page = event.page.unwrap_or_default();
    let offset = event.offset.unwrap_or_default();
    let place = event.address.map_or_else(|| format!("{offset:#x} bytes into its heap"), |at| format!("at {at:#x}"));
    format!("page {page} of process {process}, {place}")
}

/// A process was stopped at an uncorrectable page, with the thread and the instruction that accessed it.
pub fn stopped(process: u32, event: &GuardEvent) -> String {
    let thread = event.thread.map_or_else(String::new, |thread| format!(": thread {thread} accessed it"));
    let code = event.code.as_ref().map_or_else(String::new, |code| format!(", at {code}"));
    format!("process {process} was stopped before it used the page{thread}{code}")
}

/// A process was stopped because its guard cannot continue.
pub fn guard_failed(process: u32, event: &GuardEvent) -> String {
    let why = event.why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
    format!("process {process} was stopped: its guard cannot go on{why}")
}

/// The result of retiring a frame.
pub fn retirement((frame, retirement): &(Frame, Retirement)) -> String {
    match retirement {
        Retirement::Offlined => format!("frame {frame} is retired"),
        Retirement::Refused(why) => format!("frame {frame} is not retired: {why}; `rampart map restore` tries again"),
        Retirement::Pending => format!("frame {frame} is not retired; `rampart map restore` tries again"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_named_with_its_process_and_offset() {
        let event: GuardEvent =
            serde_json::from_str("{\"event\":\"uncorrectable\",\"page\":3,\"offset\":12288}").unwrap();
        let known = GuardEvent { site: Some("/bin/job+0x7".to_owned()), ..event.clone() };
        assert!(
            uncorrectable(7, &event)
                .ends_with("page 3 of process 7, 0x3000 bytes into its heap, allocated at an unknown place")
        );
        assert!(uncorrectable(7, &known).ends_with("allocated at /bin/job+0x7"));
        let placed = GuardEvent { address: Some(0x5000), ..event };
        assert!(uncorrectable(7, &placed).contains("page 3 of process 7, at 0x5000, "));
    }

    #[test]
    fn a_frame_that_fails_is_told_with_what_was_seen() {
        let event: GuardEvent = serde_json::from_str("{\"event\":\"failed\"}").unwrap();
        assert!(mapped(&event, &Ok(()), true).contains("unknown") && failed(&event) == "memory failed its test");
    }

    #[test]
    fn a_stopped_process_is_reported_with_its_thread_and_its_code() {
        let event: GuardEvent =
            serde_json::from_str("{\"event\":\"stopped\",\"code\":\"a+0x1\",\"thread\":8}").unwrap();
        assert_eq!(stopped(7, &event), "process 7 was stopped before it used the page: thread 8 accessed it, at a+0x1");
    }
}
