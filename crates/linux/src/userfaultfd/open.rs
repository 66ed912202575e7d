//! Opening: in one of three ways, with some features.

#![expect(unsafe_code, reason = "the kernel is asked for a userfaultfd and its features")]

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, Result};
use rustix::mm::{UserfaultfdFlags, userfaultfd};

use super::route::{Reach, Route};
use super::{Features, Userfaultfd, abi};
use crate::Absence;

const DEVICE: &str = "/dev/userfaultfd";

const CLOSED_AND_NEVER_WAITING: UserfaultfdFlags = UserfaultfdFlags::CLOEXEC.union(UserfaultfdFlags::NONBLOCK);

impl Userfaultfd {
    /// Opens one with all of some features, in the best way that reaches at least `least`.
    ///
    /// # Errors
    /// The missing feature of this kernel, or the missing right of this user.
    pub fn open(features: Features, least: Reach) -> std::result::Result<Self, Absence> {
        let (descriptor, route) = descriptor(least).map_err(refused)?;
        match handshake(descriptor.as_fd(), features) {
            Ok(_) => Ok(Self { descriptor, features, route }),
            Err(errno) => Err(lacking(features, least, errno)),
        }
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// A userfaultfd before its handshake; refusals of the first way are the useful ones.
fn descriptor(least: Reach) -> Result<(OwnedFd, Route)> {
    let refusal = match open(CLOSED_AND_NEVER_WAITING) {
        Ok(descriptor) => return Ok((descriptor, Route::SystemCall)),
        Err(errno) => errno,
    };
    if let Ok(descriptor) = open_device() {
        return Ok((descriptor, Route::Device));
    }
    if least == Reach::Everything {
        return Err(refusal);
    }
    let user_only = UserfaultfdFlags::from_bits_retain(abi::USER_MODE_ONLY);
    open(CLOSED_AND_NEVER_WAITING | user_only).map(|descriptor| (descriptor, Route::UserModeOnly))
}

fn open(flags: UserfaultfdFlags) -> Result<OwnedFd> {
    // SAFETY: nothing is registered with the new descriptor, so it has no effect on memory yet.
    unsafe { userfaultfd(flags) }
}

fn open_device() -> Result<OwnedFd> {
    let device = rustix::fs::open(DEVICE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    abi::new_of_device(device.as_fd(), CLOSED_AND_NEVER_WAITING.bits())
}

/// Requests features, once for each descriptor; returns all that this kernel has.
fn handshake(descriptor: BorrowedFd<'_>, features: Features) -> Result<Features> {
    let mut api = abi::Api { version: abi::VERSION, features: features.bits(), requests: 0 };
    // SAFETY: the structure is the request's own, and the request touches no other memory.
    unsafe { abi::ask(descriptor, abi::API, &mut api)? };
    Ok(Features::from_bits(api.features))
}

fn refused(errno: Errno) -> Absence {
    match errno {
        Errno::NOSYS => Absence::new("this kernel has no userfaultfd", "use a kernel with CONFIG_USERFAULTFD"),
        Errno::PERM => Absence::new(
            "this user may not handle page faults of system calls",
            "sysctl vm.unprivileged_userfaultfd=1, or run as root; in a container, allow userfaultfd in its profile",
        ),
        Errno::MFILE | Errno::NFILE => {
            Absence::new("no userfaultfd: too many open files", "raise the limit of open files (ulimit -n)")
        }
        other => Absence::new(format!("no userfaultfd: {other}"), "free memory first"),
    }
}

/// Names a requested feature that is missing.
fn lacking(asked: Features, least: Reach, errno: Errno) -> Absence {
    let had = descriptor(least).and_then(|(descriptor, _)| handshake(descriptor.as_fd(), Features::NONE));
    match had {
        Ok(had) if !had.contains(asked) => Absence::new(
            format!("this kernel's userfaultfd lacks {}", asked.without(had)),
            "use Linux 6.8 or newer, on x86-64 or aarch64",
        ),
        _ => Absence::new(format!("userfaultfd refuses {asked}: {errno}"), "report this kernel's version"),
    }
}
