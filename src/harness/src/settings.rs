//! What is configured of the harness.

use std::time::Duration;

use eh_ledger::issuer_policy::IssuerPolicy;

use crate::admission::TaskDefaults;
use crate::budget::BudgetLimits;
use crate::embodiment::Embodiment;
use crate::gate::GateLimits;

/// How long the loop waits for its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// For one answer of the scene graph.
    pub scene: Duration,
    /// Questions to the scene graph without an answer after which the task ends; at least 1.
    pub scene_tries: u32,
    /// For one turn of the planner.
    pub planner: Duration,
    /// For the control lease.
    pub lease: Duration,
    /// For the executor's release and for the scene graph's new state after a command.
    pub learn: Duration,
    /// For an executor that was known and fell silent, before a plan is made without its skills.
    pub skills: Duration,
    /// For a person's answer.
    pub human: Duration,
    /// Between two looks at one run that could not be judged.
    pub look: Duration,
    /// Before a command that is UNKNOWN is worked on again; then twice as long each time.
    pub reconcile: Duration,
    /// After a step that brings something into view, before the scene is read: detections travel, and a
    /// thing becomes an object when it was seen twice.
    pub sight: Duration,
    /// Longest time between two feedbacks.
    pub feedback: Duration,
}

impl Default for Waits {
    fn default() -> Self {
        Waits {
            scene: Duration::from_secs(2),
            scene_tries: 5,
            planner: Duration::from_secs(60),
            lease: Duration::from_secs(10),
            learn: Duration::from_secs(10),
            skills: Duration::from_secs(10),
            human: Duration::from_secs(120),
            look: Duration::from_secs(1),
            reconcile: Duration::from_secs(10),
            sight: Duration::from_millis(400),
            feedback: Duration::from_millis(400),
        }
    }
}

/// What is configured of the harness.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The robot that it commands.
    pub robot_id: String,
    /// Its name as holder of the control lease.
    pub controller_id: String,
    /// Frame of all poses.
    pub map_frame: String,
    /// Version of the planner or model, for the session log.
    pub model_version: String,
    /// Version of the configuration, for the session log.
    pub config_version: String,
    /// What fills a goal's zeros.
    pub defaults: TaskDefaults,
    /// Attempts, repeats and backoff; time and steps come from each task.
    pub limits: BudgetLimits,
    /// What the gate writes into commands.
    pub gate: GateLimits,
    /// The issuer's time limits.
    pub policy: IssuerPolicy,
    /// The body.
    pub embodiment: Embodiment,
    /// How long to wait for whom.
    pub waits: Waits,
    /// Whether a task that an earlier process left in the middle is gone on with; else its command is
    /// stopped and the task ends.
    pub resume_tasks: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            robot_id: "robot".into(),
            controller_id: "/harness_node".into(),
            map_frame: "map".into(),
            model_version: String::new(),
            config_version: String::new(),
            defaults: TaskDefaults::default(),
            limits: BudgetLimits::default(),
            gate: GateLimits::default(),
            policy: IssuerPolicy::default(),
            embodiment: Embodiment::default(),
            waits: Waits::default(),
            resume_tasks: true,
        }
    }
}
