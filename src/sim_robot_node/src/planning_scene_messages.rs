//! MoveIt's planning scene in messages and in the simulation's terms.

use std::collections::BTreeMap;

use eh_ros_edge::convert::pose_msg;
use eh_sim::allowed_collisions::AllowedCollisions;
use eh_sim::collision_shape::CollisionShape;
use eh_sim::nalgebra::Isometry3;
use eh_sim::planning_scene::{
    AttachOperation, AttachedObject, CollisionObject, SceneChange, WorldOperation, PLANNING_FRAME,
};
use eh_sim::{pose_from_parts, Robot};
use ros_env::geometry_msgs::msg::Pose as PoseMsg;
use ros_env::moveit_msgs::msg::{
    AllowedCollisionEntry, AllowedCollisionMatrix,
    AttachedCollisionObject as AttachedCollisionObjectMsg, CollisionObject as CollisionObjectMsg,
    PlanningScene as PlanningSceneMsg, PlanningSceneComponents, RobotState,
};
use ros_env::shape_msgs::msg::SolidPrimitive;

use crate::frame_names::FrameNames;
use crate::move_group::current_state;
use crate::simulation::Moment;

/// Name of the robot's model in scenes.
const MODEL: &str = "sim_robot";
/// Longest id of an object, characters.
const MAX_ID: usize = 128;

/// The reader of one message.
pub(crate) struct SceneReader<'a> {
    pub(crate) frames: &'a FrameNames,
    pub(crate) robot: &'a Robot,
}

impl SceneReader<'_> {
    /// The change that a scene tells of, and what of it can't be read.
    pub(crate) fn change(&self, scene: &PlanningSceneMsg) -> (SceneChange, Vec<String>) {
        let mut problems = Vec::new();
        let state = &scene.robot_state;
        let says_attached = !scene.is_diff || !state.attached_collision_objects.is_empty();
        let mut change = SceneChange {
            new_world: !scene.is_diff,
            new_attached: says_attached && !state.is_diff,
            ..SceneChange::default()
        };
        for object in &state.attached_collision_objects {
            match self.attached(object) {
                Ok(operation) => change.attached.push(operation),
                Err(problem) => problems.push(problem),
            }
        }
        for object in &scene.world.collision_objects {
            match self.world(object) {
                Ok(operation) => change.world.push(operation),
                Err(problem) => problems.push(problem),
            }
        }
        let matrix = &scene.allowed_collision_matrix;
        // As in MoveIt: a difference with a matrix without names leaves the matrix as it is.
        let says_matrix = !matrix.entry_names.is_empty() || !matrix.default_entry_names.is_empty();
        if !scene.is_diff || says_matrix {
            match allowed(matrix) {
                Ok(allowed) => change.allowed = Some(allowed),
                Err(problem) => problems.push(problem),
            }
        }
        if !scene.world.octomap.octomap.data.is_empty() {
            problems.push("octomaps are not taken; the simulation senses for itself".into());
        }
        (change, problems)
    }

    /// An operation on an attached object.
    pub(crate) fn attached(
        &self,
        message: &AttachedCollisionObjectMsg,
    ) -> Result<AttachOperation, String> {
        let object = &message.object;
        let id = id_of(object)?;
        let link = message.link_name.clone();
        match object.operation {
            CollisionObjectMsg::REMOVE => Ok(AttachOperation::Detach { id, link }),
            CollisionObjectMsg::ADD | CollisionObjectMsg::APPEND => {
                let has_shapes = !object.primitives.is_empty();
                reject_meshes(object)?;
                let shapes = if has_shapes {
                    let in_link = self.in_base(&link)?.inverse() * self.object_in_base(object)?;
                    Some(CollisionObject {
                        id: id.clone(),
                        pose: in_link,
                        parts: parts(object)?,
                    })
                } else {
                    None
                };
                Ok(AttachOperation::Attach {
                    id,
                    link,
                    touch_links: message.touch_links.iter().cloned().collect(),
                    object: shapes,
                })
            }
            other => Err(format!(
                "'{id}': the operation {other} of an attached object is unknown; use ADD or REMOVE"
            )),
        }
    }

    /// An operation on an object of the world.
    pub(crate) fn world(&self, object: &CollisionObjectMsg) -> Result<WorldOperation, String> {
        let id = id_of(object)?;
        let in_planning = || -> Result<Isometry3<f64>, String> {
            let planning = self
                .robot
                .in_planning_frame("base_link")
                .ok_or("base_link is unknown")?;
            Ok(planning * self.object_in_base(object)?)
        };
        Ok(match object.operation {
            CollisionObjectMsg::REMOVE => WorldOperation::Remove(id),
            CollisionObjectMsg::MOVE => WorldOperation::Move {
                id,
                pose: in_planning()?,
            },
            CollisionObjectMsg::ADD | CollisionObjectMsg::APPEND => {
                reject_meshes(object)?;
                let object_read = CollisionObject {
                    id,
                    pose: in_planning()?,
                    parts: parts(object)?,
                };
                if object.operation == CollisionObjectMsg::ADD {
                    WorldOperation::Add(object_read)
                } else {
                    WorldOperation::Append(object_read)
                }
            }
            other => return Err(format!(
                "'{id}': the operation {other} is unknown; use ADD (0), REMOVE (1), APPEND (2) or MOVE (3)"
            )),
        })
    }

    /// A frame of ROS in base_link; an empty name is the planning frame.
    fn in_base(&self, frame: &str) -> Result<Isometry3<f64>, String> {
        let own = if frame.is_empty() {
            PLANNING_FRAME
        } else {
            self.frames.to_sim(frame).map_err(|e| e.to_string())?
        };
        self.robot.frame_in_base(own).map_err(|e| e.to_string())
    }

    fn object_in_base(&self, object: &CollisionObjectMsg) -> Result<Isometry3<f64>, String> {
        let told = |e: String| format!("'{}': {e}", short(&object.id));
        let frame = self.in_base(&object.header.frame_id).map_err(told)?;
        Ok(frame * pose(&object.pose).map_err(told)?)
    }
}

fn short(text: &str) -> String {
    text.chars().take(MAX_ID).collect()
}

fn id_of(object: &CollisionObjectMsg) -> Result<String, String> {
    if object.id.chars().count() > MAX_ID {
        return Err(format!(
            "the id '{}…' is longer than {MAX_ID} characters",
            short(&object.id)
        ));
    }
    Ok(object.id.clone())
}

fn reject_meshes(object: &CollisionObjectMsg) -> Result<(), String> {
    if object.meshes.is_empty() && object.planes.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "'{}' has meshes or planes, which are not taken here; use boxes, spheres, cylinders or cones",
            short(&object.id)
        ))
    }
}

/// A pose; the quaternion of a message that was never filled in is no turn, as in MoveIt.
fn pose(message: &PoseMsg) -> Result<Isometry3<f64>, String> {
    let (p, q) = (&message.position, &message.orientation);
    let mut turn = [q.x, q.y, q.z, q.w];
    if turn == [0.0; 4] {
        turn = [0.0, 0.0, 0.0, 1.0];
    }
    pose_from_parts([p.x, p.y, p.z], turn).map_err(|e| e.to_string())
}

fn parts(object: &CollisionObjectMsg) -> Result<Vec<(CollisionShape, Isometry3<f64>)>, String> {
    let told = |e: String| format!("'{}': {e}", short(&object.id));
    // MoveIt takes missing poses for none.
    if !object.primitive_poses.is_empty() && object.primitive_poses.len() != object.primitives.len()
    {
        return Err(told(format!(
            "{} primitives and {} primitive_poses; give one pose for each",
            object.primitives.len(),
            object.primitive_poses.len()
        )));
    }
    object
        .primitives
        .iter()
        .enumerate()
        .map(|(i, primitive)| {
            let at = match object.primitive_poses.get(i) {
                Some(message) => pose(message).map_err(told)?,
                None => Isometry3::identity(),
            };
            Ok((shape(primitive).map_err(told)?, at))
        })
        .collect()
}

fn shape(primitive: &SolidPrimitive) -> Result<CollisionShape, String> {
    let dimensions: Vec<f64> = primitive.dimensions.iter().copied().collect();
    let shape = match (primitive.type_, dimensions.as_slice()) {
        (SolidPrimitive::BOX, [x, y, z]) => CollisionShape::Box([*x, *y, *z]),
        (SolidPrimitive::SPHERE, [radius]) => CollisionShape::Sphere(*radius),
        (SolidPrimitive::CYLINDER, [height, radius]) => CollisionShape::Cylinder {
            height: *height,
            radius: *radius,
        },
        (SolidPrimitive::CONE, [height, radius]) => CollisionShape::Cone {
            height: *height,
            radius: *radius,
        },
        (kind, dimensions) => {
            return Err(format!(
                "a primitive of type {kind} with {} dimensions is not taken; use BOX (x, y, z), SPHERE (radius), CYLINDER or CONE (height, radius)",
                dimensions.len()
            ))
        }
    };
    shape.validate().map_err(|e| e.to_string())?;
    Ok(shape)
}

fn allowed(matrix: &AllowedCollisionMatrix) -> Result<AllowedCollisions, String> {
    if matrix.default_entry_names.len() != matrix.default_entry_values.len() {
        return Err(format!(
            "allowed_collision_matrix: {} default names and {} values; give one value for each",
            matrix.default_entry_names.len(),
            matrix.default_entry_values.len()
        ));
    }
    let rows = matrix
        .entry_values
        .iter()
        .map(|row| row.enabled.clone())
        .collect();
    let defaults = matrix
        .default_entry_names
        .iter()
        .cloned()
        .zip(matrix.default_entry_values.iter().copied())
        .collect::<BTreeMap<_, _>>();
    AllowedCollisions::new(matrix.entry_names.clone(), rows, defaults).map_err(|e| e.to_string())
}

/// The scene as a message, with the parts that are asked for (PlanningSceneComponents); 0 asks for all.
pub(crate) fn scene_msg(
    robot: &Robot,
    frames: &FrameNames,
    moment: Moment,
    components: u32,
) -> PlanningSceneMsg {
    use PlanningSceneComponents as Wanted;
    let wants = |bits: u32| components == 0 || components & bits != 0;
    let scene = robot.planning_scene();
    let mut message = PlanningSceneMsg {
        robot_model_name: MODEL.into(),
        ..PlanningSceneMsg::default()
    };
    if wants(Wanted::SCENE_SETTINGS) {
        message.name = format!("({MODEL})");
    }
    if wants(Wanted::ROBOT_STATE | Wanted::ROBOT_STATE_ATTACHED_OBJECTS) {
        let RobotState { joint_state, .. } = current_state(robot, moment);
        message.robot_state.joint_state = joint_state;
    }
    if wants(Wanted::ROBOT_STATE_ATTACHED_OBJECTS) {
        message.robot_state.attached_collision_objects =
            scene.attached().map(|a| attached_msg(a, frames)).collect();
    }
    if wants(Wanted::WORLD_OBJECT_NAMES | Wanted::WORLD_OBJECT_GEOMETRY) {
        let geometry = wants(Wanted::WORLD_OBJECT_GEOMETRY);
        message.world.collision_objects = scene
            .world()
            .map(|o| object_msg(o, frames.to_ros(PLANNING_FRAME), geometry))
            .collect();
    }
    if wants(Wanted::ALLOWED_COLLISION_MATRIX) {
        let allowed = scene.allowed();
        let matrix = &mut message.allowed_collision_matrix;
        matrix.entry_names = allowed.names().to_vec();
        matrix.entry_values = allowed
            .rows()
            .iter()
            .map(|row| AllowedCollisionEntry {
                enabled: row.clone(),
            })
            .collect();
        for (name, value) in allowed.defaults() {
            matrix.default_entry_names.push(name.clone());
            matrix.default_entry_values.push(*value);
        }
    }
    message
}

fn attached_msg(attached: &AttachedObject, frames: &FrameNames) -> AttachedCollisionObjectMsg {
    let link = frames.to_ros(&attached.link);
    AttachedCollisionObjectMsg {
        link_name: link.into(),
        object: object_msg(&attached.object, link, true),
        touch_links: attached.touch_links.iter().cloned().collect(),
        ..AttachedCollisionObjectMsg::default()
    }
}

fn object_msg(object: &CollisionObject, frame: &str, geometry: bool) -> CollisionObjectMsg {
    let mut message = CollisionObjectMsg {
        id: object.id.clone(),
        operation: CollisionObjectMsg::ADD,
        ..CollisionObjectMsg::default()
    };
    message.header.frame_id = frame.into();
    message.pose = pose_msg(&object.pose);
    if geometry {
        message.primitives = object.parts.iter().map(|(s, _)| primitive(s)).collect();
        message.primitive_poses = object.parts.iter().map(|(_, at)| pose_msg(at)).collect();
    }
    message
}

fn primitive(shape: &CollisionShape) -> SolidPrimitive {
    let (type_, dimensions) = match *shape {
        CollisionShape::Box(size) => (SolidPrimitive::BOX, size.to_vec()),
        CollisionShape::Sphere(radius) => (SolidPrimitive::SPHERE, vec![radius]),
        CollisionShape::Cylinder { height, radius } => {
            (SolidPrimitive::CYLINDER, vec![height, radius])
        }
        CollisionShape::Cone { height, radius } => (SolidPrimitive::CONE, vec![height, radius]),
    };
    SolidPrimitive {
        type_,
        // At most three, which is what the field holds.
        dimensions: dimensions.try_into().unwrap_or_default(),
        ..SolidPrimitive::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::empty_hall::robot;

    fn frames() -> FrameNames {
        FrameNames {
            map: "map".into(),
            odom: "odometry".into(),
            base: "base_link".into(),
        }
    }

    fn boxed(id: &str, frame: &str) -> CollisionObjectMsg {
        let mut object = CollisionObjectMsg {
            id: id.into(),
            primitives: vec![SolidPrimitive {
                type_: SolidPrimitive::BOX,
                dimensions: vec![0.1, 0.2, 0.3].try_into().unwrap(),
                ..SolidPrimitive::default()
            }],
            ..CollisionObjectMsg::default()
        };
        object.header.frame_id = frame.into();
        object.pose.position.x = 0.5;
        // Poses that were never filled in have a quaternion of zeros in other languages.
        object.pose.orientation.w = 0.0;
        object
    }

    fn diff() -> PlanningSceneMsg {
        let mut scene = PlanningSceneMsg {
            is_diff: true,
            ..PlanningSceneMsg::default()
        };
        scene.robot_state.is_diff = true;
        scene
    }

    fn apply(robot: &mut Robot, scene: &PlanningSceneMsg) -> Vec<String> {
        let names = frames();
        let (change, mut problems) = SceneReader {
            frames: &names,
            robot,
        }
        .change(scene);
        problems.extend(robot.apply_scene(&change).err().unwrap_or_default());
        problems
    }

    fn moment() -> Moment {
        Moment {
            now: std::time::Duration::ZERO,
            stamp_ns: 1,
        }
    }

    #[test]
    fn what_was_applied_is_what_is_told() {
        let mut robot = robot();
        let mut scene = diff();
        scene.world.collision_objects = vec![boxed("table", "base_link"), boxed("cup", "")];
        let mut held = AttachedCollisionObjectMsg {
            link_name: "gripper_tcp".into(),
            object: boxed("bottle", "gripper_tcp"),
            touch_links: vec!["arm_5_link".into()],
            ..AttachedCollisionObjectMsg::default()
        };
        held.object.pose.position.x = 0.02;
        scene.robot_state.attached_collision_objects = vec![held];
        scene.allowed_collision_matrix.entry_names = vec!["cup".into(), "gripper_tcp".into()];
        scene.allowed_collision_matrix.entry_values = vec![
            AllowedCollisionEntry {
                enabled: vec![false, true],
            },
            AllowedCollisionEntry {
                enabled: vec![true, false],
            },
        ];
        assert_eq!(apply(&mut robot, &scene), Vec::<String>::new());
        assert!(robot
            .planning_scene()
            .allowed()
            .allows("gripper_tcp", "cup"));
        let told = scene_msg(&robot, &frames(), moment(), 0);
        let ids: Vec<&str> = told
            .world
            .collision_objects
            .iter()
            .map(|o| o.id.as_str())
            .collect();
        assert_eq!(ids, ["cup", "table"]);
        let table = &told.world.collision_objects[1];
        assert_eq!(table.header.frame_id, "odometry");
        // The robot is where its odometry began; the noise of the localisation is not in it.
        assert!((table.pose.position.x - 0.5).abs() < 1e-9);
        assert_eq!(
            table.primitives[0]
                .dimensions
                .iter()
                .copied()
                .collect::<Vec<_>>(),
            [0.1, 0.2, 0.3]
        );
        let held = &told.robot_state.attached_collision_objects[0];
        assert_eq!(
            (
                held.link_name.as_str(),
                held.object.header.frame_id.as_str()
            ),
            ("gripper_tcp", "gripper_tcp")
        );
        assert!((held.object.pose.position.x - 0.02).abs() < 1e-9);
        // Told again it is the same scene.
        let before = robot.planning_scene().clone();
        let mut again = told.clone();
        again.is_diff = false;
        assert_eq!(apply(&mut robot, &again), Vec::<String>::new());
        let after = robot.planning_scene();
        assert_eq!(after.allowed(), before.allowed());
        assert_eq!(after.world().count(), 2);
        // Names only, and nothing else.
        let names = scene_msg(
            &robot,
            &frames(),
            moment(),
            PlanningSceneComponents::WORLD_OBJECT_NAMES,
        );
        assert!(names.world.collision_objects[0].primitives.is_empty());
        assert!(names.allowed_collision_matrix.entry_names.is_empty());
        assert!(names.robot_state.attached_collision_objects.is_empty());
    }

    #[test]
    fn what_cannot_be_read_is_told_and_changes_nothing() {
        type Edit = fn(&mut CollisionObjectMsg);
        let edits: [(Edit, &str); 8] = [
            (|o| o.pose.position.x = f64::NAN, "finite"),
            (|o| o.pose.orientation.w = 0.3, "quaternion"),
            (|o| o.header.frame_id = "moon".into(), "moon"),
            (|o| o.primitives[0].type_ = 9, "BOX"),
            (
                |o| o.primitives[0].dimensions = vec![1.0].try_into().unwrap(),
                "dimensions",
            ),
            (
                |o| o.primitives[0].dimensions = vec![0.1, -1.0, 0.1].try_into().unwrap(),
                "dimension",
            ),
            (|o| o.operation = 7, "operation"),
            (|o| o.meshes.push(Default::default()), "meshes"),
        ];
        for (edit, word) in edits {
            let mut robot = robot();
            let mut scene = diff();
            let mut object = boxed("cup", "base_link");
            edit(&mut object);
            scene.world.collision_objects = vec![object];
            let problems = apply(&mut robot, &scene);
            assert!(problems[0].contains(word), "{problems:?}");
            assert_eq!(robot.planning_scene().version(), 0);
        }
        let mut robot = robot();
        let mut scene = diff();
        scene.allowed_collision_matrix.entry_names = vec!["a".into()];
        assert!(apply(&mut robot, &scene)[0].contains("rows"));
        let mut scene = diff();
        let mut object = boxed(&"x".repeat(1000), "base_link");
        object.operation = CollisionObjectMsg::REMOVE;
        scene.world.collision_objects = vec![object];
        assert!(apply(&mut robot, &scene)[0].contains("longer"));
    }
}
