//! What the adapter publishes.

use eh_contract::run_event::RunEvent;
use eh_contract::skill::SkillDescriptor;
use eh_contract::status::SkillStatus;
use eh_contract::Stamp;
use eh_executor::effect::DeclaredRun;
use eh_ros_edge::convert::command::stamp_msg;
use eh_ros_edge::convert::skill::{
    descriptor_msg, disconnect_policy_wire, run_event_msg, status_msg,
};
use eh_ros_edge::qos;
use rclrs::{log_error, IntoPrimitiveOptions, Node, Publisher, RclrsError};
use ros_env::embodied_harness::msg::{
    DeclaredRun as DeclaredRunMsg, RunEvent as RunEventMsg, SkillCatalog, SkillStatusArray,
};
use rosidl_runtime_rs::Message;

/// Run events kept for late joiners, as in msg/RunEvent.msg.
const RUN_EVENTS: u32 = 64;

pub(crate) struct Outlet {
    node: Node,
    executor: String,
    boot_id: String,
    robot_id: String,
    catalog: Publisher<SkillCatalog>,
    statuses: Publisher<SkillStatusArray>,
    run_events: Publisher<RunEventMsg>,
    declared: Publisher<DeclaredRunMsg>,
}

impl Outlet {
    pub(crate) fn new(node: &Node, boot_id: &str, robot_id: &str) -> Result<Self, RclrsError> {
        Ok(Outlet {
            node: node.clone(),
            executor: node.fully_qualified_name(),
            boot_id: boot_id.into(),
            robot_id: robot_id.into(),
            catalog: node.create_publisher("skill_catalog".qos(qos::state_latched(1)))?,
            statuses: node.create_publisher("skill_status".qos(qos::state_latched(1)))?,
            run_events: node.create_publisher("run_events".qos(qos::state_latched(RUN_EVENTS)))?,
            declared: node.create_publisher("declared_runs".qos(qos::control()))?,
        })
    }

    fn publish<T: Message>(&self, publisher: &Publisher<T>, message: T, what: &str) {
        if let Err(error) = publisher.publish(message) {
            log_error!(self.node.logger(), "{what} was not published: {error}");
        }
    }

    pub(crate) fn catalog(&self, skills: &[SkillDescriptor]) {
        let message = SkillCatalog {
            executor: self.executor.clone(),
            boot_id: self.boot_id.clone(),
            robot_id: self.robot_id.clone(),
            skills: skills.iter().map(descriptor_msg).collect(),
        };
        self.publish(&self.catalog, message, "the skill catalog");
    }

    pub(crate) fn statuses(&self, statuses: &[SkillStatus], now: Stamp) {
        let message = SkillStatusArray {
            executor: self.executor.clone(),
            boot_id: self.boot_id.clone(),
            stamp: stamp_msg(now),
            statuses: statuses.iter().map(status_msg).collect(),
        };
        self.publish(&self.statuses, message, "the skill status");
    }

    pub(crate) fn run_event(&self, event: &RunEvent) {
        self.publish(&self.run_events, run_event_msg(event), "a run event");
    }

    pub(crate) fn declare(&self, run: &DeclaredRun) {
        let message = DeclaredRunMsg {
            executor: run.executor.clone(),
            boot_id: run.boot_id.clone(),
            run_id: run.run_id.clone(),
            command_id: run.command_id.clone(),
            fencing_token: run.fencing_token,
            disconnect_policy: disconnect_policy_wire(run.disconnect_policy),
            active: run.active,
        };
        self.publish(&self.declared, message, "a declared run");
    }
}
