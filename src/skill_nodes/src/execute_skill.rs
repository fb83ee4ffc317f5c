//! The action `~/execute_skill`.

use std::future::Future;

use eh_contract::state::ExecutorState;
use eh_contract::status::SkillStatus;
use eh_contract::ErrorCode;
use eh_executor::effect::{Answer, AnswerStatus};
use eh_executor::event::{Arrival, Caller};
use eh_executor::Event;
use eh_ros_edge::convert;
use eh_ros_edge::convert::skill::status_msg;
use eh_ros_edge::{serve_action, GoalDecision, GoalEnd, RunningGoal};
use rclrs::{Node, Promise, RclrsError};
use ros_env::embodied_harness::action::{
    ExecuteSkill, ExecuteSkill_Feedback, ExecuteSkill_Goal, ExecuteSkill_Result,
};
use tokio::sync::{oneshot, watch};

use crate::loop_thread::{Inbox, Input, Watcher};

/// Serves the action until the promise is dropped.
pub(crate) fn serve(node: &Node, inbox: &Inbox) -> Result<Promise<()>, RclrsError> {
    let inbox = inbox.clone();
    serve_action::<ExecuteSkill, _, _, _>(
        node,
        &format!("{}/execute_skill", node.name()),
        // Refusals are told in the result, which a rejected goal has not.
        |_, _| GoalDecision::Accept,
        move |goal| execute(goal, inbox.clone()),
    )
}

/// One goal, from its arrival to its answer. The loop has it when this returns, not only when the future is
/// first polled.
fn execute(
    goal: RunningGoal<ExecuteSkill>,
    inbox: Inbox,
) -> impl Future<Output = GoalEnd<ExecuteSkill_Result>> {
    let caller = inbox.caller();
    let (feedback, changes) = watch::channel(None);
    let (done, end) = oneshot::channel();
    let taken = inbox.request(Input::Command {
        event: read(caller, &goal.goal),
        caller,
        watcher: Watcher { feedback, done },
    });
    async move {
        if taken {
            return follow(goal, caller, inbox, changes, end).await;
        }
        let message = "too many requests wait for this executor already, its disk may be stuck; wait, then send the command again";
        refused(
            &goal.goal.command.command_id,
            ErrorCode::ResourceBusy,
            message,
        )
    }
}

/// Tells how a command goes on until it has its answer.
async fn follow(
    goal: RunningGoal<ExecuteSkill>,
    caller: Caller,
    inbox: Inbox,
    mut changes: watch::Receiver<Option<SkillStatus>>,
    mut end: oneshot::Receiver<Answer>,
) -> GoalEnd<ExecuteSkill_Result> {
    let mut canceled = false;
    loop {
        tokio::select! {
            biased;
            answer = &mut end => return match answer {
                Ok(answer) => answered(answer),
                // The loop ended without telling; what it left is taken up at the next start.
                Err(_) => refused(
                    &goal.goal.command.command_id,
                    ErrorCode::ShuttingDown,
                    "the executor has ended; ask its successor by the service query what became of the command",
                ),
            },
            () = goal.cancel_requested(), if !canceled => {
                canceled = true;
                inbox.event(Event::CancelAsked { caller });
            }
            Ok(()) = changes.changed() => {
                let status = changes.borrow_and_update().as_ref().map(status_msg);
                if let Some(status) = status {
                    goal.publish_feedback(ExecuteSkill_Feedback { status });
                }
            }
        }
    }
}

fn read(caller: Caller, goal: &ExecuteSkill_Goal) -> Event {
    match convert::command::command(&goal.command) {
        Ok(command) => Event::Arrived(Box::new(Arrival {
            caller,
            command,
            digest: goal.command.digest.clone(),
            envelope: convert::command::envelope(&goal.envelope),
            segment: goal.segment,
        })),
        Err(error) => Event::Unreadable {
            caller,
            command_id: goal.command.command_id.clone(),
            reason: error.to_string(),
        },
    }
}

fn answered(answer: Answer) -> GoalEnd<ExecuteSkill_Result> {
    let result = ExecuteSkill_Result {
        error_code: answer.error_code,
        error_msg: answer.error_msg,
        status: status_msg(&answer.skill_status),
    };
    match answer.status {
        AnswerStatus::Succeeded => GoalEnd::Succeeded(result),
        AnswerStatus::Canceled => GoalEnd::Canceled(result),
        AnswerStatus::Aborted => GoalEnd::Aborted(result),
    }
}

fn refused(command_id: &str, code: ErrorCode, message: &str) -> GoalEnd<ExecuteSkill_Result> {
    let status = SkillStatus {
        command_id: command_id.into(),
        state: ExecutorState::Unspecified,
        error_code: code.code(),
        error_msg: message.into(),
        ..SkillStatus::default()
    };
    GoalEnd::Aborted(ExecuteSkill_Result {
        error_code: code.code(),
        error_msg: message.into(),
        status: status_msg(&status),
    })
}
