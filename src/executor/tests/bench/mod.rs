//! An executor with a robot, servers and a journal that do what a test says, on a clock that the test
//! turns. Every test file uses a part of it.
#![allow(dead_code)]

mod journal;
mod robot;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use eh_contract::command::{Beacon, Envelope, Precondition, SkillCommand, SCHEMA_VERSION};
use eh_contract::perception::{Detection, DetectionFrame};
use eh_contract::state::ExecutorState;
use eh_contract::{ErrorCode, Stamp};
use eh_executor::effect::{Answer, DeclaredRun, Level, SettleAnswer};
use eh_executor::event::{Arrival, Caller, SettleRequest};
use eh_executor::{Effect, Event, Executor, RecordKind, Restored, Server, Settings, Turn};
use eh_ledger::admission::{KnownSkill, SceneCheck};
use eh_ledger::executor::{ExecutorRecord, GoalId};
use eh_skills::catalog::{self, Adapter};
use eh_skills::fingers::GripperReading;
use eh_skills::Embodiment;
use rand::rngs::StdRng;
use rand::SeedableRng;
use serde_json::{json, Value};

pub use journal::Disk;
pub use robot::{Fate, Robot};

pub const STEP: Duration = Duration::from_millis(20);

pub fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub fn settings(adapter: Adapter) -> Settings {
    let actions: &[(Server, &str)] = match adapter {
        Adapter::Navigation => &[
            (Server::Navigation, "/navigate_to_pose"),
            (Server::Head, "/head"),
        ],
        Adapter::Manipulation => &[
            (Server::Arm, "/move_action"),
            (Server::Gripper, "/gripper_cmd"),
            (Server::Head, "/head"),
        ],
    };
    Settings {
        name: "/executor".into(),
        robot_id: "robot".into(),
        require_lease: true,
        check_preconditions: true,
        watched: match adapter {
            Adapter::Navigation => BTreeMap::new(),
            Adapter::Manipulation => {
                BTreeMap::from([(Server::Navigation, "/navigate_to_pose".to_owned())])
            }
        },
        actions: actions
            .iter()
            .map(|(s, a)| (*s, (*a).to_string()))
            .collect(),
        query_scene_service: "query_scene".into(),
        scene_timeout: ms(1000),
        planning_scene: true,
        planning_scene_timeout: ms(500),
        server_timeout: ms(1000),
        acknowledge_timeout: ms(500),
        lost_timeout: ms(1500),
        body: Embodiment::default(),
    }
}

/// What scene graph and planning scene answer to.
#[derive(Clone, Debug, PartialEq)]
pub enum SceneGraph {
    Holds,
    Fails,
    Silent,
}

pub struct Bench {
    pub adapter: Adapter,
    pub settings: Settings,
    pub executor: Executor,
    pub disk: Disk,
    pub robot: Robot,
    pub graph: SceneGraph,
    /// What a change of the planning scene comes to; `None`: nothing is ever heard of it.
    pub planning_scene: Option<Result<(), String>>,
    pub now: Duration,
    rng: StdRng,
    next_caller: Caller,
    next_command: u32,
    /// A process life.
    pub life: u32,
    /// Events that are on their way, and when they arrive.
    coming: Vec<(Duration, Event)>,
    // What was given out.
    pub answers: BTreeMap<Caller, Answer>,
    pub settled: BTreeMap<Caller, SettleAnswer>,
    pub feedback: Vec<(Caller, ExecutorState)>,
    pub declared: Vec<DeclaredRun>,
    pub run_events: Vec<(u8, String)>,
    pub lines: Vec<(Level, String)>,
    /// Names of everything that was given out, in order.
    pub performed: Vec<&'static str>,
    pub canceled: Vec<GoalId>,
    pub asked: Vec<GoalId>,
    pub scene_changes: Vec<String>,
    pub skills_offered: usize,
    sent: BTreeSet<GoalId>,
}

impl Bench {
    pub fn new(adapter: Adapter) -> Self {
        Self::with(settings(adapter), adapter)
    }

    pub fn navigation() -> Self {
        Self::new(Adapter::Navigation)
    }

    pub fn manipulation() -> Self {
        Self::new(Adapter::Manipulation)
    }

    /// A drive, "c1", that was just sent and whose goal meets this fate.
    pub fn driving(fate: Fate) -> (Self, Caller) {
        let mut this = Self::navigation();
        this.robot.fates.push_back(fate);
        let command = this.drive();
        let caller = this.send(&command);
        (this, caller)
    }

    /// A pick of the cup, which is seen where it was, just sent; its fingers have to open first.
    pub fn picking() -> (Self, Caller) {
        let mut b = Bench::manipulation();
        b.robot.gripper = Some(GripperReading {
            width: 0.0,
            effort: None,
        });
        let seen = Detection {
            id: "0".into(),
            class_name: "cup".into(),
            confidence: 0.9,
            attributes: Default::default(),
            pose: cup().pose,
            covariance: [0.0; 9],
            size: cup().size,
            reference: String::new(),
        };
        let frame = DetectionFrame {
            // Newer than whatever is asked for.
            stamp: Stamp(i64::MAX),
            source: "camera".into(),
            view: None,
            reference: String::new(),
            detections: vec![seen],
        };
        b.robot.frames = vec![frame; 5];
        let mut command = b.command("pick", json!({"object": "cup_1"}));
        command.targets.push(cup());
        let caller = b.send(&command);
        (b, caller)
    }

    pub fn with(settings: Settings, adapter: Adapter) -> Self {
        let mut disk = Disk::default();
        let mut robot = Robot::new(&settings);
        let mut rng = StdRng::seed_from_u64(1);
        let now = ms(100_000);
        robot.now = now;
        robot.lease(7, "/harness", now + Duration::from_secs(3600));
        let (executor, effects) = Executor::new(
            settings.clone(),
            skills(adapter),
            Restored::default(),
            "boot-0",
            &mut Turn {
                now,
                stamp: stamp(now),
                rng: &mut rng,
                journal: &mut disk,
                senses: &robot,
            },
        );
        let mut this = Bench {
            adapter,
            settings,
            executor,
            disk,
            robot,
            graph: SceneGraph::Holds,
            planning_scene: Some(Ok(())),
            now,
            rng,
            next_caller: 1,
            next_command: 1,
            life: 0,
            coming: Vec::new(),
            answers: BTreeMap::new(),
            settled: BTreeMap::new(),
            feedback: Vec::new(),
            declared: Vec::new(),
            run_events: Vec::new(),
            lines: Vec::new(),
            performed: Vec::new(),
            canceled: Vec::new(),
            asked: Vec::new(),
            scene_changes: Vec::new(),
            skills_offered: 0,
            sent: BTreeSet::new(),
        };
        this.perform(effects);
        this
    }

    /// The process dies; what was on its way to it is lost. Another one takes up what is on the disk.
    pub fn restart(&mut self) {
        self.life += 1;
        self.coming.clear();
        self.robot.forget_requests();
        let restored = Restored {
            live: self.disk.live(),
            settled: self.disk.settled(),
            newest_token: self.disk.newest_token(),
            held: self.disk.notes.get("held_grasp").cloned(),
        };
        let boot = format!("boot-{}", self.life);
        let (executor, effects) = Executor::new(
            self.settings.clone(),
            skills(self.adapter),
            restored,
            &boot,
            &mut Turn {
                now: self.now,
                stamp: stamp(self.now),
                rng: &mut self.rng,
                journal: &mut self.disk,
                senses: &self.robot,
            },
        );
        self.executor = executor;
        self.perform(effects);
    }

    // ---- what happens ------------------------------------------------------------------------

    /// Gives one event, without what follows from it being performed.
    pub fn decide(&mut self, event: Event) -> Vec<Effect> {
        let mut turn = Turn {
            now: self.now,
            stamp: stamp(self.now),
            rng: &mut self.rng,
            journal: &mut self.disk,
            senses: &self.robot,
        };
        self.executor.handle(event, &mut turn)
    }

    pub fn handle(&mut self, event: Event) {
        let effects = self.decide(event);
        self.perform(effects);
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            self.performed.push(effect.failpoint());
            self.give_out(effect);
        }
    }

    fn soon(&mut self, after: Duration, event: Event) {
        self.coming.push((self.now + after, event));
    }

    fn give_out(&mut self, effect: Effect) {
        match effect {
            Effect::Answer(answer) => {
                let old = self.answers.insert(answer.caller, *answer);
                assert_eq!(old, None, "a caller is answered once");
            }
            Effect::Feedback {
                caller,
                skill_status,
            } => self.feedback.push((caller, skill_status.state)),
            Effect::SettleAnswer(answer) => {
                self.settled.insert(answer.caller, answer);
            }
            Effect::CheckScene { command_id, .. } => {
                let check = match self.graph {
                    SceneGraph::Holds => SceneCheck::Holds,
                    SceneGraph::Fails => SceneCheck::Fails {
                        index: 0,
                        reason: "it was moved".into(),
                    },
                    SceneGraph::Silent => return,
                };
                self.soon(ms(100), Event::SceneChecked { command_id, check });
            }
            Effect::SendGoal {
                server,
                goal_id,
                goal,
            } => {
                assert!(self.sent.insert(goal_id), "a UUID is never sent twice");
                let of = |r: &ExecutorRecord| r.sub_goal(&goal_id).is_some();
                assert!(
                    self.disk.records.values().any(of),
                    "it is durable before it is sent"
                );
                assert_eq!(Server::of(&goal), Some(server));
                for (after, event) in self.robot.send(server, goal_id) {
                    self.soon(after, event);
                }
            }
            Effect::RequestResult { server, goal_id } => {
                self.asked.push(goal_id);
                self.robot.request_result(server, goal_id);
            }
            Effect::CancelGoal { server, goal_id } => {
                let of = |r: &ExecutorRecord| r.sub_goal(&goal_id).is_some();
                let ours = self.disk.records.values().any(of);
                assert!(ours, "only goals of ours are canceled");
                self.canceled.push(goal_id);
                self.robot.cancel(server, goal_id);
            }
            Effect::ChangeScene {
                command_id, name, ..
            } => {
                self.scene_changes.push(name.clone());
                if let Some(result) = self.planning_scene.clone() {
                    let event = Event::SceneChanged {
                        command_id,
                        name,
                        result,
                    };
                    self.soon(ms(100), event);
                }
            }
            Effect::RunEvent(event) => {
                self.run_events
                    .push((event.event.to_wire(), event.command_id));
            }
            Effect::Declare(run) => self.declared.push(run),
            Effect::PublishStatuses { .. } => {}
            Effect::PublishCatalog(skills) => self.skills_offered = skills.len(),
            Effect::Log { level, text } => self.lines.push((level, text)),
        }
    }

    /// Lets one step of time pass.
    pub fn step(&mut self) {
        for event in self.due() {
            self.handle(event);
        }
        self.handle(Event::Tick);
    }

    /// Lets one step of time pass; gives what arrives.
    fn due(&mut self) -> Vec<Event> {
        self.now += STEP;
        let told = self.robot.step(self.now);
        for event in told {
            self.soon(ms(10), event);
        }
        let now = self.now;
        let (due, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut self.coming)
            .into_iter()
            .partition(|(at, _)| *at <= now);
        self.coming = rest;
        due.into_iter().map(|(_, event)| event).collect()
    }

    /// One event and a step of time; false when the process has died with it. It dies where it would
    /// write more than the disk takes, so that nothing of that decision is performed; with `last` it
    /// lives until then, else it dies as soon as the last write is there.
    pub fn lives_through(&mut self, event: Event, last: bool) -> bool {
        let mut events = vec![event];
        events.extend(self.due());
        events.push(Event::Tick);
        for event in events {
            let effects = self.decide(event);
            if self.disk.died || (!last && self.disk.is_full()) {
                return false;
            }
            self.perform(effects);
        }
        true
    }

    pub fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            self.step();
        }
    }

    /// Lets time pass until something holds.
    pub fn until(&mut self, what: &str, mut holds: impl FnMut(&Bench) -> bool) {
        let late = self.now + Duration::from_secs(120);
        while !holds(self) {
            assert!(self.now < late, "{what} did not happen within 120 s");
            self.step();
        }
    }

    /// Lets time pass until a client has its answer.
    pub fn answer(&mut self, caller: Caller) -> Answer {
        self.until("the answer", |b| b.answers.contains_key(&caller));
        self.answers[&caller].clone()
    }

    // ---- commands ----------------------------------------------------------------------------

    pub fn command(&mut self, skill: &str, arguments: Value) -> SkillCommand {
        let id = format!("c{}", self.next_command);
        self.next_command += 1;
        SkillCommand {
            schema_version: SCHEMA_VERSION,
            command_id: id,
            task_id: "t1".into(),
            robot_id: "robot".into(),
            skill: skill.into(),
            skill_version: "1.0.0".into(),
            arguments: arguments.as_object().cloned().unwrap(),
            targets: vec![],
            preconditions: vec![],
            world_version: 1,
            plan_version: 1,
            start_within: ms(2000),
            execution_timeout: Duration::ZERO,
            stop_timeout: Duration::ZERO,
            max_segments: 0,
        }
    }

    pub fn drive(&mut self) -> SkillCommand {
        let pose = json!({"pose": {"frame_id": "map", "x": 1.0, "y": 0.0, "yaw": 0.0}});
        self.command("navigate_to_pose", pose)
    }

    pub fn envelope(&self, command: &SkillCommand) -> Envelope {
        Envelope {
            fencing_token: 7,
            controller_id: "/harness".into(),
            start_within: command.start_within,
            beacon: Some(self.executor.beacon(self.now)),
        }
    }

    pub fn arrival(&mut self, command: &SkillCommand) -> Arrival {
        let caller = self.next_caller;
        self.next_caller += 1;
        Arrival {
            caller,
            digest: command.digest(),
            envelope: self.envelope(command),
            command: command.clone(),
            segment: 0,
        }
    }

    pub fn send(&mut self, command: &SkillCommand) -> Caller {
        let arrival = self.arrival(command);
        let caller = arrival.caller;
        self.handle(Event::Arrived(Box::new(arrival)));
        caller
    }

    pub fn run(&mut self, command: &SkillCommand) -> Answer {
        let caller = self.send(command);
        self.answer(caller)
    }

    pub fn cancel(&mut self, caller: Caller) {
        self.handle(Event::CancelAsked { caller });
    }

    pub fn settle(&mut self, command_id: &str, final_state: u8) -> SettleAnswer {
        let caller = self.next_caller;
        self.next_caller += 1;
        self.handle(Event::SettleAsked(SettleRequest {
            caller,
            command_id: command_id.into(),
            final_state,
            settled_by: "/harness".into(),
            reason: String::new(),
            fencing_token: 7,
        }));
        self.settled[&caller].clone()
    }

    // ---- what is ------------------------------------------------------------------------------

    pub fn record(&self, command_id: &str) -> ExecutorRecord {
        self.executor
            .find(command_id, &self.disk)
            .unwrap()
            .unwrap_or_else(|| panic!("{command_id} is not known"))
    }

    pub fn kinds(&self, command_id: &str) -> Vec<&'static str> {
        self.disk.kinds(command_id)
    }

    pub fn goal(&self, command_id: &str) -> GoalId {
        self.record(command_id).sub_goals[0].goal_id
    }

    pub fn state(&self, command_id: &str) -> ExecutorState {
        self.record(command_id).state
    }

    pub fn is_running(&self, server: Server) -> bool {
        self.robot.moves(server)
    }
}

pub fn precondition() -> Precondition {
    Precondition {
        r#ref: "cup_1".into(),
        version: 2,
        same_version: true,
        max_age: Duration::ZERO,
        max_displacement: 0.0,
        predicates: Value::Null,
    }
}

pub fn skills(adapter: Adapter) -> BTreeMap<String, KnownSkill> {
    catalog::of(adapter)
        .unwrap()
        .into_iter()
        .map(|d| (d.name.clone(), KnownSkill::new(d).unwrap()))
        .collect()
}

pub fn stamp(now: Duration) -> Stamp {
    Stamp(1_000_000_000_000 + now.as_nanos() as i64)
}

/// The same code under another beacon, for a command of an earlier life.
pub fn beacon(boot_id: &str, tick: Duration) -> Option<Beacon> {
    Some(Beacon {
        executor: "/executor".into(),
        boot_id: boot_id.into(),
        tick,
    })
}

pub fn assert_code(answer: &Answer, code: ErrorCode) {
    assert_eq!(
        ErrorCode::from_code(answer.error_code),
        Some(code),
        "{}",
        answer.error_msg
    );
}

pub fn kinds(kinds: &[RecordKind]) -> Vec<&'static str> {
    kinds.iter().map(|k| k.name()).collect()
}

/// A cup on a table before the robot.
pub fn cup() -> eh_contract::command::TargetBinding {
    use eh_contract::geometry::{Pose, Vec3};
    let mut pose = Pose::planar(0.6, 0.0, 0.0);
    pose.position.z = 0.79;
    eh_contract::command::TargetBinding {
        argument: "object".into(),
        r#ref: "cup_1".into(),
        class_name: "cup".into(),
        kind: eh_contract::scene::Kind::Object,
        version: 2,
        frame_id: "map".into(),
        pose,
        size: Vec3::new(0.08, 0.08, 0.1),
        last_seen: eh_contract::Stamp(1),
        support: None,
    }
}
