//! The driver to which the kernel reports its free pages. There can be only one (Linux, mm/page_reporting.c).

use std::fs;

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

/// The number of the feature `VIRTIO_BALLOON_F_REPORTING` (Virtual I/O Device 1.2, 5.5.3).
const REPORTING: usize = 5;

impl PageReporter {
    /// The driver that has the place, as far as it shows: virtio-balloon shows which features it agreed on; of
    /// Hyper-V's balloon only the device is seen.
    #[must_use]
    pub fn find(roots: &Roots) -> Option<Self> {
        let devices = |driver: &str| fs::read_dir(roots.sys(driver)).into_iter().flatten().flatten();
        // The features are a text of zeros and ones, the first first.
        let reports = |features: String| features.as_bytes().get(REPORTING) == Some(&b'1');
        if devices("bus/virtio/drivers/virtio_balloon")
            .any(|device| text(&device.path().join("features")).is_ok_and(reports))
        {
            return Some(Self::VirtioBalloon);
        }
        let is_device = |name: &str| name.len() == 36 && name.contains('-');
        let hyper_v =
            devices("bus/vmbus/drivers/hv_balloon").any(|file| file.file_name().to_str().is_some_and(is_device));
        hyper_v.then_some(Self::HyperVBalloon)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Option<PageReporter> {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        PageReporter::find(&Roots::new(folder.path(), folder.path()))
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
}
