//! A line of the kernel's trace, as text.
//!
//! The event is printed so (Linux, include/ras/ras_event.h, `mc_event`; the part up to `mc_event: ` is trace_pipe's
//! own):
//!
//! ```text
//!           <idle>-0 [002] d.h1. 81.5: mc_event: 1 Corrected error: memory read error on DIMM_A1 (mc:0 location:0:1:-1
//!           address:0x12345678 grain:8 syndrome:0x5a area:DRAM)
//! ```

use rampart_memory::{Bytes, McEvent, MemoryError, Severity, Timestamp};

/// The meaning of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceLine {
    /// A memory error.
    Error(MemoryError),
    /// So many events were lost before they were read, at least.
    Lost(u64),
    /// A memory error that cannot be parsed.
    Unreadable,
    /// Nothing that matters here.
    Other,
}

impl TraceLine {
    /// The meaning of the line; an error counts as reported at `at`.
    #[must_use]
    pub fn parse(line: &str, at: Timestamp) -> Self {
        // The last one: the name of the interrupted program, which anybody may choose, precedes it.
        let Some((_, event)) = line.rsplit_once(": mc_event: ") else { return lost(line) };
        if event.split(' ').nth(1) == Some("Info") {
            return Self::Other;
        }
        parse_event(event, at).map_or(Self::Unreadable, |event| Self::Error(event.into()))
    }
}

/// `CPU:1 [LOST 12 EVENTS]`, or without a number where the kernel does not know it (kernel/trace/trace.c).
fn lost(line: &str) -> TraceLine {
    let number = line.strip_prefix("CPU:").and_then(|line| line.split_once(" [LOST ")?.1.strip_suffix("EVENTS]"));
    number.map_or(TraceLine::Other, |number| TraceLine::Lost(number.trim().parse().unwrap_or(1)))
}

fn parse_event(event: &str, at: Timestamp) -> Option<McEvent> {
    let (what, whereabouts) = event.split_once(" (mc:")?;
    let (count, what) = what.split_once(' ')?;
    let (severity, what) = what.split_once(" error")?;
    // The last one: messages of drivers contain "on" too, such as "Uncorrectable Data ECC on Replay".
    let (_message, label) = what.rsplit_once(" on ")?;

    let mut fields = whereabouts.split([' ', ')']);
    let controller = fields.next()?.parse().ok()?;
    let mut layers = fields.next()?.strip_prefix("location:")?.split(':').map(|layer| layer.parse().ok());
    let layers = [layers.next()??, layers.next()??, layers.next()??];
    let address = hexadecimal(fields.next()?.strip_prefix("address:")?)?;
    let grain: i64 = fields.next()?.strip_prefix("grain:")?.parse().ok()?;
    let syndrome = hexadecimal(fields.next()?.strip_prefix("syndrome:")?)?;
    Some(McEvent {
        at,
        severity: Severity::of_kernel_word(severity)?,
        count: count.parse().ok()?,
        label: label.to_owned(),
        controller,
        layers,
        address,
        // Printed as 1 << bits in 32 bits: from 2 GiB on, it is no longer a power of two.
        grain: u64::try_from(grain).ok().filter(|grain| grain.is_power_of_two()).map(Bytes::new),
        syndrome,
    })
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const AT: Timestamp = Timestamp::from_micros(7);

    fn error(event: &str) -> MemoryError {
        let line = format!("          <idle>-0       [002] d.h1.    81.503: mc_event: {event}");
        match TraceLine::parse(&line, AT) {
            TraceLine::Error(error) => error,
            other => panic!("{other:?}: {line}"),
        }
    }

    #[test]
    fn an_event_is_read_as_the_kernel_prints_it() {
        let error = error(
            "3 Corrected errors: memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0 (mc:1 location:1:0:-1 \
             address:0x1234567c0 grain:32 syndrome:0x5a  area:DRAM err_code:0001:0091 socket:0)",
        );
        assert_eq!((error.at, error.severity, error.count), (AT, Severity::Corrected, 3));
        assert_eq!((error.frame.unwrap().number(), error.line), (0x12_3456, Some(31)));
        assert_eq!((error.grain, error.syndrome), (Some(Bytes::new(32)), Some(0x5a)));
        let place = error.place.unwrap();
        assert_eq!((place.label.as_str(), place.controller), ("CPU_SrcID#0_Ha#0_Chan#1_DIMM#0", Some(1)));
        assert_eq!((place.top, place.middle, place.lower), (Some(1), Some(0), None));
    }

    #[test]
    fn an_event_may_lack_a_message_an_address_and_details() {
        let error = error(
            "1 Fatal error: on unknown label (mc:0 location:-1:-1:-1 address:0x00000000 \
             grain:-2147483648 syndrome:0x00000000)",
        );
        assert_eq!((error.severity, error.frame, error.grain), (Severity::Uncorrected, None, None));
        assert_eq!(error.place.unwrap().label, "unknown label");
    }

    #[test]
    fn a_driver_s_message_may_say_on() {
        let error = error(
            "1 Uncorrected error: Uncorrectable Data ECC on Replay on A1 or A2 (mc:0 location:0:0:0 address:0x1000 \
             grain:1 syndrome:0x0)",
        );
        assert_eq!(error.place.unwrap().label, "A1 or A2");
    }

    #[test]
    fn lost_events_are_counted_and_what_is_not_understood_is_told() {
        let parse = |line: &str| TraceLine::parse(line, AT);
        assert_eq!(parse("CPU:1 [LOST 12 EVENTS]"), TraceLine::Lost(12));
        assert_eq!(parse("CPU:1 [LOST EVENTS]"), TraceLine::Lost(1));
        assert_eq!(parse("x-1 [0] 1.0: mc_event: 1 Corrected error: garbage"), TraceLine::Unreadable);
        let remark = "1 Info error: x on y (mc:0 location:0:0:0 address:0x1000 grain:1 syndrome:0x0)";
        assert_eq!(parse(&format!("x-1 [0] 1.0: mc_event: {remark}")), TraceLine::Other);
        assert_eq!(parse(""), TraceLine::Other);
    }

    #[test]
    fn a_program_s_name_forges_no_event() {
        let event = "1 Corrected error: x on y (mc:0 location:0:0:0 address:0x1000 grain:1 syndrome:0x0)";
        let line = format!(": mc_event: 99 -1 [0] 1.0: mc_event: {event}");
        let TraceLine::Error(error) = TraceLine::parse(&line, AT) else { panic!("an error: {line}") };
        assert_eq!(error.count, 1);
    }

    proptest! {
        #[test]
        fn what_the_kernel_would_print_is_read_back(
            (count, address, syndrome, bits) in (1_u32..1 << 16, 0_u64.., 0_u64.., 0_u32..31),
            layers in [-1_i64..128, -1..128, -1..128],
            label in "[A-Za-z0-9_#]{1,20}( or [A-Z0-9]{1,4})?",
            message in "( [a-z]{1,9}){0,3}",
            detail in "( [a-z:()]{1,20})?",
        ) {
            // A driver's message may contain " on ", so a label with it is ambiguous.
            prop_assume!(!label.starts_with("on "));
            let [top, middle, lower] = layers;
            let plural = if count > 1 { "s" } else { "" };
            let line = format!(
                "x-1 [0] 1.0: mc_event: {count} Deferred error{plural}:{message} on {label} (mc:255 \
                 location:{top}:{middle}:{lower} address:{address:#010x} grain:{} syndrome:{syndrome:#010x}{detail})",
                1 << bits,
            );
            let event = McEvent {
                at: AT, severity: Severity::Deferred, count, label, controller: 255, layers, address,
                grain: Some(Bytes::new(1 << bits)), syndrome,
            };
            prop_assert_eq!(TraceLine::parse(&line, AT), TraceLine::Error(event.into()));
        }

        #[test]
        fn no_line_is_too_strange(line in "(x: mc_event: )?[0-9a-zA-Z():. -]{0,60}") {
            let _ = TraceLine::parse(&line, AT);
        }
    }
}
