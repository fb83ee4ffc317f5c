//! Putting questions to a planner, and its answers as events. It may take seconds: not on the loop's thread.

use eh_contract::scene::SceneSnapshot;
use eh_planner::planner::{Planner, PlanningContext, TaskInput};

use crate::effect::PlanRequest;
use crate::event::Event;
use crate::grounding::START;

/// Lets a planner read an instruction ([`Effect::Begin`](crate::Effect::Begin)). `vocabulary`: classes that
/// perception can recognise beyond those in the scene.
pub fn begin(
    planner: &dyn Planner,
    ticket: u64,
    instruction: &str,
    scene: &SceneSnapshot,
    vocabulary: &[String],
) -> Event {
    let input = TaskInput {
        instruction,
        snapshot: scene,
        vocabulary,
    };
    Event::Begun {
        ticket,
        result: planner.begin(&input).map(Box::new),
    }
}

/// Lets a planner say what comes next ([`Effect::Plan`](crate::Effect::Plan)).
pub fn next(planner: &dyn Planner, request: PlanRequest) -> Event {
    let mut program = request.program;
    let turn = planner.next(
        &mut program,
        &PlanningContext {
            snapshot: &request.scene,
            now: request.now,
            skills: &request.skills,
            history: &request.history,
            answers: &request.answers,
            start_ref: START,
        },
    );
    Event::Turned {
        ticket: request.ticket,
        program: Box::new(program),
        turn,
    }
}
