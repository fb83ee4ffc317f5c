//! The planning scene of the arm, as the executor asks for it and changes it.

use std::collections::BTreeSet;

use eh_sim::allowed_collisions::AllowedCollisions;
use eh_sim::collision_shape::CollisionShape;
use eh_sim::nalgebra::Isometry3;
use eh_sim::planning_scene::{AttachOperation, CollisionObject, SceneChange, WorldOperation};
use eh_sim::Robot;
use eh_skills::planning_scene::{ContactMatrix, SceneBox, SceneDifference, SceneKnown};

/// What the executor is told of it.
pub fn known(robot: &Robot) -> SceneKnown {
    let scene = robot.planning_scene();
    let allowed = scene.allowed();
    SceneKnown {
        world: scene.world().map(|o| o.id.clone()).collect(),
        attached: scene
            .attached()
            .map(|a| (a.object.id.clone(), a.link.clone()))
            .collect(),
        matrix: ContactMatrix {
            names: allowed.names().to_vec(),
            rows: allowed.rows().to_vec(),
            defaults: allowed.defaults().clone(),
        },
    }
}

fn solid(a_box: &SceneBox, pose: Isometry3<f64>) -> CollisionObject {
    let size = a_box.size;
    CollisionObject {
        id: a_box.id.clone(),
        pose,
        parts: vec![(
            CollisionShape::Box([size.x, size.y, size.z]),
            Isometry3::identity(),
        )],
    }
}

/// Changes it; whether all of it was possible.
pub fn apply(robot: &mut Robot, change: &SceneDifference) -> bool {
    let mut possible = true;
    let mut operations = SceneChange::default();
    for (id, link) in &change.detach {
        operations.attached.push(AttachOperation::Detach {
            id: id.clone(),
            link: link.clone(),
        });
    }
    if let Some(attach) = &change.attach {
        let link = attach.object.frame_id.clone();
        operations.attached.push(AttachOperation::Attach {
            id: attach.object.id.clone(),
            link,
            touch_links: attach.touch_links.iter().cloned().collect::<BTreeSet<_>>(),
            object: Some(solid(&attach.object, attach.object.pose.isometry())),
        });
    }
    for id in &change.remove {
        operations.world.push(WorldOperation::Remove(id.clone()));
    }
    for a_box in &change.add {
        match robot.in_planning_frame(&a_box.frame_id) {
            Some(frame) => operations.world.push(WorldOperation::Add(solid(
                a_box,
                frame * a_box.pose.isometry(),
            ))),
            None => possible = false,
        }
    }
    if let Some(matrix) = &change.matrix {
        let (names, rows, defaults) = (&matrix.names, &matrix.rows, &matrix.defaults);
        match AllowedCollisions::new(names.clone(), rows.clone(), defaults.clone()) {
            Ok(allowed) => operations.allowed = Some(allowed),
            Err(_) => possible = false,
        }
    }
    robot.apply_scene(&operations).is_ok() && possible
}
