//! The node's parameters.

use std::path::PathBuf;
use std::time::Duration;

use eh_contract::id::check_id;
use eh_harness::admission::TaskDefaults;
use eh_harness::budget::BudgetLimits;
use eh_harness::embodiment::{Embodiment, GRIPPER_MAX_WIDTH};
use eh_harness::gate::GateLimits;
use eh_harness::settings::Waits;
use eh_harness::Settings;
use eh_ledger::issuer_policy::IssuerPolicy;
use eh_ros_edge::params::{choice, flag, integer, number, text, texts};
use eh_ros_edge::state_directory;
use rclrs::Node;
use serde_json::Value;

use crate::Error;

/// What the node is set to.
#[derive(Clone, Debug)]
pub struct Parameters {
    /// What decisions depend on.
    pub settings: Settings,
    /// Name of the planner.
    pub planner: String,
    /// Classes that perception can recognise, beyond those in the scene.
    pub vocabulary: Vec<String>,
    /// Lifetime of the control lease; it is renewed three times in it.
    pub lease_ttl: Duration,
    /// Folder of the durable files.
    pub state_directory: PathBuf,
    /// Name of the action that is served.
    pub execute_task_action: String,
    /// Name of the evaluator's action.
    pub evaluate_run_action: String,
    /// Name of the scene graph's service for questions.
    pub query_scene_service: String,
    /// Name of the scene graph's service for effects.
    pub apply_effects_service: String,
    /// Name of protection's service for the control lease.
    pub manage_lease_service: String,
}

impl Parameters {
    /// Declares all parameters and checks them.
    ///
    /// # Errors
    /// [`Error`] that names the parameter, its value and the limits.
    pub fn declare(node: &Node) -> Result<Self, Error> {
        let seconds = |name: &str, default: f64, range, description: &str| {
            number(node, name, default, range, "s", description).map(Duration::from_secs_f64)
        };
        let count = |name: &str, default: u32, most: u32, description: &str| {
            integer(
                node,
                name,
                i64::from(default),
                1..=i64::from(most),
                "1",
                description,
            )
            // The range is checked, so that it fits.
            .map(|n| u32::try_from(n).unwrap_or(default))
        };
        let approval = choice(
            node,
            "approval",
            "autonomous",
            &["autonomous", "supervised", "shadow"],
            "Who lets a command run.",
        )?;
        if approval != "autonomous" {
            return Err(Error::Value {
                name: "approval",
                reason: format!("'{approval}' is not available in this version; only 'autonomous' is, and it needs nobody's approval"),
            });
        }
        let robot_id = text(node, "robot_id", "robot", "The robot that is commanded.")?;
        check_id("robot_id", &robot_id).map_err(|e| Error::Value {
            name: "robot_id",
            reason: e.to_string(),
        })?;
        let embodiment = declare_embodiment(node)?;
        let permissions = texts(
            node,
            "default_permissions",
            &["move_base", "move_arm"],
            "Permissions of every task.",
        )?;
        for permission in &permissions {
            check_id("permission", permission).map_err(|e| Error::Value {
                name: "default_permissions",
                reason: e.to_string(),
            })?;
        }
        let defaults = TaskDefaults {
            time_budget: seconds(
                "default_time_budget",
                300.0,
                1.0..=86_400.0,
                "Longest time of a task whose goal names none.",
            )?,
            max_steps: count(
                "default_max_steps",
                40,
                10_000,
                "Most steps of a task whose goal names none.",
            )?,
            permissions,
        };
        let limits = BudgetLimits {
            attempts: count(
                "max_attempts",
                3,
                100,
                "Attempts of one skill with the same arguments.",
            )?,
            repeats: count(
                "max_repeats",
                5,
                1000,
                "Successes of one skill with the same arguments, beyond which a task goes round in circles.",
            )?,
            backoff_base: seconds(
                "backoff_base",
                0.5,
                0.0..=60.0,
                "Upper bound of the first wait before another attempt; it doubles with each.",
            )?,
            backoff_cap: seconds(
                "backoff_cap",
                5.0,
                0.0..=600.0,
                "Largest upper bound of a wait before another attempt.",
            )?,
            ..BudgetLimits::default()
        };
        let gate = GateLimits {
            start_within: seconds(
                "start_within",
                3.0,
                0.1..=60.0,
                "Budget from the executor's beacon to the physical start.",
            )?,
            stop_timeout: seconds(
                "stop_timeout",
                3.0,
                0.1..=60.0,
                "Longest time from a cancel to measured standstill.",
            )?,
            max_displacement: number(
                node,
                "max_displacement",
                0.05,
                0.0..=10.0,
                "m",
                "How far an object may have moved between planning and start.",
            )?,
        };
        let policy = IssuerPolicy {
            silent_after: seconds(
                "silent_after",
                2.0,
                0.2..=60.0,
                "Silence of an executor after which it is asked.",
            )?,
            lost_after: seconds(
                "lost_after",
                15.0,
                1.0..=600.0,
                "Silence of an executor after which its command is UNKNOWN.",
            )?,
            evaluation_timeout: seconds(
                "evaluation_timeout",
                20.0,
                0.5..=600.0,
                "Longest wait for one verdict.",
            )?,
            max_looks: count(
                "max_looks",
                3,
                20,
                "Verdicts UNKNOWN after which a command is UNKNOWN.",
            )?,
            ..IssuerPolicy::default()
        };
        let waits = Waits {
            scene: seconds(
                "scene_timeout",
                2.0,
                0.1..=60.0,
                "Longest wait for the scene.",
            )?,
            planner: seconds(
                "planner_timeout",
                60.0,
                0.1..=3600.0,
                "Longest wait for one turn of the planner.",
            )?,
            lease: seconds(
                "lease_timeout",
                10.0,
                0.1..=600.0,
                "Longest wait for the control lease.",
            )?,
            skills: seconds(
                "skills_timeout",
                10.0,
                0.0..=600.0,
                "Longest wait for an executor that fell silent, before a plan is made without it.",
            )?,
            human: seconds(
                "human_timeout",
                120.0,
                1.0..=86_400.0,
                "Longest wait for a person's answer.",
            )?,
            ..Waits::default()
        };
        let planner = choice(node, "planner", "symbolic", &["symbolic"], "Who plans.")?;
        let map_frame = text(node, "map_frame", "map", "Frame of all poses.")?;
        let name = |name: &str, default: &str, what: &str| {
            text(node, name, default, &format!("Name of {what}."))
        };
        Ok(Parameters {
            settings: Settings {
                robot_id,
                controller_id: node.fully_qualified_name(),
                map_frame,
                model_version: planner.clone(),
                config_version: env!("CARGO_PKG_VERSION").into(),
                defaults,
                limits,
                gate,
                policy,
                embodiment,
                waits,
                resume_tasks: flag(
                    node,
                    "resume_tasks",
                    true,
                    "Whether a task that a crash of this node left in the middle is gone on with when the node is back. False: its command is stopped and the task ends.",
                )?,
            },
            planner,
            vocabulary: texts(
                node,
                "vocabulary",
                &["cup"],
                "Classes that perception can recognise, beyond those in the scene.",
            )?,
            lease_ttl: seconds(
                "lease_ttl",
                3.0,
                0.5..=60.0,
                "Lifetime of the control lease.",
            )?,
            state_directory: state_directory(node)?,
            execute_task_action: name(
                "execute_task_action",
                "execute_task",
                "the action that is served",
            )?,
            evaluate_run_action: name(
                "evaluate_run_action",
                "evaluate_run",
                "the evaluator's action",
            )?,
            query_scene_service: name(
                "query_scene_service",
                "query_scene",
                "the scene graph's service for questions",
            )?,
            apply_effects_service: name(
                "apply_effects_service",
                "apply_effects",
                "the scene graph's service for effects",
            )?,
            manage_lease_service: name(
                "manage_lease_service",
                "manage_lease",
                "protection's service for the control lease",
            )?,
        })
    }
}

/// What the body can do. The names are those of the skill nodes' parameters, so that one file describes
/// the body for all; what is empty or zero is not said, and a skill that demands it is refused.
fn declare_embodiment(node: &Node) -> Result<Embodiment, Error> {
    let more = text(
        node,
        "embodiment.more",
        "",
        "What the body has beyond the other embodiment.* parameters, as a JSON object. Empty: nothing.",
    )?;
    let mut body = if more.trim().is_empty() {
        Embodiment::default()
    } else {
        Embodiment::parse(&more).map_err(|e| Error::Value {
            name: "embodiment.more",
            reason: e.to_string(),
        })?
    };
    let mut say = |name: &str, value: Value| {
        let said = match &value {
            Value::Number(number) => number.as_f64() != Some(0.0),
            Value::String(text) => !text.is_empty(),
            _ => true,
        };
        if said {
            body.set(name, value);
        }
    };
    let amount = |name: &str, default, most, unit: &str, what: &str| {
        number(node, name, default, 0.0..=most, unit, what)
    };
    say(
        "mobile_base",
        flag(node, "embodiment.mobile_base", true, "Whether it drives.")?.into(),
    );
    say(
        "reach",
        amount(
            "embodiment.reach",
            0.88,
            10.0,
            "m",
            "How far the tool gets from the shoulder. 0: no arm.",
        )?
        .into(),
    );
    say(
        "payload",
        amount(
            "embodiment.payload",
            1.0,
            1000.0,
            "kg",
            "What it can lift. 0: not said.",
        )?
        .into(),
    );
    say(
        GRIPPER_MAX_WIDTH,
        amount(
            "embodiment.gripper_max_width",
            0.1,
            5.0,
            "m",
            "Largest gap between the fingers. 0: not said.",
        )?
        .into(),
    );
    say(
        "gripper",
        text(
            node,
            "embodiment.gripper",
            "parallel",
            "Kind of gripper. Empty: none.",
        )?
        .into(),
    );
    say(
        "head",
        text(
            node,
            "embodiment.head",
            "pan_tilt",
            "Kind of head. Empty: none that moves.",
        )?
        .into(),
    );
    Ok(body)
}
