//! Links without the start code of a C library, and without any library.

fn main() {
    for argument in ["-nostartfiles", "-nodefaultlibs", "-static", "-no-pie"] {
        println!("cargo:rustc-link-arg-bins={argument}");
    }
}
