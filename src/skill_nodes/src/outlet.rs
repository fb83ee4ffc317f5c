//! What the adapter publishes.

use eh_contract::run_event::RunEvent;
use eh_contract::skill::SkillDescriptor;
use eh_contract::status::SkillStatus;
use eh_contract::Stamp;
use eh_ledger::executor::ExecutorRecord;
use eh_ros_edge::convert::command::{beacon_msg, stamp_msg};
use eh_ros_edge::convert::skill::{
    descriptor_msg, disconnect_policy_wire, run_event_msg, status_msg,
};
use eh_ros_edge::qos;
use rclrs::{log_error, IntoPrimitiveOptions, Node, Publisher, RclrsError};
use ros_env::embodied_harness::msg::{
    DeclaredRun, ExecutorBeacon, RunEvent as RunEventMsg, SkillCatalog, SkillStatusArray,
};
use rosidl_runtime_rs::Message;

/// Run events kept for late joiners, as in msg/RunEvent.msg.
const RUN_EVENTS: u32 = 64;

pub(crate) struct Outlet {
    node: Node,
    executor: String,
    boot_id: String,
    catalog: Publisher<SkillCatalog>,
    beacon: Publisher<ExecutorBeacon>,
    statuses: Publisher<SkillStatusArray>,
    run_events: Publisher<RunEventMsg>,
    declared: Publisher<DeclaredRun>,
}

impl Outlet {
    pub(crate) fn new(node: &Node, executor: &str, boot_id: &str) -> Result<Self, RclrsError> {
        Ok(Outlet {
            node: node.clone(),
            executor: executor.into(),
            boot_id: boot_id.into(),
            catalog: node.create_publisher("skill_catalog".qos(qos::state_latched(1)))?,
            beacon: node.create_publisher("executor_beacon".qos(qos::control()))?,
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

    pub(crate) fn catalog<'a>(
        &self,
        robot_id: &str,
        skills: impl Iterator<Item = &'a SkillDescriptor>,
    ) {
        let message = SkillCatalog {
            executor: self.executor.clone(),
            boot_id: self.boot_id.clone(),
            robot_id: robot_id.into(),
            skills: skills.map(descriptor_msg).collect(),
        };
        self.publish(&self.catalog, message, "the skill catalog");
    }

    pub(crate) fn beacon(&self, tick: std::time::Duration) {
        let beacon = eh_contract::command::Beacon {
            executor: self.executor.clone(),
            boot_id: self.boot_id.clone(),
            tick,
        };
        self.publish(&self.beacon, beacon_msg(Some(&beacon)), "the beacon");
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

    pub(crate) fn declare(&self, record: &ExecutorRecord, active: bool) {
        let message = DeclaredRun {
            executor: self.executor.clone(),
            boot_id: self.boot_id.clone(),
            run_id: record.run_id.clone(),
            command_id: record.command.command_id.clone(),
            fencing_token: record.fencing_token,
            disconnect_policy: disconnect_policy_wire(record.disconnect_policy),
            active,
        };
        self.publish(&self.declared, message, "a declared run");
    }
}
