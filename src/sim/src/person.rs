//! People who walk through the world: upright boxes that move along a way and give robots right of way.

use nalgebra::Isometry3;
use serde::Deserialize;

use crate::geometry::UprightBox;
use crate::world::upright;

/// A person stops this far before a robot, metres, measured between the two outlines.
const MANNERS: f64 = 0.15;

/// Someone who walks.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PersonSpec {
    /// Unique id.
    pub id: String,
    /// Points that are walked to one after the other, x and y in metres, map frame; one: stands there.
    pub path: Vec<[f64; 2]>,
    /// From the last point to the first again; false: back the way it came.
    #[serde(default)]
    pub round: bool,
    /// m/s.
    #[serde(default = "walking")]
    pub speed: f64,
    /// Rest at each point, seconds.
    #[serde(default)]
    pub pause: f64,
    /// Sets out then, seconds of the simulation.
    #[serde(default)]
    pub from: f64,
    /// Half the width of the square outline, metres.
    #[serde(default = "half_width")]
    pub radius: f64,
    /// Metres.
    #[serde(default = "height")]
    pub height: f64,
}

const fn walking() -> f64 {
    0.7
}
const fn half_width() -> f64 {
    0.2
}
const fn height() -> f64 {
    1.7
}

impl PersonSpec {
    /// Checks the numbers.
    ///
    /// # Errors
    /// What is wrong, with the value and the limit.
    pub fn validate(&self) -> Result<(), String> {
        if self.path.is_empty() || self.path.len() > 1000 {
            return Err(format!(
                "the path has {} points; give 1 to 1000",
                self.path.len()
            ));
        }
        let coordinates = self
            .path
            .iter()
            .flatten()
            .map(|v| ("path", *v, -500.0, 500.0));
        let others = [
            ("speed", self.speed, 0.05, 3.0),
            ("pause", self.pause, 0.0, 1e6),
            ("from", self.from, 0.0, 1e6),
            ("radius", self.radius, 0.05, 1.0),
            ("height", self.height, 0.3, 2.4),
        ];
        for (what, value, low, high) in coordinates.chain(others) {
            if !(value.is_finite() && (low..=high).contains(&value)) {
                return Err(format!("{what} is {value}; it must lie in {low} … {high}"));
            }
        }
        Ok(())
    }
}

/// A person as it is now.
#[derive(Debug, Clone)]
pub struct Person {
    spec: PersonSpec,
    at: [f64; 2],
    heading: f64,
    next: usize,
    forward: bool,
    rest: f64,
}

impl Person {
    /// Stands at the first point of its path.
    #[must_use]
    pub fn new(spec: &PersonSpec) -> Self {
        Self {
            at: spec.path.first().copied().unwrap_or_default(),
            heading: 0.0,
            next: 1.min(spec.path.len().saturating_sub(1)),
            forward: true,
            rest: spec.from,
            spec: spec.clone(),
        }
    }

    /// The id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.spec.id
    }

    /// x and y, metres in the map frame.
    #[must_use]
    pub fn position(&self) -> [f64; 2] {
        self.at
    }

    /// The box around it.
    #[must_use]
    pub fn outline(&self) -> UprightBox {
        let side = 2.0 * self.spec.radius;
        UprightBox::new(self.at, [side, side], self.heading, 0.0, self.spec.height)
    }

    /// The centre of the box around it, map frame; x is where it walks to.
    #[must_use]
    pub fn pose(&self) -> Isometry3<f64> {
        upright(self.at[0], self.at[1], self.spec.height / 2.0, self.heading)
    }

    /// Length, width and height of the box around it, metres.
    #[must_use]
    pub fn size(&self) -> [f64; 3] {
        let side = 2.0 * self.spec.radius;
        [side, side, self.spec.height]
    }

    /// Walks on for `dt` seconds. `robots`: x, y and radius of each, metres. `shut`: closed doors.
    pub fn step(&mut self, dt: f64, robots: &[[f64; 3]], shut: &[UprightBox]) {
        if self.rest > 0.0 {
            self.rest -= dt;
            return;
        }
        let Some(&to) = self.spec.path.get(self.next) else {
            return;
        };
        let (dx, dy) = (to[0] - self.at[0], to[1] - self.at[1]);
        let left = dx.hypot(dy);
        let stride = self.spec.speed * dt;
        if left <= stride {
            if self.spec.path.len() > 1 && !self.in_the_way(to, robots, shut) {
                self.at = to;
                self.rest = self.spec.pause;
                self.turn_to_next();
            }
            return;
        }
        let to = [
            self.at[0] + dx * stride / left,
            self.at[1] + dy * stride / left,
        ];
        if !self.in_the_way(to, robots, shut) {
            self.at = to;
            self.heading = dy.atan2(dx);
        }
    }

    fn turn_to_next(&mut self) {
        let last = self.spec.path.len().saturating_sub(1);
        if self.spec.round {
            self.next = if self.next >= last { 0 } else { self.next + 1 };
        } else if self.forward && self.next >= last {
            self.forward = false;
            self.next = last.saturating_sub(1);
        } else if !self.forward && self.next == 0 {
            self.forward = true;
            self.next = 1.min(last);
        } else if self.forward {
            self.next += 1;
        } else {
            self.next -= 1;
        }
    }

    /// Whether a robot or a closed door is in the way of the next stride, and not left behind by it.
    fn in_the_way(&self, to: [f64; 2], robots: &[[f64; 3]], shut: &[UprightBox]) -> bool {
        // The outline's corners reach √2 of its half width.
        let reach = self.spec.radius * std::f64::consts::SQRT_2;
        let robot = robots.iter().any(|[x, y, radius]| {
            let distance = |p: [f64; 2]| (p[0] - x).hypot(p[1] - y);
            distance(to) < reach + radius + MANNERS && distance(to) < distance(self.at)
        });
        robot
            || shut.iter().any(|door| {
                let distance = |p: [f64; 2]| door.distance(p[0], p[1]);
                distance(to) < reach && distance(to) < distance(self.at)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn person(text: &str) -> Person {
        let spec: PersonSpec = serde_yaml_ng::from_str(text).unwrap();
        spec.validate().unwrap();
        Person::new(&spec)
    }

    fn walk(p: &mut Person, seconds: f64, robots: &[[f64; 3]], shut: &[UprightBox]) {
        for _ in 0..(seconds / 0.02).round() as usize {
            p.step(0.02, robots, shut);
        }
    }

    #[test]
    fn it_walks_to_and_fro_with_rests() {
        let mut p = person("{id: a, path: [[0, 0], [2, 0]], speed: 0.5, pause: 1.0, from: 1.0}");
        walk(&mut p, 1.0, &[], &[]);
        assert_eq!(p.position(), [0.0, 0.0]);
        // 2 m at 0.5 m/s are 4 s, then a second of rest, then back.
        walk(&mut p, 3.0, &[], &[]);
        assert!((p.position()[0] - 1.5).abs() < 0.02, "{:?}", p.position());
        walk(&mut p, 1.9, &[], &[]);
        assert_eq!(p.position(), [2.0, 0.0]);
        walk(&mut p, 2.1, &[], &[]);
        assert!((p.position()[0] - 1.0).abs() < 0.06, "{:?}", p.position());
        walk(&mut p, 60.0, &[], &[]);
        assert!((0.0..=2.0).contains(&p.position()[0]));
    }

    #[test]
    fn it_walks_rounds() {
        let mut p =
            person("{id: a, path: [[0, 0], [1, 0], [1, 1], [0, 1]], speed: 1.0, round: true}");
        // Four sides of 1 m at 1 m/s; a corner costs at most a step.
        walk(&mut p, 3.5, &[], &[]);
        let [x, y] = p.position();
        assert!(x == 0.0 && (y - 0.5).abs() < 0.1, "{x} {y}");
    }

    #[test]
    fn it_waits_for_robots_and_doors() {
        let mut p = person("{id: a, path: [[0, 0], [5, 0]]}");
        walk(&mut p, 30.0, &[[3.0, 0.0, 0.27]], &[]);
        // 3 − (0.2·√2 + 0.27 + 0.15) = 2.297.
        assert!((p.position()[0] - 2.297).abs() < 0.02, "{:?}", p.position());
        // The robot comes nearer itself: the person may walk away from it.
        p.forward = false;
        p.next = 0;
        walk(&mut p, 1.0, &[[2.5, 0.0, 0.27]], &[]);
        assert!(p.position()[0] < 1.7);
        let door = UprightBox::new([4.0, 0.0], [0.06, 1.0], 0.0, 0.0, 2.0);
        let mut p = person("{id: a, path: [[2, 0], [5, 0]]}");
        walk(&mut p, 30.0, &[], &[door]);
        assert!((3.6..3.97).contains(&p.position()[0]), "{:?}", p.position());
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        for text in [
            "{id: a, path: []}",
            "{id: a, path: [[.nan, 0]]}",
            "{id: a, path: [[0, 0]], speed: 0}",
            "{id: a, path: [[0, 0]], height: .inf}",
            "{id: a, path: [[0, 0]], pause: -1}",
        ] {
            let spec: PersonSpec = serde_yaml_ng::from_str(text).unwrap();
            assert!(spec.validate().is_err(), "{text}");
        }
    }
}
