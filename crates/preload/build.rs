//! The library's own mappings are never the program's.
//!
//! The library defines a `mmap` before that of the C library, which guards mappings; jemalloc and the standard library,
//! which are linked into it, would find that one too. The linker gives them `__wrap_mmap` instead (ld(1), `--wrap`).

fn main() {
    for name in ["mmap", "mmap64"] {
        println!("cargo::rustc-cdylib-link-arg=-Wl,--wrap={name}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
