//! Turning the head towards something.

use std::time::Duration;

use eh_contract::command::TargetBinding;
use eh_contract::error_code::ErrorCode;
use eh_contract::geometry::Vec3;
use nalgebra::Point3;

use crate::embodiment::Embodiment;
use crate::native_code;
use crate::program::{no_transform, Context, Failure, SkillProgram, Step};
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
        return Err(Failure::new(
            ErrorCode::HeadFailed,
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

pub(crate) struct LookAt {
    target: TargetBinding,
}

impl LookAt {
    pub(crate) fn new(target: TargetBinding) -> Self {
        LookAt { target }
    }
}

impl SkillProgram for LookAt {
    fn next(&mut self, context: &Context<'_>, last: Option<&SubGoalOutcome>) -> Step {
        if let Some(outcome) = last {
            return head_failure(outcome).map_or(Step::Completed, Step::Failed);
        }
        let Some(base) = context.base_in_map else {
            return no_transform(context.body);
        };
        let mut point = self.target.pose.position;
        // What stands on furniture is on its top; a room is looked at at the height of a table.
        match self.target.kind {
            eh_contract::scene::Kind::Surface => point.z += 0.5 * self.target.size.z,
            eh_contract::scene::Kind::Room | eh_contract::scene::Kind::Place => point.z = 0.8,
            _ => {}
        }
        let at: Point3<f64> = base
            .isometry()
            .inverse_transform_point(&point.vector().into());
        match turn_to(
            &self.target.r#ref,
            Vec3::new(at.x, at.y, at.z),
            context.body,
        ) {
            Ok(goal) => Step::Goal {
                name: "turn_head".into(),
                goal,
            },
            Err(failure) => Step::Failed(failure),
        }
    }

    fn progress(&self) -> Option<f64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::{Isometry3, Translation3, UnitQuaternion, Vector3};

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
