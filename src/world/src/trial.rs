//! Runs in which the judge is tried: sensors err and the robot fails as a file of conditions says.

use std::time::Duration;

use eh_sim::{FaultKind, FaultSpec, Occasion};
use rand::{Rng, RngCore};
use serde::Deserialize;

use crate::network::Cut;
use crate::process_id::ProcessId;
use crate::random::{chance, one_of, stream, Purpose};
use crate::scenario::{errand, Scenario};

/// What the sensors err and how often something goes wrong; see `data/evaluator_noise.yaml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialConditions {
    /// As a world file's section `noise`.
    pub sensors: serde_json::Value,
    /// Share of messages of the sensors that are lost.
    pub stream_loss: f64,
    /// Probabilities for each task.
    pub events: Events,
    /// How long what lasts lasts \[s\].
    pub lasts: Lasts,
}

/// Probabilities for each task.
#[allow(missing_docs)] // the file says what each is
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Events {
    pub grasp_slip: f64,
    pub heavy_object: f64,
    pub object_moved: f64,
    pub moved_to_floor: f64,
    pub gripper_stuck: f64,
    pub arm_abort: f64,
    pub nav_abort: f64,
    pub nav_stuck: f64,
    pub detections_silent: f64,
    pub judge_is_blind: f64,
    pub occluder: f64,
    pub twin: f64,
}

/// Shortest and longest times \[s\].
#[allow(missing_docs)] // the file says what each is
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lasts {
    pub gripper_stuck: [f64; 2],
    pub nav_stuck: [f64; 2],
    pub detections_silent: [f64; 2],
    pub judge_is_blind: [f64; 2],
}

impl TrialConditions {
    /// Reads a file of conditions.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_yaml(text: &str) -> Result<Self, String> {
        let this: TrialConditions = serde_yaml_ng::from_str(text).map_err(|e| e.to_string())?;
        let e = &this.events;
        for (name, p) in [
            ("stream_loss", this.stream_loss),
            ("grasp_slip", e.grasp_slip),
            ("heavy_object", e.heavy_object),
            ("object_moved", e.object_moved),
            ("moved_to_floor", e.moved_to_floor),
            ("gripper_stuck", e.gripper_stuck),
            ("arm_abort", e.arm_abort),
            ("nav_abort", e.nav_abort),
            ("nav_stuck", e.nav_stuck),
            ("detections_silent", e.detections_silent),
            ("judge_is_blind", e.judge_is_blind),
            ("occluder", e.occluder),
            ("twin", e.twin),
        ] {
            if !(0.0..=1.0).contains(&p) {
                return Err(format!("{name} is {p}; it must lie in 0 to 1"));
            }
        }
        let l = &this.lasts;
        for (name, [low, high]) in [
            ("gripper_stuck", l.gripper_stuck),
            ("nav_stuck", l.nav_stuck),
            ("detections_silent", l.detections_silent),
            ("judge_is_blind", l.judge_is_blind),
        ] {
            if !(low >= 0.0 && low < high && high <= 600.0) {
                return Err(format!(
                    "{name} lasts {low} to {high} s; give two growing times of at most 600 s"
                ));
            }
        }
        Ok(this)
    }
}

const FURNITURE: [(&str, &str, f64); 3] = [
    ("table", "table", 0.74),
    ("desk", "desk", 0.70),
    ("cabinet", "cabinet", 0.8),
];

/// The run of a seed.
pub fn trial(seed: u64, conditions: &TrialConditions) -> Scenario {
    let mut scenario = Scenario::calm(seed);
    let rng = &mut stream(seed, Purpose::Scenario);
    let events = &conditions.events;
    let west = rng.random_range(0..FURNITURE.len());
    let east = (west + rng.random_range(1..FURNITURE.len())) % FURNITURE.len();
    // Below the length: both were drawn so.
    let ((_, west_name, west_height), (_, east_name, east_height)) =
        (FURNITURE[west], FURNITURE[east]);
    let cup = [rng.random_range(0.50..0.62), rng.random_range(1.45..2.15)];
    let heavy = chance(rng, events.heavy_object);
    let mut objects = vec![object(
        "cup_a",
        "cup",
        "red",
        cup,
        [0.075, 0.075, 0.1],
        if heavy { 3.0 } else { 0.25 },
    )];
    let twin = chance(rng, events.twin);
    if twin {
        let at = beside(rng, &[cup], 0.12, 0.35);
        objects.push(object(
            "cup_b",
            "cup",
            "blue",
            at,
            [0.075, 0.075, 0.1],
            0.25,
        ));
    }
    let apple = [0.58, 1.2];
    objects.push(object(
        "apple_a",
        "apple",
        "green",
        apple,
        [0.07, 0.07, 0.07],
        0.18,
    ));
    if chance(rng, events.occluder) {
        let at = [
            (cup[0] + rng.random_range(-0.02..0.12)).min(0.68),
            cup[1] + if chance(rng, 0.5) { 1.0 } else { -1.0 } * rng.random_range(0.12..0.2),
        ];
        objects.push(object("box_a", "box", "brown", at, [0.1, 0.1, 0.3], 0.5));
    }
    let (x, y) = (rng.random_range(2.0..2.5), rng.random_range(1.5..2.1));
    let facing = rng.random_range(2.8..3.4);
    scenario.yaml = format!(
        "name: hall\n\
         rooms:\n  - {{id: hall, names: {{en: [hall]}}, rect: [0.0, 0.0, 4.4, 3.6]}}\n\
         walls:\n  - {{from: [0.0, 0.0], to: [4.4, 0.0]}}\n  - {{from: [4.4, 0.0], to: [4.4, 3.6]}}\n\
         \x20 - {{from: [4.4, 3.6], to: [0.0, 3.6]}}\n  - {{from: [0.0, 3.6], to: [0.0, 0.0]}}\n\
         furniture:\n\
         \x20 - {{id: west, class: {west_name}, names: {{en: [{west_name}]}}, center: [0.45, 1.8], size: [0.6, 1.4, {west_height}], surface: true}}\n\
         \x20 - {{id: east, class: {east_name}, names: {{en: [{east_name}]}}, center: [3.95, 1.8], size: [0.6, 1.4, {east_height}], surface: true}}\n\
         objects:\n{}\
         noise: {}\n\
         robot:\n  start: [{x:.3}, {y:.3}, {facing:.3}]\n  scan_beams: 90\n",
        objects.concat(),
        conditions.sensors,
    );
    let name = if twin { "red cup" } else { "cup" };
    let first = [
        format!("put the {name} on the {east_name}"),
        format!("put the {name} on the {east_name}"),
        format!("put the {name} on the {east_name}"),
        format!("bring the {name}"),
        format!("pick up the {name}"),
    ];
    let second = [
        format!("put the {name} on the {west_name}"),
        format!("put the {name} on the {west_name}"),
        format!("put the apple on the {east_name}"),
        format!("go to the {west_name}, then go to the {east_name}"),
        "open the gripper".to_owned(),
    ];
    scenario.errands.clear();
    for (n, choice) in [&first, &second].into_iter().enumerate() {
        let instruction = one_of(rng, choice).unwrap_or_default();
        let at = Duration::from_secs(2);
        scenario
            .errands
            .push(errand(&format!("task-{}", n + 1), &instruction, at));
        faults(rng, conditions, n, &mut scenario);
    }
    scenario.conditions.stream_loss = conditions.stream_loss;
    scenario.calm_from = Duration::from_secs(200);
    scenario.limit = Duration::from_secs(400);
    scenario.watch_verdicts = true;
    scenario
}

fn object(id: &str, class: &str, color: &str, at: [f64; 2], size: [f64; 3], mass: f64) -> String {
    let ([x, y], [sx, sy, sz]) = (at, size);
    // Cups and apples are round: from every side the fingers are as far apart.
    let grip = match class {
        "box" => String::new(),
        _ => format!(", grasp_width: {:.3}", sx - 0.005),
    };
    format!(
        "  - {{id: {id}, class: {class}, attributes: {{color: {color}}}, names: {{en: [{class}]}}, position: [{x:.3}, {y:.3}], on: west, size: [{sx}, {sy}, {sz}], mass: {mass}{grip}}}\n"
    )
}

/// A place beside another, on the western piece.
fn beside(rng: &mut dyn RngCore, of: &[[f64; 2]], least: f64, most: f64) -> [f64; 2] {
    let [x, y] = of.first().copied().unwrap_or([0.55, 1.8]);
    let side = if chance(rng, 0.5) { 1.0 } else { -1.0 };
    let off = side * rng.random_range(least..most);
    let y = if (1.2..2.4).contains(&(y + off)) {
        y + off
    } else {
        y - off
    };
    [(x + rng.random_range(-0.05..0.05)).clamp(0.45, 0.65), y]
}

/// What goes wrong in one task.
fn faults(rng: &mut dyn RngCore, c: &TrialConditions, task: usize, scenario: &mut Scenario) {
    let e = &c.events;
    // The second task follows the first; what waits for a time is spread over both.
    let time = |rng: &mut dyn RngCore| rng.random_range(3.0..45.0) + 40.0 * task as f64;
    let span = |rng: &mut dyn RngCore, [low, high]: [f64; 2]| rng.random_range(low..high);
    if chance(rng, e.grasp_slip) {
        let mut spec = FaultSpec::new(FaultKind::GraspSlip);
        spec.nth = rng.random_range(1..=2);
        spec.count = rng.random_range(1..=3);
        scenario.faults.push(spec);
    }
    if chance(rng, e.object_moved) {
        let occasions = [
            Occasion::NavGoal,
            Occasion::ArmGoal,
            Occasion::GripperGoal,
            Occasion::Grasp,
            Occasion::Lift,
        ];
        let mut spec = FaultSpec::new(FaultKind::ObjectMoved);
        spec.on = one_of(rng, &occasions);
        // A pick has about six motions of the arm, a place four; the fingers move three times.
        spec.nth = match spec.on {
            Some(Occasion::ArmGoal) => rng.random_range(1..=14),
            Some(Occasion::GripperGoal) => rng.random_range(1..=5),
            Some(Occasion::NavGoal) => rng.random_range(1..=4),
            _ => rng.random_range(1..=2),
        };
        spec.params.object = Some("cup_a".to_owned());
        if chance(rng, e.moved_to_floor) {
            spec.params.position = Some([rng.random_range(1.0..1.4), rng.random_range(0.8..2.8)]);
        } else {
            let (on, x) = if chance(rng, 0.7) {
                ("west", 0.55)
            } else {
                ("east", 3.85)
            };
            spec.params.on = Some(on.to_owned());
            spec.params.position = Some([x, rng.random_range(1.4..2.3)]);
        }
        scenario.faults.push(spec);
    }
    for (p, kind, most) in [
        (e.arm_abort, FaultKind::ArmAbort, 3),
        (e.nav_abort, FaultKind::NavAbort, 2),
    ] {
        if chance(rng, p) {
            let mut spec = FaultSpec::new(kind);
            spec.nth = rng.random_range(1..=if kind == FaultKind::ArmAbort { 14 } else { 6 });
            spec.count = rng.random_range(1..=most);
            spec.params.after_s = Some(rng.random_range(0.1..3.0));
            scenario.faults.push(spec);
        }
    }
    for (p, kind, lasts) in [
        (
            e.gripper_stuck,
            FaultKind::GripperStuck,
            c.lasts.gripper_stuck,
        ),
        (e.nav_stuck, FaultKind::NavStuck, c.lasts.nav_stuck),
        (
            e.detections_silent,
            FaultKind::DetectionsSilent,
            c.lasts.detections_silent,
        ),
    ] {
        if chance(rng, p) {
            let mut spec = FaultSpec::new(kind);
            spec.at = Some(time(rng));
            spec.params.duration_s = Some(span(rng, lasts));
            scenario.faults.push(spec);
        }
    }
    if chance(rng, e.judge_is_blind) {
        let from = time(rng);
        let until = from + span(rng, c.lasts.judge_is_blind);
        scenario.cuts.push(Cut {
            a: ProcessId::Evaluator,
            b: ProcessId::Robot,
            from: Duration::from_secs_f64(from),
            until: Duration::from_secs_f64(until),
            loses: true,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_trial_is_a_world_and_bad_conditions_are_refused() {
        let text = include_str!("../data/evaluator_noise.yaml");
        let conditions = TrialConditions::from_yaml(text).unwrap();
        for seed in 0..100 {
            let scenario = trial(seed, &conditions);
            let mut robot = eh_sim::Robot::from_yaml(&scenario.yaml, Some(seed)).unwrap();
            for fault in scenario.faults {
                robot.inject(fault).unwrap();
            }
        }
        let err = TrialConditions::from_yaml(&text.replace("twin: 0.40", "twin: 1.40"));
        assert!(err.unwrap_err().contains("1.4"));
    }
}
