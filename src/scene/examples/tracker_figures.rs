//! Prints how well the tracker tells what is where, against the ground truth of simulated homes:
//! identity switches, false merges, misses, false objects and relations, over seeds and kinds of noise.
//!
//! `scripts/bench tracker` runs it and adds intervals. One line is one figure: noise, name, number, of how many,
//! separated by tabs; of 0: a number that is no share of anything.
//!
//! ```sh
//! cargo run --release -p eh_scene --example tracker_figures -- SEEDS FIRST
//! ```
//!
//! Objects are occluded by furniture, walls and each other; the robot drives every way twice.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{world, Drive, Figures, NOISE, STOPS};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let seeds: u64 = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let first: u64 = arguments.next().map_or(Ok(1000), |text| text.parse())?;
    let text = world("apartment");
    for (noise, settings) in NOISE {
        let mut f = Figures::default();
        let mut frames = 0;
        for seed in first..first.saturating_add(seeds) {
            let mut drive = Drive::new(&format!("{text}{settings}"), seed);
            for (x, y, yaw) in STOPS.into_iter().chain(STOPS) {
                drive.visit(x, y, yaw);
            }
            frames += drive.frames;
            f.add(&drive);
        }
        for (name, number, of) in [
            ("frames", frames, 0),
            ("switches", f.switches, 0),
            ("renamed", f.renamed, f.objects),
            ("merges", f.merges, f.objects),
            ("misses", f.misses, f.objects),
            ("false_objects", f.false_objects, f.objects),
            ("relations", f.standing_right, f.standing),
        ] {
            println!("{noise}\t{name}\t{number}\t{of}");
        }
    }
    Ok(())
}
