//! The control lease: `eh_harness::lease` decides, this calls `manage_lease` and looks at the clock.

use std::sync::Arc;
use std::time::Duration;

use eh_contract::ErrorCode;
use eh_harness::lease::{LeaseAnswer, LeaseCall, LeaseEffect, LeaseHolder, LeaseOperation};
use eh_ros_edge::convert::command::budget_msg;
use eh_ros_edge::deadline::sleep;
use eh_ros_edge::NodeClock;
use parking_lot::Mutex;
use rclrs::Node;
use ros_env::embodied_harness::msg::ControlLease;
use ros_env::embodied_harness::srv::{ManageLease, ManageLease_Request, ManageLease_Response};

use crate::loop_thread::Inbox;
use crate::neighbours::ServiceCaller;

/// Looks in one lifetime of the lease: some in each third, after which it is renewed.
const LOOKS: u32 = 12;

/// How often the clock is looked at while simulated time is waited for.
const LOOK: Duration = Duration::from_millis(5);

/// Longest wait for the answer to a release at the end of the process.
const FAREWELL: Duration = Duration::from_secs(1);

struct Inner {
    holder: LeaseHolder,
    /// Whether somebody looks at the clock already.
    watched: bool,
}

/// The control lease as this node holds it. Clones share it.
#[derive(Clone)]
pub(crate) struct Lease {
    node: Node,
    /// The lease lives on the budget clock, as protection counts its life.
    clock: NodeClock,
    caller: ServiceCaller<ManageLease>,
    controller_id: String,
    ttl: Duration,
    inbox: Inbox,
    inner: Arc<Mutex<Inner>>,
}

impl Lease {
    pub(crate) fn new(
        node: &Node,
        caller: ServiceCaller<ManageLease>,
        controller_id: String,
        ttl: Duration,
        inbox: Inbox,
    ) -> Self {
        Lease {
            node: node.clone(),
            clock: NodeClock::of(node),
            caller,
            controller_id,
            ttl,
            inbox,
            inner: Arc::new(Mutex::new(Inner {
                holder: LeaseHolder::new(ttl),
                watched: false,
            })),
        }
    }

    /// Acquires it, tells the loop, and renews it until it is released or lost.
    pub(crate) fn acquire(&self) {
        let effects = self.inner.lock().holder.acquire(self.now());
        self.perform(effects);
        self.watch();
    }

    /// What protection says about the lease.
    pub(crate) fn seen(&self, message: &ControlLease) {
        let effects = self
            .inner
            .lock()
            .holder
            .seen(message.token, &message.controller_id);
        self.perform(effects);
    }

    /// Releases it and waits for the answer; what is not held is not released. If the answer does not come
    /// the lease expires by itself.
    pub(crate) async fn release(&self) {
        let effects = self.inner.lock().holder.release();
        for effect in effects {
            match effect {
                LeaseEffect::Call(call) => {
                    let call = LeaseCall {
                        limit: call.limit.min(FAREWELL),
                        ..call
                    };
                    let _ = self.call(call).await;
                }
                LeaseEffect::Tell(event) => self.inbox.event(event),
            }
        }
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(u64::try_from(self.clock.budget_ns()).unwrap_or(0))
    }

    fn perform(&self, effects: Vec<LeaseEffect>) {
        for effect in effects {
            match effect {
                LeaseEffect::Tell(event) => self.inbox.event(event),
                LeaseEffect::Call(call) => {
                    let this = self.clone();
                    drop(self.node.commands().run(async move {
                        let answer = this.call(call).await;
                        let now = this.now();
                        let effects = this.inner.lock().holder.answered(call.ticket, answer, now);
                        this.perform(effects);
                    }));
                }
            }
        }
    }

    async fn call(&self, call: LeaseCall) -> LeaseAnswer {
        let (operation, token) = match call.operation {
            LeaseOperation::Acquire => (ManageLease_Request::OPERATION_ACQUIRE, 0),
            LeaseOperation::Renew { token } => (ManageLease_Request::OPERATION_RENEW, token),
            LeaseOperation::Release { token } => (ManageLease_Request::OPERATION_RELEASE, token),
        };
        let request = ManageLease_Request {
            operation,
            controller_id: self.controller_id.clone(),
            token,
            ttl: budget_msg(self.ttl),
            take_over: false,
        };
        let answer: Result<ManageLease_Response, String> =
            self.caller.call(request, call.limit).await;
        match answer {
            Ok(answer) if answer.error_code == ErrorCode::None.code() => LeaseAnswer::Granted {
                token: answer.lease.token,
            },
            Ok(answer) => LeaseAnswer::Refused {
                reason: answer.error_msg,
            },
            Err(reason) => LeaseAnswer::Missing { reason },
        }
    }

    /// Looks at the clock as long as something is waited for.
    fn watch(&self) {
        {
            let mut inner = self.inner.lock();
            if inner.watched {
                return;
            }
            inner.watched = true;
        }
        let this = self.clone();
        drop(self.node.commands().run(async move {
            loop {
                let due = {
                    let mut inner = this.inner.lock();
                    let due = inner.holder.next_due();
                    inner.watched = due.is_some();
                    due
                };
                let Some(due) = due else { return };
                let left = due.saturating_sub(this.now());
                // What is left of simulated time may pass faster than here, or not at all.
                sleep(if this.clock.is_simulated() {
                    LOOK
                } else {
                    // An answer brings the next moment forward.
                    left.min(this.ttl / LOOKS).max(Duration::from_millis(1))
                })
                .await;
                let now = this.now();
                let effects = this.inner.lock().holder.tick(now);
                this.perform(effects);
            }
        }));
    }
}
