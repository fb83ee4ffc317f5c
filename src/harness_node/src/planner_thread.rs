//! The thread on which the planner reads and plans, so that nothing else waits for it.

use std::sync::mpsc::{channel, Sender};
use std::sync::Arc;

use eh_contract::scene::SceneSnapshot;
use eh_harness::effect::PlanRequest;
use eh_harness::{thinking, Event};
use eh_planner::{Planner, SymbolicPlanner};

use crate::loop_thread::Inbox;
use crate::{Error, Parameters};

/// What the planner is asked.
pub(crate) enum Question {
    /// Read an instruction.
    Begin {
        ticket: u64,
        instruction: String,
        scene: Arc<SceneSnapshot>,
    },
    /// Say what comes next.
    Next(Box<PlanRequest>),
}

/// Makes the planner that the parameters name.
pub(crate) fn make(parameters: &Parameters) -> Result<Arc<dyn Planner>, Error> {
    match parameters.planner.as_str() {
        "symbolic" => Ok(Arc::new(
            SymbolicPlanner::new().map_err(|e| Error::Planner(e.to_string()))?,
        )),
        other => Err(Error::Value {
            name: "planner",
            reason: format!("there is no planner '{other}'"),
        }),
    }
}

/// Starts the thread; it ends when the sender is dropped.
pub(crate) fn start(
    planner: Arc<dyn Planner>,
    vocabulary: Vec<String>,
    inbox: Inbox,
) -> std::io::Result<Sender<Question>> {
    let (sender, questions) = channel();
    std::thread::Builder::new()
        .name("planner".into())
        .spawn(move || {
            while let Ok(question) = questions.recv() {
                inbox.event(answer(planner.as_ref(), &vocabulary, question));
            }
        })?;
    Ok(sender)
}

fn answer(planner: &dyn Planner, vocabulary: &[String], question: Question) -> Event {
    match question {
        Question::Begin {
            ticket,
            instruction,
            scene,
        } => thinking::begin(planner, ticket, &instruction, &scene, vocabulary),
        Question::Next(request) => thinking::next(planner, *request),
    }
}
