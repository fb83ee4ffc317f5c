//! Tells the linker where the libraries of the ROS interfaces are: those of the package itself, which
//! CMake has just built and not yet installed, and those of every prefix.

use std::env;
use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=EMBODIED_HARNESS_LIBRARY_DIR");
    println!("cargo:rerun-if-env-changed=AMENT_PREFIX_PATH");
    if let Some(folder) = env::var_os("EMBODIED_HARNESS_LIBRARY_DIR") {
        println!(
            "cargo:rustc-link-search=native={}",
            Path::new(&folder).display()
        );
    }
    for prefix in env::split_paths(&env::var_os("AMENT_PREFIX_PATH").unwrap_or_default()) {
        println!(
            "cargo:rustc-link-search=native={}",
            prefix.join("lib").display()
        );
    }
}
