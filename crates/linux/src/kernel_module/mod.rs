//! Rampart's kernel module: loading it, unloading it, what it shows, and the frames that it hands to its owner.
//!
//! **Problem.** A kernel refuses a module for many reasons, and says all of them with one of four error numbers; the
//! rest is in its log. **Idea.** What the kernel will look at is read first: whether it takes modules at all, whether
//! they must be signed, the release that the file was built for. The kernel decides; what was read explains. **Why this
//! way.** The module is loaded by finit_module(2), not by `insmod` or `modprobe`: it needs no other module, so nothing
//! has to be found, and the kernel's own error comes back. Neither program has to be installed.
//!
//! Sources: Linux, kernel/module/main.c and signing.c; Documentation/ABI/testing/sysfs-module; `docs/kernel-abi.md`.

mod ages;
mod counters;
mod device;
mod file;
mod holders;
mod loading;
mod reporter;
mod rules;

use std::ffi::CStr;

pub use self::ages::{AgeTable, FrameAge, LastTest, age_clock};
pub use self::counters::{
    ClaimCounts, DemandCount, KernelModuleView, MissedFrames, NewMemoryCounts, NewMemoryPolicy, OnDemandCounts,
    TestedCount, parse_claims, parse_demand, parse_missed, parse_new_memory, parse_on_demand, parse_tested,
};
pub use self::device::{
    ClaimRefusal, ClaimVerdict, ClaimWay, ClaimedFrames, FrameAccess, KernelFreeList, KernelMigratetype, KernelZone,
    ListPart, ListRefusal, ModuleDevice, ModuleRequests, NewClaim, VerdictRefusal,
};
pub use self::file::ModuleFile;
pub use self::holders::{DeviceHolder, LoadedModule};
pub use self::loading::{ModuleRefusal, load, running_release, unload};
pub use self::reporter::{OnlineDriver, PageReporter};
pub use self::rules::{Lockdown, ModuleRules, SecureBoot};

/// The module's name.
const NAME: &str = "rampart";

/// The same, for system calls.
const C_NAME: &CStr = c"rampart";

/// The module's device.
const DEVICE: &str = "/dev/rampart";

/// The version of the module's interface that this crate knows: `RAMPART_ABI` of `kernel/rampart_abi.h`.
pub const ABI: u32 = 1;
