//! What can be asked of navigation, arm, gripper and head, and how it can end.

use std::time::Duration;

use eh_contract::geometry::Pose;
use eh_contract::perception::DetectionFrame;

use crate::planning_scene::SceneWanted;

/// Where the arm is to go.
#[derive(Clone, Debug, PartialEq)]
pub enum ArmTarget {
    /// The tool link at a pose.
    Tool {
        /// Frame of the pose.
        frame_id: String,
        /// The pose.
        pose: Pose,
        /// How far the tool may be off \[m\].
        position_tolerance: f64,
        /// How far it may be turned about its own x, y and z \[rad\].
        orientation_tolerance: [f64; 3],
    },
    /// A named configuration of the embodiment.
    Named(String),
}

/// One goal for one foreign action, or a wait.
#[derive(Clone, Debug, PartialEq)]
pub enum Goal {
    /// Drive the base to a pose.
    Navigate {
        /// Frame of the pose.
        frame_id: String,
        /// Where to stand and face.
        pose: Pose,
    },
    /// Move the arm.
    MoveArm {
        /// Where to.
        target: ArmTarget,
        /// On a straight line of the tool.
        straight: bool,
        /// Share of full speed, 0 to 1.
        speed: f64,
        /// Scene object that may be touched; empty: none.
        allowed_contact: String,
    },
    /// Move the fingers.
    Gripper {
        /// Wanted gap between them \[m\].
        width: f64,
        /// Largest effort \[N\].
        max_effort: f64,
    },
    /// Turn the head.
    Head {
        /// To the left \[rad\].
        pan: f64,
        /// Down \[rad\].
        tilt: f64,
        /// Time for it.
        duration: Duration,
    },
    /// Change what of ours is in the arm's planning scene; no foreign goal is sent.
    Scene(SceneWanted),
    /// Do nothing; no foreign goal is sent.
    Wait(Duration),
    /// Take camera frames from now on; no foreign goal is sent.
    Observe {
        /// Class that is looked for; frames without it are given all the same.
        class_name: String,
        /// How many frames with it are enough.
        frames: usize,
        /// How long to wait for them.
        timeout: Duration,
    },
}

/// How a sub-goal ended.
#[derive(Clone, Debug, PartialEq)]
pub enum SubGoalOutcome {
    /// The server reported success.
    Succeeded,
    /// What was seen, in base_link, oldest first; fewer frames than asked for when time ran out.
    Observed(Vec<DetectionFrame>),
    /// A gripper goal ended; whether that is good is for the program to say.
    Gripper(GripperReport),
    /// The server did not take the goal.
    Rejected {
        /// The server's words or ours.
        message: String,
    },
    /// The server gave up (status ABORTED), with its own code.
    Aborted {
        /// The server's code; 0 where it has none.
        code: i32,
        /// Its words.
        message: String,
    },
}

/// The result of a gripper action.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GripperReport {
    /// Gap between the fingers \[m\].
    pub position: f64,
    /// Effort \[N\].
    pub effort: f64,
    /// Pushes without moving.
    pub stalled: bool,
    /// Is where it was sent.
    pub reached_goal: bool,
}
