//! The names of DIMMs.
//!
//! **Problem.** Firmware names a socket ("DIMM 0") and its bank ("P0 CHANNEL A"), and the first alone often names
//! several. **Idea.** Each DIMM has one name that no other has: the first of socket, `bank/socket` and the firmware's
//! number that is unique. What else it is called is understood as long as it means one DIMM; so is EDAC's label, which
//! is the bank and the socket with a space between them where the firmware reports errors (ghes_edac).

use rampart_linux::SmbiosDevice;

use crate::error::Error;

/// The names of one DIMM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DimmNames {
    /// No other DIMM has this one.
    pub name: String,
    /// Other DIMMs may be called so too.
    pub also: Vec<String>,
}

impl DimmNames {
    /// A DIMM that has one name.
    pub fn one(name: impl Into<String>) -> Self {
        Self { name: name.into(), also: Vec::new() }
    }

    /// The names of the firmware's devices, in their order.
    pub fn of_devices(devices: &[SmbiosDevice]) -> Vec<Self> {
        let candidates = |device: &SmbiosDevice| [device.locator.clone(), joined(device, '/')];
        let lower: Vec<_> = devices.iter().map(|device| candidates(device).map(|name| name.to_lowercase())).collect();
        let is_unique = |name: &str| {
            let name = name.to_lowercase();
            !name.is_empty() && lower.iter().filter(|names| names.contains(&name)).count() == 1
        };
        let named = devices.iter().map(|device| {
            let handle = format!("{:#06x}", device.handle);
            let name = candidates(device).into_iter().find(|name| is_unique(name));
            let also = vec![device.locator.clone(), joined(device, '/'), joined(device, ' '), handle.clone()];
            Self { name: name.unwrap_or(handle), also }
        });
        named.collect()
    }

    fn is(&self, name: &str) -> bool {
        same(&self.name, name)
    }

    fn may_be(&self, name: &str) -> bool {
        self.also.iter().any(|also| same(also, name))
    }
}

/// Bank and socket.
fn joined(device: &SmbiosDevice, by: char) -> String {
    if device.bank.is_empty() { device.locator.clone() } else { format!("{}{by}{}", device.bank, device.locator) }
}

pub fn same(one: &str, other: &str) -> bool {
    one.to_lowercase() == other.to_lowercase()
}

/// The index of the DIMM that is called so.
///
/// # Errors
/// If there is none, or if there are several.
pub fn find(name: &str, known: &[DimmNames]) -> Result<usize, Error> {
    let rules: [fn(&DimmNames, &str) -> bool; 3] = [|dimm, name| dimm.name == name, DimmNames::is, DimmNames::may_be];
    for rule in rules {
        let found: Vec<usize> = (0..known.len()).filter(|&index| rule(&known[index], name)).collect();
        match found[..] {
            [] => {}
            [index] => return Ok(index),
            _ => {
                let known = list(found.iter().map(|&index| &known[index]));
                return Err(Error::AmbiguousDimm { name: name.to_owned(), known });
            }
        }
    }
    Err(Error::UnknownDimm { name: name.to_owned(), known: list(known) })
}

/// The names of DIMMs, to be read.
pub fn list<'a>(dimms: impl IntoIterator<Item = &'a DimmNames>) -> String {
    dimms.into_iter().map(|dimm| dimm.name.as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn devices(names: &[(&str, &str)]) -> Vec<SmbiosDevice> {
        let device = |(handle, (bank, locator)): (u16, &(&str, &str))| SmbiosDevice {
            handle,
            locator: (*locator).to_owned(),
            bank: (*bank).to_owned(),
            size: None,
        };
        (0x11..).zip(names).map(device).collect()
    }

    fn names(of: &[(&str, &str)]) -> Vec<String> {
        DimmNames::of_devices(&devices(of)).into_iter().map(|dimm| dimm.name).collect()
    }

    #[test]
    fn a_name_is_as_short_as_it_can_be_without_being_that_of_another() {
        assert_eq!(names(&[("BANK 0", "DIMM_A1"), ("", "DIMM_B1")]), ["DIMM_A1", "DIMM_B1"]);
        assert_eq!(names(&[("P0 A", "DIMM 0"), ("P0 B", "dimm 0"), ("", "X")]), ["P0 A/DIMM 0", "P0 B/dimm 0", "X"]);
        assert_eq!(names(&[("", "RAM"), ("", "RAM"), ("", "")]), ["0x0011", "0x0012", "0x0013"]);
        assert_eq!(names(&[("A", "1"), ("", "A/1")]), ["1", "0x0012"]);
    }

    #[test]
    fn a_dimm_is_found_by_all_its_names_without_case() {
        let known = DimmNames::of_devices(&devices(&[("P0 A", "DIMM 0"), ("P0 B", "DIMM 0"), ("", "Soldered")]));
        let found = |name| find(name, &known);
        for (name, index) in [("p0 a/dimm 0", 0), ("P0 B DIMM 0", 1), ("0x0012", 1), ("SOLDERED", 2), ("0x0013", 2)] {
            assert_eq!(found(name).unwrap(), index, "{name}");
        }
        let refused = |name| found(name).unwrap_err().to_string();
        assert_eq!(refused("dimm 0"), "\"dimm 0\" is the name of several DIMMs: name one of P0 A/DIMM 0, P0 B/DIMM 0");
        assert_eq!(refused("A1"), "there is no DIMM \"A1\" here: name one of P0 A/DIMM 0, P0 B/DIMM 0, Soldered");
    }

    #[test]
    fn of_names_that_differ_in_case_alone_the_very_one_is_found() {
        let known = ["a1", "A1"].map(DimmNames::one);
        assert_eq!((find("a1", &known).unwrap(), find("A1", &known).unwrap()), (0, 1));
        assert!(matches!(find("Ä", &["ä", "b"].map(DimmNames::one)), Ok(0)));
    }
}
