//! A robot whose servers do with a goal what a test says.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use eh_contract::geometry::Pose;
use eh_contract::perception::DetectionFrame;
use eh_contract::scene::SceneSnapshot;
use eh_contract::Stamp;
use eh_executor::{Event, LeaseSeen, NativeEnd, Senses, Server, Settings};
use eh_ledger::executor::{goal_status, GoalId};
use eh_skills::fingers::GripperReading;
use eh_skills::sub_goal::GripperReport;

use super::ms;

/// How long it has to stand.
const WINDOW: Duration = Duration::from_millis(200);

/// What a server does with its next goal.
#[derive(Clone, Debug)]
pub struct Fate {
    /// The request is lost, and the client knows it.
    pub not_sent: bool,
    /// The server gets it after this; `None`: never.
    pub taken_after: Option<Duration>,
    pub accepted: bool,
    /// The acknowledgement comes so long after that; `None`: it is lost.
    pub acknowledged_after: Option<Duration>,
    /// How long it runs; `None`: for ever.
    pub runs: Option<Duration>,
    /// How it ends by itself.
    pub status: i8,
    pub code: i32,
    /// How long it goes on after a cancel; `None`: a cancel is ignored.
    pub obeys_after: Option<Duration>,
    /// How many results are lost before one arrives.
    pub results_lost: u32,
    /// The server tells no status of it.
    pub no_status: bool,
}

impl Default for Fate {
    fn default() -> Self {
        Fate {
            not_sent: false,
            taken_after: Some(ms(10)),
            accepted: true,
            acknowledged_after: Some(ms(10)),
            runs: Some(ms(1000)),
            status: goal_status::SUCCEEDED,
            code: 0,
            obeys_after: Some(ms(300)),
            results_lost: 0,
            no_status: false,
        }
    }
}

impl Fate {
    /// It runs until it is canceled.
    pub fn endless() -> Self {
        Fate {
            runs: None,
            ..Fate::default()
        }
    }
}

#[derive(Clone, Debug)]
struct Goal {
    server: Server,
    fate: Fate,
    taken_at: Option<Duration>,
    ends_at: Option<Duration>,
    canceled: bool,
    status: i8,
}

pub struct Robot {
    pub now: Duration,
    pub there: BTreeSet<Server>,
    /// Of the next goals; without one the default.
    pub fates: VecDeque<Fate>,
    goals: BTreeMap<GoalId, Goal>,
    /// Goals whose result was asked for and not told.
    requests: Vec<GoalId>,
    told: Vec<Event>,
    /// Starts of each goal.
    pub started: BTreeMap<GoalId, u32>,
    last_motion: Duration,
    /// Never stands still, though its goals have ended.
    pub drifts: bool,
    /// Its joint states name no joints.
    pub joints_unknown: bool,
    lease: LeaseSeen,
    pub stop: Option<String>,
    pub others: BTreeMap<String, String>,
    pub planning_scene: bool,
    /// What streams is heard.
    pub awake: bool,
    pub gripper: Option<GripperReading>,
    pub frames: Vec<DetectionFrame>,
    pub remaining: Option<f64>,
    /// Goals of somebody else.
    pub foreign: BTreeMap<Server, Vec<GoalId>>,
    /// Those of them that a server told of which has died since; asked about, they are forgotten.
    pub stale: Vec<GoalId>,
    /// What was asked about goals that are not the executor's.
    pub asked_about_others: u32,
}

impl Robot {
    pub fn new(settings: &Settings) -> Self {
        Robot {
            now: Duration::ZERO,
            there: settings.actions.keys().copied().collect(),
            fates: VecDeque::new(),
            goals: BTreeMap::new(),
            requests: Vec::new(),
            told: Vec::new(),
            started: BTreeMap::new(),
            last_motion: Duration::ZERO,
            drifts: false,
            joints_unknown: false,
            lease: LeaseSeen::default(),
            stop: None,
            others: BTreeMap::new(),
            planning_scene: false,
            awake: true,
            gripper: Some(GripperReading {
                width: 0.0,
                effort: None,
            }),
            frames: Vec::new(),
            remaining: None,
            foreign: BTreeMap::new(),
            stale: Vec::new(),
            asked_about_others: 0,
        }
    }

    pub fn lease(&mut self, token: u64, controller: &str, until: Duration) {
        self.lease = LeaseSeen {
            token,
            controller_id: controller.into(),
            alive_until: until,
        };
    }

    /// The servers were restarted: their goals have ended and they know none of them.
    pub fn restart_servers(&mut self) {
        self.goals.clear();
        self.requests.clear();
    }

    /// The servers remember their goals, but not who asked for what.
    pub fn forget_requests(&mut self) {
        self.requests.clear();
        self.told.clear();
    }

    pub fn moves(&self, server: Server) -> bool {
        let runs = |g: &Goal| g.server == server && g.status == goal_status::EXECUTING;
        self.goals.values().any(runs)
    }

    pub fn starts(&self) -> u32 {
        self.started.values().sum()
    }

    /// Takes a goal; gives what the client hears, and when.
    pub fn send(&mut self, server: Server, goal_id: GoalId) -> Vec<(Duration, Event)> {
        let fate = self.fates.pop_front().unwrap_or_default();
        if fate.not_sent || !self.there.contains(&server) {
            let reason = "no server is there".into();
            return vec![(ms(10), Event::GoalNotSent { goal_id, reason })];
        }
        let goal = Goal {
            server,
            taken_at: fate.taken_after.map(|after| self.now + after),
            ends_at: None,
            canceled: false,
            status: goal_status::UNKNOWN,
            fate,
        };
        let acknowledged = goal
            .fate
            .taken_after
            .zip(goal.fate.acknowledged_after)
            .map(|(a, b)| a + b);
        let accepted = goal.fate.accepted;
        self.goals.insert(goal_id, goal);
        let event = Event::GoalAcknowledged { goal_id, accepted };
        acknowledged
            .map(|after| (after, event))
            .into_iter()
            .collect()
    }

    fn known(&self, goal_id: &GoalId) -> Option<&Goal> {
        let goal = self.goals.get(goal_id)?;
        (goal.status != goal_status::UNKNOWN).then_some(goal)
    }

    pub fn request_result(&mut self, server: Server, goal_id: GoalId) {
        if !self.there.contains(&server) {
            return;
        }
        let mut theirs = self.foreign.values_mut().filter(|f| f.contains(&goal_id));
        if let Some(theirs) = theirs.next() {
            self.asked_about_others += 1;
            if self.stale.contains(&goal_id) {
                theirs.retain(|g| *g != goal_id);
                self.told.push(Event::ResultUnknown { goal_id });
            }
            return;
        }
        if self.known(&goal_id).is_none() {
            self.told.push(Event::ResultUnknown { goal_id });
        } else {
            self.requests.push(goal_id);
        }
    }

    pub fn cancel(&mut self, server: Server, goal_id: GoalId) {
        if !self.there.contains(&server) || self.known(&goal_id).is_none() {
            return;
        }
        let now = self.now;
        if let Some(goal) = self.goals.get_mut(&goal_id) {
            if let (Some(after), false) = (goal.fate.obeys_after, goal.canceled) {
                if !goal_status::is_terminal(goal.status) {
                    goal.canceled = true;
                    goal.ends_at = Some(now + after);
                }
            }
        }
    }

    /// Ends a goal from outside.
    pub fn end(&mut self, goal_id: GoalId, status: i8) {
        if let Some(goal) = self.goals.get_mut(&goal_id) {
            goal.status = status;
        }
    }

    /// Lets time pass; gives what is told.
    pub fn step(&mut self, now: Duration) -> Vec<Event> {
        self.now = now;
        for (id, goal) in &mut self.goals {
            if goal.status == goal_status::UNKNOWN
                && goal.fate.accepted
                && goal.taken_at.is_some_and(|at| at <= now)
            {
                goal.status = goal_status::EXECUTING;
                goal.ends_at = goal.fate.runs.map(|runs| now + runs);
                *self.started.entry(*id).or_default() += 1;
            }
            if goal.status == goal_status::EXECUTING {
                self.last_motion = now;
                if goal.ends_at.is_some_and(|at| at <= now) {
                    goal.status = if goal.canceled {
                        goal_status::CANCELED
                    } else {
                        goal.fate.status
                    };
                }
            }
        }
        let mut open = Vec::new();
        for id in std::mem::take(&mut self.requests) {
            match self.goals.get_mut(&id) {
                Some(goal) if goal_status::is_terminal(goal.status) => {
                    if goal.fate.results_lost > 0 {
                        goal.fate.results_lost -= 1;
                    } else {
                        self.told.push(Event::ResultArrived {
                            goal_id: id,
                            end: end(goal),
                        });
                    }
                }
                _ => open.push(id),
            }
        }
        self.requests = open;
        std::mem::take(&mut self.told)
    }
}

fn end(goal: &Goal) -> NativeEnd {
    let words = String::from("as the test wants");
    let ok = goal.status == goal_status::SUCCEEDED;
    match goal.server {
        Server::Arm => NativeEnd::arm(goal.status, if ok { 1 } else { -4 }, words),
        Server::Gripper => NativeEnd::gripper(
            goal.status,
            GripperReport {
                // As wide as they open.
                position: 1.0,
                effort: 0.0,
                stalled: false,
                reached_goal: ok,
            },
        ),
        Server::Navigation | Server::Head => NativeEnd::plain(goal.status, goal.fate.code, words),
    }
}

impl Senses for Robot {
    fn is_awake(&self) -> bool {
        self.awake
    }

    fn base_in_map(&self) -> Option<Pose> {
        Some(Pose::default())
    }

    fn tool_in_base(&self) -> Option<Pose> {
        None
    }

    fn gripper(&self) -> Option<GripperReading> {
        self.gripper
    }

    fn scene(&self) -> Option<Arc<SceneSnapshot>> {
        None
    }

    fn standing(&self, since: Duration, base: bool, joints: &[String]) -> Result<(), String> {
        if !base && joints.is_empty() {
            return Ok(());
        }
        if self.joints_unknown && !joints.is_empty() {
            return Err("no state of it was received".into());
        }
        let stands_since = since.max(self.last_motion);
        if self.drifts || self.now.saturating_sub(stands_since) < WINDOW {
            return Err("it moves at 0.400 m/s".into());
        }
        Ok(())
    }

    fn frames_since(&self, since: Stamp) -> Vec<DetectionFrame> {
        let fresh = self.frames.iter().filter(|f| f.stamp > since);
        fresh.cloned().collect()
    }

    fn lease(&self) -> LeaseSeen {
        self.lease.clone()
    }

    fn stop_latched(&self) -> Option<String> {
        self.stop.clone()
    }

    fn held_by_others(&self) -> BTreeMap<String, String> {
        self.others.clone()
    }

    fn planning_scene_is_there(&self) -> bool {
        self.planning_scene
    }

    fn is_there(&self, server: Server) -> bool {
        self.there.contains(&server)
    }

    fn status(&self, server: Server, goal_id: &GoalId) -> Option<i8> {
        let goal = self.known(goal_id)?;
        (goal.server == server && !goal.fate.no_status).then_some(goal.status)
    }

    fn open_goals(&self, server: Server) -> Vec<GoalId> {
        if !self.there.contains(&server) {
            return Vec::new();
        }
        let runs = |g: &Goal| {
            g.server == server && g.status == goal_status::EXECUTING && !g.fate.no_status
        };
        let ours = self.goals.iter().filter(|(_, g)| runs(g));
        let foreign = self.foreign.get(&server).into_iter().flatten();
        ours.map(|(id, _)| *id).chain(foreign.copied()).collect()
    }

    fn distance_remaining(&self, _: &GoalId) -> Option<f64> {
        self.remaining
    }
}
