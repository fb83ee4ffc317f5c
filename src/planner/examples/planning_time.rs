//! Prints how long planning takes, over the number of objects and of steps.
//!
//! ```sh
//! cargo run --release -p eh_planner --example planning_time
//! ```

#[path = "../tests/common/large.rs"]
mod large;

use std::time::Instant;

use eh_contract::scene::SceneSnapshot;
use eh_contract::skill::SkillDescriptor;
use eh_planner::regression::{search, Experience, Found, Problem};
use eh_planner::skill_schema::Skills;
use eh_planner::{Planner, PlanningContext, SymbolicPlanner, TaskInput, Turn};
use large::{descriptors, world, NOW};

fn main() {
    let planner = SymbolicPlanner::new().expect("the shipped tables are read by a test");
    let skills = descriptors();
    println!("rooms objects  read [ms]  plan [ms]  steps  instruction");
    for (rooms, objects) in [(2, 10), (4, 40), (10, 150), (20, 600)] {
        let scene = world(rooms, objects);
        for instruction in [
            "go to room_1",
            "bring cup_5",
            "put cup_5 on table_1",
            "put cup_5 and bowl_2 on table_1",
            "put cup_5, bowl_2 and can_4 on table_1",
        ] {
            let input = TaskInput {
                instruction,
                snapshot: &scene,
                vocabulary: &[],
            };
            let begun = Instant::now();
            let mut program = match planner.begin(&input) {
                Ok(program) => program,
                Err(e) => {
                    println!("{rooms:5} {objects:7}  {instruction}: {e}");
                    continue;
                }
            };
            let read = begun.elapsed();
            let begun = Instant::now();
            let turn = planner.next(
                &mut program,
                &PlanningContext {
                    snapshot: &scene,
                    now: NOW,
                    skills: &skills,
                    history: &[],
                    answers: &[],
                    start_ref: "start",
                },
            );
            let plan = begun.elapsed();
            let result = match turn {
                Turn::Propose(_) => format!("{:5}", program.plan.len()),
                Turn::Done { .. } => " done".into(),
                Turn::Ask { question, .. } => format!(" asks: {question}"),
                Turn::Fail { message, .. } => format!(" fails: {message}"),
            };
            println!(
                "{rooms:5} {objects:7}  {:9.2}  {:9.2}  {result}  {instruction}",
                read.as_secs_f64() * 1e3,
                plan.as_secs_f64() * 1e3,
            );
        }
        together(&scene, &skills, rooms, objects);
    }
}

/// One search for several things at once, which the planner itself does goal by goal.
fn together(scene: &SceneSnapshot, skills: &[SkillDescriptor], rooms: usize, objects: usize) {
    let skills = Skills::new(skills);
    let experience = Experience::default();
    for count in 1..=4 {
        let goal = large::on_one_table(scene, count);
        let begun = Instant::now();
        let (found, nodes) = search(
            Problem {
                scene,
                now: NOW,
                skills: &skills,
                experience: &experience,
                keep: &[],
            },
            &goal,
        );
        let time = begun.elapsed().as_secs_f64() * 1e3;
        let steps = match found {
            Found::Plan(steps) => steps.len().to_string(),
            Found::Nothing(_) => "none".into(),
        };
        println!("{rooms:5} {objects:7}             {time:9.2}  {steps:>5}  one search for {count} things, {nodes} nodes");
    }
}
