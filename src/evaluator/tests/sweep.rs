//! What happened, what the sensors say, and what the verdict must be.

mod common;

use common::{check, cup_binding, descriptor, Fixture, CUP, END, START};
use eh_contract::geometry::Vec3;
use eh_contract::run_event::RunEventKind;
use eh_contract::skill::SkillDescriptor;
use eh_contract::verdict::{Outcome, Truth};
use proptest::prelude::*;
use serde_json::{json, Value};

fn pick() -> SkillDescriptor {
    descriptor(
        "pick",
        json!({"all": [{"holding": {"object": "$object"}},
                       {"lifted": {"object": "$object", "min_height": 0.05}}]}),
    )
}

fn place() -> SkillDescriptor {
    descriptor(
        "place",
        json!({"all": [{"on": {"object": "$object", "support": "$support"}},
                       {"not": {"holding": {"object": "$object"}}}]}),
    )
}

fn pick_arguments() -> Value {
    json!({"object": "cup_1"})
}

/// Where the tool holds the cup after the lift: 0.15 m higher and 0.4 m back.
const LIFTED: Vec3 = Vec3::new(1.6, 2.0, 1.0);

/// A pick up to its end: the cup is seen, the fingers close at 105 s on `width`.
fn picked(width: f64, effort: f64) -> Fixture {
    let mut f = Fixture::new();
    for i in 0..5 {
        f.frame(START - 1.0 + 0.2 * f64::from(i), &[CUP]);
    }
    f.gripper(START - 0.1, 0.1, 0.0);
    f.tool(START - 0.1, Vec3::new(1.2, 2.0, 1.0));
    f.start("pick", pick_arguments(), vec![cup_binding()]);
    f.tool(104.0, CUP);
    f.gripper(104.0, 0.1, 0.0);
    f.gripper(104.9, width, effort);
    f.gripper(105.0, width, effort);
    f.tool(105.0, CUP);
    f.tool(END - 0.1, LIFTED);
    f.end("pick", pick_arguments(), vec![cup_binding()]);
    f
}

/// What is observed after the end.
fn after(f: &mut Fixture, width: f64, effort: f64, cups: &[&[Vec3]]) {
    f.gripper(END + 0.1, width, effort);
    f.tool(END + 0.1, LIFTED);
    for (i, cups) in cups.iter().enumerate() {
        f.frame(END + 0.2 + 0.2 * i as f64, cups);
    }
}

#[test]
fn a_pick_that_worked() {
    let mut f = picked(0.07, 20.0);
    after(&mut f, 0.07, 20.0, &[&[], &[], &[]]);
    let v = f.judge(&pick()).unwrap();
    check(
        &v,
        Outcome::Success,
        &["0.070 m", "no longer at its old place"],
    );
    // The tool was at 0.85 m when the fingers closed and is at 1.0 m now: 0.15 - 0.05.
    assert!((v.predicates[1].margin - 0.10).abs() < 1e-9, "{v:#?}");
    assert_eq!(v.judge, "predicates");
}

#[test]
fn a_pick_that_worked_and_is_seen_in_the_hand() {
    let mut f = picked(0.07, 20.0);
    let held = Vec3::new(1.6, 2.02, 1.0);
    after(&mut f, 0.07, 20.0, &[&[held], &[held], &[held]]);
    check(
        &f.judge(&pick()).unwrap(),
        Outcome::Success,
        &["0.15 m higher"],
    );
}

#[test]
fn a_slip_shows_in_the_fingers() {
    // The grasp stalled at 0.07 m; on the way up the cup fell back and the fingers closed.
    let mut f = picked(0.07, 20.0);
    after(&mut f, 0.001, 5.0, &[&[CUP], &[CUP], &[CUP]]);
    check(
        &f.judge(&pick()).unwrap(),
        Outcome::Failure,
        &["nothing between the fingers", "0.001 m"],
    );
}

#[test]
fn a_slip_to_the_floor_out_of_view() {
    let mut f = picked(0.07, 20.0);
    after(&mut f, 0.0, 5.0, &[&[], &[], &[]]);
    check(
        &f.judge(&pick()).unwrap(),
        Outcome::Failure,
        &["nothing between"],
    );
}

#[test]
fn fingers_without_force_hold_nothing() {
    let mut f = picked(0.07, 20.0);
    after(&mut f, 0.05, 0.0, &[&[], &[], &[]]);
    check(
        &f.judge(&pick()).unwrap(),
        Outcome::Failure,
        &["0.0 N only"],
    );
}

#[test]
fn something_else_was_gripped() {
    // The fingers hold something, but the cup stands where it stood.
    let mut f = picked(0.03, 20.0);
    after(&mut f, 0.03, 20.0, &[&[CUP], &[CUP], &[CUP]]);
    check(
        &f.judge(&pick()).unwrap(),
        Outcome::Failure,
        &["seen at its old place"],
    );
}

#[test]
fn one_sight_among_several_looks_contradicts() {
    let mut f = picked(0.07, 20.0);
    after(&mut f, 0.07, 20.0, &[&[], &[CUP], &[]]);
    check(
        &f.judge(&pick()).unwrap(),
        Outcome::Unknown,
        &["contradicting"],
    );
}

#[test]
fn the_other_cup_is_not_taken_for_the_one_that_was_picked() {
    // A second cup stands 0.1 m beside; it is still there after the first was picked.
    let other = Vec3::new(2.0, 2.1, 0.85);
    let mut f = Fixture::new();
    for i in 0..5 {
        f.frame(START - 1.0 + 0.2 * f64::from(i), &[CUP, other]);
    }
    f.start("pick", pick_arguments(), vec![cup_binding()]);
    f.gripper(104.0, 0.1, 0.0);
    f.gripper(104.9, 0.07, 20.0);
    f.tool(105.0, CUP);
    f.end("pick", pick_arguments(), vec![cup_binding()]);
    after(&mut f, 0.07, 20.0, &[&[other], &[other], &[other]]);
    let v = f.judge(&pick()).unwrap();
    check(&v, Outcome::Success, &[]);
}

#[test]
fn a_pick_without_lift() {
    let mut f = picked(0.07, 20.0);
    f.gripper(END + 0.1, 0.07, 20.0);
    f.tool(END + 0.1, Vec3::new(2.0, 2.0, 0.86));
    for i in 0..3 {
        f.frame(END + 0.2 + 0.2 * f64::from(i), &[Vec3::new(2.0, 2.0, 0.86)]);
    }
    let v = f.judge(&pick()).unwrap();
    assert_eq!(v.outcome, Outcome::Failure, "{v:#?}");
    assert_eq!(v.predicates[1].truth, Truth::False, "{v:#?}");
}

#[test]
fn a_lift_whose_grasp_was_not_observed_is_only_claimed_when_certain() {
    // The fingers were never seen closing. Gripped at its top, 0.9 m, it rose by 0.10 m at least.
    let lift = |height: f64| {
        let mut f = Fixture::new();
        for i in 0..5 {
            f.frame(START - 1.0 + 0.2 * f64::from(i), &[CUP]);
        }
        f.start("pick", pick_arguments(), vec![cup_binding()]);
        f.end("pick", pick_arguments(), vec![cup_binding()]);
        f.gripper(END + 0.1, 0.07, 20.0);
        f.tool(END + 0.1, Vec3::new(1.6, 2.0, height));
        for i in 0..3 {
            f.frame(END + 0.2 + 0.2 * f64::from(i), &[]);
        }
        f.judge(&pick()).unwrap()
    };
    check(&lift(1.0), Outcome::Success, &["rose by 0.10 m"]);
    check(&lift(0.92), Outcome::Unknown, &["0.02 to 0.12 m"]);
    check(&lift(0.84), Outcome::Failure, &["rose by 0.04 m"]);
}

#[test]
fn a_blind_gripper_is_not_success() {
    let mut f = picked(0.07, 20.0);
    f.tool(END + 0.1, LIFTED);
    for i in 0..3 {
        f.frame(END + 0.2 + 0.2 * f64::from(i), &[]);
    }
    let v = f.judge(&pick()).unwrap();
    check(
        &v,
        Outcome::Unknown,
        &["state of the gripper", "before the run's end"],
    );
}

#[test]
fn an_occluded_old_place_leaves_it_to_the_fingers() {
    let mut f = picked(0.07, 20.0);
    f.gripper(END + 0.1, 0.07, 20.0);
    f.tool(END + 0.1, LIFTED);
    f.frame_with(END + 0.2, None, &[]);
    check(
        &f.judge(&pick()).unwrap(),
        Outcome::Success,
        &["not in view"],
    );
}

#[test]
fn stale_evidence_does_not_count() {
    let mut f = picked(0.07, 20.0);
    after(&mut f, 0.07, 20.0, &[&[], &[], &[]]);
    f.now = END + 12.0;
    check(
        &f.judge(&pick()).unwrap(),
        Outcome::Unknown,
        &["the limit is 10.0 s"],
    );
}

#[test]
fn evidence_from_before_the_end_does_not_count() {
    let f = picked(0.07, 20.0);
    let v = f.judge(&pick()).unwrap();
    check(&v, Outcome::Unknown, &["before the run's end"]);
    assert!(v.evidence.is_empty());
}

#[test]
fn an_evaluator_that_came_late_has_no_baseline_and_says_so() {
    let mut f = Fixture::new();
    let arguments = pick_arguments();
    f.event(
        RunEventKind::Start,
        START,
        "pick",
        &arguments,
        vec![cup_binding()],
        START + 8.0,
    );
    f.end("pick", pick_arguments(), vec![cup_binding()]);
    after(&mut f, 0.07, 20.0, &[&[], &[], &[]]);
    check(
        &f.judge(&pick()).unwrap(),
        Outcome::Unknown,
        &["8.0 s late"],
    );
    // What the fingers tell needs no baseline: an empty hand is a failure all the same.
    f.gripper(END + 0.9, 0.0, 5.0);
    assert_eq!(f.judge(&pick()).unwrap().outcome, Outcome::Failure);
}

/// A place up to its end: the fingers open at 105 s over `release`.
fn placed(release: Vec3, before: &[Vec3]) -> Fixture {
    let mut f = Fixture::new();
    for i in 0..5 {
        f.frame(START - 1.0 + 0.2 * f64::from(i), before);
    }
    f.gripper(START - 0.1, 0.07, 20.0);
    let mut binding = cup_binding();
    binding.pose.position = LIFTED;
    let arguments = json!({"object": "cup_1", "support": "table_1"});
    f.start("place", arguments.clone(), vec![binding.clone()]);
    f.tool(104.9, release);
    f.gripper(104.9, 0.07, 20.0);
    f.gripper(105.0, 0.08, 0.0);
    f.gripper(105.3, 0.1, 0.0);
    f.end("place", arguments, vec![binding]);
    f.gripper(END + 0.1, 0.1, 0.0);
    f
}

#[test]
fn a_place_that_worked() {
    let mut f = placed(CUP, &[]);
    for i in 0..3 {
        f.frame(END + 0.2 + 0.2 * f64::from(i), &[CUP]);
    }
    check(
        &f.judge(&place()).unwrap(),
        Outcome::Success,
        &["stands on table_1"],
    );
}

#[test]
fn a_cup_that_fell_from_the_table() {
    let mut f = placed(Vec3::new(1.55, 2.0, 0.85), &[]);
    let floor = Vec3::new(1.3, 2.0, 0.05);
    for i in 0..3 {
        f.frame(END + 0.2 + 0.2 * f64::from(i), &[floor]);
    }
    check(
        &f.judge(&place()).unwrap(),
        Outcome::Failure,
        &["not on table_1", "beside"],
    );
}

#[test]
fn a_cup_that_is_not_there_though_it_was_looked_for() {
    let mut f = placed(CUP, &[]);
    for i in 0..3 {
        f.frame(END + 0.2 + 0.2 * f64::from(i), &[]);
    }
    check(
        &f.judge(&place()).unwrap(),
        Outcome::Failure,
        &["not seen there"],
    );
}

#[test]
fn another_cup_on_the_table_is_no_success() {
    // One stood there before, 0.3 m off; the placed one is not seen.
    let other = Vec3::new(2.0, 2.3, 0.85);
    let mut f = placed(CUP, &[other]);
    for i in 0..3 {
        f.frame(END + 0.2 + 0.2 * f64::from(i), &[other]);
    }
    check(
        &f.judge(&place()).unwrap(),
        Outcome::Failure,
        &["not seen there"],
    );
}

#[test]
fn a_place_out_of_view_is_unknown() {
    let mut f = placed(CUP, &[]);
    for i in 0..3 {
        f.frame_with(END + 0.2 + 0.2 * f64::from(i), None, &[]);
    }
    check(&f.judge(&place()).unwrap(), Outcome::Unknown, &["not seen"]);
}

#[test]
fn a_cup_still_in_the_hand_was_not_placed() {
    let mut f = placed(CUP, &[]);
    f.gripper(END + 0.3, 0.07, 20.0);
    f.tool(END + 0.3, LIFTED);
    for i in 0..3 {
        f.frame(END + 0.4 + 0.2 * f64::from(i), &[LIFTED]);
    }
    check(&f.judge(&place()).unwrap(), Outcome::Failure, &[]);
}

proptest! {
    /// Without one fresh sample of the fingers a pick is never a success, whatever else is seen; and the
    /// judge never panics.
    #[test]
    fn no_success_without_the_fingers(
        cups in proptest::collection::vec(
            proptest::collection::vec((0.0f64..4.0, 0.0f64..4.0, 0.0f64..1.5), 0..4), 0..6),
        height in 0.0f64..2.0,
    ) {
        let mut f = picked(0.07, 20.0);
        f.tool(END + 0.05, Vec3::new(1.6, 2.0, height));
        for (i, cups) in cups.iter().enumerate() {
            let cups: Vec<Vec3> = cups.iter().map(|(x, y, z)| Vec3::new(*x, *y, *z)).collect();
            f.frame(END + 0.1 + 0.1 * i as f64, &cups);
        }
        let v = f.judge(&pick()).unwrap();
        prop_assert!(v.outcome != Outcome::Success, "{:?}", v);
    }

    /// An empty hand is never a success.
    #[test]
    fn no_success_with_an_empty_hand(width in 0.0f64..0.004, effort in 0.0f64..40.0, seen in any::<bool>()) {
        let mut f = picked(0.07, 20.0);
        let held: &[Vec3] = if seen { &[LIFTED] } else { &[] };
        after(&mut f, width, effort, &[held, held, held]);
        prop_assert_eq!(f.judge(&pick()).unwrap().outcome, Outcome::Failure);
    }
}
