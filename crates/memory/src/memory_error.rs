//! Memory errors that hardware reports while programs run.
//!
//! **Problem.** ECC corrects an error before any test can see it. The memory controller's knowledge leaves the kernel
//! as counters, as trace events, or in another tool's database, each with different gaps. **Idea.** One type for all of
//! them: a [`MemoryError`], in which unknown facts are `None`. **Why this way.** The policy that decides what to test
//! next ([`crate::ErrorTally`]) need not know the source of an error, and a fake one serves as well as a real one.
//!
//! Source of the terms: Linux, Documentation/driver-api/edac.rst and include/ras/ras_event.h.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::{Bytes, FRAME_BYTES, Frame, LINE_BYTES, LINES_PER_FRAME, Timestamp};

/// The state of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, displaydoc::Display)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// corrected
    Corrected,
    /// deferred
    Deferred,
    /// uncorrected
    Uncorrected,
}

impl Severity {
    /// The severity that the kernel and rasdaemon name so; `None` for other words, among them `Info`, which is no
    /// error.
    ///
    /// Source: `mc_event_error_type` in Linux, include/linux/edac.h.
    #[must_use]
    pub fn of_kernel_word(word: &str) -> Option<Self> {
        match word {
            "Corrected" => Some(Self::Corrected),
            // The data are wrong, and nobody has used them yet.
            "Deferred" => Some(Self::Deferred),
            "Uncorrected" | "Fatal" => Some(Self::Uncorrected),
            _ => None,
        }
    }
}

/// Errors of one place in one report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryError {
    /// The time of the report.
    pub at: Timestamp,
    /// The state of the data.
    pub severity: Severity,
    /// The number of errors; 0 counts nothing.
    pub count: u32,
    /// The frame; `None` where the address is unknown or may mean another frame.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "frame")]
    pub frame: Option<Frame>,
    /// The line of the frame, 0 to 63; `None` where it is unknown or may be another line.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "line")]
    pub line: Option<u8>,
    /// The part of the memory that the controller names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<DimmLocation>,
    /// The syndrome of the code; only the controller's manual says which bits it means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub syndrome: Option<u64>,
    /// The precision of the address: the error is somewhere in the aligned block of so many bytes around it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grain: Option<Bytes>,
}

/// A part of the memory, in the names of the board and the controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DimmLocation {
    /// The label of the DIMM's socket, or several labels where it may be any of them; empty if unknown.
    #[serde(default)]
    pub label: String,
    /// The kernel's number of the memory controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<u32>,
    /// The controller's topmost layer: a branch, a channel or a row of chips.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top: Option<u8>,
    /// The layer below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub middle: Option<u8>,
    /// The layer below that: mostly a slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower: Option<u8>,
}

/// An error as the kernel's tracepoint `ras:mc_event` reports it, gaps included; rasdaemon stores the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McEvent {
    /// The time of the report.
    pub at: Timestamp,
    /// The state of the data.
    pub severity: Severity,
    /// The number of errors; some firmware says 0 and means 1.
    pub count: u32,
    /// The board's label of the DIMM.
    pub label: String,
    /// The kernel's number of the memory controller.
    pub controller: u32,
    /// Top, middle and lower layer; negative if unknown.
    pub layers: [i64; 3],
    /// The physical address; 0 if unknown.
    pub address: u64,
    /// The precision of the address; `None` if it is unknown.
    pub grain: Option<Bytes>,
    /// The syndrome of the code; 0 if unknown.
    pub syndrome: u64,
}

impl From<McEvent> for MemoryError {
    fn from(event: McEvent) -> Self {
        let (frame, line) = locate(event.address, event.grain);
        let [top, middle, lower] = event.layers.map(|layer| u8::try_from(layer).ok());
        Self {
            at: event.at,
            severity: event.severity,
            count: event.count.max(1),
            frame,
            line,
            place: Some(DimmLocation { label: event.label, controller: Some(event.controller), top, middle, lower }),
            syndrome: (event.syndrome != 0).then_some(event.syndrome),
            grain: event.grain,
        }
    }
}

/// The frame and the line of an address, each only if no other is possible.
fn locate(address: u64, grain: Option<Bytes>) -> (Option<Frame>, Option<u8>) {
    if address == 0 {
        return (None, None);
    }
    // An address without a precision is still trusted for the frame.
    let grain = grain.map_or(FRAME_BYTES, Bytes::get);
    let frame = Frame::containing(address).filter(|_| grain <= FRAME_BYTES);
    let line = u8::try_from(address / LINE_BYTES % LINES_PER_FRAME).expect("a frame has 64 lines");
    (frame, frame.map(|_| line).filter(|_| grain <= LINE_BYTES))
}

fn frame<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Frame>, D::Error> {
    let checked = |number| Frame::new(number).ok_or_else(|| D::Error::custom("frame numbers are below 2^40"));
    Option::<u64>::deserialize(from)?.map(checked).transpose()
}

fn line<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u8>, D::Error> {
    match Option::<u8>::deserialize(from)? {
        Some(line) if u64::from(line) >= LINES_PER_FRAME => Err(D::Error::custom("lines of a frame are 0 to 63")),
        line => Ok(line),
    }
}

/// New reports of a source of errors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorBatch {
    /// The errors, in the order of the source.
    pub errors: Vec<MemoryError>,
    /// Reports that the source itself lost, by its own count.
    pub lost: u64,
    /// Reports that could not be parsed.
    pub unreadable: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(address: u64, grain: Option<u64>) -> MemoryError {
        let event = McEvent {
            at: Timestamp::from_micros(1),
            severity: Severity::Corrected,
            count: 0,
            label: "DIMM_A1".to_owned(),
            controller: 1,
            layers: [0, 300, -1],
            address,
            grain: grain.map(Bytes::new),
            syndrome: 0,
        };
        event.into()
    }

    #[test]
    fn an_address_means_a_frame_and_a_line_only_as_far_as_it_is_exact() {
        let meant = |address, grain| {
            let error = event(address, grain);
            (error.frame.map(Frame::number), error.line)
        };
        assert_eq!(meant(0x12_3ff0, Some(8)), (Some(0x123), Some(63)));
        assert_eq!(meant(0x12_3040, Some(64)), (Some(0x123), Some(1)));
        assert_eq!(meant(0x12_3040, Some(128)), (Some(0x123), None));
        assert_eq!(meant(0x12_3040, Some(4096)), (Some(0x123), None));
        assert_eq!(meant(0x12_3040, Some(8192)), (None, None));
        assert_eq!(meant(0x12_3040, None), (Some(0x123), None));
        assert_eq!(meant(0, Some(8)), (None, None), "drivers that know no address say 0");
        assert_eq!(meant(1 << 52, Some(8)), (None, None), "no machine has such an address");
    }

    #[test]
    fn gaps_of_an_event_are_gaps_and_no_zeros() {
        let error = event(0, None);
        assert_eq!((error.syndrome, error.count), (None, 1));
        let place = error.place.unwrap();
        assert_eq!((place.top, place.middle, place.lower), (Some(0), None, None));
    }

    #[test]
    fn the_kernel_s_words_are_known_and_a_remark_is_no_error() {
        let known = ["Corrected", "Deferred", "Uncorrected", "Fatal", "Info", ""].map(Severity::of_kernel_word);
        let uncorrected = Some(Severity::Uncorrected);
        let expected = [Some(Severity::Corrected), Some(Severity::Deferred), uncorrected, uncorrected, None, None];
        assert_eq!(known, expected);
    }

    #[test]
    fn an_error_comes_back_from_json_and_unknown_parts_may_be_missing() {
        for error in [event(0x12_3040, Some(64)), event(0, None)] {
            let text = serde_json::to_string(&error).unwrap();
            assert_eq!(serde_json::from_str::<MemoryError>(&text).unwrap(), error);
        }
        let bare = serde_json::from_str::<MemoryError>(r#"{"at": 5, "severity": "deferred", "count": 2}"#).unwrap();
        assert_eq!((bare.at.micros(), bare.severity, bare.frame), (5, Severity::Deferred, None));
    }

    #[test]
    fn json_that_names_what_cannot_be_is_refused() {
        for wrong in [r#""frame": 1099511627776"#, r#""line": 64"#, r#""farme": 1"#, r#""place": {"mc": 1}"#] {
            let text = format!(r#"{{"at": 5, "severity": "corrected", "count": 1, {wrong}}}"#);
            assert!(serde_json::from_str::<MemoryError>(&text).is_err(), "{text}");
        }
    }
}
