//! The operations of an instruction set.

/// A register of one instruction set.
pub(super) trait Vector: Copy {
    /// # Safety
    /// `from` is aligned to the register's size and may be read.
    unsafe fn load(from: *const u8) -> Self;

    /// # Safety
    /// `to` may be written; it need not be aligned.
    unsafe fn store(self, to: *mut u8);

    /// # Safety
    /// The processor has the instruction set.
    unsafe fn zero() -> Self;

    /// # Safety
    /// The processor has the instruction set.
    unsafe fn xor(self, other: Self) -> Self;

    /// Each byte times 2 in the field of [`crate::gf256`], plus the byte of `next`.
    ///
    /// # Safety
    /// The processor has the instruction set.
    unsafe fn twice_plus(self, next: Self) -> Self;

    /// Each byte times 2^4 in that field.
    ///
    /// # Safety
    /// The processor has the instruction set.
    unsafe fn times_16(self) -> Self;

    /// Never faults, whatever the address.
    fn prefetch(line: *const u8);
}

/// How an instruction set computes check bytes of [`crate::hsiao`].
pub(super) trait Secded {
    /// The check bytes of the 64 words of eight lines.
    ///
    /// # Safety
    /// 1. The processor has the instruction set.
    /// 2. `lines` are 512 bytes that may be read, aligned to 64.
    /// 3. `check` has room for 64 bytes; it need not be aligned.
    unsafe fn secded(lines: *const u8, check: *mut u8);
}
