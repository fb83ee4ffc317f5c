//! The last checks before STARTED: servers are there, sensors are heard, time is left, nobody wants it to stop.

use eh_contract::ErrorCode;
use eh_ledger::admission::Refusal;
use eh_ledger::executor::ExecutorEvent;
use eh_skills::program::{program_for, HeldChange};

use super::running::failed;
use super::{Cx, Executor};
use crate::phase::{Phase, Run, Starting};
use crate::server::Server;

impl Executor {
    /// Starts a command as soon as it may; what that leads to is written down together.
    pub(super) fn start_now(
        &mut self,
        id: &str,
        starting: Box<Starting>,
        cx: &mut Cx<'_, '_>,
    ) -> Phase {
        self.in_one_write(id, cx, |this, cx| this.start(id, starting, cx))
            .unwrap_or_else(|error| self.reject(id, &not_written(&error), cx))
    }

    fn start(&mut self, id: &str, starting: Box<Starting>, cx: &mut Cx<'_, '_>) -> Phase {
        if let Some(cause) = self.stop_of(id) {
            // Nothing was sent, so that this ends it.
            self.note(id, &ExecutorEvent::Stop(cause), cx);
            return Phase::Over;
        }
        let Some(record) = self.record(id) else {
            return Phase::Over;
        };
        let command = record.command.clone();
        let needed = Server::needed_by(&command.skill).iter();
        let missing = needed
            .filter_map(|s| self.settings.actions.get(s).map(|action| (*s, action)))
            .find(|(server, _)| !cx.turn.senses.is_there(*server));
        if let Some((server, action)) = missing {
            if cx.turn.now < starting.until {
                return Phase::Starting(starting);
            }
            let refusal = Refusal {
                code: ErrorCode::ServerUnavailable,
                message: format!(
                    "no server of the action {action} is there; {}. Nothing was moved",
                    server.hint()
                ),
            };
            return self.reject(id, &refusal, cx);
        }
        if cx.turn.now < starting.awake_until && !cx.turn.senses.is_awake() {
            return Phase::Starting(starting);
        }
        let admitted = starting.admitted;
        let tick = self.age(cx.turn.now);
        if tick >= admitted.start_by {
            let refusal = Refusal {
                code: ErrorCode::ExpiredCommand,
                message: format!(
                    "it had to start by tick {:.3} s of this executor, now it is {:.3} s; make a new command",
                    admitted.start_by.as_secs_f64(),
                    tick.as_secs_f64()
                ),
            };
            return self.reject(id, &refusal, cx);
        }
        let event = ExecutorEvent::Start {
            run_id: format!("run-{}", cx.new_uuid()),
        };
        if let Err(error) = self.apply(id, &event, cx) {
            return self.reject(id, &not_written(&error), cx);
        }
        match program_for(&command, &admitted.arguments) {
            Err(failure) => self.bring_to_standstill(id, failed(failure), None, cx),
            Ok(program) => {
                let timeout = admitted.execution_timeout;
                let run = Run {
                    program,
                    remembered: HeldChange::Keep,
                    timeout,
                    until: cx.turn.now.saturating_add(timeout),
                };
                self.go_on(id, Box::new(run), None, cx)
            }
        }
    }
}

fn not_written(error: &dyn std::fmt::Display) -> Refusal {
    Refusal {
        code: ErrorCode::StorageFailure,
        message: format!("nothing was started: {error}"),
    }
}
