//! Prints how well the tracker tells what is where, against the ground truth of simulated homes:
//! identity switches, false merges, misses, false objects and relations, over seeds and kinds of noise.
//!
//! ```sh
//! cargo run --release -p eh_scene --example tracker_figures -- SEEDS
//! ```
//!
//! Objects are occluded by furniture, walls and each other; the robot drives every way twice.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{world, Drive, Figures, NOISE, STOPS};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seeds: u64 = match std::env::args().nth(1) {
        Some(text) => text.parse()?,
        None => 5,
    };
    let text = world("apartment");
    println!("apartment, {seeds} seeds, each with two drives past everything");
    for (name, noise) in NOISE {
        let mut figures = Figures::default();
        let mut frames = 0;
        for seed in 0..seeds {
            let mut drive = Drive::new(&format!("{text}{noise}"), 1000 + seed);
            for (x, y, yaw) in STOPS.into_iter().chain(STOPS) {
                drive.visit(x, y, yaw);
            }
            frames += drive.frames;
            figures.add(&drive);
        }
        let f = figures;
        println!("\n{name}: {frames} frames, {} objects", f.objects);
        println!(
            "  identity switches {}, false merges {}, misses {}, false objects {}, on the right thing {} of {}",
            f.switches, f.merges, f.misses, f.false_objects, f.standing_right, f.standing
        );
    }
    Ok(())
}
