//! What happened in the simulation, for logs and tests.

use crate::fault::FaultKind;
use crate::goal_record::GoalId;

/// One thing that happened. Ids of objects are ground truth: for logs and tests only.
#[derive(Debug, Clone, PartialEq)]
pub enum SimEvent {
    /// The base ran into something.
    Collision,
    /// The base's watchdog stopped it: commands ceased.
    CommandTimeout,
    /// A navigation goal ended.
    NavEnded(GoalId),
    /// An arm goal ended.
    ArmEnded(GoalId),
    /// A gripper goal ended.
    GripperEnded(GoalId),
    /// A head goal ended.
    HeadEnded(GoalId),
    /// The fingers hold an object.
    Grasped {
        /// The object.
        object: String,
    },
    /// An object slipped out of the fingers.
    Slipped {
        /// The object.
        object: String,
        /// How far it fell, metres.
        fell: f64,
    },
    /// The fingers let an object go.
    Released {
        /// The object.
        object: String,
        /// How far it fell, metres.
        fell: f64,
    },
    /// Somebody opened or closed a door.
    DoorMoved {
        /// The door.
        door: String,
        /// Whether it is open now.
        open: bool,
    },
    /// Somebody moved an object.
    ObjectMoved {
        /// The object.
        object: String,
    },
    /// The localisation noticed that it had drifted, and jumped.
    Relocalized {
        /// How far its estimate jumped, metres.
        by: f64,
    },
    /// A fault struck or began.
    Fault(FaultKind),
}
