//! `harness run`: sends a task, shows what happens, cancels on Ctrl-C and waits for the measured stop.

use std::time::{Duration, Instant};

use eh_contract::state::TaskOutcome;
use eh_ros_edge::convert::{duration_msg_from_s, duration_s};
use eh_ros_edge::{qos, GoalClient, Shutdown};
use rclrs::IntoPrimitiveOptions;
use ros_env::embodied_harness::action::{
    ExecuteTask, ExecuteTask_Feedback, ExecuteTask_Goal, ExecuteTask_Result,
};
use ros_env::embodied_harness::msg::SessionEvent;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::link::{Link, ANSWER};
use crate::{readiness, words, End, Failure};

/// What was asked for on the command line.
pub(crate) struct Wanted<'a> {
    pub instruction: &'a str,
    pub time_budget: f64,
    pub max_steps: u32,
    pub task_id: &'a str,
    pub permissions: &'a [String],
    pub dry_run: bool,
    pub wait_for_ready: f64,
    pub verbose: bool,
}

/// Longest wait for the result beyond the task's own time: a stop and its confirmation.
const AFTER_CANCEL: Duration = Duration::from_secs(60);

/// What has been shown.
struct Shown {
    began: Option<i64>,
    steps: Vec<u32>,
    progress: Instant,
    verbose: bool,
}

impl Shown {
    fn event(&mut self, event: &SessionEvent) {
        let stamp = eh_ros_edge::convert::time_ns(&event.stamp);
        let began = *self.began.get_or_insert(stamp);
        if let Some(line) = words::event(event, began, self.verbose) {
            println!("{line}");
        }
    }

    fn feedback(&mut self, feedback: &ExecuteTask_Feedback) {
        let elapsed = duration_s(&feedback.elapsed);
        let step = &feedback.finished_step;
        if step.step > 0 && !self.steps.contains(&step.step) {
            self.steps.push(step.step);
            println!("{}", words::step_end(step, elapsed));
        } else if self.verbose && self.progress.elapsed() >= Duration::from_secs(1) {
            self.progress = Instant::now();
            let status = if feedback.command_id.is_empty() {
                feedback.text.clone()
            } else {
                words::status_line(&feedback.skill_status)
            };
            println!("{}    {status}", words::clock(elapsed));
        }
    }
}

/// Runs a task to its end.
///
/// # Errors
/// [`Failure`] when it could not be sent or its result not be had.
pub(crate) async fn run(
    link: &Link,
    wanted: Wanted<'_>,
    shutdown: &Shutdown,
) -> Result<End, Failure> {
    let client = GoalClient::<ExecuteTask>::new(&link.node, "execute_task")?;
    let task_id = if wanted.task_id.is_empty() {
        format!("task-{}", &Uuid::new_v4().simple().to_string()[..12])
    } else {
        wanted.task_id.to_owned()
    };
    let time_budget = duration_msg_from_s(wanted.time_budget)
        .map_err(|e| Failure::Argument(format!("--time-budget: {e}")))?;
    let limit = Duration::try_from_secs_f64(wanted.wait_for_ready)
        .map_err(|e| Failure::Argument(format!("--wait-for-ready: {e}")))?;

    let (events, mut incoming) = mpsc::unbounded_channel();
    let ours = task_id.clone();
    let _events = link.node.create_subscription::<SessionEvent, _>(
        "session_events".qos(qos::state_latched(256)),
        move |event: SessionEvent| {
            if event.task_id == ours {
                // Nobody listens any more when the command has ended.
                let _ = events.send(event);
            }
        },
    )?;
    let mut feedback = client.feedback();
    tokio::select! {
        ready = readiness::wait(link, &client, limit) => ready?,
        () = shutdown.requested() => return Ok(End::Canceled),
    }

    println!("task {task_id}: \"{}\"", wanted.instruction);
    let goal_id = Uuid::new_v4();
    let goal = ExecuteTask_Goal {
        task_id: task_id.clone(),
        instruction: wanted.instruction.into(),
        time_budget,
        max_steps: wanted.max_steps,
        permissions: wanted.permissions.to_vec(),
        dry_run: wanted.dry_run,
    };
    client.send_goal(goal_id, goal, ANSWER).await?;
    let mut shown = Shown {
        began: None,
        steps: Vec::new(),
        progress: Instant::now(),
        verbose: wanted.verbose,
    };
    let mut request = client.request_result(goal_id)?;
    let result = {
        // A day is longer than any task's budget.
        let wait = request.wait(Duration::from_secs(86_400 + 600));
        let mut wait = std::pin::pin!(wait);
        let mut asked = false;
        let mut give_up = std::pin::pin!(async {
            shutdown.requested().await;
            eh_ros_edge::deadline::sleep(AFTER_CANCEL).await;
        });
        loop {
            tokio::select! {
                biased;
                Some(event) = incoming.recv() => shown.event(&event),
                message = feedback.recv() => match message {
                    Ok(message) if message.goal_id == goal_id => shown.feedback(&message.feedback),
                    // Some were lost on the way; the result has every step.
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return Err(Failure::Silent { what: "execute_task" }),
                },
                result = &mut wait => break result?,
                () = shutdown.requested(), if !asked => {
                    asked = true;
                    println!("\ncanceling; waiting for the measured stop (Ctrl-C again ends this program, not the stop)");
                    if let Err(error) = client.cancel(goal_id, ANSWER).await {
                        eprintln!("{error}");
                    }
                },
                () = &mut give_up => return Err(Failure::Silent { what: "execute_task" }),
            }
        }
    };
    while let Ok(event) = incoming.try_recv() {
        shown.event(&event);
    }
    Ok(finish(&result.result, &shown, wanted.dry_run))
}

fn finish(result: &ExecuteTask_Result, shown: &Shown, dry_run: bool) -> End {
    let elapsed = duration_s(&result.total_elapsed_time);
    for step in &result.steps {
        if dry_run {
            println!("{}", words::step_line(step));
        } else if !shown.steps.contains(&step.step) {
            println!("{}", words::step_end(step, elapsed));
        }
    }
    println!(
        "{} after {elapsed:.1} s, {} steps: {}",
        words::outcome(result.outcome),
        result.steps.len(),
        result.summary
    );
    if result.error_code != 0 {
        println!("{}: {}", words::error(result.error_code), result.error_msg);
    }
    match TaskOutcome::from_wire(result.outcome) {
        Some(TaskOutcome::Succeeded) => End::Succeeded,
        Some(TaskOutcome::Failed) => End::Failed,
        Some(TaskOutcome::Canceled) => End::Canceled,
        Some(TaskOutcome::Rejected) => End::Rejected,
        Some(TaskOutcome::Unknown) => End::Unknown,
        Some(TaskOutcome::Unspecified) | None => End::Error,
    }
}
