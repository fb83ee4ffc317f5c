//! Who takes part.

use std::fmt;

/// A process, whichever life of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProcessId {
    /// The loop of a task, with planner and lease holder.
    Harness,
    /// The executor of navigation skills.
    Navigation,
    /// The executor of manipulation skills.
    Manipulation,
    /// The scene graph.
    Scene,
    /// The judge.
    Evaluator,
    /// The velocity limiter, which hosts the control lease.
    Protection,
    /// The robot with its action servers.
    Robot,
    /// Who gives the task.
    Client,
    /// A person with a console: settles, answers, stops, resets, and moves the robot by hand.
    Operator,
    /// Another controller that wants the robot.
    Rival,
}

impl ProcessId {
    /// All of them, in the order in which they act within a step.
    pub const ALL: [ProcessId; 10] = [
        ProcessId::Robot,
        ProcessId::Protection,
        ProcessId::Scene,
        ProcessId::Evaluator,
        ProcessId::Navigation,
        ProcessId::Manipulation,
        ProcessId::Harness,
        ProcessId::Client,
        ProcessId::Operator,
        ProcessId::Rival,
    ];

    /// Those that can crash.
    pub const MORTAL: [ProcessId; 6] = [
        ProcessId::Harness,
        ProcessId::Navigation,
        ProcessId::Manipulation,
        ProcessId::Scene,
        ProcessId::Evaluator,
        ProcessId::Protection,
    ];

    /// Name in the trace.
    pub const fn name(self) -> &'static str {
        match self {
            ProcessId::Harness => "harness",
            ProcessId::Navigation => "navigation",
            ProcessId::Manipulation => "manipulation",
            ProcessId::Scene => "scene",
            ProcessId::Evaluator => "evaluator",
            ProcessId::Protection => "protection",
            ProcessId::Robot => "robot",
            ProcessId::Client => "client",
            ProcessId::Operator => "operator",
            ProcessId::Rival => "rival",
        }
    }

    /// Place in tables.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The executor of a node name.
    pub fn of_executor(name: &str) -> Option<Self> {
        [ProcessId::Navigation, ProcessId::Manipulation]
            .into_iter()
            .find(|p| p.node_name() == name)
    }

    /// Its fully qualified node name.
    pub const fn node_name(self) -> &'static str {
        match self {
            ProcessId::Harness => "/harness_node",
            ProcessId::Navigation => "/navigation_skills_node",
            ProcessId::Manipulation => "/manipulation_skills_node",
            ProcessId::Scene => "/scene_graph_node",
            ProcessId::Evaluator => "/evaluator_node",
            ProcessId::Protection => "/protection_node",
            ProcessId::Robot => "/sim_robot_node",
            ProcessId::Client => "/client",
            ProcessId::Operator => "/operator",
            ProcessId::Rival => "/rival",
        }
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One life of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// Which process.
    pub process: ProcessId,
    /// Which life of it, from 1.
    pub life: u32,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.life == 1 {
            write!(f, "{}", self.process)
        } else {
            write!(f, "{}#{}", self.process, self.life)
        }
    }
}
