//! Draws what the robot's camera and the overhead camera see of a world, and says how long that takes.
//!
//! ```sh
//! cargo run --release -p eh_sim --example camera_images -- worlds/apartment.yaml .
//! ```
//!
//! The images are written as portable pixmaps: `first_person.ppm`, `depth.ppm` (near is dark) and
//! `overhead.ppm`.

use std::error::Error;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use eh_sim::picture::Picture;
use eh_sim::{HeadPoint, Robot, Velocity};

fn write(folder: &Path, name: &str, width: u32, height: u32, rgb: &[u8]) -> std::io::Result<()> {
    let mut file = std::fs::File::create(folder.join(name))?;
    write!(file, "P6\n{width} {height}\n255\n")?;
    file.write_all(rgb)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let world = arguments.next().ok_or("give a world file and a folder")?;
    let folder = arguments.next().ok_or("give a folder for the images")?;
    let folder = Path::new(&folder);
    let mut robot = Robot::from_yaml(&std::fs::read_to_string(world)?, Some(1))?;
    let at = |v: &str| v.parse::<f64>();
    let look: Vec<f64> = arguments.map(|a| at(&a)).collect::<Result<_, _>>()?;
    if let [pan, tilt] = look.as_slice() {
        robot.move_head(vec![HeadPoint {
            pan: *pan,
            tilt: *tilt,
            at: Duration::from_secs(1),
        }])?;
        for _ in 0..150 {
            robot.set_velocity_command(Velocity::ZERO)?;
            robot.step(Duration::from_millis(20))?;
        }
    }
    let (width, height) = (640, 480);
    for (name, (lens, pose), head) in [
        ("first_person", robot.camera_view(width, height), false),
        ("overhead", robot.overhead_view(width, height), true),
    ] {
        let scenery = robot.scenery(head);
        let mut best = Duration::MAX;
        let mut picture = Picture::take(&scenery, &lens, &pose);
        for _ in 0..10 {
            let began = Instant::now();
            picture = Picture::take(&scenery, &lens, &pose);
            best = best.min(began.elapsed());
        }
        println!(
            "{name}: {width} x {height}, {} solids, {:.1} ms",
            scenery.solids.len(),
            1e3 * best.as_secs_f64()
        );
        write(folder, &format!("{name}.ppm"), width, height, &picture.rgb)?;
        if !head {
            let gray: Vec<u8> = picture
                .depth
                .iter()
                .flat_map(|d| [(d.min(5.0) * 51.0) as u8; 3])
                .collect();
            write(folder, "depth.ppm", width, height, &gray)?;
        }
    }
    Ok(())
}
