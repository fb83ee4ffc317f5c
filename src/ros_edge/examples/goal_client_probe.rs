//! Drives [`eh_ros_edge::GoalClient`] from the command line against a GripperCommand server, one step in
//! one process, for the tests:
//!
//! ```text
//! goal_client_probe send   ID POSITION LIMIT_S   sends a goal; after no answer waits for a late one
//! goal_client_probe result ID LIMIT_S            asks for the result
//! goal_client_probe cancel ID LIMIT_S            asks to cancel
//! goal_client_probe status ID                    waits for the goal's status
//! goal_client_probe absent LIMIT_S               waits for the server
//! ```
//!
//! What it finds is one line on standard output.

use std::process::ExitCode;
use std::time::Duration;

use eh_ros_edge::goal_client::{GoalClient, GoalClientError};
use eh_ros_edge::{spin_until, within, Shutdown};
use rclrs::{Context, CreateBasicExecutor};
use ros_env::control_msgs::action::{GripperCommand, GripperCommand_Goal};
use uuid::Uuid;

const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Vec<String>) -> Result<(), Box<dyn std::error::Error>> {
    let mut executor = Context::default_from_env()?.create_basic_executor();
    let node = executor.create_node("goal_client_probe")?;
    let shutdown = Shutdown::on_signals()?;
    let client = GoalClient::<GripperCommand>::new(&node, "gripper")?;
    let done = shutdown.clone();
    drop(node.commands().run(async move {
        let line = match step(&client, &arguments).await {
            Ok(line) => line,
            Err(error) => format!("error {error}"),
        };
        println!("{line}");
        done.request();
    }));
    Ok(spin_until(&mut executor, &shutdown)?)
}

async fn step(
    client: &GoalClient<GripperCommand>,
    arguments: &[String],
) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    let argument = |index: usize| arguments.get(index).map_or("", String::as_str);
    let seconds = |index: usize| {
        argument(index)
            .parse::<f64>()
            .map(Duration::from_secs_f64)
            .map_err(|error| format!("argument {index}: {error}"))
    };
    if argument(0) == "absent" {
        client.wait_for_server(seconds(1)?).await?;
        return Ok("present".into());
    }
    let goal_id = Uuid::parse_str(argument(1))?;
    client.wait_for_server(PATIENCE).await?;
    match argument(0) {
        "send" => send(client, goal_id, argument(2).parse()?, seconds(3)?).await,
        "result" => {
            let end = client.result(goal_id, seconds(2)?).await?;
            Ok(format!("{:?} position {}", end.status, end.result.position))
        }
        "cancel" => Ok(format!("{:?}", client.cancel(goal_id, seconds(2)?).await?)),
        "status" => {
            let mut statuses = client.statuses();
            let named = statuses.wait_for(|list| list.iter().any(|entry| entry.goal_id == goal_id));
            drop(within(PATIENCE, named).await??);
            Ok(format!("{:?}", client.status(goal_id)))
        }
        other => Err(format!("unknown step '{other}'").into()),
    }
}

async fn send(
    client: &GoalClient<GripperCommand>,
    goal_id: Uuid,
    position: f64,
    limit: Duration,
) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    let mut late = client.late_acknowledgements();
    let mut goal = GripperCommand_Goal::default();
    goal.command.position = position;
    match client.send_goal(goal_id, goal.clone(), limit).await {
        Ok(accepted) => {
            // A second time, it must not even leave.
            let again = client.send_goal(goal_id, goal, limit).await;
            let refused = matches!(again, Err(GoalClientError::SentBefore { .. }));
            Ok(format!(
                "accepted {} again refused {refused}",
                accepted.goal_id
            ))
        }
        Err(error @ GoalClientError::NotAcknowledged { .. }) => {
            println!("not acknowledged: {error}");
            let late = within(PATIENCE, late.recv()).await??;
            Ok(format!("late {} accepted {}", late.goal_id, late.accepted))
        }
        Err(error) => Err(error.into()),
    }
}
