//! Messages in words, for the trace.

use std::fmt;

use crate::message::{short, News, Reply, Request};
use crate::server::action;

impl fmt::Display for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            News::Catalog(catalog) => write!(f, "{} skills", catalog.skills.len()),
            News::Beacon(beacon) => write!(f, "beacon {:.2}", beacon.tick.as_secs_f64()),
            News::Statuses { statuses, .. } => {
                f.write_str("statuses")?;
                for status in statuses.iter().take(4) {
                    write!(
                        f,
                        " {}:{:?}/{:?}#{}",
                        brief(&status.command_id),
                        status.state,
                        status.control_end,
                        status.sequence
                    )?;
                }
                Ok(())
            }
            News::Run(event) => write!(
                f,
                "{:?} of {} of {}",
                event.event,
                brief(&event.run_id),
                brief(&event.command_id)
            ),
            News::Declared(run) => write!(f, "declares {} {}", brief(&run.run_id), run.active),
            News::Lease(lease) => write!(f, "lease {} \"{}\"", lease.token, lease.controller_id),
            News::Protection(state) => write!(
                f,
                "stop latched {} {:?} {}",
                state.latched, state.stage, state.message
            ),
            News::SceneGraph(scene) => write!(f, "scene {}", scene.version),
            News::Motion(_) => f.write_str("motion"),
            News::Scan(_) => f.write_str("scan"),
            News::Sight(sight) => write!(f, "{} detections", sight.in_map.detections.len()),
            News::Goals { server, entries } => {
                write!(f, "goals of {}", action(*server))?;
                for (goal_id, status) in entries.iter().rev().take(3) {
                    write!(f, " {}:{status}", short(goal_id))?;
                }
                Ok(())
            }
            News::WayLeft { way, .. } => write!(f, "{way:.2} m left"),
            News::Wanted(v) => write!(f, "wants {:.2} {:.2}", v.linear, v.angular),
            News::Given(v) => write!(f, "gives {:.2} {:.2}", v.linear, v.angular),
            News::Human(request) => write!(
                f,
                "{} {}: {}",
                if request.closed { "closes" } else { "asks" },
                request.request_id,
                request.question
            ),
        }
    }
}

/// The start of an id.
fn brief(id: &str) -> &str {
    let id = id.strip_prefix("run-").unwrap_or(id);
    id.get(..8).unwrap_or(id)
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Request::Execute(goal) => write!(
                f,
                " {} {} of {} token {}",
                short(&goal.goal_id),
                goal.command.skill,
                brief(&goal.command.command_id),
                goal.envelope.fencing_token
            ),
            Request::ExecuteResult(goal_id) | Request::ExecuteCancel(goal_id) => {
                write!(f, " {}", short(goal_id))
            }
            Request::QueryCommand(id) => write!(f, " {}", brief(id)),
            Request::SettleCommand {
                command_id,
                to,
                settled_by,
                ..
            } => write!(f, " {} {to:?} by {settled_by}", brief(command_id)),
            Request::SettleUnknown {
                command_id,
                to,
                reason,
            } => write!(f, " {} {to:?}: {reason}", brief(command_id)),
            Request::ReadScene | Request::GetPlanningScene => Ok(()),
            Request::CheckScene(preconditions) => write!(f, " {}", preconditions.len()),
            Request::ApplyEffects { verdict, .. } => write!(f, " of {}", brief(&verdict.run_id)),
            Request::Evaluate { run_id, segment } => write!(f, " {}#{segment}", brief(run_id)),
            Request::Lease { controller_id, .. } => write!(f, " by {controller_id}"),
            Request::RequestStop { reason } => write!(f, ": {reason}"),
            Request::ResetStop { force } => write!(f, " force {force}"),
            Request::SendGoal {
                server, goal_id, ..
            }
            | Request::CancelGoal { server, goal_id }
            | Request::GoalResult { server, goal_id } => {
                write!(f, " {} {}", action(*server), short(goal_id))
            }
            Request::ApplyPlanningScene(_) => Ok(()),
            Request::Task(goal) => write!(f, " {} \"{}\"", goal.task_id, goal.instruction),
            Request::CancelTask(id) | Request::QueryTask(id) => write!(f, " {id}"),
            Request::Answer { request_id, answer } => write!(f, " {request_id}: {answer}"),
        }
    }
}

impl Reply {
    /// Whether the trace is readable without it.
    pub const fn is_stream(&self) -> bool {
        matches!(
            self,
            Reply::Scene(_) | Reply::Lease(Ok(_)) | Reply::Feedback(_)
        )
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reply::Acknowledged(taken) => f.write_str(if *taken { "taken" } else { "rejected" }),
            Reply::ExecuteEnd(None) | Reply::GoalEnd(None) => f.write_str("unknown goal"),
            Reply::ExecuteEnd(Some(end)) => write!(
                f,
                "execute_skill ended {:?} {:?} {} {}",
                end.status.state, end.status.control_end, end.error_code, end.error_msg
            ),
            Reply::Feedback(s) => write!(f, "feedback {:?}", s.state),
            Reply::Canceling(yes) => write!(f, "canceling: {yes}"),
            Reply::Statuses(Ok(statuses)) => {
                f.write_str("statuses")?;
                for s in statuses {
                    write!(
                        f,
                        " {}:{:?}/{:?}",
                        brief(&s.command_id),
                        s.state,
                        s.control_end
                    )?;
                }
                Ok(())
            }
            Reply::Commands(commands) => {
                f.write_str("commands")?;
                for (id, state) in commands {
                    write!(f, " {}:{state:?}", brief(id))?;
                }
                Ok(())
            }
            Reply::Statuses(Err((code, text)))
            | Reply::Applied(Err((code, text)))
            | Reply::Lease(Err((code, text))) => write!(f, "{}: {text}", code.name()),
            Reply::Settled {
                error_code, state, ..
            } => write!(f, "settled {error_code}, is {state}"),
            Reply::Scene(scene) => write!(f, "scene {}", scene.version),
            Reply::Checked(check) => write!(f, "{check:?}"),
            Reply::Applied(Ok(())) => f.write_str("applied"),
            Reply::Judged(Ok(verdict)) => write!(f, "{:?}: {}", verdict.outcome, verdict.reason),
            Reply::Judged(Err(reason)) => write!(f, "no verdict: {reason}"),
            Reply::Lease(Ok(lease)) => write!(f, "lease {}", lease.token),
            Reply::Stop(Ok(())) | Reply::Taken(Ok(())) => f.write_str("done"),
            Reply::Stop(Err(reason)) | Reply::Taken(Err(reason)) => write!(f, "refused: {reason}"),
            Reply::GoalEnd(Some(end)) => {
                write!(f, "ended {} {} {}", end.status, end.code, end.message)
            }
            Reply::PlanningScene(scene) => write!(
                f,
                "planning scene: {} in the world, {} attached",
                scene.world.len(),
                scene.attached.len()
            ),
            Reply::PlanningSceneApplied(done) => write!(f, "planning scene applied: {done}"),
            Reply::TaskEnd(record) => write!(f, "{:?}: {}", record.outcome, record.summary),
            Reply::Task(record) => match record {
                Some(record) => write!(f, "task is {:?}", record.outcome),
                None => f.write_str("no such task"),
            },
        }
    }
}
