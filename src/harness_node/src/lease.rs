//! Holding the control lease: acquired once, renewed three times in its lifetime, released at the end.

use std::sync::Arc;
use std::time::Duration;

use eh_contract::ErrorCode;
use eh_harness::Event;
use eh_ros_edge::convert::command::budget_msg;
use eh_ros_edge::deadline::sleep;
use eh_ros_edge::NodeClock;
use parking_lot::Mutex;
use rclrs::Node;
use ros_env::embodied_harness::msg::ControlLease;
use ros_env::embodied_harness::srv::{ManageLease, ManageLease_Request, ManageLease_Response};

use crate::loop_thread::Inbox;
use crate::neighbours::ServiceCaller;

/// What is held, and by which grant.
#[derive(Default)]
struct Held {
    token: Option<u64>,
    /// Grows with each acquire and release, so that an older renewal ends.
    turn: u64,
    /// An acquire has not been answered yet: another one would only make its grant obsolete.
    asking: bool,
}

/// How often the clock is looked at while waiting for simulated time.
const LOOK: Duration = Duration::from_millis(5);

/// The control lease as this node holds it. Clones share it.
#[derive(Clone)]
pub(crate) struct LeaseHolder {
    node: Node,
    /// The lease lives on the budget clock, as protection counts its life.
    clock: NodeClock,
    caller: ServiceCaller<ManageLease>,
    controller_id: String,
    ttl: Duration,
    inbox: Inbox,
    held: Arc<Mutex<Held>>,
}

impl LeaseHolder {
    pub(crate) fn new(
        node: &Node,
        caller: ServiceCaller<ManageLease>,
        controller_id: String,
        ttl: Duration,
        inbox: Inbox,
    ) -> Self {
        LeaseHolder {
            node: node.clone(),
            clock: NodeClock::of(node),
            caller,
            controller_id,
            ttl,
            inbox,
            held: Arc::default(),
        }
    }

    async fn call(
        &self,
        operation: u8,
        token: u64,
        limit: Duration,
    ) -> Result<ManageLease_Response, String> {
        self.caller
            .call(
                ManageLease_Request {
                    operation,
                    controller_id: self.controller_id.clone(),
                    token,
                    ttl: budget_msg(self.ttl),
                    take_over: false,
                },
                limit,
            )
            .await
    }

    /// Acquires it, tells the loop, and renews it until it is released or lost.
    pub(crate) fn acquire(&self) {
        let turn = {
            let mut held = self.held.lock();
            if held.asking {
                return;
            }
            held.asking = true;
            held.turn += 1;
            held.turn
        };
        let this = self.clone();
        drop(self.node.commands().run(async move {
            let asked = this.clock.budget_ns();
            let answer = this
                .call(ManageLease_Request::OPERATION_ACQUIRE, 0, this.ttl)
                .await;
            this.held.lock().asking = false;
            match answer {
                Ok(answer) if answer.error_code == ErrorCode::None.code() => {
                    let token = answer.lease.token;
                    let ours = {
                        let mut held = this.held.lock();
                        let ours = held.turn == turn;
                        if ours {
                            held.token = Some(token);
                        }
                        ours
                    };
                    if ours {
                        this.inbox.event(Event::LeaseGranted { token });
                        this.renew(turn, token, asked).await;
                    } else {
                        // Released or asked for again meanwhile.
                        let _ = this
                            .call(ManageLease_Request::OPERATION_RELEASE, token, this.ttl)
                            .await;
                    }
                }
                Ok(answer) => this.inbox.event(Event::LeaseRefused {
                    reason: answer.error_msg,
                }),
                Err(reason) => this.inbox.event(Event::LeaseRefused { reason }),
            }
        }));
    }

    /// Waits on the budget clock.
    async fn pass(&self, duration: Duration) {
        if !self.clock.is_simulated() {
            return sleep(duration).await;
        }
        let begin = self.clock.budget_ns();
        // A clock that is set back ends the wait: the lease's life is then uncertain.
        while (0..nanoseconds(duration)).contains(&(self.clock.budget_ns() - begin)) {
            sleep(LOOK).await;
        }
    }

    async fn renew(&self, turn: u64, token: u64, granted: i64) {
        let mut alive_from = granted;
        loop {
            self.pass(self.ttl / 3).await;
            if self.held.lock().turn != turn {
                return;
            }
            let asked = self.clock.budget_ns();
            let answer = self
                .call(ManageLease_Request::OPERATION_RENEW, token, self.ttl / 3)
                .await;
            if self.held.lock().turn != turn {
                return;
            }
            match answer {
                Ok(answer) if answer.error_code == ErrorCode::None.code() => alive_from = asked,
                Ok(answer) => return self.lose(turn, answer.error_msg),
                // One answer may be lost; the lease lives on until its time is over.
                Err(reason) if self.clock.budget_ns() - alive_from >= nanoseconds(self.ttl) => {
                    return self.lose(turn, format!("it could not be renewed: {reason}"));
                }
                Err(_) => {}
            }
        }
    }

    fn lose(&self, turn: u64, reason: String) {
        {
            let mut held = self.held.lock();
            if held.turn != turn {
                return;
            }
            held.turn += 1;
            held.token = None;
        }
        self.inbox.event(Event::LeaseLost { reason });
    }

    /// What protection says about the lease.
    pub(crate) fn seen(&self, message: &ControlLease) {
        let lost = {
            let held = self.held.lock();
            match held.token {
                Some(token) if message.token > token => Some(held.turn),
                _ => None,
            }
        };
        if let Some(turn) = lost {
            let holder = if message.controller_id.is_empty() {
                "nobody"
            } else {
                &message.controller_id
            };
            self.lose(
                turn,
                format!("it was given to {holder} with token {}", message.token),
            );
        }
    }

    /// Releases it; what is not held is not released.
    pub(crate) async fn release(&self) {
        let token = {
            let mut held = self.held.lock();
            held.turn += 1;
            held.token.take()
        };
        if let Some(token) = token {
            // If it fails the lease expires by itself.
            let _ = self
                .call(
                    ManageLease_Request::OPERATION_RELEASE,
                    token,
                    Duration::from_secs(1),
                )
                .await;
        }
    }
}

fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}
