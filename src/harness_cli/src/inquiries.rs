//! Everything but `harness run`: questions, stop, reset, settle, answers, faults.

use std::time::Duration;

use eh_contract::state::StopStage;
use ros_env::embodied_harness::srv::{
    AnswerHumanRequest, AnswerHumanRequest_Request, InjectFault, InjectFault_Request, QueryCommand,
    QueryCommand_Request, QueryScene, QueryScene_Request, QueryTask, QueryTask_Request,
    RequestStop, RequestStop_Request, ResetStop, ResetStop_Request, SettleCommand,
    SettleCommand_Request,
};

use crate::link::Link;
use crate::{words, Became, Command, End, Failure};

/// Longest wait for what late joiners get, where nobody is known who tells it.
const LATCHED: Duration = Duration::from_secs(4);

/// Longest wait for what somebody in the graph tells, on a busy machine.
const TOLD: Duration = Duration::from_secs(8);

/// Longest wait for a stop to be confirmed; protection's own budget is shorter.
const STOP: Duration = Duration::from_secs(10);

fn refused(code: u16, message: &str) -> Failure {
    Failure::Refused {
        code: words::error(code),
        message: message.into(),
    }
}

fn check(code: u16, message: &str) -> Result<(), Failure> {
    if code == 0 {
        Ok(())
    } else {
        Err(refused(code, message))
    }
}

/// The name that was given, else the user's.
fn person(given: &str) -> String {
    if given.is_empty() {
        std::env::var("USER")
            .ok()
            .filter(|u| !u.is_empty())
            .unwrap_or_else(|| "operator".into())
    } else {
        given.into()
    }
}

pub(crate) async fn carry_out(link: &Link, command: Command) -> Result<End, Failure> {
    match command {
        // Carried out elsewhere.
        Command::Run { .. } => Ok(End::Error),
        Command::Status => status(link).await,
        Command::Stop { reason } => stop(link, reason).await,
        Command::Reset {
            reason,
            operator,
            force,
        } => {
            let request = ResetStop_Request {
                operator_name: person(&operator),
                reason,
                force,
            };
            let answer = link
                .call::<ResetStop>("reset_stop", "protection_node", request)
                .await?;
            check(answer.error_code, &answer.error_msg)?;
            println!("the stop is reset");
            Ok(End::Succeeded)
        }
        Command::Query { command_id } => query(link, command_id).await,
        Command::Task { task_id } => task(link, task_id).await,
        Command::Settle {
            command_id,
            became,
            reason,
            operator,
        } => {
            let request = SettleCommand_Request {
                command_id,
                final_state: match became {
                    Became::Succeeded => SettleCommand_Request::FINAL_SUCCEEDED,
                    Became::Failed => SettleCommand_Request::FINAL_FAILED,
                    Became::Canceled => SettleCommand_Request::FINAL_CANCELED,
                },
                settled_by: person(&operator),
                reason,
                fencing_token: 0,
            };
            let answer = link
                .call::<SettleCommand>("settle_command", "harness_node", request)
                .await?;
            check(answer.error_code, &answer.error_msg)?;
            println!("settled: {}", answer.state);
            Ok(End::Succeeded)
        }
        Command::Skills => skills(link).await,
        Command::Scene { text } => scene(link, text).await,
        Command::Answer {
            request_id,
            answer,
            operator,
        } => answer_request(link, request_id, answer, &operator).await,
        Command::Fault {
            name,
            count,
            params,
            clear,
        } => {
            let request = InjectFault_Request {
                fault: name,
                count,
                params_json: params,
                clear,
            };
            let answer = link
                .call::<InjectFault>("inject_fault", "sim_robot_node", request)
                .await?;
            check(answer.error_code, &answer.error_msg)?;
            if answer.active.is_empty() {
                println!("no fault is in force");
            } else {
                println!("in force: {}", answer.active.join(", "));
            }
            Ok(End::Succeeded)
        }
    }
}

async fn status(link: &Link) -> Result<End, Failure> {
    let heard = |look: &'static str| format!("nothing heard ({look} not running?)");
    // Who takes part is known after that.
    link.hear_executors(TOLD).await?;
    let protection = link
        .told("protection_state", LATCHED, TOLD, |h| {
            h.protection.as_ref().map(words::protection)
        })
        .await?;
    // The same node tells it.
    let longest = if protection.is_some() {
        LATCHED
    } else {
        Duration::ZERO
    };
    println!(
        "protection  {}",
        protection.unwrap_or_else(|| heard("protection_node"))
    );
    let lease = link
        .told("control_lease", longest, TOLD, |h| {
            h.lease.as_ref().map(words::lease)
        })
        .await?;
    println!(
        "lease       {}",
        lease.unwrap_or_else(|| heard("protection_node"))
    );
    {
        let heard_now = link.heard.lock();
        for catalog in &heard_now.catalogs {
            let silent = if heard_now.alive.contains(&catalog.executor) {
                ""
            } else {
                ", SILENT"
            };
            println!(
                "executor    {} with {}{silent}",
                catalog.executor,
                words::count(catalog.skills.len(), "skill")
            );
        }
        if heard_now.catalogs.is_empty() {
            println!("executor    {}", heard("the skill nodes"));
        }
    }
    let task = link
        .call::<QueryTask>("query_task", "harness_node", QueryTask_Request::default())
        .await?;
    if task.error_code == 0 {
        let state = if task.running {
            "running".into()
        } else {
            words::outcome(task.outcome)
        };
        println!(
            "task        {} \"{}\" {state}, {}",
            task.task_id,
            task.instruction,
            words::count(task.steps.len(), "step")
        );
    } else {
        println!("task        none yet");
    }
    let open = link
        .call::<QueryCommand>(
            "query_command",
            "harness_node",
            QueryCommand_Request::default(),
        )
        .await?;
    for ((id, state), status) in open
        .command_ids
        .iter()
        .zip(&open.command_states)
        .zip(&open.statuses)
    {
        println!(
            "command     {id} {}: {}",
            words::command_state(*state),
            words::status_line(status)
        );
    }
    for request in &link.heard.lock().requests {
        println!("asks        {}", words::human_request(request));
    }
    Ok(End::Succeeded)
}

async fn stop(link: &Link, reason: String) -> Result<End, Failure> {
    let request = RequestStop_Request {
        stop_id: String::new(),
        source: format!("harness stop ({})", person("")),
        reason,
    };
    println!("{}", words::stop_stage(StopStage::Requested.to_wire()));
    let answer = link
        .call::<RequestStop>("request_stop", "protection_node", request)
        .await?;
    check(answer.error_code, &answer.error_msg)?;
    println!("{} ({})", words::stop_stage(answer.stage), answer.stop_id);
    let stop_id = answer.stop_id;
    let is_final = |stage: u8| {
        stage == StopStage::Confirmed.to_wire() || stage == StopStage::Unconfirmed.to_wire()
    };
    if is_final(answer.stage) {
        return Ok(stop_end(answer.stage));
    }
    let stage = link
        .until(STOP, |h| {
            let state = h.protection.as_ref()?;
            (state.stop_id == stop_id && is_final(state.stop_stage)).then_some(state.stop_stage)
        })
        .await;
    let stage = stage.unwrap_or(StopStage::Unconfirmed.to_wire());
    println!("{}", words::stop_stage(stage));
    Ok(stop_end(stage))
}

fn stop_end(stage: u8) -> End {
    if stage == StopStage::Confirmed.to_wire() {
        End::Succeeded
    } else {
        eprintln!("standstill was not measured in time: look at the robot");
        End::Unknown
    }
}

async fn query(link: &Link, command_id: String) -> Result<End, Failure> {
    let all = command_id.is_empty();
    let answer = link
        .call::<QueryCommand>(
            "query_command",
            "harness_node",
            QueryCommand_Request { command_id },
        )
        .await?;
    check(answer.error_code, &answer.error_msg)?;
    if all && answer.command_ids.is_empty() {
        println!("every command is settled");
    }
    for ((id, state), status) in answer
        .command_ids
        .iter()
        .zip(&answer.command_states)
        .zip(&answer.statuses)
    {
        println!("{id}  {}", words::command_state(*state));
        println!("    {}", words::status_line(status));
    }
    Ok(End::Succeeded)
}

async fn task(link: &Link, task_id: String) -> Result<End, Failure> {
    let answer = link
        .call::<QueryTask>("query_task", "harness_node", QueryTask_Request { task_id })
        .await?;
    check(answer.error_code, &answer.error_msg)?;
    let state = if answer.running {
        "running".into()
    } else {
        words::outcome(answer.outcome)
    };
    println!("{}  \"{}\"  {state}", answer.task_id, answer.instruction);
    for step in &answer.steps {
        println!("{}", words::step_line(step));
    }
    if answer.task_error_code != 0 {
        println!(
            "{}: {}",
            words::error(answer.task_error_code),
            answer.task_error_msg
        );
    }
    Ok(End::Succeeded)
}

async fn skills(link: &Link) -> Result<End, Failure> {
    link.hear_executors(TOLD).await?;
    let heard = link.heard.lock();
    if heard.catalogs.is_empty() {
        return Err(Failure::NotThere {
            what: "a skill catalog".into(),
            node: "navigation_skills_node or manipulation_skills_node",
        });
    }
    for catalog in &heard.catalogs {
        println!("{}", words::catalog(catalog));
    }
    Ok(End::Succeeded)
}

async fn scene(link: &Link, text: String) -> Result<End, Failure> {
    let request = QueryScene_Request {
        operation: QueryScene_Request::OPERATION_ALL,
        limit: 10_000,
        ..QueryScene_Request::default()
    };
    let answer = link
        .call::<QueryScene>("query_scene", "scene_graph_node", request)
        .await?;
    check(answer.error_code, &answer.error_msg)?;
    println!("map {}, version {}", answer.map_id, answer.version);
    for object in &answer.objects {
        let line = words::scene_object(object, &answer.relations);
        if text.is_empty() || line.contains(&text) {
            println!("{line}");
        }
    }
    Ok(End::Succeeded)
}

async fn answer_request(
    link: &Link,
    request_id: String,
    answer: String,
    operator: &str,
) -> Result<End, Failure> {
    if request_id.is_empty() {
        let open = link
            .until(LATCHED, |h| {
                (!h.requests.is_empty()).then(|| {
                    h.requests
                        .iter()
                        .map(words::human_request)
                        .collect::<Vec<_>>()
                })
            })
            .await;
        match open {
            Some(lines) => println!("{}", lines.join("\n")),
            None => println!("nothing is asked"),
        }
        return Ok(End::Succeeded);
    }
    let request = AnswerHumanRequest_Request {
        request_id,
        answer,
        answered_by: person(operator),
    };
    let reply = link
        .call::<AnswerHumanRequest>("answer_human_request", "harness_node", request)
        .await?;
    check(reply.error_code, &reply.error_msg)?;
    println!("taken");
    Ok(End::Succeeded)
}
