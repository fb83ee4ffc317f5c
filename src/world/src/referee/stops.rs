//! A latched stop: it survives the life of protection, and nothing moves under it.

use std::time::Duration;

use super::motion::AFTER;
use super::Referee;
use crate::context::Outside;
use crate::processes::protection::ProtectionView;
use crate::robot::{is_moving, RobotProcess};

/// How long a stop may be in force without being on a disk that works: the longest pause before a write is tried
/// again, and a step of it.
const UNKEPT: Duration = Duration::from_millis(5200);

impl Referee {
    pub(super) fn look_at_stop(
        &mut self,
        outside: &mut Outside,
        robot: &RobotProcess,
        protection: Option<ProtectionView>,
    ) {
        let now = outside.now;
        let kept = outside.disks.stop_is_kept();
        self.stop_kept = kept.then(|| self.stop_kept.unwrap_or(now));
        if kept && protection.is_some_and(|p| !p.stopped) {
            let what =
                "the disk holds a stop that nobody has reset, and protection has none".into();
            self.broken(outside, "a latched stop survives", what);
        }
        let works = outside.disks.stops.trouble(now).is_none();
        let unkept = protection.is_some_and(|p| p.stopped) && !kept && works;
        self.stop_unkept = unkept.then(|| self.stop_unkept.unwrap_or(now));
        if self.stop_unkept.is_some_and(|since| now - since > UNKEPT) {
            self.stop_unkept = Some(now);
            let what = format!(
                "it has been in force for {:.1} s and is not on the disk",
                UNKEPT.as_secs_f64()
            );
            self.broken(outside, "a stop is soon on the disk", what);
        }
        // The base may still brake, and what was given out before the stop may still be under way.
        let patience = AFTER + self.conditions.slow_delay + self.conditions.delay;
        let stands_by_now = self.stop_kept.is_some_and(|since| now - since > patience);
        if stands_by_now && is_moving(robot.robot().ground_truth().velocity) {
            let what = "the base moves, and the disk holds a stop".to_owned();
            self.broken(outside, "nothing moves under a stop", what);
        }
    }
}
