//! Whether everything that a task needs is running.

use std::time::{Duration, Instant};

use eh_ros_edge::deadline::sleep;
use eh_ros_edge::GoalClient;
use ros_env::embodied_harness::action::{EvaluateRun, ExecuteTask};
use ros_env::embodied_harness::srv::{ManageLease, QueryScene, QueryScene_Request};

use crate::link::{Link, LOOK};
use crate::Failure;

/// Time that nodes take to find each other.
const DISCOVERY: Duration = Duration::from_secs(3);

/// Waits until everything is there.
///
/// # Errors
/// [`Failure::NotReady`] that names what is missing and which node brings it.
pub(crate) async fn wait(
    link: &Link,
    tasks: &GoalClient<ExecuteTask>,
    limit: Duration,
) -> Result<(), Failure> {
    let begin = Instant::now();
    let end = begin + limit;
    let evaluator = GoalClient::<EvaluateRun>::new(&link.node, "evaluate_run")?;
    let mut told = false;
    loop {
        let missing = missing(link, tasks, &evaluator).await;
        if missing.is_empty() {
            return Ok(());
        }
        if Instant::now() >= end {
            return Err(Failure::NotReady {
                missing: missing.join("\n  "),
            });
        }
        // Finding each other takes a moment also when everything runs.
        if !told && begin.elapsed() > DISCOVERY {
            told = true;
            eprintln!("waiting for: {}", missing.join("; "));
        }
        sleep(LOOK * 4).await;
    }
}

async fn missing(
    link: &Link,
    tasks: &GoalClient<ExecuteTask>,
    evaluator: &GoalClient<EvaluateRun>,
) -> Vec<String> {
    let mut missing = Vec::new();
    if !tasks.server_is_there() {
        missing.push("the action execute_task (harness_node)".to_owned());
    }
    {
        let heard = link.heard.lock();
        let skills: usize = heard.catalogs.iter().map(|c| c.skills.len()).sum();
        if skills == 0 {
            missing.push("skills (navigation_skills_node, manipulation_skills_node)".to_owned());
        }
        for catalog in &heard.catalogs {
            if !heard.alive.contains(&catalog.executor) {
                missing.push(format!("the beacon of {}", catalog.executor));
            }
        }
    }
    if !evaluator.server_is_there() {
        missing.push("the action evaluate_run (evaluator_node)".to_owned());
    }
    if !link
        .offered::<ManageLease>("manage_lease", Duration::from_millis(500))
        .await
    {
        missing.push("the control lease (protection_node)".to_owned());
    }
    if !link
        .offered::<QueryScene>("query_scene", Duration::from_millis(500))
        .await
    {
        missing.push("the scene (scene_graph_node)".to_owned());
        return missing;
    }
    let request = QueryScene_Request {
        operation: QueryScene_Request::OPERATION_FIND,
        refs: vec!["robot".into()],
        ..QueryScene_Request::default()
    };
    match link
        .call::<QueryScene>("query_scene", "scene_graph_node", request)
        .await
    {
        Ok(answer) if answer.objects.is_empty() => missing
            .push("the robot's pose in the scene (localization, tf, scene_graph_node)".to_owned()),
        Ok(_) => {}
        Err(error) => missing.push(error.to_string()),
    }
    missing
}
