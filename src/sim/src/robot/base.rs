//! The base: commands in, odometry out.

use super::Robot;
use crate::base::Velocity;
use crate::error::SimError;
use crate::fault::FaultKind;
use crate::geometry::Pose2;
use crate::sim_event::SimEvent;

impl Robot {
    pub(super) fn step_base(&mut self, dt: f64) {
        let was_timed_out = self.base.timed_out();
        let stuck = self.faults.lasting(FaultKind::NavStuck).is_some();
        let motion = self.base.step(dt, self.now, &self.world, stuck);
        if self.base.timed_out() && !was_timed_out {
            self.push(SimEvent::CommandTimeout);
        }
        if motion.collided {
            self.push(SimEvent::Collision);
        }
        let offset = self
            .faults
            .lasting(FaultKind::LocalizationJump)
            .map_or([0.0; 3], |p| p.offset.unwrap_or([0.6, 0.3, 0.2]));
        let jump = self
            .localization
            .step(&motion, self.base.pose(), self.now, offset);
        if let Some(by) = jump {
            self.push(SimEvent::Relocalized { by });
        }
        let ended = self
            .navigator
            .step(self.localization.map_to_base(), &self.world, self.now);
        if let Some(id) = ended {
            self.push(SimEvent::NavEnded(id));
        }
    }

    /// Commands the base: this is `cmd_vel` behind the protection. It holds until the next command or
    /// the base's own watchdog.
    ///
    /// # Errors
    /// [`SimError::NotFinite`]: the base is told to stop instead.
    pub fn set_velocity_command(&mut self, command: Velocity) -> Result<(), SimError> {
        self.base.set_command(command, self.now)
    }

    /// base_link in odom, and the measured velocity.
    #[must_use]
    pub fn odometry(&self) -> (Pose2, Velocity) {
        (self.localization.odom_to_base(), self.base.velocity())
    }

    /// base_link in map, as the localisation believes.
    #[must_use]
    pub fn estimated_pose(&self) -> Pose2 {
        self.localization.map_to_base()
    }
}
