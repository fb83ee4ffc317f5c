//! The search for a plan in large worlds. Counts nodes, which are the same on every machine, not time;
//! `examples/planning_time.rs` prints the time.

#[path = "common/large.rs"]
mod large;

use eh_contract::scene::{Kind, RelationKind, SceneSnapshot};
use eh_planner::fact::Fact;
use eh_planner::regression::{search, Action, Experience, Found, Problem};
use eh_planner::skill_schema::Skills;
use eh_planner::{Planner, PlanningContext, SymbolicPlanner, TaskInput, Turn};
use large::{descriptors, on_one_table, world, NOW};

fn plan(scene: &SceneSnapshot, goal: &[Fact]) -> (Vec<Action>, usize) {
    let skills = descriptors();
    let skills = Skills::new(&skills);
    let experience = Experience::default();
    let problem = Problem {
        scene,
        now: NOW,
        skills: &skills,
        experience: &experience,
        keep: &[],
    };
    match search(problem, goal) {
        (Found::Plan(steps), nodes) => (steps, nodes),
        (Found::Nothing(dead), nodes) => panic!("no plan after {nodes} nodes: {dead:?}"),
    }
}

#[test]
fn three_things_are_planned_together_among_150_in_10_rooms() {
    // Each thing: drive, look, pick, drive, place.
    let scene = world(10, 150);
    let (steps, nodes) = plan(&scene, &on_one_table(&scene, 3));
    assert_eq!(steps.len(), 15, "{steps:?}");
    assert!(nodes < 2000, "{nodes} nodes");
}

#[test]
fn what_nobody_speaks_of_does_not_make_the_search_larger() {
    let small = world(2, 4);
    let (few_steps, few_nodes) = plan(&small, &on_one_table(&small, 1));
    // The same rooms and the same thing, among a hundred others.
    let mut crowded = small.clone();
    let other = small
        .live()
        .find(|o| o.kind == Kind::Object)
        .unwrap()
        .clone();
    for i in 0..100 {
        let mut object = other.clone();
        object.r#ref = format!("brick_{i}");
        object.class_name = "brick".into();
        let mut on = small.relations[0].clone();
        on.subject.clone_from(&object.r#ref);
        on.relation = RelationKind::On;
        on.object = "desk_0".into();
        crowded.relations.push(on);
        crowded.objects.push(object);
    }
    let (steps, nodes) = plan(&crowded, &on_one_table(&small, 1));
    assert_eq!(steps, few_steps);
    assert_eq!(nodes, few_nodes);
}

#[test]
fn a_goal_beyond_all_skills_is_known_at_once() {
    // A cup that is in no reach: nothing brings an apple onto itself.
    let scene = world(10, 150);
    let mut skills = descriptors();
    skills.retain(|d| d.name != "pick");
    let skills = Skills::new(&skills);
    let experience = Experience::default();
    let problem = Problem {
        scene: &scene,
        now: NOW,
        skills: &skills,
        experience: &experience,
        keep: &[],
    };
    let (found, nodes) = search(problem, &on_one_table(&scene, 2));
    assert!(matches!(found, Found::Nothing(_)));
    assert!(nodes < 10, "{nodes} nodes");
}

#[test]
fn a_whole_task_is_planned_step_by_step_in_a_large_house() {
    let scene = world(10, 150);
    let skills = descriptors();
    let planner = SymbolicPlanner::new().unwrap();
    let mut program = planner
        .begin(&TaskInput {
            instruction: "put cup_5 and bowl_2 on table_1",
            snapshot: &scene,
            vocabulary: &[],
        })
        .unwrap();
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
    assert!(matches!(turn, Turn::Propose(_)), "{turn:?}");
    assert_eq!(program.plan.len(), 5);
}
