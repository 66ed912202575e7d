//! The way in which a userfaultfd was opened, and whose faults it sees.

/// Whose faults are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Those of this program's own code. A system call on an absent page fails with EFAULT.
    UserCode,
    /// Those of this program and of the kernel in its system calls.
    Everything,
}

/// The way in which a userfaultfd was opened.
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
    /// Whose faults it sees.
    #[must_use]
    pub const fn reach(self) -> Reach {
        match self {
            Self::SystemCall | Self::Device => Reach::Everything,
            Self::UserModeOnly => Reach::UserCode,
        }
    }
}
