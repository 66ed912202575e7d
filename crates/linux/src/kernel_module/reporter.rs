//! Drivers with a place in the kernel that only one can have: free pages are reported to one (Linux,
//! mm/page_reporting.c), and one says when memory that comes online is used (mm/memory_hotplug.c).

use std::fs::{self, DirEntry};

use serde::Serialize;

use crate::Roots;
use crate::roots::text;

/// A driver that may have the kernel report free pages to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, displaydoc::Display)]
#[serde(rename_all = "snake_case")]
pub enum PageReporter {
    /// virtio-balloon
    VirtioBalloon,
    /// Hyper-V's balloon
    HyperVBalloon,
}

/// A driver that may decide when memory that comes online is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, displaydoc::Display)]
#[serde(rename_all = "snake_case")]
pub enum OnlineDriver {
    /// virtio-mem
    VirtioMem,
    /// Hyper-V's balloon
    HyperVBalloon,
    /// Xen's balloon
    XenBalloon,
}

/// The number of the feature `VIRTIO_BALLOON_F_REPORTING` (Virtual I/O Device 1.2, 5.5.3).
const REPORTING: usize = 5;

impl PageReporter {
    /// The driver that has the place, as far as it shows: virtio-balloon shows which features it agreed on; of
    /// Hyper-V's balloon only the device is seen.
    #[must_use]
    pub fn find(roots: &Roots) -> Option<Self> {
        // The features are a text of zeros and ones, the first first.
        let reports = |features: String| features.as_bytes().get(REPORTING) == Some(&b'1');
        let mut balloons = entries(roots, "bus/virtio/drivers/virtio_balloon");
        if balloons.any(|device| text(&device.path().join("features")).is_ok_and(reports)) {
            return Some(Self::VirtioBalloon);
        }
        has_hyper_v_balloon(roots).then_some(Self::HyperVBalloon)
    }
}

impl OnlineDriver {
    /// The driver that has the place, as far as it shows: one with a device.
    #[must_use]
    pub fn find(roots: &Roots) -> Option<Self> {
        let is_device = |name: &str| name.strip_prefix("virtio").is_some_and(|number| number.parse::<u32>().is_ok());
        if entries(roots, "bus/virtio/drivers/virtio_mem").any(|file| file.file_name().to_str().is_some_and(is_device))
        {
            Some(Self::VirtioMem)
        } else if has_hyper_v_balloon(roots) {
            Some(Self::HyperVBalloon)
        } else {
            roots.sys("devices/system/xen_memory/xen_memory0").exists().then_some(Self::XenBalloon)
        }
    }
}

fn entries(roots: &Roots, folder: &str) -> impl Iterator<Item = DirEntry> {
    fs::read_dir(roots.sys(folder)).into_iter().flatten().flatten()
}

fn has_hyper_v_balloon(roots: &Roots) -> bool {
    let is_device = |name: &str| name.len() == 36 && name.contains('-');
    entries(roots, "bus/vmbus/drivers/hv_balloon").any(|file| file.file_name().to_str().is_some_and(is_device))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Option<PageReporter> {
        found_in(files, PageReporter::find)
    }

    fn found_in<T>(files: &[(&str, &str)], find: fn(&Roots) -> Option<T>) -> Option<T> {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        find(&Roots::new(folder.path(), folder.path()))
    }

    #[test]
    fn a_balloon_takes_the_place_only_if_it_agreed_on_reports() {
        let balloon = "bus/virtio/drivers/virtio_balloon/virtio3/features";
        assert_eq!(found(&[(balloon, "0100010000\n")]), Some(PageReporter::VirtioBalloon));
        assert_eq!(found(&[(balloon, "1111101111\n")]), None);
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn the_balloon_of_hyper_v_counts_if_it_has_a_device() {
        let driver = "bus/vmbus/drivers/hv_balloon";
        let device = format!("{driver}/1eccfd72-4b41-45ef-b73a-4a6e44c12924/id");
        assert_eq!(found(&[(&device, "")]), Some(PageReporter::HyperVBalloon));
        assert_eq!(found(&[(&format!("{driver}/bind"), ""), (&format!("{driver}/new_id"), "")]), None);
    }

    #[test]
    fn who_decides_over_memory_that_comes_online_is_named_by_its_device() {
        let found = |files: &[(&str, &str)]| found_in(files, OnlineDriver::find);
        let driver = "bus/virtio/drivers/virtio_mem";
        assert_eq!(found(&[(&format!("{driver}/virtio2/id"), "")]), Some(OnlineDriver::VirtioMem));
        assert_eq!(found(&[(&format!("{driver}/bind"), "")]), None);
        let balloon = "bus/vmbus/drivers/hv_balloon/1eccfd72-4b41-45ef-b73a-4a6e44c12924/id";
        assert_eq!(found(&[(balloon, "")]), Some(OnlineDriver::HyperVBalloon));
        let balloon = "devices/system/xen_memory/xen_memory0/target";
        assert_eq!(found(&[(balloon, "")]), Some(OnlineDriver::XenBalloon));
    }
}
