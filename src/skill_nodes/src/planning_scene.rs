//! The planning scene of MoveIt's move_group: asked for, compared with what is wanted, and changed.

use std::collections::BTreeMap;
use std::time::Duration;

use eh_ros_edge::convert::command::raw_pose_msg;
use eh_ros_edge::within;
use eh_skills::planning_scene::{
    difference, ContactMatrix, SceneBox, SceneDifference, SceneKnown, SceneWanted,
};
use rclrs::{Client, Node, Promise, RclrsError};
use ros_env::geometry_msgs::msg::Pose;
use ros_env::moveit_msgs::msg::{
    AllowedCollisionEntry, AttachedCollisionObject, CollisionObject, PlanningScene,
    PlanningSceneComponents,
};
use ros_env::moveit_msgs::srv::{
    ApplyPlanningScene, ApplyPlanningScene_Request, ApplyPlanningScene_Response, GetPlanningScene,
    GetPlanningScene_Request, GetPlanningScene_Response,
};
use ros_env::shape_msgs::msg::SolidPrimitive;

use crate::parameters::Parameters;

/// What has to be known before something is changed.
const COMPONENTS: u32 = PlanningSceneComponents::ROBOT_STATE_ATTACHED_OBJECTS
    | PlanningSceneComponents::WORLD_OBJECT_NAMES
    | PlanningSceneComponents::ALLOWED_COLLISION_MATRIX;

/// Most names of a matrix that is taken over.
const MAX_NAMES: usize = 2048;

pub(crate) struct PlanningSceneClient {
    get: Client<GetPlanningScene>,
    apply: Client<ApplyPlanningScene>,
    get_name: String,
    apply_name: String,
    limit: Duration,
}

impl PlanningSceneClient {
    pub(crate) fn new(node: &Node, parameters: &Parameters) -> Result<Self, RclrsError> {
        Ok(PlanningSceneClient {
            get: node.create_client(parameters.get_planning_scene_service.as_str())?,
            apply: node.create_client(parameters.apply_planning_scene_service.as_str())?,
            get_name: parameters.get_planning_scene_service.clone(),
            apply_name: parameters.apply_planning_scene_service.clone(),
            limit: parameters.planning_scene_timeout,
        })
    }

    /// Whether both services are there.
    pub(crate) fn is_there(&self) -> bool {
        self.get.service_is_ready().unwrap_or(false)
            && self.apply.service_is_ready().unwrap_or(false)
    }

    /// Makes of ours in the scene what is wanted; does nothing where it is so already.
    ///
    /// # Errors
    /// A sentence.
    pub(crate) async fn make(&self, wanted: &SceneWanted) -> Result<(), String> {
        let known = self.known().await?;
        let change = difference(&known, wanted);
        if change.is_empty() {
            return Ok(());
        }
        let request = ApplyPlanningScene_Request {
            scene: message(&change),
        };
        let name = &self.apply_name;
        let answer: Promise<ApplyPlanningScene_Response> = self
            .apply
            .call(request)
            .map_err(|e| format!("{name} can't be called: {e}"))?;
        match within(self.limit, answer).await {
            Ok(Ok(response)) if response.success => Ok(()),
            Ok(Ok(_)) => Err(format!("{name} did not do all that was asked")),
            Ok(Err(_)) => Err("the node is shutting down".into()),
            Err(missed) => Err(format!("{name}: {missed}")),
        }
    }

    async fn known(&self) -> Result<SceneKnown, String> {
        let name = &self.get_name;
        let request = GetPlanningScene_Request {
            components: PlanningSceneComponents {
                components: COMPONENTS,
            },
        };
        let answer: Promise<GetPlanningScene_Response> = self
            .get
            .call(request)
            .map_err(|e| format!("{name} can't be called: {e}"))?;
        match within(self.limit, answer).await {
            Ok(Ok(response)) => known(&response.scene).map_err(|e| format!("{name}: {e}")),
            Ok(Err(_)) => Err("the node is shutting down".into()),
            Err(missed) => Err(format!("{name}: {missed}")),
        }
    }
}

fn known(scene: &PlanningScene) -> Result<SceneKnown, String> {
    let matrix = &scene.allowed_collision_matrix;
    if matrix.entry_names.len() > MAX_NAMES {
        return Err(format!(
            "its allowed collision matrix has {} names, at most {MAX_NAMES} are taken",
            matrix.entry_names.len()
        ));
    }
    let matrix = ContactMatrix {
        names: matrix.entry_names.clone(),
        rows: matrix
            .entry_values
            .iter()
            .map(|row| row.enabled.clone())
            .collect(),
        defaults: matrix
            .default_entry_names
            .iter()
            .cloned()
            .zip(matrix.default_entry_values.iter().copied())
            .collect::<BTreeMap<_, _>>(),
    };
    if !matrix.is_sound() {
        return Err(
            "the rows of its allowed collision matrix do not fit its names; restart move_group"
                .into(),
        );
    }
    Ok(SceneKnown {
        world: scene
            .world
            .collision_objects
            .iter()
            .map(|o| o.id.clone())
            .collect(),
        attached: scene
            .robot_state
            .attached_collision_objects
            .iter()
            .map(|a| (a.object.id.clone(), a.link_name.clone()))
            .collect(),
        matrix,
    })
}

fn message(change: &SceneDifference) -> PlanningScene {
    let mut scene = PlanningScene {
        is_diff: true,
        ..PlanningScene::default()
    };
    scene.robot_state.is_diff = true;
    scene.robot_state.attached_collision_objects = change
        .detach
        .iter()
        .map(|(id, link)| AttachedCollisionObject {
            link_name: link.clone(),
            object: CollisionObject {
                id: id.clone(),
                operation: CollisionObject::REMOVE,
                ..CollisionObject::default()
            },
            ..AttachedCollisionObject::default()
        })
        .chain(change.attach.iter().map(|attach| AttachedCollisionObject {
            link_name: attach.object.frame_id.clone(),
            object: object(&attach.object),
            touch_links: attach.touch_links.clone(),
            ..AttachedCollisionObject::default()
        }))
        .collect();
    scene.world.collision_objects = change
        .remove
        .iter()
        .map(|id| CollisionObject {
            id: id.clone(),
            operation: CollisionObject::REMOVE,
            ..CollisionObject::default()
        })
        .chain(change.add.iter().map(object))
        .collect();
    if let Some(matrix) = &change.matrix {
        let to = &mut scene.allowed_collision_matrix;
        to.entry_names.clone_from(&matrix.names);
        to.entry_values = matrix
            .rows
            .iter()
            .map(|row| AllowedCollisionEntry {
                enabled: row.clone(),
            })
            .collect();
        to.default_entry_names = matrix.defaults.keys().cloned().collect();
        to.default_entry_values = matrix.defaults.values().copied().collect();
    }
    scene
}

fn object(a_box: &SceneBox) -> CollisionObject {
    let size = a_box.size;
    let mut message = CollisionObject {
        id: a_box.id.clone(),
        pose: raw_pose_msg(&a_box.pose),
        primitives: vec![SolidPrimitive {
            type_: SolidPrimitive::BOX,
            // Three, as many as a primitive may have.
            dimensions: vec![size.x, size.y, size.z].try_into().unwrap_or_default(),
            ..SolidPrimitive::default()
        }],
        primitive_poses: vec![Pose::default()],
        operation: CollisionObject::ADD,
        ..CollisionObject::default()
    };
    message.header.frame_id.clone_from(&a_box.frame_id);
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use eh_contract::geometry::Vec3;
    use eh_skills::planning_scene::AttachedBox;

    fn cup() -> SceneBox {
        SceneBox {
            id: "harness/cup_1".into(),
            frame_id: "base_link".into(),
            pose: eh_contract::geometry::Pose::planar(0.5, 0.0, 0.0),
            size: Vec3::new(0.08, 0.08, 0.1),
        }
    }

    #[test]
    fn a_difference_is_one_for_move_group_too() {
        let wanted = SceneWanted {
            world: vec![cup()],
            attached: Some(AttachedBox {
                object: SceneBox {
                    id: "harness/bowl_1".into(),
                    frame_id: "gripper_tcp".into(),
                    ..cup()
                },
                touch_links: vec!["gripper_tcp".into()],
            }),
            contacts: vec![["gripper_tcp".into(), "harness/cup_1".into()]],
        };
        let mut there = SceneKnown::default();
        there.attached.insert("harness/old".into(), "hand".into());
        let scene = message(&difference(&there, &wanted));
        // Without these two move_group takes it for the whole scene.
        assert!(scene.is_diff && scene.robot_state.is_diff);
        let attached = &scene.robot_state.attached_collision_objects;
        assert_eq!(
            (attached[0].object.operation, attached[0].link_name.as_str()),
            (CollisionObject::REMOVE, "hand")
        );
        assert_eq!(attached[1].link_name, "gripper_tcp");
        assert_eq!(attached[1].object.header.frame_id, "gripper_tcp");
        let world = &scene.world.collision_objects;
        assert_eq!(
            (world[0].operation, world[0].id.as_str()),
            (CollisionObject::REMOVE, "harness/old")
        );
        assert_eq!(world[1].primitives[0].dimensions.len(), 3);
        let matrix = &scene.allowed_collision_matrix;
        assert_eq!(matrix.entry_names.len(), matrix.entry_values.len());
        // What move_group then tells is what was wanted.
        let mut told = scene.clone();
        told.robot_state.attached_collision_objects.remove(0);
        told.world.collision_objects.remove(0);
        let again = difference(&known(&told).unwrap(), &wanted);
        assert!(again.detach.is_empty() && again.attach.is_none() && again.matrix.is_none());
        assert_eq!(again.remove, Vec::<String>::new());
    }

    #[test]
    fn a_matrix_that_does_not_fit_is_not_taken_over() {
        let mut scene = PlanningScene::default();
        scene.allowed_collision_matrix.entry_names = vec!["a".into()];
        assert!(known(&scene).unwrap_err().contains("rows"));
        scene.allowed_collision_matrix.entry_names = vec!["a".into(); 3000];
        assert!(known(&scene).unwrap_err().contains("3000"));
    }
}
