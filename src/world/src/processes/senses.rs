//! What an executor's adapter hears from the rest of the robot, as its node keeps it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use eh_contract::geometry::Pose;
use eh_contract::perception::DetectionFrame;
use eh_contract::scene::SceneSnapshot;
use eh_contract::status::SkillStatus;
use eh_contract::Stamp;
use eh_executor::{LeaseSeen, Senses, Server};
use eh_ledger::executor::{goal_status, GoalId};
use eh_protection::lease::LeaseView;
use eh_skills::fingers::GripperReading;
use eh_skills::standstill::{StandstillLimits, StandstillMeter};

use crate::message::{Motion, News, Sight};

/// Camera frames that are kept.
const FRAMES: usize = 32;
/// As the nodes' max_transform_age.
const TRANSFORM_AGE: Duration = Duration::from_millis(500);

/// The newest of everything.
#[derive(Debug)]
pub struct Heard {
    now: Duration,
    name: String,
    gripper_joint: String,
    /// A reading of the fingers that is older than this says nothing about now.
    reading_age: Duration,
    robot_is_there: bool,
    lease: LeaseSeen,
    stop: Option<String>,
    meter: StandstillMeter,
    motion: Option<(Duration, Arc<Motion>)>,
    scene: Option<Arc<SceneSnapshot>>,
    others: BTreeMap<String, Vec<(String, String)>>,
    sights: VecDeque<Arc<Sight>>,
    goals: BTreeMap<Server, Arc<Vec<(GoalId, i8)>>>,
    way: Option<(GoalId, f64)>,
}

impl Heard {
    /// Nothing yet. `name`: the executor's own.
    pub fn new(name: &str, gripper_joint: &str) -> Self {
        let limits = StandstillLimits::default();
        Heard {
            now: Duration::ZERO,
            name: name.into(),
            gripper_joint: gripper_joint.into(),
            reading_age: limits.max_gap,
            robot_is_there: false,
            lease: LeaseSeen::default(),
            stop: None,
            meter: StandstillMeter::new(limits, gripper_joint),
            motion: None,
            scene: None,
            others: BTreeMap::new(),
            sights: VecDeque::new(),
            goals: BTreeMap::new(),
            way: None,
        }
    }

    /// The time, and whether the robot's servers seem to be there.
    pub fn at(&mut self, now: Duration, robot_is_there: bool) {
        self.now = now;
        self.robot_is_there = robot_is_there;
    }

    /// Takes news in.
    pub fn take(&mut self, news: News) {
        match news {
            News::Lease(view) => self.lease(view),
            News::Protection(state) => self.stop = state.latched.then_some(state.stop_id),
            News::Motion(motion) => self.motion(motion),
            News::SceneGraph(scene) => self.scene = Some(scene),
            News::Statuses { executor, statuses } => {
                if executor != self.name {
                    self.other(executor, &statuses);
                }
            }
            News::Sight(sight) => {
                if self.sights.len() >= FRAMES {
                    self.sights.pop_front();
                }
                self.sights.push_back(sight);
            }
            News::Goals { server, entries } => {
                self.goals.insert(server, entries);
            }
            News::WayLeft { goal_id, way } => self.way = Some((goal_id, way)),
            News::Catalog(_)
            | News::Beacon(_)
            | News::Run(_)
            | News::Declared(_)
            | News::Scan(_)
            | News::Wanted(_)
            | News::Given(_)
            | News::Human(_) => {}
        }
    }

    fn lease(&mut self, view: LeaseView) {
        if view.token < self.lease.token {
            return;
        }
        self.lease = LeaseSeen {
            token: view.token,
            alive_until: if view.controller_id.is_empty() {
                Duration::ZERO
            } else {
                self.now.saturating_add(view.remaining)
            },
            controller_id: view.controller_id,
        };
    }

    fn motion(&mut self, motion: Arc<Motion>) {
        let now = self.now;
        self.meter.odometry(now, motion.linear, motion.angular);
        for joint in &motion.joints {
            let velocity = Some(joint.velocity);
            self.meter.joint(now, joint.name, joint.position, velocity);
        }
        self.motion = Some((now, motion));
    }

    fn other(&mut self, executor: String, statuses: &[SkillStatus]) {
        let mut held = Vec::new();
        for status in statuses {
            let holds = status.state.holds_resources();
            if holds {
                for resource in &status.resources {
                    held.push((
                        resource.clone(),
                        format!("{} of {executor}", status.command_id),
                    ));
                }
            }
        }
        self.others.insert(executor, held);
    }

    fn fresh(&self, age: Duration) -> Option<&Motion> {
        self.motion
            .as_ref()
            .filter(|(at, _)| self.now.saturating_sub(*at) <= age)
            .map(|(_, motion)| &**motion)
    }
}

impl Senses for Heard {
    fn base_in_map(&self) -> Option<Pose> {
        self.fresh(TRANSFORM_AGE).map(|m| m.base_in_map)
    }

    fn tool_in_base(&self) -> Option<Pose> {
        self.fresh(TRANSFORM_AGE).map(|m| m.tool_in_base)
    }

    fn gripper(&self) -> Option<GripperReading> {
        let motion = self.fresh(self.reading_age)?;
        let joint = motion
            .joints
            .iter()
            .find(|j| j.name == self.gripper_joint)?;
        Some(GripperReading {
            width: joint.position,
            effort: Some(joint.effort),
        })
    }

    fn scene(&self) -> Option<Arc<SceneSnapshot>> {
        self.scene.clone()
    }

    fn standing(&self, since: Duration, base: bool, joints: &[String]) -> Result<(), String> {
        self.meter.standing(self.now, since, base, joints)
    }

    fn frames_since(&self, since: Stamp) -> Vec<DetectionFrame> {
        self.sights
            .iter()
            .filter(|s| s.in_base.stamp > since)
            .map(|s| s.in_base.clone())
            .collect()
    }

    fn lease(&self) -> LeaseSeen {
        self.lease.clone()
    }

    fn stop_latched(&self) -> Option<String> {
        self.stop.clone()
    }

    fn held_by_others(&self) -> BTreeMap<String, String> {
        self.others.values().flatten().cloned().collect()
    }

    fn planning_scene_is_there(&self) -> bool {
        self.robot_is_there
    }

    fn is_there(&self, _server: Server) -> bool {
        self.robot_is_there
    }

    fn status(&self, server: Server, goal_id: &GoalId) -> Option<i8> {
        let entries = self.goals.get(&server)?;
        entries
            .iter()
            .find(|(id, _)| id == goal_id)
            .map(|(_, status)| *status)
    }

    fn open_goals(&self, server: Server) -> Vec<GoalId> {
        if !self.robot_is_there {
            return Vec::new();
        }
        let entries = self.goals.get(&server);
        entries
            .iter()
            .flat_map(|e| e.iter())
            .filter(|(_, status)| !goal_status::is_terminal(*status))
            .map(|(id, _)| *id)
            .collect()
    }

    fn distance_remaining(&self, goal_id: &GoalId) -> Option<f64> {
        self.way.filter(|(id, _)| id == goal_id).map(|(_, way)| way)
    }
}
