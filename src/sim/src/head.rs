//! The head: pan and tilt, with the camera on it.

use std::time::Duration;

use nalgebra::{Isometry3, Matrix3, Rotation3, Translation3, UnitQuaternion, Vector3};

/// The joints' names: pan turns left (about z), tilt looks down (about y).
pub const JOINT_NAMES: [&str; 2] = ["head_pan_joint", "head_tilt_joint"];
/// Least and greatest position of each joint, radians.
pub const LIMITS: [[f64; 2]; 2] = [[-2.6, 2.6], [-0.8, 1.2]];
/// Greatest speed of each joint, rad/s.
pub const SPEED: f64 = 2.0;
/// The pan joint in base_link, metres.
pub const NECK: [f64; 3] = [-0.08, 0.0, 1.2];
/// The camera in the tilted head, metres.
pub const CAMERA: [f64; 3] = [0.06, 0.0, 0.05];
/// How near a goal counts as reached, radians.
const TOLERANCE: f64 = 0.005;

/// A point of a head trajectory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeadPoint {
    /// Pan, radians, positive to the left.
    pub pan: f64,
    /// Tilt, radians, positive downwards.
    pub tilt: f64,
    /// When to be there, from the goal's acceptance. Later if the joints can't be that fast.
    pub at: Duration,
}

/// How a head goal stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadStatus {
    /// The head moves.
    Active,
    /// It is there.
    Succeeded,
    /// The caller called it off; the head holds still.
    Canceled,
    /// A newer goal took its place.
    Preempted,
}

impl HeadStatus {
    /// Whether the goal has ended.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        !matches!(self, Self::Active)
    }
}

/// The head as it is.
#[derive(Debug, Clone, Default)]
pub struct Head {
    position: [f64; 2],
    speed: [f64; 2],
    points: Vec<HeadPoint>,
    from: [f64; 2],
    began: Duration,
}

impl Head {
    /// Pan and tilt, radians.
    #[must_use]
    pub fn positions(&self) -> [f64; 2] {
        self.position
    }

    /// Speeds of pan and tilt, rad/s.
    #[must_use]
    pub fn speeds(&self) -> [f64; 2] {
        self.speed
    }

    /// Follows a trajectory from where the head is. The points' times must grow.
    pub fn follow(&mut self, points: Vec<HeadPoint>, now: Duration) {
        self.from = self.position;
        self.began = now;
        self.points = points;
    }

    /// Holds still.
    pub fn hold(&mut self) {
        self.points.clear();
    }

    /// Moves on by `dt` seconds up to `now`; true when a trajectory was completed.
    pub fn step(&mut self, dt: f64, now: Duration) -> bool {
        let Some(last) = self.points.last().copied() else {
            self.speed = [0.0; 2];
            return false;
        };
        let wanted = self.wanted(now.saturating_sub(self.began));
        let before = self.position;
        for (q, w) in self.position.iter_mut().zip(wanted) {
            *q += (w - *q).clamp(-SPEED * dt, SPEED * dt);
        }
        for ((speed, q), b) in self.speed.iter_mut().zip(self.position).zip(before) {
            *speed = if dt > 0.0 { (q - b) / dt } else { 0.0 };
        }
        let off = (self.position[0] - last.pan)
            .abs()
            .max((self.position[1] - last.tilt).abs());
        let done = off <= TOLERANCE && now.saturating_sub(self.began) >= last.at;
        if done {
            self.points.clear();
            self.speed = [0.0; 2];
        }
        done
    }

    fn wanted(&self, time: Duration) -> [f64; 2] {
        let (mut from, mut from_at) = (self.from, Duration::ZERO);
        for point in &self.points {
            let to = [point.pan, point.tilt];
            if time < point.at {
                let span = (point.at.saturating_sub(from_at)).as_secs_f64();
                let t = time.saturating_sub(from_at).as_secs_f64() / span.max(1e-9);
                return [
                    from[0] + t * (to[0] - from[0]),
                    from[1] + t * (to[1] - from[1]),
                ];
            }
            from = to;
            from_at = point.at;
        }
        from
    }

    /// `head_pan_link` in base_link.
    #[must_use]
    pub fn pan_link(&self) -> Isometry3<f64> {
        Isometry3::from_parts(
            Translation3::new(NECK[0], NECK[1], NECK[2]),
            UnitQuaternion::from_axis_angle(&Vector3::z_axis(), self.position[0]),
        )
    }

    /// `head_tilt_link` in base_link.
    #[must_use]
    pub fn tilt_link(&self) -> Isometry3<f64> {
        self.pan_link() * UnitQuaternion::from_axis_angle(&Vector3::y_axis(), self.position[1])
    }

    /// `camera_optical_frame` in base_link: z forward, x right, y down (REP-103).
    #[must_use]
    pub fn camera(&self) -> Isometry3<f64> {
        self.tilt_link() * optical_in_tilt()
    }
}

/// `camera_optical_frame` in `head_tilt_link`.
#[must_use]
pub fn optical_in_tilt() -> Isometry3<f64> {
    // Columns: the optical x, y, z axes in the body's axes (forward, left, up).
    let axes = Matrix3::new(0.0, 0.0, 1.0, -1.0, 0.0, 0.0, 0.0, -1.0, 0.0);
    Isometry3::from_parts(
        Translation3::new(CAMERA[0], CAMERA[1], CAMERA[2]),
        UnitQuaternion::from_rotation_matrix(&Rotation3::from_matrix_unchecked(axes)),
    )
}

/// Pan and tilt that point the camera at a place in base_link, cut to the limits.
///
/// The offset of the camera in the head is left out beyond its height: at 0.5 m that errs by 0.03 rad.
#[must_use]
pub fn look_at(point: &nalgebra::Point3<f64>) -> [f64; 2] {
    let (x, y) = (point.x - NECK[0], point.y - NECK[1]);
    let down = NECK[2] + CAMERA[2] - point.z;
    let pan = y.atan2(x);
    let tilt = down.atan2(x.hypot(y) - CAMERA[0]);
    [
        pan.clamp(LIMITS[0][0], LIMITS[0][1]),
        tilt.clamp(LIMITS[1][0], LIMITS[1][1]),
    ]
}

#[cfg(test)]
mod tests {
    use nalgebra::Point3;

    use super::*;

    #[test]
    fn the_head_keeps_its_speed_and_arrives() {
        let mut head = Head::default();
        head.follow(
            vec![HeadPoint {
                pan: 1.0,
                tilt: 0.5,
                at: Duration::ZERO,
            }],
            Duration::ZERO,
        );
        let mut steps = 0;
        while !head.step(0.01, Duration::from_millis(10 * (steps + 1))) {
            assert!(head.speeds()[0] <= SPEED + 1e-9);
            steps += 1;
            assert!(steps < 200);
        }
        // 1 rad at 2 rad/s is 50 steps of 10 ms.
        assert!((48..=50).contains(&steps), "{steps}");
    }

    #[test]
    fn the_camera_looks_where_it_is_pointed() {
        let mut head = Head::default();
        let target = Point3::new(1.5, 0.6, 0.8);
        let [pan, tilt] = look_at(&target);
        head.follow(
            vec![HeadPoint {
                pan,
                tilt,
                at: Duration::ZERO,
            }],
            Duration::ZERO,
        );
        for k in 1..300 {
            head.step(0.01, Duration::from_millis(10 * k));
        }
        let seen = head.camera().inverse_transform_point(&target);
        // Ahead of the camera, within 0.05 rad of its axis.
        assert!(seen.z > 1.0 && (seen.x / seen.z).abs() < 0.05 && (seen.y / seen.z).abs() < 0.05);
        // Straight ahead: left of the robot is left in the image, below is below.
        let level = Head::default();
        let left = level
            .camera()
            .inverse_transform_point(&Point3::new(2.0, 1.0, 0.5));
        assert!(left.x < 0.0 && left.y > 0.0 && left.z > 0.0);
    }
}
