//! From names in arguments to places and boxes: what adapters and the evaluator act on.

use eh_contract::command::{Support, TargetBinding};
use eh_contract::condition::ROBOT;
use eh_contract::geometry::{Pose, Vec3};
use eh_contract::scene::{Kind, RelationKind, SceneObject, SceneSnapshot, Source};
use eh_contract::Stamp;

/// Ref of the place where a task was given.
pub const START: &str = "start";

/// The place where the robot stands now, as a scene object of kind place; `None` when the scene does not
/// know where the robot is, or says something that is no pose.
pub fn start_place(scene: &SceneSnapshot, now: Stamp) -> Option<SceneObject> {
    let robot = scene.get(ROBOT)?;
    robot.pose.check("robot").ok()?;
    if robot.frame_id.is_empty() {
        return None;
    }
    let at = robot.pose.position;
    Some(SceneObject {
        r#ref: START.into(),
        kind: Kind::Place,
        class_name: "place".into(),
        frame_id: robot.frame_id.clone(),
        pose: Pose::planar(at.x, at.y, robot.pose.yaw()),
        confidence: 1.0,
        first_seen: now,
        last_seen: now,
        source: Source::Perception,
        version: 1,
        ..SceneObject::default()
    })
}

/// The scene with the start place in it. A scene that has an object of that name keeps its own.
pub fn with_start(mut scene: SceneSnapshot, start: &SceneObject) -> SceneSnapshot {
    if scene.get(START).is_none() {
        let at = scene.objects.partition_point(|o| o.r#ref.as_str() < START);
        scene.objects.insert(at, start.clone());
    }
    scene
}

/// Resolves one argument.
pub fn bind_target(argument: &str, object: &SceneObject, scene: &SceneSnapshot) -> TargetBinding {
    TargetBinding {
        argument: argument.into(),
        r#ref: object.r#ref.clone(),
        class_name: object.class_name.clone(),
        kind: object.kind,
        version: object.version,
        frame_id: object.frame_id.clone(),
        pose: object.pose,
        size: object.size,
        last_seen: object.last_seen,
        support: support_of(object, scene),
    }
}

/// What an object stands on, else the container that it is in; a room is no support.
fn support_of(object: &SceneObject, scene: &SceneSnapshot) -> Option<Support> {
    let on = scene.objects_of(&object.r#ref, RelationKind::On);
    let inside = scene.objects_of(&object.r#ref, RelationKind::In);
    let support = on
        .chain(inside)
        .filter_map(|r| scene.get(r))
        .find(|o| matches!(o.kind, Kind::Surface | Kind::Container))?;
    // One frame for both, as the message promises.
    if support.frame_id != object.frame_id {
        return None;
    }
    Some(Support {
        r#ref: support.r#ref.clone(),
        pose: support.pose,
        size: support.size,
    })
}

/// The narrowest two horizontal edges of a box \[m\].
pub const fn horizontal(size: Vec3) -> (f64, f64) {
    (size.x, size.y)
}
