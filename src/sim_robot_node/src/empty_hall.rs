//! A robot alone in a hall: what tests of the conversions stand on.

use eh_sim::Robot;

const WORLD: &str = "
rooms: [{id: hall, rect: [0, 0, 6, 4]}]
walls: [{from: [0, 0], to: [6, 0]}, {from: [6, 0], to: [6, 4]},
        {from: [6, 4], to: [0, 4]}, {from: [0, 4], to: [0, 0]}]
robot: {start: [1, 2, 0]}
";

pub(crate) fn robot() -> Robot {
    Robot::from_yaml(WORLD, Some(1)).unwrap()
}
