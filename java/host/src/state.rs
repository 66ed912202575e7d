//! What the functions of the host keep between calls.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rampart_heap::wasmtime::{HeapError, HeapShare};
use wasmtime::{AnyRef, Caller, ExnRef, OwnedRooted};

use crate::weak::WeakHandle;

/// What the functions keep between calls.
pub struct HostState {
    pub share: Arc<HeapShare>,
    pub out: Vec<u8>,
    pub err: Vec<u8>,
    pub weak: WatchedReferences,
    pub exceptions: Exceptions,
    /// For tests, once the program has asked: whether a line of standard input has come.
    pub told: Option<Arc<AtomicBool>>,
}

/// Weak references of whose end the program wants to know.
#[derive(Default)]
pub struct WatchedReferences {
    pub watched: Vec<WatchedReference>,
    /// How many references the heap had cleared when these were last looked at.
    pub looked_at: usize,
}

pub struct WatchedReference {
    pub weak: Arc<WeakHandle>,
    /// The function of the program that is called, and its arguments.
    pub function: &'static str,
    pub given: Vec<OwnedRooted<AnyRef>>,
}

/// What a function of the host is called with.
pub type HostCaller<'a> = Caller<'a, HostState>;

impl HostState {
    pub fn new(share: Arc<HeapShare>) -> Self {
        Self {
            share,
            out: Vec::new(),
            err: Vec::new(),
            weak: WatchedReferences::default(),
            exceptions: Exceptions::default(),
            told: None,
        }
    }

    /// Prints on stderr.
    pub fn print_error(&mut self, text: &str) {
        self.err.extend(text.bytes());
        self.flush();
    }

    /// Writes what is buffered.
    pub fn flush(&mut self) {
        let _lost = std::io::stdout().write_all(&std::mem::take(&mut self.out));
        let _lost = std::io::stderr().write_all(&std::mem::take(&mut self.err));
    }
}

/// What is known of the exceptions of a program.
#[derive(Default)]
pub struct Exceptions {
    /// They stay alive.
    pub made: Vec<(Option<HeapError>, OwnedRooted<ExnRef>)>,
    /// The launcher has printed the one that ends the program.
    pub is_reported: bool,
}
