//! A scripted world around the loop: it answers every effect as the neighbours would, on virtual time.

#![allow(dead_code)]

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use eh_contract::command::{Beacon, Proposal};
use eh_contract::geometry::{Pose, Vec3};
use eh_contract::scene::{Kind, Relation, RelationKind, SceneObject, SceneSnapshot, Source};
use eh_contract::session::{SessionEvent, StepReport, TaskRecord};
use eh_contract::skill::SkillDescriptor;
use eh_contract::state::{CommandState, ControlEnd, ExecutorState, StopStage};
use eh_contract::status::SkillStatus;
use eh_contract::verdict::{Evidence, Outcome, Verdict};
use eh_contract::Stamp;
use eh_harness::admission::{read_goal, AdmissionError, Repeated, TaskGoal};
use eh_harness::effect::{GoalRequest, HumanRequest, PlanRequest, TaskFeedback};
use eh_harness::embodiment::Embodiment;
use eh_harness::error::{AnswerError, SettleError};
use eh_harness::surroundings::{Catalog, StopView};
use eh_harness::{Effect, Event, Harness, Restored, Settings, Turned};
use eh_ledger::issuer::IssuerRecord;
use eh_ledger::issuer_event::Finality;
use eh_ledger::issuer_policy::Now;
use eh_planner::planner::{Language, PlannerError, Program, Turn};
use rand::rngs::StdRng;
use rand::SeedableRng;
use serde_json::{json, Value};

pub const EXECUTORS: [&str; 2] = ["/navigation_skills_node", "/manipulation_skills_node"];

const DESCRIPTORS: [&str; 8] = [
    include_str!("../../../skills/descriptors/navigate_to.json"),
    include_str!("../../../skills/descriptors/look_at.json"),
    include_str!("../../../skills/descriptors/pick.json"),
    include_str!("../../../skills/descriptors/place.json"),
    include_str!("../../../skills/descriptors/open_gripper.json"),
    include_str!("../../../skills/descriptors/stow.json"),
    include_str!("../../../skills/descriptors/wait.json"),
    include_str!("../../../skills/descriptors/navigate_to_pose.json"),
];

pub fn skills() -> Vec<SkillDescriptor> {
    DESCRIPTORS
        .iter()
        .map(|text| serde_json::from_str(text).unwrap())
        .collect()
}

/// How a control ends, by what the world is told to do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    Completes,
    /// Completes, and the evaluator says FAILURE: a slipped grasp.
    Slips,
    /// Runs until it is canceled.
    RunsOn,
    /// Runs on, and a cancel is acknowledged but nothing ever stands still.
    WillNotStop,
    /// The executor refuses it.
    Refused(u16),
    /// The goal arrives, but neither acknowledgement nor status is heard until somebody asks.
    AckLost,
    /// The goal never arrives.
    GoalLost,
}

pub type Script = Box<dyn FnMut(&PlanRequest) -> Turn>;

pub struct World {
    pub harness: Harness,
    pub scene: SceneSnapshot,
    pub now: Duration,
    pub rng: StdRng,
    pub script: Script,
    pub controls: VecDeque<Control>,
    /// Verdicts other than the natural one, in order.
    pub verdicts: VecDeque<Outcome>,
    pub evaluator_silent: bool,
    pub scene_silent: bool,
    pub planner_silent: bool,
    pub lease_refused: bool,
    pub settle_silent: bool,
    /// The executors' beacons have stopped.
    pub silent: bool,
    pub begin_error: Option<PlannerError>,
    pub inbox: VecDeque<(Duration, Event)>,
    pub running: BTreeMap<String, (GoalRequest, Control, SkillStatus)>,
    pub sent: Vec<GoalRequest>,
    pub saved: Vec<IssuerRecord>,
    pub saved_commands: BTreeMap<String, IssuerRecord>,
    pub saved_tasks: BTreeMap<String, TaskRecord>,
    pub journal: Vec<SessionEvent>,
    pub feedback: Vec<TaskFeedback>,
    pub finished: Vec<TaskRecord>,
    pub requests: Vec<HumanRequest>,
    pub warnings: Vec<String>,
    pub settled: Vec<String>,
    pub cancels: Vec<[u8; 16]>,
    pub applied: Vec<String>,
    pub leases: i32,
    pub queries: usize,
    /// Writes until the process is gone.
    pub crash_in: Option<u32>,
}

pub fn object(r: &str, kind: Kind, class: &str, x: f64, y: f64, size: [f64; 3]) -> SceneObject {
    SceneObject {
        r#ref: r.into(),
        kind,
        class_name: class.into(),
        frame_id: "map".into(),
        pose: Pose::planar(x, y, 0.0),
        size: Vec3::new(size[0], size[1], size[2]),
        confidence: 1.0,
        version: 1,
        ..SceneObject::default()
    }
}

pub fn edge(s: &str, relation: RelationKind, o: &str) -> Relation {
    Relation {
        subject: s.into(),
        relation,
        object: o.into(),
        confidence: 1.0,
        stamp: Stamp(1),
        source: Source::Map,
    }
}

pub fn room(r: &str, x0: f64, x1: f64) -> SceneObject {
    let mut room = object(
        r,
        Kind::Room,
        "room",
        (x0 + x1) / 2.0,
        0.0,
        [x1 - x0, 6.0, 0.0],
    );
    room.outline = [(x0, -3.0), (x1, -3.0), (x1, 3.0), (x0, 3.0)]
        .map(|(x, y)| Vec3::new(x, y, 0.0))
        .to_vec();
    room
}

pub fn apartment() -> SceneSnapshot {
    let mut robot = object("robot", Kind::Robot, "robot", 0.5, 0.0, [0.5, 0.5, 1.2]);
    robot.state.insert("gripper".into(), "open".into());
    SceneSnapshot {
        map_id: "apartment".into(),
        version: 7,
        stamp: Stamp(1),
        objects: vec![
            object(
                "counter_1",
                Kind::Surface,
                "counter",
                6.0,
                0.0,
                [1.0, 0.6, 0.9],
            ),
            object("cup_1", Kind::Object, "cup", 5.7, 0.0, [0.08, 0.08, 0.1]),
            room("kitchen", 4.0, 8.0),
            room("living_room", -4.0, 4.0),
            robot,
            object("sofa_1", Kind::Surface, "sofa", -2.0, 2.0, [2.0, 0.9, 0.5]),
        ],
        relations: vec![
            edge("counter_1", RelationKind::In, "kitchen"),
            edge("cup_1", RelationKind::On, "counter_1"),
            edge("robot", RelationKind::In, "living_room"),
            edge("sofa_1", RelationKind::In, "living_room"),
        ],
    }
}

pub fn propose(skill: &str, arguments: Value) -> Turn {
    Turn::Propose(Proposal {
        skill: skill.into(),
        arguments: arguments.as_object().cloned().unwrap(),
        reason: "because".into(),
    })
}

/// Proposes the steps of a list in order, each until it succeeded, then is done.
pub fn list(steps: Vec<(&'static str, Value)>) -> Script {
    Box::new(move |request: &PlanRequest| {
        let done = request
            .history
            .iter()
            .filter(|s| s.command_state == CommandState::Succeeded)
            .count();
        match steps.get(done) {
            Some((skill, arguments)) => propose(skill, arguments.clone()),
            None => Turn::Done {
                summary: "done".into(),
            },
        }
    })
}

pub fn settings() -> Settings {
    Settings {
        embodiment: Embodiment::parse(
            r#"{"mobile_base": true, "head": "pan_tilt", "reach": 0.85, "payload": 1.0,
                "gripper": "parallel", "gripper_max_width": 0.1}"#,
        )
        .unwrap(),
        ..Settings::default()
    }
}

pub fn goal(task_id: &str, instruction: &str) -> TaskGoal {
    TaskGoal {
        task_id: task_id.into(),
        instruction: instruction.into(),
        ..TaskGoal::default()
    }
}

impl World {
    pub fn new(script: Script) -> Self {
        World::restored(script, Restored::default(), None)
    }

    /// A new process, in a world where an older one may have left something running.
    pub fn restored(script: Script, restored: Restored, old: Option<World>) -> Self {
        World::with_settings(script, settings(), restored, old)
    }

    pub fn with_settings(
        script: Script,
        settings: Settings,
        restored: Restored,
        old: Option<World>,
    ) -> Self {
        let steady = old.as_ref().map_or(Duration::ZERO, |w| w.now);
        let now = Now {
            steady,
            ros: Stamp::from_secs_f64(1000.0 + steady.as_secs_f64()),
        };
        let (harness, effects) = Harness::new(settings, restored, now);
        let mut world = World {
            harness,
            scene: apartment(),
            now: steady,
            crash_in: None,
            rng: StdRng::seed_from_u64(5),
            script,
            controls: VecDeque::new(),
            verdicts: VecDeque::new(),
            evaluator_silent: false,
            scene_silent: false,
            planner_silent: false,
            lease_refused: false,
            settle_silent: false,
            silent: false,
            begin_error: None,
            inbox: VecDeque::new(),
            running: BTreeMap::new(),
            sent: vec![],
            saved: vec![],
            saved_commands: BTreeMap::new(),
            saved_tasks: BTreeMap::new(),
            journal: vec![],
            feedback: vec![],
            finished: vec![],
            requests: vec![],
            warnings: vec![],
            settled: vec![],
            cancels: vec![],
            applied: vec![],
            leases: 0,
            queries: 0,
        };
        if let Some(old) = old {
            world.rng = StdRng::seed_from_u64(6);
            world.journal = old.journal;
            world.saved_tasks = old.saved_tasks;
            world.saved_commands = old.saved_commands;
            world.running = old.running;
            world.sent = old.sent;
            world.scene = old.scene;
            // What the executors say is on its way; answers to the old process are not for this one.
            world.inbox = old
                .inbox
                .into_iter()
                .filter(|(_, e)| matches!(e, Event::Status(_)))
                .collect();
        }
        world.perform(effects);
        world.introduce();
        world
    }

    /// Catalogs, beacons and the evaluator.
    pub fn introduce(&mut self) {
        for executor in EXECUTORS {
            let skills = skills()
                .into_iter()
                .filter(|s| {
                    executor.trim_start_matches('/') == s.action_name.split('/').next().unwrap()
                })
                .collect();
            self.give(Event::CatalogSeen(Catalog {
                executor: executor.into(),
                boot_id: "boot-1".into(),
                robot_id: "robot".into(),
                skills,
            }));
        }
        self.beacons();
        self.give(Event::EvaluatorSeen(true));
    }

    fn beacons(&mut self) {
        if self.silent {
            return;
        }
        for executor in EXECUTORS {
            self.give(Event::BeaconSeen(Beacon {
                executor: executor.into(),
                boot_id: "boot-1".into(),
                tick: self.now,
            }));
        }
    }

    pub fn at(&self) -> Now {
        Now {
            steady: self.now,
            ros: Stamp::from_secs_f64(1000.0 + self.now.as_secs_f64()),
        }
    }

    pub fn submit(&mut self, goal: &TaskGoal) -> Result<Repeated, AdmissionError> {
        let now = self.at();
        let request = read_goal(goal, &self.harness.settings().defaults, &mut self.rng)?;
        let known = self.saved_tasks.get(&request.task_id).cloned();
        let mut turned = Turned {
            now,
            rng: &mut self.rng,
        };
        let (repeated, effects) = self.harness.submit(request, known.as_ref(), &mut turned)?;
        self.perform(effects);
        Ok(repeated)
    }

    pub fn answer(&mut self, request_id: &str, answer: &str, by: &str) -> Result<(), AnswerError> {
        let now = self.at();
        let effects = self.harness.answer(request_id, answer, by, now)?;
        self.perform(effects);
        Ok(())
    }

    pub fn settle(&mut self, command_id: &str, to: Finality, by: &str) -> Result<(), SettleError> {
        let now = self.at();
        let (_, effects) = self.harness.settle(command_id, to, by, "I looked", now)?;
        self.perform(effects);
        Ok(())
    }

    pub fn give(&mut self, event: Event) {
        let now = self.at();
        let mut turned = Turned {
            now,
            rng: &mut self.rng,
        };
        let effects = self.harness.handle(event, &mut turned);
        self.perform(effects);
    }

    pub fn stop(&mut self) {
        self.give(Event::StopSeen(StopView {
            latched: true,
            text: "somebody pressed it".into(),
        }));
    }

    /// Lets time pass until a task has ended, at most this long.
    pub fn run(&mut self, limit: Duration) -> &TaskRecord {
        let before = self.finished.len();
        let end = self.now + limit;
        while self.finished.len() == before && self.now < end {
            self.step();
        }
        assert!(
            self.finished.len() > before,
            "the task did not end within {limit:?}; last feedback {:?}",
            self.feedback.last()
        );
        self.finished.last().unwrap()
    }

    pub fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.step();
        }
    }

    /// A tenth of a second.
    pub fn step(&mut self) {
        self.now += Duration::from_millis(100);
        self.beacons();
        let (due, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.inbox)
            .into_iter()
            .partition(|(at, _)| *at <= self.now);
        self.inbox = later.into();
        for (_, event) in due {
            self.give(event);
        }
        self.give(Event::Tick);
    }

    fn later(&mut self, millis: u64, event: Event) {
        self.inbox
            .push_back((self.now + Duration::from_millis(millis), event));
    }

    fn status(&mut self, command_id: &str, millis: u64, change: impl FnOnce(&mut SkillStatus)) {
        let Some((_, _, status)) = self.running.get_mut(command_id) else {
            return;
        };
        change(status);
        status.sequence += 1;
        let status = status.clone();
        self.later(millis, Event::Status(Box::new(status)));
    }

    /// The process is gone right after this many writes.
    pub fn crash_after_writes(&mut self, writes: u32) {
        self.crash_in = Some(writes);
    }

    pub fn crashed(&self) -> bool {
        self.crash_in == Some(0)
    }

    /// What runs on is done.
    pub fn let_go(&mut self) {
        let ids: Vec<String> = self.running.keys().cloned().collect();
        for id in ids {
            self.status(&id, 100, |s| {
                if s.state == ExecutorState::Started {
                    s.state = ExecutorState::Ended;
                    s.control_end = ControlEnd::Completed;
                }
            });
        }
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            if self.crashed() {
                return;
            }
            let writes = matches!(
                effect,
                Effect::SaveCommand(_) | Effect::SaveTask(_) | Effect::Journal(_)
            );
            if let (true, Some(left)) = (writes, self.crash_in.as_mut()) {
                *left -= 1;
            }
            match effect {
                Effect::SaveCommand(record) => {
                    self.saved_commands
                        .insert(record.command_id().into(), (*record).clone());
                    self.saved.push(*record);
                }
                Effect::SaveTask(task) => {
                    self.saved_tasks.insert(task.request.task_id.clone(), *task);
                }
                Effect::Journal(event) => {
                    let last = self
                        .journal
                        .iter()
                        .rev()
                        .find(|e| e.task_id == event.task_id)
                        .map_or(0, |e| e.sequence);
                    assert_eq!(event.sequence, last + 1, "a gap in the session log");
                    self.journal.push(*event);
                }
                Effect::ReadScene { ticket } if !self.scene_silent => {
                    let scene = Box::new(self.scene.clone());
                    self.later(
                        10,
                        Event::SceneRead {
                            ticket,
                            result: Ok(scene),
                        },
                    );
                }
                Effect::ReadScene { .. } => {}
                Effect::Begin {
                    ticket,
                    instruction,
                    ..
                } => {
                    let result = match self.begin_error.clone() {
                        Some(error) => Err(error),
                        None => Ok(Box::new(Program {
                            planner: "scripted".into(),
                            planner_version: "1".into(),
                            instruction,
                            language: Language::En,
                            understood: "as scripted".into(),
                            plan_version: 1,
                            plan: vec![],
                            state: Value::Null,
                        })),
                    };
                    self.later(10, Event::Begun { ticket, result });
                }
                Effect::Plan(request) if !self.planner_silent => {
                    let turn = (self.script)(&request);
                    self.later(
                        10,
                        Event::Turned {
                            ticket: request.ticket,
                            program: Box::new(request.program),
                            turn,
                        },
                    );
                }
                Effect::Plan(_) => {}
                Effect::AcquireLease => {
                    self.leases += 1;
                    let event = if self.lease_refused {
                        Event::LeaseRefused {
                            reason: "held by /teleop".into(),
                        }
                    } else {
                        Event::LeaseGranted { token: 7 }
                    };
                    self.later(10, event);
                }
                Effect::ReleaseLease => self.leases = 0,
                Effect::SendGoal(goal) => self.send(*goal),
                Effect::CancelGoal {
                    command_id,
                    goal_id,
                    ..
                } => {
                    self.cancels.push(goal_id);
                    let control = self.running.get(&command_id).map(|(_, c, _)| *c);
                    match control {
                        Some(Control::RunsOn | Control::AckLost) => {
                            self.status(&command_id, 400, |s| {
                                s.state = ExecutorState::Ended;
                                s.control_end = ControlEnd::Canceled;
                                s.stop_stage = StopStage::Confirmed;
                            });
                        }
                        Some(Control::WillNotStop) => {
                            self.status(&command_id, 100, |s| {
                                s.state = ExecutorState::Canceling;
                                s.stop_stage = StopStage::Received;
                            });
                        }
                        _ => {}
                    }
                }
                Effect::QueryExecutor {
                    command_id,
                    executor,
                } => {
                    assert!(EXECUTORS.contains(&executor.as_str()));
                    self.queries += 1;
                    let event = match self.running.get(&command_id) {
                        Some((_, _, status)) => Event::Status(Box::new(status.clone())),
                        None => Event::CommandNotFound { command_id },
                    };
                    self.later(10, event);
                }
                Effect::Evaluate {
                    command_id,
                    run_id,
                    segment,
                } => {
                    if self.evaluator_silent {
                        continue;
                    }
                    let slipped = self
                        .running
                        .get(&command_id)
                        .is_some_and(|(_, c, _)| *c == Control::Slips);
                    let natural = if slipped {
                        Outcome::Failure
                    } else {
                        Outcome::Success
                    };
                    let outcome = self.verdicts.pop_front().unwrap_or(natural);
                    let verdict = Verdict {
                        run_id,
                        command_id: command_id.clone(),
                        segment,
                        outcome,
                        reason: format!("as scripted: {outcome:?}"),
                        predicates: vec![],
                        evidence: vec![Evidence {
                            id: "e1".into(),
                            kind: "gripper".into(),
                            source: "joint_states".into(),
                            stamp: self.at().ros,
                            frame_id: String::new(),
                            summary: "the gripper is 0.04 m open".into(),
                            value: Value::Null,
                            reference: String::new(),
                        }],
                        judge: "predicates".into(),
                        judge_version: "1".into(),
                        stamp: self.at().ros,
                    };
                    self.later(
                        200,
                        Event::Judged {
                            command_id,
                            result: Ok(Box::new(verdict)),
                        },
                    );
                }
                Effect::SettleExecutor { command_id, .. } => {
                    self.settled.push(command_id.clone());
                    if !self.settle_silent {
                        self.later(10, Event::SettleConfirmed { command_id });
                    }
                }
                Effect::ApplyEffects {
                    command_id,
                    verdict,
                    ..
                } => {
                    assert_eq!(verdict.outcome, Outcome::Success);
                    self.applied.push(command_id.clone());
                    self.take_effects(&command_id);
                    self.later(
                        10,
                        Event::EffectsApplied {
                            command_id,
                            result: Ok(()),
                        },
                    );
                }
                Effect::AskHuman(request) => self.requests.push(request),
                Effect::Feedback(feedback) => self.feedback.push(*feedback),
                Effect::Finish(record) => self.finished.push(*record),
                Effect::Warn(text) => self.warnings.push(text),
            }
        }
    }

    fn send(&mut self, goal: GoalRequest) {
        // Durable before it is sent, under a UUID that is new.
        let saved = &self.saved_commands[&goal.command.command_id];
        assert_eq!(saved.goal_id(), Some(goal.goal_id));
        assert_eq!(saved.state, CommandState::Dispatched);
        assert!(self.sent.iter().all(|g| g.goal_id != goal.goal_id));
        assert!(goal.envelope.beacon.is_some());
        assert_eq!(goal.envelope.fencing_token, 7);
        self.sent.push(goal.clone());
        let control = self.controls.pop_front().unwrap_or(Control::Completes);
        let id = goal.command.command_id.clone();
        if control == Control::GoalLost {
            return;
        }
        let status = SkillStatus {
            executor: format!("/{}", goal.action_name.split('/').next().unwrap()),
            boot_id: "boot-1".into(),
            command_id: id.clone(),
            task_id: goal.command.task_id.clone(),
            skill: goal.command.skill.clone(),
            state: ExecutorState::Accepted,
            ..SkillStatus::default()
        };
        self.running.insert(id.clone(), (goal, control, status));
        let start = |s: &mut SkillStatus, at: Stamp| {
            s.state = ExecutorState::Started;
            s.run_id = format!("run-{}", s.command_id);
            s.started_at = at;
        };
        let at = self.at().ros;
        if control == Control::AckLost {
            let (_, _, status) = self.running.get_mut(&id).unwrap();
            start(status, at);
            status.sequence = 2;
            return;
        }
        self.later(
            10,
            Event::GoalAccepted {
                command_id: id.clone(),
            },
        );
        if let Control::Refused(code) = control {
            return self.status(&id, 20, |s| {
                s.state = ExecutorState::Rejected;
                s.error_code = code;
                s.error_msg = "as scripted".into();
            });
        }
        self.status(&id, 20, |s| start(s, at));
        match control {
            Control::Completes | Control::Slips => self.status(&id, 2000, |s| {
                s.state = ExecutorState::Ended;
                s.control_end = ControlEnd::Completed;
            }),
            _ => {}
        }
    }

    /// What a confirmed skill does to the scene, as the scene graph would have it.
    fn take_effects(&mut self, command_id: &str) {
        let (goal, _, _) = &self.running[command_id];
        let argument = |name: &str| {
            goal.command.arguments[name]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        self.scene.version += 1;
        let ros = self.at().ros;
        match goal.command.skill.as_str() {
            "navigate_to" => {
                let at = goal.command.targets[0].pose.position;
                // In front of what has a body, at a place or in a room itself.
                let gap = match goal.command.targets[0].kind {
                    Kind::Place | Kind::Room => 0.0,
                    _ => 0.7,
                };
                let robot = self.node("robot");
                robot.pose = Pose::planar(at.x - gap, at.y, 0.0);
                let held: Vec<String> = self
                    .scene
                    .objects_of("robot", RelationKind::Holds)
                    .map(String::from)
                    .collect();
                for r in held {
                    self.node(&r).pose = Pose::planar(at.x - gap, at.y, 0.0);
                }
            }
            "look_at" => {
                let target = argument("target");
                let node = self.node(&target);
                node.last_seen = ros;
                node.state.insert("seen_at".into(), ros.0.to_string());
                for object in &mut self.scene.objects {
                    if object.kind == Kind::Object {
                        object.last_seen = ros;
                    }
                }
            }
            "pick" => {
                let object = argument("object");
                self.scene.relations.retain(|r| r.subject != object);
                self.scene
                    .relations
                    .push(edge("robot", RelationKind::Holds, &object));
                self.node("robot")
                    .state
                    .insert("gripper".into(), "holding".into());
            }
            _ => {}
        }
    }

    pub fn node(&mut self, r: &str) -> &mut SceneObject {
        self.scene
            .objects
            .iter_mut()
            .find(|o| o.r#ref == r)
            .unwrap()
    }

    pub fn kinds(&self, task_id: &str) -> Vec<&'static str> {
        self.journal
            .iter()
            .filter(|e| e.task_id == task_id)
            .map(|e| e.kind.name())
            .collect()
    }
}

pub fn fetch() -> Vec<(&'static str, Value)> {
    vec![
        ("navigate_to", json!({"target": "cup_1"})),
        ("look_at", json!({"target": "cup_1"})),
        ("pick", json!({"object": "cup_1"})),
        ("navigate_to", json!({"target": "start"})),
    ]
}

pub fn states(steps: &[StepReport]) -> Vec<(&str, CommandState)> {
    steps
        .iter()
        .map(|s| (s.skill.as_str(), s.command_state))
        .collect()
}

pub const fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

pub fn shared(scene: &SceneSnapshot) -> Arc<SceneSnapshot> {
    Arc::new(scene.clone())
}
