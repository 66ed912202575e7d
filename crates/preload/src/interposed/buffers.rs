//! Memory that a system call uses, kept unlocked for the duration of the call.

#![allow(unsafe_code, reason = "what a program hands to the kernel is read")]

use std::ffi::{c_char, c_void};

use libc::{iovec, msghdr};

use crate::BACKING;

/// Memory that a call holds; released when it is done.
pub(crate) struct UnlockedForCall {
    spans: [Option<rampart_guard::PageSpan>; Self::INLINE],
    more: Vec<rampart_guard::PageSpan>,
}

impl UnlockedForCall {
    /// So many pieces need no allocation, as functions that signal handlers may call require.
    const INLINE: usize = 10;

    /// Holds the guarded ones of these pieces.
    ///
    /// # Safety
    /// Each is as the function's caller promises the kernel.
    pub(crate) unsafe fn new(pieces: &[Piece]) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { Self::when(|| BACKING.faults_are_signals(), pieces) }
    }

    /// As [`UnlockedForCall::new`], but only if they must be held, which is asked only if one of them is guarded: the
    /// answer may take a system call, which a program's own filter (seccomp(2)) may not allow.
    ///
    /// # Safety
    /// As for [`UnlockedForCall::new`].
    pub(crate) unsafe fn when(is_to_be: impl FnOnce() -> bool, pieces: &[Piece]) -> Self {
        let mut held = Self { spans: [const { None }; Self::INLINE], more: Vec::new() };
        // SAFETY: guaranteed by the caller.
        unsafe {
            if pieces.iter().any(|piece| piece.is_guarded()) && is_to_be() {
                pieces.iter().for_each(|piece| piece.hold(&mut held));
            }
        }
        held
    }

    fn add(&mut self, address: *const c_void, length: usize) {
        let Some(span) = (length > 0).then(|| BACKING.hold(address.addr(), length)).flatten() else { return };
        match self.spans.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(span),
            None => self.more.push(span),
        }
    }
}

impl Drop for UnlockedForCall {
    fn drop(&mut self) {
        self.spans.iter().flatten().chain(&self.more).for_each(|span| BACKING.release(*span));
    }
}

/// Memory that is passed to the kernel.
#[derive(Clone, Copy)]
pub(crate) enum Piece {
    /// So many bytes.
    Bytes(*const c_void, usize),
    /// Bytes up to and with a zero; null: none.
    Text(*const c_char),
    /// Pieces elsewhere.
    Vector(*const iovec, usize),
    /// A message with its parts.
    Message(*const msghdr),
}

impl Piece {
    /// Whether any of it is guarded.
    ///
    /// # Safety
    /// As for [`Piece::each`].
    unsafe fn is_guarded(self) -> bool {
        let mut is_guarded = false;
        // SAFETY: guaranteed by the caller.
        unsafe { self.each(&mut |address, _| is_guarded |= BACKING.owns(address.addr())) };
        is_guarded
    }

    /// # Safety
    /// As for [`Piece::each`].
    unsafe fn hold(self, held: &mut UnlockedForCall) {
        // SAFETY: guaranteed by the caller; without a length it is a text.
        unsafe {
            self.each(&mut |address, length| {
                held.add(address, length.unwrap_or_else(|| libc::strlen(address.cast()) + 1));
            });
        }
    }

    /// Calls `each` with all its memory, except null, and with the length, which is `None` for a text: a vector comes
    /// before its pieces are read, and a message before its parts are.
    ///
    /// # Safety
    /// It is as the kernel expects it.
    unsafe fn each(self, each: &mut dyn FnMut(*const c_void, Option<usize>)) {
        let mut some = |address: *const c_void, length| {
            if !address.is_null() {
                each(address, length);
            }
        };
        match self {
            Self::Bytes(address, length) => some(address, Some(length)),
            Self::Text(text) => some(text.cast(), None),
            Self::Vector(vector, count) if !vector.is_null() => {
                some(vector.cast(), Some(count.saturating_mul(size_of::<iovec>())));
                for index in 0..count {
                    // SAFETY: guaranteed by the caller.
                    let piece = unsafe { *vector.add(index) };
                    some(piece.iov_base, Some(piece.iov_len));
                }
            }
            Self::Message(message) if !message.is_null() => {
                some(message.cast(), Some(size_of::<msghdr>()));
                // SAFETY: guaranteed by the caller, here and of its parts.
                unsafe {
                    let message = *message;
                    some(message.msg_name, Some(usize::try_from(message.msg_namelen).unwrap_or(0)));
                    some(message.msg_control, Some(message.msg_controllen));
                    Self::Vector(message.msg_iov, message.msg_iovlen).each(each);
                }
            }
            Self::Vector(..) | Self::Message(_) => {}
        }
    }
}
