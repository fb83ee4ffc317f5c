//! Faults: when they strike the world, and how callers add and take them.

use super::Robot;
use crate::error::SimError;
use crate::fault::{FaultKind, FaultParams, FaultSpec};
use crate::sim_event::SimEvent;

impl Robot {
    pub(super) fn step_faults(&mut self) {
        for spec in self.faults.advance(self.now) {
            self.push(SimEvent::Fault(spec.fault));
            match spec.fault {
                FaultKind::ObjectMoved => {
                    if let Some(id) = &spec.params.object {
                        let index = self.world.object_index(id);
                        if self.held.as_ref().is_some_and(|h| Some(h.index) == index) {
                            self.held = None;
                        }
                        // Its references were checked when it was added.
                        let _ = self.world.move_object(
                            id,
                            spec.params.position,
                            spec.params.on.as_deref(),
                        );
                    }
                }
                FaultKind::DoorClosed => {
                    if let Some(id) = &spec.params.door {
                        if self.world.set_door(id, false) == Ok(true) {
                            self.doors_closed_by_faults.push(id.clone());
                        }
                    }
                }
                FaultKind::GraspSlip
                | FaultKind::NavAbort
                | FaultKind::NavStuck
                | FaultKind::ScanSilent
                | FaultKind::ScanFrozen
                | FaultKind::DetectionsSilent
                | FaultKind::LostAck
                | FaultKind::LostResult
                | FaultKind::ServerRestart
                | FaultKind::LocalizationJump
                | FaultKind::GripperStuck
                | FaultKind::ArmAbort => {}
            }
        }
        if !self.doors_closed_by_faults.is_empty() {
            let faults = &self.faults;
            let still = |id: &String| {
                faults
                    .all_lasting(FaultKind::DoorClosed)
                    .any(|p| p.door.as_ref() == Some(id))
            };
            let (keep, open): (Vec<String>, Vec<String>) =
                std::mem::take(&mut self.doors_closed_by_faults)
                    .into_iter()
                    .partition(still);
            self.doors_closed_by_faults = keep;
            for id in open {
                // The door exists: it was closed by this id.
                let _ = self.world.set_door(&id, true);
            }
        }
    }

    /// Adds a fault to the schedule.
    ///
    /// # Errors
    /// [`SimError`] when it is not valid or names what the world does not have.
    pub fn inject(&mut self, spec: FaultSpec) -> Result<(), SimError> {
        spec.validate()?;
        self.file.validate_fault(&spec)?;
        self.faults.add(spec, self.now)
    }

    /// Removes the faults of a kind, pending or on; returns how many there were.
    pub fn clear_fault(&mut self, kind: FaultKind) -> usize {
        self.faults.clear(kind)
    }

    /// Removes every fault; returns how many there were.
    pub fn clear_faults(&mut self) -> usize {
        self.faults.clear_all()
    }

    /// The faults that are pending or on.
    pub fn pending_faults(&self) -> impl Iterator<Item = &FaultSpec> {
        self.faults.pending()
    }

    /// For the ROS edge: counts one occasion of a fault that concerns a server (lost_ack, lost_result,
    /// server_restart) and uses the fault up if it strikes.
    pub fn take_server_fault(&mut self, server: &str, kind: FaultKind) -> Option<FaultParams> {
        match kind {
            FaultKind::LostAck | FaultKind::LostResult | FaultKind::ServerRestart => {
                let params = self.faults.strike(kind, Some(server), self.now);
                if params.is_some() {
                    self.push(SimEvent::Fault(kind));
                }
                params
            }
            FaultKind::GraspSlip
            | FaultKind::NavAbort
            | FaultKind::NavStuck
            | FaultKind::ScanSilent
            | FaultKind::ScanFrozen
            | FaultKind::DetectionsSilent
            | FaultKind::ObjectMoved
            | FaultKind::DoorClosed
            | FaultKind::LocalizationJump
            | FaultKind::GripperStuck
            | FaultKind::ArmAbort => None,
        }
    }

    pub(super) fn strike(&mut self, kind: FaultKind) -> Option<FaultParams> {
        let params = self.faults.strike(kind, None, self.now);
        if params.is_some() {
            self.push(SimEvent::Fault(kind));
        }
        params
    }
}
