//! What the executor looks at, from the newest messages.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use eh_contract::geometry::Pose;
use eh_contract::perception::DetectionFrame;
use eh_contract::scene::SceneSnapshot;
use eh_contract::Stamp;
use eh_executor::{LeaseSeen, Senses, Server};
use eh_ledger::executor::GoalId;
use eh_skills::fingers::GripperReading;
use uuid::Uuid;

use crate::foreign::Foreign;
use crate::goals::wire;
use crate::planning_scene::PlanningSceneClient;
use crate::surroundings::Surroundings;

/// Everything that is heard.
pub(crate) struct NodeSenses {
    pub(crate) surroundings: Arc<Surroundings>,
    pub(crate) foreign: Arc<Foreign>,
    pub(crate) planning_scene: Option<Arc<PlanningSceneClient>>,
}

impl Senses for NodeSenses {
    fn is_awake(&self) -> bool {
        self.surroundings.is_awake()
    }

    fn base_in_map(&self) -> Option<Pose> {
        self.surroundings.base_in_map()
    }

    fn tool_in_base(&self) -> Option<Pose> {
        self.surroundings.tool_in_base()
    }

    fn gripper(&self) -> Option<GripperReading> {
        self.surroundings.gripper()
    }

    fn scene(&self) -> Option<Arc<SceneSnapshot>> {
        self.surroundings.scene()
    }

    fn standing(&self, since: Duration, base: bool, joints: &[String]) -> Result<(), String> {
        self.surroundings.standing(since, base, joints)
    }

    fn frames_since(&self, since: Stamp) -> Vec<DetectionFrame> {
        self.surroundings.frames_since(since)
    }

    fn lease(&self) -> LeaseSeen {
        self.surroundings.lease()
    }

    fn stop_latched(&self) -> Option<String> {
        self.surroundings.stop_latched()
    }

    fn held_by_others(&self) -> BTreeMap<String, String> {
        self.surroundings.held_by_others()
    }

    fn planning_scene_is_there(&self) -> bool {
        let client = self.planning_scene.as_ref();
        client.is_some_and(|c| c.is_there())
    }

    fn is_there(&self, server: Server) -> bool {
        self.foreign.get(server).is_some_and(|a| a.is_there())
    }

    fn status(&self, server: Server, goal_id: &GoalId) -> Option<i8> {
        let action = self.foreign.get(server)?;
        action.status(Uuid::from_bytes(*goal_id)).map(wire)
    }

    fn open_goals(&self, server: Server) -> Vec<GoalId> {
        let open = self.foreign.get(server).map(|a| a.open_goals());
        let open = open.unwrap_or_default();
        open.into_iter().map(Uuid::into_bytes).collect()
    }

    fn distance_remaining(&self, goal_id: &GoalId) -> Option<f64> {
        self.foreign.distance_remaining(goal_id)
    }
}
