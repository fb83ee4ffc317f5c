//! What an executor is set up with.

use std::collections::BTreeMap;
use std::time::Duration;

use eh_ledger::executor::ExecutorRecord;
use eh_skills::Embodiment;

use crate::server::Server;

/// What an executor is set up with. Times are on its budget clock.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Fully qualified name of the node.
    pub name: String,
    /// The robot that it moves.
    pub robot_id: String,
    /// Whether a command needs a live control lease.
    pub require_lease: bool,
    /// Whether preconditions are checked at the scene graph before the start.
    pub check_preconditions: bool,
    /// The foreign actions that it has a client for, fully qualified.
    pub actions: BTreeMap<Server, String>,
    /// Foreign actions that it sends nothing to, fully qualified. They move what its skills claim: a goal of
    /// somebody else there holds it, whoever sent it.
    pub watched: BTreeMap<Server, String>,
    /// Service that checks preconditions, for people.
    pub query_scene_service: String,
    /// How long the scene graph may take.
    pub scene_timeout: Duration,
    /// Whether the arm's planning scene is used where its services are there.
    pub planning_scene: bool,
    /// How long each of its services may take; a change calls two.
    pub planning_scene_timeout: Duration,
    /// How long a missing server is waited for.
    pub server_timeout: Duration,
    /// How long the acknowledgement of a goal is waited for.
    pub acknowledge_timeout: Duration,
    /// How long it is tried to learn about a goal whose acknowledgement or result is missing.
    pub lost_timeout: Duration,
    /// The body.
    pub body: Embodiment,
}

/// What an earlier process left in the journal.
#[derive(Clone, Debug, Default)]
pub struct Restored {
    /// Every command that is neither settled nor rejected, oldest first.
    pub live: Vec<ExecutorRecord>,
    /// The last ones that are, newest first, at most [`crate::RECENT`].
    pub settled: Vec<ExecutorRecord>,
    /// The newest fencing token under which a command ever came.
    pub newest_token: u64,
    /// The note [`crate::journal::HELD`].
    pub held: Option<String>,
}
