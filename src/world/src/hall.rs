//! A small home, made up from the seed: one room, two pieces of furniture, a cup that is seen at once, so that
//! a run is short.

use rand::{Rng, RngCore};

use crate::random::one_of;

/// A home and what can be asked for in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hall {
    /// The world file.
    pub yaml: String,
    /// Instructions that make sense there.
    pub instructions: Vec<String>,
}

const FURNITURE: [(&str, &str, f64); 4] = [
    ("table", "table", 0.74),
    ("shelf", "shelf", 0.8),
    ("desk", "desk", 0.74),
    ("cabinet", "cabinet", 0.8),
];

/// Makes one up.
pub fn hall(rng: &mut dyn RngCore) -> Hall {
    let west = rng.random_range(0..FURNITURE.len());
    let east = (west + rng.random_range(1..FURNITURE.len())) % FURNITURE.len();
    // Below the length: both were drawn so.
    let ((west_class, west_name, west_height), (east_class, east_name, east_height)) =
        (FURNITURE[west], FURNITURE[east]);
    let cup_y = rng.random_range(1.5..2.1);
    let cup_x = rng.random_range(0.52..0.62);
    let (start_x, start_y) = (rng.random_range(2.0..2.5), rng.random_range(1.5..2.1));
    let facing = rng.random_range(2.8..3.4);
    let color = one_of(rng, &["red", "blue", "green"]).unwrap_or("red");
    let apple = rng.random_range(0..2) == 0;
    let mut objects = format!(
        "  - {{id: cup_a, class: cup, attributes: {{color: {color}}}, names: {{en: [cup]}}, position: [{cup_x:.3}, {cup_y:.3}], on: west, size: [0.075, 0.075, 0.1], mass: 0.25, grasp_width: 0.07}}\n"
    );
    if apple {
        objects.push_str(
            "  - {id: apple_a, class: apple, names: {en: [apple]}, position: [0.58, 1.25], on: west, size: [0.07, 0.07, 0.07], mass: 0.18, grasp_width: 0.065}\n",
        );
    }
    let yaml = format!(
        "name: hall\n\
         rooms:\n  - {{id: hall, names: {{en: [hall]}}, rect: [0.0, 0.0, 4.4, 3.6]}}\n\
         walls:\n  - {{from: [0.0, 0.0], to: [4.4, 0.0]}}\n  - {{from: [4.4, 0.0], to: [4.4, 3.6]}}\n\
         \x20 - {{from: [4.4, 3.6], to: [0.0, 3.6]}}\n  - {{from: [0.0, 3.6], to: [0.0, 0.0]}}\n\
         furniture:\n\
         \x20 - {{id: west, class: {west_class}, names: {{en: [{west_name}]}}, center: [0.45, 1.8], size: [0.6, 1.4, {west_height}], surface: true}}\n\
         \x20 - {{id: east, class: {east_class}, names: {{en: [{east_name}]}}, center: [3.95, 1.8], size: [0.6, 1.4, {east_height}], surface: true}}\n\
         objects:\n{objects}\
         robot:\n  start: [{start_x:.3}, {start_y:.3}, {facing:.3}]\n  scan_beams: 90\n"
    );
    let mut instructions = vec![
        "bring the cup".to_owned(),
        format!("put the cup on the {east_name}"),
        format!("go to the {east_name}"),
        format!("go to the {west_name}, then go to the {east_name}"),
        "pick up the cup".to_owned(),
        format!("look at the {west_name}"),
        "open the gripper".to_owned(),
    ];
    if apple {
        instructions.push(format!("put the apple on the {east_name}"));
    }
    Hall { yaml, instructions }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{stream, Purpose};

    #[test]
    fn every_hall_is_a_world() {
        for seed in 0..200 {
            let hall = hall(&mut stream(seed, Purpose::Scenario));
            let robot = eh_sim::Robot::from_yaml(&hall.yaml, Some(seed));
            assert!(robot.is_ok(), "{seed}: {:?}\n{}", robot.err(), hall.yaml);
        }
    }
}
