//! How a userfaultfd was had, and whose faults it lets see.

/// Whose faults are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Those of this program's own code. A system call that is given a page that is not there fails with EFAULT.
    UserCode,
    /// Those of this program and of the kernel in its system calls.
    Everything,
}

/// How a userfaultfd was had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, displaydoc::Display)]
pub enum Route {
    /// every fault, by userfaultfd(2)
    SystemCall,
    /// every fault, by /dev/userfaultfd
    Device,
    /// faults of user code only: system calls on pages that are not there fail with EFAULT
    UserModeOnly,
}

impl Route {
    /// Whose faults it lets see.
    #[must_use]
    pub const fn reach(self) -> Reach {
        match self {
            Self::SystemCall | Self::Device => Reach::Everything,
            Self::UserModeOnly => Reach::UserCode,
        }
    }
}
