//! Probes of the features for bad memory: retirement, counters, and errors on purpose.

use rampart_memory::Bytes;
use rustix::io::Errno;

use super::claiming::writable;
use crate::errors::{controllers, injectable_types, probe_events};
use crate::retire::{KERNEL, Way};
use crate::roots::{number, numbered, text};
use crate::{Absence, Roots, block};

pub(super) fn soft_offline(roots: &Roots) -> Result<String, Absence> {
    let switch = roots.proc("sys/vm/enable_soft_offline");
    if number(&switch) == Some(0) {
        return Err(Absence::new("soft offline is switched off", "sysctl vm.enable_soft_offline=1"));
    }
    match writable(&Way::Soft.file(roots), KERNEL) {
        Ok(()) => Ok("any frame, by its number".to_owned()),
        Err(absence) => match block::may_soft_offline() {
            Ok(()) => Ok("frames of own pages".to_owned()),
            Err(Errno::PERM) => Err(Absence::new("only root may retire frames", "run as root, outside of a container")),
            Err(_) => Err(absence),
        },
    }
}

pub(super) fn hard_offline(roots: &Roots) -> Result<String, Absence> {
    writable(&Way::Hard.file(roots), KERNEL).map(|()| "any frame, by its number".to_owned())
}

pub(super) fn memory_blocks(roots: &Roots) -> Result<String, Absence> {
    let folder = roots.sys("devices/system/memory");
    let size = folder.join("block_size_bytes");
    let bytes = text(&size).map_err(|cause| Absence::of_file(&size, &cause, "CONFIG_MEMORY_HOTPLUG"))?;
    let blocks = numbered(&folder, "memory");
    let (Ok(bytes), Some((_, last))) = (u64::from_str_radix(bytes.trim(), 16), blocks.last()) else {
        return Err(Absence::new(
            format!("{} has no blocks", folder.display()),
            "use a kernel with CONFIG_MEMORY_HOTPLUG",
        ));
    };
    writable(&last.join("state"), "CONFIG_MEMORY_HOTREMOVE")?;
    Ok(format!("{} of {}", blocks.len(), Bytes::new(bytes)))
}

pub(super) fn error_counters(roots: &Roots) -> Result<String, Absence> {
    let controllers = controllers(roots)?;
    let dimms: usize = controllers.iter().map(|controller| controller.dimms.len()).sum();
    Ok(format!("controllers: {}, DIMMs: {dimms} (EDAC)", controllers.len()))
}

pub(super) fn error_injection(roots: &Roots) -> Result<String, Absence> {
    injectable_types(roots).map(|types| format!("error types: {} (EINJ)", types.lines().count()))
}

/// The tracepoint exists even without a driver that uses it.
pub(super) fn error_events(roots: &Roots) -> Result<String, Absence> {
    controllers(roots)?;
    probe_events(roots).map(|()| "with their addresses, by ras:mc_event".to_owned())
}

pub(super) fn poison_injection(roots: &Roots) -> Result<String, Absence> {
    let path = roots.sys("kernel/debug/hwpoison/corrupt-pfn");
    writable(&path, "CONFIG_HWPOISON_INJECT, with the module hwpoison-inject and debugfs mounted")?;
    Ok("any frame, by its number".to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::fake::machine;
    use super::*;

    #[test]
    fn a_server_with_everything_can_do_everything() {
        let (_folder, roots) = machine(&[
            ("devices/system/memory/block_size_bytes", "8000000\n"),
            ("devices/system/memory/memory0/state", "online\n"),
            ("devices/system/memory/memory32/state", "online\n"),
            ("devices/system/memory/soft_offline_page", ""),
            ("devices/system/memory/hard_offline_page", ""),
            ("devices/system/edac/mc/mc0/dimm0/dimm_label", "DIMM_A1\n"),
            ("kernel/tracing/events/ras/mc_event/enable", "0\n"),
            ("kernel/debug/apei/einj/available_error_type", "0x00000008 Memory Correctable\n"),
            ("kernel/debug/hwpoison/corrupt-pfn", ""),
        ]);
        assert_eq!(memory_blocks(&roots).unwrap(), "2 of 128 MiB");
        assert_eq!(soft_offline(&roots).unwrap(), "any frame, by its number");
        assert_eq!(hard_offline(&roots).unwrap(), "any frame, by its number");
        assert_eq!(error_counters(&roots).unwrap(), "controllers: 1, DIMMs: 1 (EDAC)");
        assert_eq!(error_events(&roots).unwrap(), "with their addresses, by ras:mc_event");
        assert_eq!(error_injection(&roots).unwrap(), "error types: 1 (EINJ)");
        assert!(poison_injection(&roots).is_ok());
    }

    #[test]
    fn soft_offline_that_is_switched_off_is_absent() {
        let (_folder, roots) =
            machine(&[("devices/system/memory/soft_offline_page", ""), ("sys/vm/enable_soft_offline", "0\n")]);
        assert_eq!(soft_offline(&roots).unwrap_err().remedy, "sysctl vm.enable_soft_offline=1");
    }

    #[test]
    fn a_tracepoint_that_no_driver_uses_gives_no_events() {
        let (_folder, roots) = machine(&[("kernel/tracing/events/ras/mc_event/enable", "0\n")]);
        assert!(error_events(&roots).unwrap_err().reason.contains("EDAC"));
        let (_folder, roots) = machine(&[("devices/system/edac/mc/mc0/ce_count", "0\n")]);
        assert!(error_events(&roots).unwrap_err().remedy.contains("tracefs"));
    }

    #[test]
    fn memory_without_blocks_is_not_hot_pluggable() {
        let (_folder, roots) = machine(&[("devices/system/memory/block_size_bytes", "8000000\n")]);
        assert!(memory_blocks(&roots).unwrap_err().remedy.contains("CONFIG_MEMORY_HOTPLUG"));
    }
}
