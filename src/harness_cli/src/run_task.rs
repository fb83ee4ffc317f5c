//! `harness run`: sends a task, shows what happens, cancels on Ctrl-C and waits for the measured stop.

use std::time::{Duration, Instant};

use eh_contract::state::TaskOutcome;
use eh_contract::ErrorCode;
use eh_ros_edge::convert::command::budget_msg;
use eh_ros_edge::convert::duration_s;
use eh_ros_edge::deadline::sleep;
use eh_ros_edge::{qos, GoalClient, Shutdown};
use rclrs::IntoPrimitiveOptions;
use ros_env::embodied_harness::action::{
    ExecuteTask, ExecuteTask_Feedback, ExecuteTask_Goal, ExecuteTask_Result,
};
use ros_env::embodied_harness::msg::{ProtectionState, SessionEvent};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::following::{self, Following};
use crate::link::{Link, ANSWER};
use crate::{readiness, words, End, Failure};

/// What was asked for on the command line.
pub(crate) struct Wanted<'a> {
    pub instruction: &'a str,
    pub time_budget: Duration,
    pub max_steps: u32,
    pub task_id: &'a str,
    pub permissions: &'a [String],
    pub dry_run: bool,
    pub wait_for_ready: Duration,
    pub verbose: bool,
}

/// Longest wait for the result beyond the task's own time: a stop and its confirmation.
const AFTER_CANCEL: Duration = Duration::from_secs(60);

/// After so long without a line, one says what the robot is at.
const QUIET: Duration = Duration::from_secs(5);

/// What has been shown.
struct Shown {
    began: Option<i64>,
    steps: Vec<u32>,
    progress: Instant,
    verbose: bool,
    /// When the last line was printed.
    at: Instant,
    /// What the robot is at.
    doing: String,
}

impl Shown {
    fn event(&mut self, event: &SessionEvent) {
        let stamp = eh_ros_edge::convert::time_ns(&event.stamp);
        let began = *self.began.get_or_insert(stamp);
        if let Some(line) = words::event(event, began, self.verbose) {
            self.print(&line);
        }
    }

    fn print(&mut self, line: &str) {
        println!("{line}");
        self.at = Instant::now();
    }

    /// Says what the robot is at, and what holds it.
    fn still(&mut self, protection: Option<&ProtectionState>) {
        let line = words::still(&self.doing, protection, self.at.elapsed());
        self.print(&line);
    }

    fn feedback(&mut self, feedback: &ExecuteTask_Feedback) {
        let elapsed = duration_s(&feedback.elapsed);
        let step = &feedback.finished_step;
        self.doing = if feedback.command_id.is_empty() {
            feedback.text.clone()
        } else {
            words::status_line(&feedback.skill_status)
        };
        if step.step > 0 && !self.steps.contains(&step.step) {
            self.steps.push(step.step);
            self.print(&words::step_end(step, elapsed));
        } else if self.verbose && self.progress.elapsed() >= Duration::from_secs(1) {
            self.progress = Instant::now();
            self.print(&format!("{}    {}", words::clock(elapsed), self.doing));
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
        ready = readiness::wait(link, &client, wanted.wait_for_ready) => ready?,
        () = shutdown.requested() => return Ok(End::Canceled),
    }

    println!("task {task_id}: \"{}\"", wanted.instruction);
    let goal_id = Uuid::new_v4();
    let goal = ExecuteTask_Goal {
        task_id: task_id.clone(),
        instruction: wanted.instruction.into(),
        time_budget: budget_msg(wanted.time_budget),
        max_steps: wanted.max_steps,
        permissions: wanted.permissions.to_vec(),
        dry_run: wanted.dry_run,
    };
    client.send_goal(goal_id, goal.clone(), ANSWER).await?;
    let mut shown = Shown {
        began: None,
        steps: Vec::new(),
        progress: Instant::now(),
        verbose: wanted.verbose,
        at: Instant::now(),
        doing: String::new(),
    };
    // Events under this name may be those of an earlier task, which is not this one if its content differs.
    let mut is_ours = false;
    let following = Following::new(&client, goal, goal_id);
    let result = {
        let mut end = std::pin::pin!(following.end());
        let mut asked = false;
        let mut give_up = std::pin::pin!(async {
            shutdown.requested().await;
            sleep(AFTER_CANCEL).await;
        });
        loop {
            tokio::select! {
                biased;
                Some(event) = incoming.recv(), if is_ours => shown.event(&event),
                message = feedback.recv() => match message {
                    Ok(message) if message.goal_id == following.goal_id() => {
                        following.hear();
                        // What led to this came before it.
                        while let (false, Ok(event)) = (is_ours, incoming.try_recv()) {
                            shown.event(&event);
                        }
                        is_ours = true;
                        shown.feedback(&message.feedback);
                    }
                    // Some were lost on the way; the result has every step.
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return Err(Failure::Silent { what: "execute_task" }),
                },
                result = &mut end => break result?,
                () = shutdown.requested(), if !asked => {
                    asked = true;
                    println!("\ncanceling; waiting for the measured stop (Ctrl-C again ends this program, not the stop)");
                    if let Err(error) = client.cancel(following.goal_id(), ANSWER).await {
                        eprintln!("{error}");
                    }
                },
                () = &mut give_up => return Err(Failure::Silent { what: "execute_task" }),
                () = sleep(QUIET.saturating_sub(shown.at.elapsed())) => {
                    let silence = following.silence();
                    if silence > following::SILENCE {
                        shown.print(&words::unheard(silence, following::LOST));
                    } else {
                        let protection = link.heard.lock().protection.clone();
                        shown.still(protection.as_ref());
                    }
                }
            }
        }
    };
    let other = result.result.error_code == ErrorCode::TaskIdConflict.code();
    while let (false, Ok(event)) = (other, incoming.try_recv()) {
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
        "{} after {elapsed:.1} s, {}: {}",
        words::outcome(result.outcome),
        words::count(result.steps.len(), "step"),
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
