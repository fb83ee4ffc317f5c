//! Head goals.

use super::Robot;
use crate::error::{within, SimError};
use crate::goal_record::GoalId;
use crate::head::{HeadPoint, HeadStatus};
use crate::sim_event::SimEvent;

impl Robot {
    /// Accepts a head trajectory; a running one is preempted.
    ///
    /// # Errors
    /// [`SimError`] when it is empty, a number is not finite or out of the limits, or times don't grow.
    pub fn move_head(&mut self, points: Vec<HeadPoint>) -> Result<GoalId, SimError> {
        within(
            "the number of trajectory points",
            points.len() as f64,
            1.0,
            10_000.0,
        )?;
        let [pan, tilt] = crate::head::LIMITS;
        let mut last = None;
        for p in &points {
            within("the head's pan in rad", p.pan, pan[0], pan[1])?;
            within("the head's tilt in rad", p.tilt, tilt[0], tilt[1])?;
            let at = p.at.as_secs_f64();
            within(
                "a trajectory point's time in s",
                at,
                last.map_or(0.0, |l: f64| l + 1e-9),
                600.0,
            )?;
            last = Some(at);
        }
        if let Some(old) = self.head_goal.take() {
            self.head_record.end(old, HeadStatus::Preempted);
            self.push(SimEvent::HeadEnded(old));
        }
        self.head.follow(points, self.now);
        let id = self.head_record.next_id();
        self.head_goal = Some(id);
        Ok(id)
    }

    /// Calls a head goal off; whether it was running. The head holds still.
    pub fn cancel_head(&mut self, id: GoalId) -> bool {
        if self.head_goal != Some(id) {
            return false;
        }
        self.head_goal = None;
        self.head.hold();
        self.head_record.end(id, HeadStatus::Canceled);
        self.push(SimEvent::HeadEnded(id));
        true
    }

    /// How a head goal stands; none when it is unknown or ended too long ago.
    #[must_use]
    pub fn head_status(&self, id: GoalId) -> Option<HeadStatus> {
        if self.head_goal == Some(id) {
            return Some(HeadStatus::Active);
        }
        self.head_record.get(id)
    }
}
