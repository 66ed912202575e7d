//! How a guard knows that somebody reads what it tells.
//!
//! Who started the program keeps a file locked, in the folder of the state of the guards, and the kernel ends the lock
//! when it dies. It removes the folder before it ends by itself.

/// The file that is locked as long as the server lives.
pub const ALIVE: &str = "server";

/// The variable of the environment that is set to [`REQUIRED`] if no process is to go on without its server.
pub const VARIABLE: &str = "RAMPART_GUARD_SERVER";

/// See [`VARIABLE`].
pub const REQUIRED: &str = "required";

/// The file in which guards write why the heap of a process is not guarded: the first of them, which says so.
pub const UNGUARDED: &str = "said";
