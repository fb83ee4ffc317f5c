//! Navigation goals.

use super::Robot;
use crate::base::Velocity;
use crate::error::{within, SimError};
use crate::fault::{FaultKind, Occasion};
use crate::geometry::Pose2;
use crate::goal_record::GoalId;
use crate::navigator::NavStatus;
use crate::robot_frames::unknown_frame;
use crate::sim_event::SimEvent;

impl Robot {
    /// Accepts a navigation goal; a running one is preempted.
    ///
    /// A goal that can't be reached is aborted at once: see [`Robot::nav_status`].
    ///
    /// # Errors
    /// [`SimError`] when the pose is not finite or the frame is unknown (map, odom or base_link): the
    /// goal is then not accepted, and a running one goes on.
    pub fn navigate(&mut self, frame: &str, pose: Pose2) -> Result<GoalId, SimError> {
        within("the goal's x in m", pose.x, -1000.0, 1000.0)?;
        within("the goal's y in m", pose.y, -1000.0, 1000.0)?;
        within("the goal's heading in rad", pose.yaw, -100.0, 100.0)?;
        let in_map = match frame {
            "map" => pose,
            "odom" => self.localization.map_to_odom().compose(pose),
            "base_link" => self.localization.map_to_base().compose(pose),
            other => return Err(unknown_frame(other)),
        };
        self.occasion(Occasion::NavGoal);
        let fault = self.strike(FaultKind::NavAbort);
        let id = self.navigator.start(
            in_map,
            self.localization.map_to_base(),
            &self.world,
            self.now,
            fault,
        );
        if self.navigator.active() != Some(id) {
            self.push(SimEvent::NavEnded(id));
        }
        Ok(id)
    }

    /// Calls a navigation goal off; whether it was running. The base then slows down.
    pub fn cancel_navigation(&mut self, id: GoalId) -> bool {
        let canceled = self.navigator.cancel(id);
        if canceled {
            self.push(SimEvent::NavEnded(id));
        }
        canceled
    }

    /// How a navigation goal stands; none when it is unknown or ended too long ago.
    #[must_use]
    pub fn nav_status(&self, id: GoalId) -> Option<NavStatus> {
        self.navigator.status(id)
    }

    /// The goal that is running.
    #[must_use]
    pub fn active_navigation(&self) -> Option<GoalId> {
        self.navigator.active()
    }

    /// The velocity that the navigator wants: to be published as the unprotected `cmd_vel`.
    ///
    /// None when it has no goal; for 0.3 s after a goal's end it is zero.
    #[must_use]
    pub fn nav_velocity(&self) -> Option<Velocity> {
        self.navigator.command()
    }

    /// The way of the running goal, points in the map frame, metres.
    #[must_use]
    pub fn nav_path(&self) -> &[[f64; 2]] {
        self.navigator.path()
    }
}
