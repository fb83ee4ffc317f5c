//! A tiny world in lockstep: carries out proposals by their declared effects, reveals what stands on the
//! furniture that is looked at, and refuses what its preconditions forbid.

use std::collections::VecDeque;

use eh_contract::belief::evaluate;
use eh_contract::condition::{Condition, Predicate, ROBOT};
use eh_contract::footprint::Footprint;
use eh_contract::scene::{Kind, RelationKind, SceneObject, SceneSnapshot};
use eh_contract::session::StepReport;
use eh_contract::skill::SkillDescriptor;
use eh_contract::state::CommandState;
use eh_contract::time::Stamp;
use eh_contract::verdict::Outcome;
use eh_planner::{Answer, Planner, PlanningContext, Program, SymbolicPlanner, TaskInput, Turn};
use serde_json::{Map, Value};

use super::{edge, home, START};

/// One step that goes wrong.
pub struct Mishap {
    pub skill: &'static str,
    pub error_code: u16,
    pub reason: &'static str,
    /// What the verdict found to hold nevertheless.
    pub measured: Vec<Value>,
}

pub struct World {
    pub scene: SceneSnapshot,
    /// Objects that nobody has seen yet, each with its support.
    pub hidden: Vec<(SceneObject, String)>,
    pub now: Stamp,
    pub skills: Vec<SkillDescriptor>,
    pub history: Vec<StepReport>,
    pub answers: Vec<Answer>,
    pub mishaps: VecDeque<Mishap>,
    pub asked: Vec<(String, Vec<String>)>,
}

/// The shipped descriptors.
pub fn descriptors() -> Vec<SkillDescriptor> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../skills/descriptors");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "json"))
        .collect();
    files.sort();
    files
        .iter()
        .map(|f| serde_json::from_str(&std::fs::read_to_string(f).unwrap()).unwrap())
        .collect()
}

impl World {
    pub fn new() -> Self {
        World::of(home())
    }

    /// A world whose scene is this one.
    pub fn of(scene: SceneSnapshot) -> Self {
        World {
            scene,
            hidden: Vec::new(),
            now: START,
            skills: descriptors(),
            history: Vec::new(),
            answers: Vec::new(),
            mishaps: VecDeque::new(),
            asked: Vec::new(),
        }
    }

    pub fn hide(mut self, object: SceneObject, support: &str) -> Self {
        self.hidden.push((object, support.into()));
        self
    }

    pub fn know(mut self, mut object: SceneObject, support: &str) -> Self {
        object.last_seen = Stamp(START.0 - 60_000_000_000);
        self.scene
            .relations
            .push(edge(&object.r#ref, RelationKind::On, support));
        self.scene.objects.push(object);
        self
    }

    pub fn mishap(mut self, skill: &'static str, error_code: u16, reason: &'static str) -> Self {
        self.mishaps.push_back(Mishap {
            skill,
            error_code,
            reason,
            measured: Vec::new(),
        });
        self
    }

    /// The last mishap leaves this true.
    pub fn although(mut self, predicate: Value) -> Self {
        self.mishaps.back_mut().unwrap().measured.push(predicate);
        self
    }

    fn node(&mut self, name: &str) -> &mut SceneObject {
        self.scene
            .objects
            .iter_mut()
            .find(|o| o.r#ref == name)
            .unwrap()
    }

    /// Stands 0.6 m in front of a thing (0 m from places, in the middle of rooms).
    fn drive(&mut self, target: &str) {
        let object = self.scene.get(target).unwrap().clone();
        let mut at = object.pose.position;
        if !matches!(object.kind, Kind::Room | Kind::Place) {
            let footprint = Footprint::new(&object.pose, object.size);
            // Towards the middle of the rooms, which lies at y = 2.
            let side = if at.y > 2.0 { -1.0 } else { 1.0 };
            at.y += side * (footprint.half_y + 0.6);
        }
        self.node(ROBOT).pose.position = at;
        let held: Vec<String> = self
            .scene
            .objects_of(ROBOT, RelationKind::Holds)
            .map(String::from)
            .collect();
        for r in held {
            self.node(&r).pose.position = at;
        }
    }

    fn add(&mut self, predicate: &Predicate) {
        match predicate {
            Predicate::Near(n) => self.drive(&n.target.clone()),
            Predicate::Visible(v) => {
                let now = self.now;
                let target = v.object.clone();
                let node = self.node(&target);
                if node.kind == Kind::Object {
                    node.last_seen = now;
                } else {
                    node.state.insert("seen_at".into(), now.0.to_string());
                }
                let (found, rest) = std::mem::take(&mut self.hidden)
                    .into_iter()
                    .partition(|(_, support)| *support == target);
                self.hidden = rest;
                for (mut object, support) in found {
                    object.last_seen = now;
                    self.scene
                        .relations
                        .push(edge(&object.r#ref, RelationKind::On, &support));
                    self.scene.objects.push(object);
                }
            }
            Predicate::Holding(h) => {
                self.scene
                    .relations
                    .push(edge(ROBOT, RelationKind::Holds, &h.object));
                self.node(ROBOT)
                    .state
                    .insert("gripper".into(), "holding".into());
            }
            Predicate::On(o) => {
                let at = self.scene.get(&o.support).unwrap().pose;
                self.node(&o.object.clone()).pose = at;
                self.scene
                    .relations
                    .push(edge(&o.object, RelationKind::On, &o.support));
                self.node(ROBOT)
                    .state
                    .insert("gripper".into(), "open".into());
            }
            Predicate::Gripper(g) if g.state == eh_contract::condition::GripperState::Open => {
                self.node(ROBOT)
                    .state
                    .insert("gripper".into(), "open".into());
            }
            Predicate::Arm(a) => {
                let pose = a.pose.clone();
                self.node(ROBOT).state.insert("arm".into(), pose);
            }
            _ => {}
        }
    }

    fn remove(&mut self, predicate: &Predicate) {
        match predicate {
            Predicate::On(o) => {
                let object = o.object.clone();
                self.scene
                    .relations
                    .retain(|r| !(r.relation == RelationKind::On && r.subject == object));
            }
            Predicate::Holding(h) => {
                let object = h.object.clone();
                self.scene.relations.retain(|r| {
                    !(r.relation == RelationKind::Holds && (object == "*" || r.object == object))
                });
            }
            Predicate::Gripper(g) if g.state == eh_contract::condition::GripperState::Open => {
                let state = &mut self.node(ROBOT).state;
                if state.get("gripper").is_some_and(|s| s == "open") {
                    state.insert("gripper".into(), "closed".into());
                }
            }
            _ => {}
        }
    }

    fn execute(&mut self, skill: &str, arguments: &Map<String, Value>) {
        let d = self
            .skills
            .iter()
            .find(|d| d.name == skill)
            .unwrap_or_else(|| panic!("{skill} is not on offer"))
            .clone();
        let needs = d.preconditions.bind(arguments).unwrap();
        let belief = evaluate(&needs, &self.scene, self.now);
        assert!(
            belief.holds(),
            "{skill} {arguments:?}: {}",
            belief.explanation
        );
        self.now = Stamp(self.now.0 + (d.nominal_duration * 1e9) as i64);
        let mut report = StepReport {
            step: self.history.len() as u32 + 1,
            skill: skill.into(),
            arguments: Value::Object(arguments.clone()),
            command_state: CommandState::Succeeded,
            verdict: Some(Outcome::Success),
            ..StepReport::default()
        };
        if self.mishaps.front().is_some_and(|m| m.skill == skill) {
            let mishap = self.mishaps.pop_front().unwrap();
            report.command_state = CommandState::Failed;
            report.verdict = Some(Outcome::Failure);
            report.error_code = mishap.error_code;
            report.verdict_reason = mishap.reason.into();
            report.measured = mishap.measured;
        } else {
            let effects = d.effects.bind(arguments).unwrap();
            for c in &effects.remove {
                for p in c.predicates() {
                    self.remove(p);
                }
            }
            for c in &effects.add {
                for p in c.predicates() {
                    self.add(p);
                }
            }
        }
        self.scene.version += 1;
        self.history.push(report);
    }

    /// Carries a task out; gives the steps as text and the last turn.
    pub fn run(&mut self, instruction: &str) -> (Vec<String>, Turn) {
        let planner = SymbolicPlanner::new().unwrap();
        let task = TaskInput {
            instruction,
            snapshot: &self.scene,
            vocabulary: &[],
        };
        let mut program = planner.begin(&task).unwrap();
        for _ in 0..100 {
            // As another process would: from the stored form alone.
            let stored = serde_json::to_string(&program).unwrap();
            program = serde_json::from_str::<Program>(&stored).unwrap();
            let context = PlanningContext {
                snapshot: &self.scene,
                now: self.now,
                skills: &self.skills,
                history: &self.history,
                answers: &self.answers,
                start_ref: "start",
            };
            let turn = planner.next(&mut program, &context);
            match turn {
                Turn::Propose(p) => {
                    assert!(!p.reason.is_empty());
                    assert_eq!(program.plan[0].skill, p.skill);
                    self.execute(&p.skill, &p.arguments);
                }
                Turn::Ask {
                    ref key,
                    ref question,
                    ref options,
                } => {
                    let answered = self.asked.len() < self.answers.len();
                    self.asked.push((question.clone(), options.clone()));
                    if !answered {
                        return (self.steps(), turn);
                    }
                    let index = self.asked.len() - 1;
                    self.answers[index].key = key.clone();
                }
                Turn::Done { .. } | Turn::Fail { .. } => return (self.steps(), turn),
            }
        }
        panic!("no end: {:?}", self.steps());
    }

    pub fn steps(&self) -> Vec<String> {
        self.history
            .iter()
            .map(|s| {
                let arguments: Vec<String> = s
                    .arguments
                    .as_object()
                    .unwrap()
                    .values()
                    .map(|v| v.as_str().map_or(v.to_string(), String::from))
                    .collect();
                let mark = if s.command_state == CommandState::Succeeded {
                    ""
                } else {
                    "!"
                };
                format!("{}{mark} {}", s.skill, arguments.join(" "))
                    .trim_end()
                    .to_string()
            })
            .collect()
    }

    pub fn holds(&self, condition: Value) -> bool {
        let condition = Condition::from_value(&condition).unwrap();
        evaluate(&condition, &self.scene, self.now).holds()
    }
}
