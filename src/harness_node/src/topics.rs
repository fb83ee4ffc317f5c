//! What the node listens to.

use std::any::Any;
use std::sync::Arc;

use eh_harness::Event;
use eh_ros_edge::convert::{command, skill};
use eh_ros_edge::{qos, streams};
use parking_lot::Mutex;
use rclrs::{log_warn, IntoPrimitiveOptions, Node, RclrsError, ToLogParams};
use ros_env::embodied_harness::msg::{
    ControlLease, ExecutorBeacon, ProtectionState, SkillCatalog, SkillStatusArray,
};

use crate::loop_thread::Inbox;
use crate::messages;
use crate::neighbours::Neighbours;

/// Executors whose catalogs are kept for late joiners.
const MOST_EXECUTORS: u32 = 16;

/// Subscribes; dropping the answer ends it.
pub(crate) fn subscribe(
    node: &Node,
    inbox: &Inbox,
    neighbours: &Arc<Neighbours>,
) -> Result<Vec<Box<dyn Any>>, RclrsError> {
    let mut handles: Vec<Box<dyn Any>> = Vec::new();
    // Beacons, lease and protection come several times a second.
    let streams = streams(node)?;

    let (to, logger, meet) = (inbox.clone(), node.logger().clone(), Arc::clone(neighbours));
    handles.push(Box::new(streams.create_subscription::<SkillCatalog, _>(
        "skill_catalog".qos(qos::state_latched(MOST_EXECUTORS)),
        move |message: SkillCatalog| {
            let (catalog, refused) = messages::catalog(&message);
            for reason in refused {
                log_warn!(&logger, "left out: {reason}");
            }
            meet.meet(&catalog);
            to.event(Event::CatalogSeen(catalog));
        },
    )?));

    let to = inbox.clone();
    handles.push(Box::new(streams.create_subscription::<ExecutorBeacon, _>(
        "executor_beacon".qos(qos::control()),
        move |message: ExecutorBeacon| {
            if let Some(beacon) = command::beacon(&message) {
                to.event(Event::BeaconSeen(beacon));
            }
        },
    )?));

    let (to, logger) = (inbox.clone(), node.logger().clone());
    handles.push(Box::new(
        streams.create_subscription::<SkillStatusArray, _>(
            "skill_status".qos(qos::state_latched(MOST_EXECUTORS)),
            move |message: SkillStatusArray| {
                for status in &message.statuses {
                    match skill::status(status) {
                        Ok(status) => to.event(Event::Status(Box::new(status))),
                        Err(error) => log_warn!(
                            logger.throttle(std::time::Duration::from_secs(5)),
                            "a status of {} is left out: {error}",
                            message.executor
                        ),
                    }
                }
            },
        )?,
    ));

    let watched = Arc::clone(neighbours);
    handles.push(Box::new(streams.create_subscription::<ControlLease, _>(
        "control_lease".qos(qos::state_latched(1)),
        move |message: ControlLease| watched.lease().seen(&message),
    )?));

    let to = inbox.clone();
    let last = Mutex::new(None);
    handles.push(Box::new(
        streams.create_subscription::<ProtectionState, _>(
            "protection_state".qos(qos::state_latched(1)),
            move |message: ProtectionState| {
                let stop = messages::stop(&message);
                // Twice a second and more: only changes are news.
                let before = last.lock().replace(stop.clone());
                if before.as_ref() != Some(&stop) {
                    to.event(Event::StopSeen(stop));
                }
            },
        )?,
    ));
    handles.push(Box::new(streams));
    Ok(handles)
}
