//! How a guard knows that `rampart run` reads its reports.
//!
//! `rampart run` keeps a file locked in the folder of the guards' state, and the kernel releases the lock when it dies.
//! Before it ends normally, it removes the folder.

/// The file that is locked as long as the server lives.
pub const ALIVE: &str = "server";

/// The environment variable that is [`REQUIRED`] if no process may go on without its server.
pub const VARIABLE: &str = "RAMPART_GUARD_SERVER";

/// See [`VARIABLE`].
pub const REQUIRED: &str = "required";

/// The file in which guards write why the heap of a process is not guarded: the first of them, which prints it.
pub const UNGUARDED: &str = "said";
