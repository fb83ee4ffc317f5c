//! The action `execute_task`.

use eh_harness::admission::TaskGoal;
use eh_harness::Event;
use eh_ros_edge::{serve_action, GoalDecision, GoalEnd, RunningGoal};
use rclrs::{Node, Promise, RclrsError};
use ros_env::embodied_harness::action::{ExecuteTask, ExecuteTask_Goal, ExecuteTask_Result};
use tokio::sync::{mpsc, oneshot};

use crate::loop_thread::{Inbox, Input, Watcher};
use crate::messages;

/// Serves the action until the promise is dropped.
pub(crate) fn serve(node: &Node, inbox: &Inbox, action: &str) -> Result<Promise<()>, RclrsError> {
    let inbox = inbox.clone();
    serve_action::<ExecuteTask, _, _, _>(
        node,
        action,
        // Also what will be refused: a rejected goal carries no reason.
        |_, _| GoalDecision::Accept,
        move |goal| execute(goal, inbox.clone()),
    )
}

async fn execute(goal: RunningGoal<ExecuteTask>, inbox: Inbox) -> GoalEnd<ExecuteTask_Result> {
    let (feedback, mut feedbacks) = mpsc::unbounded_channel();
    let (done, end) = oneshot::channel();
    let (taken, task_id) = oneshot::channel();
    inbox.send(Input::Submit {
        goal: read(&goal.goal),
        watcher: Watcher { feedback, done },
        taken,
    });
    let follow = async {
        while let Some(feedback) = feedbacks.recv().await {
            goal.publish_feedback(messages::feedback_msg(&feedback));
        }
        std::future::pending::<()>().await;
    };
    let cancel = async {
        // Refused goals have no id and end at once.
        if let Ok(task_id) = task_id.await {
            goal.cancel_requested().await;
            inbox.event(Event::CancelTask {
                task_id,
                reason: "canceled by the client of execute_task".into(),
            });
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        record = end => match record {
            Ok(record) => messages::goal_end(&record),
            // The loop ended without telling; what it left is taken up at the next start.
            Err(_) => GoalEnd::Aborted(messages::gone()),
        },
        () = follow => GoalEnd::Aborted(messages::gone()),
        () = cancel => GoalEnd::Aborted(messages::gone()),
    }
}

fn read(goal: &ExecuteTask_Goal) -> TaskGoal {
    TaskGoal {
        task_id: goal.task_id.clone(),
        instruction: goal.instruction.clone(),
        time_budget: (goal.time_budget.sec, goal.time_budget.nanosec),
        max_steps: goal.max_steps,
        permissions: goal.permissions.clone(),
        dry_run: goal.dry_run,
    }
}
