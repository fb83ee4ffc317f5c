//! What the executor looks at when it needs it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use eh_contract::geometry::Pose;
use eh_contract::perception::DetectionFrame;
use eh_contract::scene::SceneSnapshot;
use eh_contract::Stamp;
use eh_ledger::executor::GoalId;
use eh_skills::fingers::GripperReading;

use crate::server::Server;

/// The newest word about the control lease. Words under an older token than one that was told before
/// are not told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseSeen {
    /// Its token; 0 when nothing was heard yet.
    pub token: u64,
    /// Its holder; empty: nobody.
    pub controller_id: String,
    /// When it expires, on the budget clock; zero when nobody holds it.
    pub alive_until: Duration,
}

/// The newest of everything that streams. It is looked at, so that a stream wakes nobody.
pub trait Senses {
    /// Whether what streams is heard by now. A process that listens to odometry, joints and transforms only
    /// while [`crate::Executor::is_idle`] is false says so when each was heard since then; a command that
    /// arrives waits for it for a while.
    fn is_awake(&self) -> bool {
        true
    }

    /// base_link in the map; `None` when it is missing or too old.
    fn base_in_map(&self) -> Option<Pose>;

    /// The tool link in base_link; `None` when it is missing or too old.
    fn tool_in_base(&self) -> Option<Pose>;

    /// The fingers as they are now; `None` when their driver is silent.
    fn gripper(&self) -> Option<GripperReading>;

    /// The newest scene graph.
    fn scene(&self) -> Option<Arc<SceneSnapshot>>;

    /// Whether the base (if asked for) and these joints have stood still for long enough, counted from
    /// `since` on the budget clock at the earliest.
    ///
    /// # Errors
    /// What moves or can't be measured, in words with the value.
    fn standing(&self, since: Duration, base: bool, joints: &[String]) -> Result<(), String>;

    /// Camera frames stamped after this, in base_link at their own time, oldest first.
    fn frames_since(&self, since: Stamp) -> Vec<DetectionFrame>;

    /// The control lease.
    fn lease(&self) -> LeaseSeen;

    /// The stop that is latched.
    fn stop_latched(&self) -> Option<String>;

    /// Resources held by commands of other executors, and by which.
    fn held_by_others(&self) -> BTreeMap<String, String>;

    /// Whether the services of the arm's planning scene are there.
    fn planning_scene_is_there(&self) -> bool;

    /// Whether a server offers the action now.
    fn is_there(&self, server: Server) -> bool;

    /// How a goal stands by the server's last status message ([`eh_ledger::executor::goal_status`]);
    /// `None` if it is not named there. A server that is gone leaves its last message.
    fn status(&self, server: Server, goal_id: &GoalId) -> Option<i8>;

    /// The goals that have not ended by the server's last status message, whoever sent them; none of a
    /// server that is gone.
    fn open_goals(&self, server: Server) -> Vec<GoalId>;

    /// How far the base has to go yet \[m\], by the newest feedback on this goal.
    fn distance_remaining(&self, goal_id: &GoalId) -> Option<f64>;
}
