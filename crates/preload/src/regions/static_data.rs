//! The executable's static data that can be guarded.
//!
//! **Problem.** Programs in Fortran and old C keep all their data in variables without an allocation, and some memory
//! beside these must never be locked. **Idea.** The loader knows the executable's writable segments; whole blocks of
//! those are guarded that hold only the program's own data. **Why this way.** The remainders of a block of 2 MiB at
//! both ends are small where it matters, and smaller blocks leave less.
//!
//! Pages are left out with
//! - data that is read-only once the program runs (`PT_GNU_RELRO`), which has another protection;
//! - the image of thread-local variables (`PT_TLS`), which the C library reads when a thread of the guard starts;
//! - variables of libraries that the linker put into the executable (copy relocations), such as `environ`, which
//!   libraries use in every thread, those of the guard included.
//!
//! Libraries' own data is not guarded: the C library's, the loader's and this library's must not be, and that of others
//! is small.

#![cfg_attr(not(test), allow(unsafe_code, reason = "reads what the loader knows of the executable"))]

use std::ops::Range;

use rampart_memory::PAGE_BYTES;

use super::spans::Spans;

/// The result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StaticDataChoice {
    /// Whole blocks, ascending.
    pub(crate) blocks: Vec<Range<usize>>,
    /// Bytes of the other pages.
    pub(crate) left: usize,
}

/// Blocks of these segments without a byte of the exceptions (`kept`).
pub(crate) fn choose(writable: &[Range<usize>], kept: &[Range<usize>], block: usize) -> StaticDataChoice {
    let (mut all, mut own) = (Spans::new(), Spans::new());
    for segment in writable {
        all.insert(segment.start / PAGE_BYTES * PAGE_BYTES..segment.end.next_multiple_of(PAGE_BYTES));
        let whole = segment.start.next_multiple_of(PAGE_BYTES)..segment.end / PAGE_BYTES * PAGE_BYTES;
        own.insert(whole);
    }
    for kept in kept {
        own.remove(kept.start / PAGE_BYTES * PAGE_BYTES..kept.end.next_multiple_of(PAGE_BYTES));
    }
    let blocks = own.iter().map(|run| run.start.next_multiple_of(block)..run.end / block * block);
    let blocks: Vec<_> = blocks.filter(|blocks| !blocks.is_empty()).collect();
    let bytes = |spans: &mut dyn Iterator<Item = Range<usize>>| spans.map(|span| span.len()).sum::<usize>();
    let left = bytes(&mut all.iter()) - bytes(&mut blocks.iter().cloned());
    StaticDataChoice { blocks, left }
}

#[cfg(not(test))]
pub(crate) use self::executable::Executable;

/// The loader's data about the executable.
#[cfg(not(test))]
mod executable {
    use std::ffi::{c_int, c_void};
    use std::ops::Range;
    use std::slice;

    use libc::{Elf64_Phdr, PF_W, PT_DYNAMIC, PT_GNU_RELRO, PT_LOAD, PT_TLS, dl_phdr_info};

    /// The places of the executable's data.
    #[derive(Default)]
    pub(crate) struct Executable {
        pub(crate) writable: Vec<Range<usize>>,
        pub(crate) kept: Vec<Range<usize>>,
    }

    impl Executable {
        /// This process'.
        pub(crate) fn this() -> Self {
            let mut found = Self::default();
            // SAFETY: the function takes what it is handed as what it is.
            unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut found).cast()) };
            found
        }

        fn look(&mut self, base: usize, header: &Elf64_Phdr) {
            let at = |length: u64| {
                let [start, length] = [header.p_vaddr, length].map(|word| usize::try_from(word).expect("an address"));
                let start = base.wrapping_add(start);
                start..start + length
            };
            match header.p_type {
                PT_LOAD if header.p_flags & PF_W != 0 => self.writable.push(at(header.p_memsz)),
                PT_GNU_RELRO => self.kept.push(at(header.p_memsz)),
                PT_TLS => self.kept.push(at(header.p_filesz)),
                // SAFETY: the segment is loaded, and is what its type says.
                PT_DYNAMIC => unsafe { self.look_for_copies(base, at(header.p_memsz)) },
                _ => {}
            }
        }

        /// # Safety
        /// It is the dynamic section of an object at this base that the loader has relocated.
        unsafe fn look_for_copies(&mut self, base: usize, section: Range<usize>) {
            // SAFETY: the section is an array of pairs, and ends with zeros; the tables are where it says.
            unsafe {
                let pairs = pointer::<[usize; 2]>(section.start);
                let pairs = slice::from_raw_parts(pairs, section.len() / size_of::<[usize; 2]>());
                let value =
                    |tag| pairs.iter().take_while(|pair| pair[0] != 0).find(|pair| pair[0] == tag).map(|pair| pair[1]);
                // Some loaders turn offsets into addresses in place.
                let address = |tag| value(tag).map(|value| if value < base { base + value } else { value });
                let (Some(table), Some(bytes), Some(names)) = (address(DT_RELA), value(DT_RELASZ), address(DT_SYMTAB))
                else {
                    return;
                };
                for relocation in slice::from_raw_parts(pointer::<Relocation>(table), bytes / size_of::<Relocation>()) {
                    if relocation.info & 0xffff_ffff == COPY {
                        let name = usize::try_from(relocation.info >> 32).expect("a symbol's number");
                        let length = (*pointer::<libc::Elf64_Sym>(names).add(name)).st_size;
                        let start = base.wrapping_add(relocation.offset);
                        self.kept.push(start..start + usize::try_from(length).expect("a length").max(1));
                    }
                }
            }
        }
    }

    /// Reads the executable's entry, which comes first.
    unsafe extern "C" fn first(info: *mut dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
        // SAFETY: the loader's word, and the place that `Executable::this` handed over.
        unsafe {
            let found = &mut *found.cast::<Executable>();
            let base = usize::try_from((*info).dlpi_addr).expect("an address");
            let headers = slice::from_raw_parts((*info).dlpi_phdr, usize::from((*info).dlpi_phnum));
            headers.iter().for_each(|header| found.look(base, header));
        }
        1
    }

    fn pointer<T>(address: usize) -> *const T {
        std::ptr::with_exposed_provenance(address)
    }

    /// A relocation with addend (System V ABI, "Relocation").
    #[repr(C)]
    struct Relocation {
        offset: usize,
        info: u64,
        addend: i64,
    }

    const DT_SYMTAB: usize = 6;
    const DT_RELA: usize = 7;
    const DT_RELASZ: usize = 8;

    /// The type of a copy relocation (processor supplements of the System V ABI).
    const COPY: u64 = if cfg!(target_arch = "aarch64") { 1024 } else { 5 };
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    #[test]
    fn whole_blocks_are_chosen_that_hold_nothing_else_and_the_rest_is_counted() {
        let block = 4 * PAGE_BYTES;
        let segment = 10 * PAGE_BYTES + 100..60 * PAGE_BYTES + 1;
        let read_only = 10 * PAGE_BYTES..13 * PAGE_BYTES + 8;
        let copied = 30 * PAGE_BYTES + 5..30 * PAGE_BYTES + 13;
        let choice = choose(&[segment], &[read_only, copied], block);
        assert_eq!(choice.blocks, [16 * PAGE_BYTES..28 * PAGE_BYTES, 32 * PAGE_BYTES..60 * PAGE_BYTES]);
        assert_eq!(choice.left, (51 - 12 - 28) * PAGE_BYTES);
    }

    proptest! {
        #[test]
        fn no_block_holds_a_byte_that_is_kept_out_or_is_not_of_a_segment(
            segments in proptest::collection::vec((0_usize..40, 1_usize..4 * PAGE_BYTES), 0..5),
            kept in proptest::collection::vec((0_usize..40 * PAGE_BYTES, 1_usize..2 * PAGE_BYTES), 0..5), order in 0_u32..3
        ) {
            let segments: Vec<_> = segments.into_iter().map(|(at, length)| at * PAGE_BYTES * 4..at * PAGE_BYTES * 4 + length).collect();
            let kept: Vec<_> = kept.into_iter().map(|(at, length)| at..at + length).collect();
            for blocks in choose(&segments, &kept, PAGE_BYTES << order).blocks {
                prop_assert!(blocks.start.is_multiple_of(PAGE_BYTES << order) && blocks.len().is_multiple_of(PAGE_BYTES << order));
                let apart = |kept: &Range<usize>| kept.end <= blocks.start || blocks.end <= kept.start;
                prop_assert!(kept.iter().all(apart));
                let mut own = Spans::new();
                segments.iter().for_each(|segment| own.insert(segment.clone()));
                prop_assert!(own.contains(blocks));
            }
        }
    }
}
