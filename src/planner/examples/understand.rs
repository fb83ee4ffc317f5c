//! Says how instructions are understood in a world: one a line on standard input.
//!
//! ```sh
//! echo "bring both cups" | cargo run -p eh_planner --example understand -- worlds/apartment.yaml
//! ```

#[path = "../tests/common/world_file.rs"]
mod world_file;

use std::io::BufRead;

use eh_planner::grammar::understand;
use eh_planner::phrase_table::Tables;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let world = std::env::args()
        .nth(1)
        .ok_or("say which world file, for example worlds/apartment.yaml")?;
    let scene = world_file::scene_of_world(&std::fs::read_to_string(world)?);
    let tables = Tables::embedded()?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        match understand(&line, &tables, &scene, &[]) {
            Ok(u) => {
                let goals: Vec<String> = u.goals.iter().map(|g| g.sketch(&u.things)).collect();
                println!("{line}\n    {}", goals.join("\n    "));
            }
            Err(e) => println!("{line}\n  ! {e}"),
        }
    }
    Ok(())
}
