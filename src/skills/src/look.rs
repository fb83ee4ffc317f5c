//! Turning the head towards something.

use std::f64::consts::FRAC_PI_2;
use std::time::Duration;

use eh_contract::command::TargetBinding;
use eh_contract::error_code::ErrorCode;
use eh_contract::geometry::{angle_difference, Pose, Vec3};
use eh_contract::scene::Kind;
use nalgebra::Point3;

use crate::embodiment::Embodiment;
use crate::native_code;
use crate::program::{no_transform, numbered, Context, Failure, SkillProgram, Step};
use crate::sub_goal::{Goal, SubGoalOutcome};

/// How far beyond a limit a target may be and still be in view \[rad\]: a few degrees of a camera's half
/// angle of view.
const EDGE: f64 = 0.15;

/// Pan and tilt \[rad\] that point the camera's axis at a place in base_link \[m\], not limited.
///
/// The camera sits off the tilt axis, so its axis passes the neck at `camera.z`; the angle that this
/// costs is asin(camera.z / distance).
pub fn pan_tilt(at: Vec3, body: &Embodiment) -> [f64; 2] {
    let (x, y) = (at.x - body.neck.x, at.y - body.neck.y);
    let height = at.z - body.neck.z;
    let away = x.hypot(y);
    let distance = away.hypot(height);
    let offset = if distance > body.camera.z.abs() {
        (body.camera.z / distance).asin()
    } else {
        0.0
    };
    [y.atan2(x), (-height).atan2(away) + offset]
}

/// The goal that turns the head so that a place in base_link is in the middle of the view, or as near to
/// it as the head can.
///
/// # Errors
/// [`Failure`] when the place is beyond what the head can turn to.
pub(crate) fn turn_to(name: &str, at: Vec3, body: &Embodiment) -> Result<Goal, Failure> {
    let [pan, tilt] = pan_tilt(at, body);
    let beyond = |v: f64, [low, high]: [f64; 2]| (low - v).max(v - high).max(0.0);
    let off = beyond(pan, body.head_pan_limits).max(beyond(tilt, body.head_tilt_limits));
    if off > EDGE {
        // Out of reach, since that is what a planner answers by driving up, which turns the base as well;
        // a head that failed would only be asked again.
        return Err(Failure::new(
            ErrorCode::OutOfReach,
            format!(
                "{name} needs pan {pan:.2} rad and tilt {tilt:.2} rad, the head turns from {:.2} to {:.2} and from {:.2} to {:.2}; face it with navigate_to first",
                body.head_pan_limits[0], body.head_pan_limits[1],
                body.head_tilt_limits[0], body.head_tilt_limits[1],
            ),
        ));
    }
    let limit = |v: f64, [low, high]: [f64; 2]| v.max(low).min(high);
    Ok(Goal::Head {
        pan: limit(pan, body.head_pan_limits),
        tilt: limit(tilt, body.head_tilt_limits),
        duration: Duration::try_from_secs_f64(body.head_turn_time)
            .unwrap_or(Duration::from_secs(2)),
    })
}

/// Where a target is looked at: its middle, and where things stand on it, its top, if an eye at this height sees
/// that. A room is looked at at the height of a table. In the frame of the target \[m\].
pub(crate) fn aim(target: &TargetBinding, eye: f64) -> Vec3 {
    let mut middle = target.pose.position;
    let top = middle.z + 0.5 * target.size.z;
    match target.kind {
        Kind::Surface if top < eye => middle.z = top,
        Kind::Room | Kind::Place => middle.z = 0.8,
        _ => {}
    }
    middle
}

/// A point in the map, in base_link.
pub(crate) fn in_base(base: &Pose, point: Vec3) -> Vec3 {
    let at: Point3<f64> = base
        .isometry()
        .inverse_transform_point(&point.vector().into());
    Vec3::new(at.x, at.y, at.z)
}

/// `None` for success.
pub(crate) fn head_failure(outcome: &SubGoalOutcome) -> Option<Failure> {
    match outcome {
        SubGoalOutcome::Succeeded | SubGoalOutcome::Gripper(_) | SubGoalOutcome::Observed(_) => None,
        SubGoalOutcome::Rejected { message } => Some(Failure::new(
            ErrorCode::HeadFailed,
            format!("the head's controller refused the trajectory ({message}); see its log"),
        )),
        SubGoalOutcome::Aborted { code, message } => Some(Failure::new(
            native_code::head(*code),
            format!("the head did not get there (FollowJointTrajectory error_code {code}: {message}); see its controller"),
        )),
    }
}

/// Half the angle of what is looked at in one go \[rad\]: half the horizontal field of view of the usual
/// RGB-D cameras (69° of a RealSense D435, 57° of a Kinect) at its narrowest, with a margin.
const GLANCE: f64 = 0.45;

/// Looks at a target: at its middle, and where it is wider than one view, at its ends first.
pub(crate) struct LookAt {
    target: TargetBinding,
    /// Points in the map that are still to be looked at, last first; `None` before the first step.
    ahead: Option<Vec<Vec3>>,
    done: usize,
}

impl LookAt {
    pub(crate) fn new(target: TargetBinding) -> Self {
        LookAt {
            target,
            ahead: None,
            done: 0,
        }
    }

    /// Where to look, in the map, the last one first. `to_base` brings a point into base_link.
    fn points(&self, eye: f64, to_base: impl Fn(Vec3) -> Vec3) -> Vec<Vec3> {
        let middle = aim(&self.target, eye);
        if self.target.kind != Kind::Surface {
            return vec![middle];
        }
        // The ends of its longer side, a quarter of it in from the edge.
        let (along, yaw) = if self.target.size.x >= self.target.size.y {
            (self.target.size.x, self.target.pose.yaw())
        } else {
            (self.target.size.y, self.target.pose.yaw() + FRAC_PI_2)
        };
        let (dx, dy) = (yaw.cos(), yaw.sin());
        let at = |share: f64| {
            Vec3::new(
                middle.x + share * along * dx,
                middle.y + share * along * dy,
                middle.z,
            )
        };
        let bearing = |p: Vec3| {
            let p = to_base(p);
            p.y.atan2(p.x)
        };
        let half = angle_difference(bearing(at(0.5)), bearing(at(-0.5))).abs() / 2.0;
        if half <= GLANCE || !half.is_finite() {
            return vec![middle];
        }
        vec![middle, at(0.35), at(-0.35)]
    }
}

impl SkillProgram for LookAt {
    fn next(&mut self, context: &Context<'_>, last: Option<&SubGoalOutcome>) -> Step {
        if let Some(failure) = last.and_then(head_failure) {
            return Step::Failed(failure);
        }
        let Some(base) = context.base_in_map else {
            return no_transform(context.body);
        };
        let to_base = |point: Vec3| in_base(&base, point);
        let mut ahead = match self.ahead.take() {
            Some(ahead) => ahead,
            None => self.points(base.position.z + context.body.neck.z, to_base),
        };
        while let Some(point) = ahead.pop() {
            let is_last = ahead.is_empty();
            match turn_to(&self.target.r#ref, to_base(point), context.body) {
                Ok(goal) => {
                    self.ahead = Some(ahead);
                    let name = numbered("turn_head", self.done);
                    self.done += 1;
                    return Step::Goal { name, goal };
                }
                // An end that the head can't turn to is left out; the middle has to be seen.
                Err(failure) if is_last => return Step::Failed(failure),
                Err(_) => {}
            }
        }
        Step::Completed
    }

    fn progress(&self) -> Option<f64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::{Isometry3, Translation3, UnitQuaternion, Vector3};

    fn pans(size: Vec3, x: f64) -> Vec<f64> {
        let body = Embodiment::default();
        let target = TargetBinding {
            argument: "target".into(),
            r#ref: "counter_1".into(),
            class_name: "counter".into(),
            kind: Kind::Surface,
            version: 1,
            frame_id: "map".into(),
            pose: eh_contract::geometry::Pose::planar(x, 0.0, 0.0),
            size,
            last_seen: eh_contract::Stamp(1),
            support: None,
        };
        let mut look = LookAt::new(target);
        let context = Context {
            base_in_map: Some(eh_contract::geometry::Pose::planar(0.0, 0.0, 0.0)),
            ..Context::of(&body)
        };
        let mut out = Vec::new();
        let mut last = None;
        while let Step::Goal { goal, .. } = look.next(&context, last.as_ref()) {
            if let Goal::Head { pan, .. } = goal {
                out.push(pan);
            }
            last = Some(SubGoalOutcome::Succeeded);
            assert!(out.len() < 10);
        }
        out
    }

    #[test]
    fn a_wide_surface_is_swept_and_its_middle_comes_last() {
        // 2.6 m wide, its middle 0.8 m ahead of the base, 0.88 m ahead of the neck at x = -0.08: the ends
        // of the sweep are 0.35 * 2.6 = 0.91 m to the sides, at atan(0.91 / 0.88) = 0.80 rad.
        let wide = pans(Vec3::new(0.6, 2.6, 0.9), 0.8);
        assert_eq!(wide.len(), 3, "{wide:?}");
        assert!((wide[0] + 0.80).abs() < 0.01 && (wide[1] - 0.80).abs() < 0.01);
        assert!(wide[2].abs() < 1e-9);
        // From 3.4 m it fits into one view: atan(1.3 / 3.4) = 0.37 rad.
        assert_eq!(pans(Vec3::new(0.6, 2.6, 0.9), 3.4).len(), 1);
        assert_eq!(pans(Vec3::new(0.6, 0.7, 0.9), 0.8).len(), 1);
    }

    #[test]
    fn the_cameras_axis_goes_through_the_target() {
        let body = Embodiment::default();
        for at in [
            Vec3::new(1.0, 0.5, 0.8),
            Vec3::new(0.4, -0.3, 0.45),
            Vec3::new(-1.0, 1.0, 1.6),
        ] {
            let [pan, tilt] = pan_tilt(at, &body);
            // Forward kinematics: neck, pan about z, tilt (down positive) about y, camera offset.
            let camera = Isometry3::from_parts(
                Translation3::from(body.neck.vector()),
                UnitQuaternion::from_axis_angle(&Vector3::z_axis(), pan)
                    * UnitQuaternion::from_axis_angle(&Vector3::y_axis(), tilt),
            ) * Translation3::from(body.camera.vector());
            let seen = camera.inverse_transform_point(&at.vector().into());
            assert!(
                seen.x > 0.0 && seen.y.abs() < 1e-9 && seen.z.abs() < 1e-9,
                "{seen}"
            );
        }
    }
}
