//! Goals of MoveIt's `move_action` as the arm takes them.

use std::collections::BTreeMap;

use eh_ros_edge::convert::{point, rotation, vector};
use eh_sim::arm_goal::TOOL_LINK;
use eh_sim::arm_kinematics::JOINT_NAMES;
use eh_sim::nalgebra::{Isometry3, Translation3, UnitQuaternion, Vector3};
use eh_sim::{ArmGoal, ArmGoalTarget, Robot};
use ros_env::moveit_msgs::msg::{
    Constraints, MotionPlanRequest, MoveItErrorCodes, OrientationConstraint, PositionConstraint,
    RobotState,
};
use ros_env::shape_msgs::msg::SolidPrimitive;

use crate::frame_names::FrameNames;

/// MoveIt's pipeline whose planner `LIN` moves the tool on a straight line.
const PILZ: &str = "pilz_industrial_motion_planner";
/// How far the given start may be from where the arm is, radians: MoveIt's default.
const START_TOLERANCE: f64 = 0.01;
/// An orientation tolerance from here on leaves the orientation free, radians.
const FREE: f64 = std::f64::consts::PI;

/// Why a goal can't be taken.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// Not a number where one is needed: the goal is not accepted.
    Malformed(String),
    /// It is accepted and ends with this code.
    Code(i32, String),
}

impl From<eh_ros_edge::convert::ConvertError> for Trouble {
    fn from(error: eh_ros_edge::convert::ConvertError) -> Self {
        Self::Malformed(error.to_string())
    }
}

fn wrong(text: impl Into<String>) -> Trouble {
    Trouble::Code(MoveItErrorCodes::INVALID_GOAL_CONSTRAINTS, text.into())
}

fn finite(what: &str, value: f64) -> Result<f64, Trouble> {
    if value.is_finite() {
        Ok(value)
    } else {
        Err(Trouble::Malformed(format!(
            "{what} is {value}; send a finite number"
        )))
    }
}

/// The goal as the robot takes it.
///
/// # Errors
/// [`Trouble`].
pub(crate) fn read(
    request: &MotionPlanRequest,
    frames: &FrameNames,
    robot: &Robot,
) -> Result<ArmGoal, Trouble> {
    check_start(&request.start_state, robot)?;
    let path = &request.path_constraints;
    if count(path) > 0 || !request.trajectory_constraints.constraints.is_empty() {
        return Err(wrong(
            "path and trajectory constraints are not supported; use the planner LIN for a straight line",
        ));
    }
    let Some(goal) = request.goal_constraints.first() else {
        return Err(wrong(
            "goal_constraints is empty; give a pose or joint positions",
        ));
    };
    let target = if !goal.joint_constraints.is_empty() {
        joints(goal)?
    } else {
        tool_pose(goal, frames, robot)?
    };
    let link = goal
        .position_constraints
        .first()
        .map_or(TOOL_LINK, |constraint| constraint.link_name.as_str());
    let mut asked = ArmGoal::new(target);
    asked.group.clone_from(&request.group_name);
    asked.link = link.into();
    // MoveIt takes zero as its default and limits what is above one.
    asked.velocity_scale = finite(
        "max_velocity_scaling_factor",
        request.max_velocity_scaling_factor,
    )?
    .min(1.0);
    match (request.pipeline_id.as_str(), request.planner_id.as_str()) {
        ("" | PILZ, "LIN") => Ok(asked.on_a_line()),
        (PILZ, planner) if planner != "PTP" => Err(Trouble::Code(
            MoveItErrorCodes::PLANNING_FAILED,
            format!(
                "the pipeline {PILZ} has no planner '{}' here; use LIN or PTP",
                planner.chars().take(64).collect::<String>()
            ),
        )),
        _ => Ok(asked),
    }
}

fn count(constraints: &Constraints) -> usize {
    constraints.joint_constraints.len()
        + constraints.position_constraints.len()
        + constraints.orientation_constraints.len()
        + constraints.visibility_constraints.len()
}

/// Refuses a start that is given and is not where the arm is.
fn check_start(start: &RobotState, robot: &Robot) -> Result<(), Trouble> {
    let now = robot.joint_states();
    let given = &start.joint_state;
    for (name, position) in given.name.iter().zip(&given.position) {
        let position = finite("a position of the start state", *position)?;
        let is_arm = JOINT_NAMES.contains(&name.as_str());
        let actual = now.iter().find(|joint| is_arm && joint.name == name);
        if actual.is_some_and(|joint| (joint.position - position).abs() > START_TOLERANCE) {
            return Err(Trouble::Code(
                MoveItErrorCodes::START_STATE_INVALID,
                format!("the start state of '{name}' is {position} rad, where the arm is not; leave it empty"),
            ));
        }
    }
    Ok(())
}

fn joints(goal: &Constraints) -> Result<ArmGoalTarget, Trouble> {
    if count(goal) != goal.joint_constraints.len() {
        return Err(wrong(
            "give joint positions or a pose of the tool, not both",
        ));
    }
    let mut joints = BTreeMap::new();
    for constraint in &goal.joint_constraints {
        let position = finite("a joint's position", constraint.position)?;
        finite("a joint's tolerance", constraint.tolerance_above)?;
        finite("a joint's tolerance", constraint.tolerance_below)?;
        let name = constraint.joint_name.clone();
        if joints.insert(name, position).is_some() {
            return Err(wrong("a joint is named twice; name each once"));
        }
    }
    Ok(ArmGoalTarget::Joints(joints))
}

fn tool_pose(
    goal: &Constraints,
    frames: &FrameNames,
    robot: &Robot,
) -> Result<ArmGoalTarget, Trouble> {
    if !goal.visibility_constraints.is_empty() {
        return Err(wrong("visibility constraints are not supported"));
    }
    let [position] = goal.position_constraints.as_slice() else {
        return Err(wrong(format!(
            "there are {} position constraints and no joint constraint; give one position",
            goal.position_constraints.len()
        )));
    };
    let region = region(position)?;
    let offset = vector(&position.target_point_offset)?;
    let frame = frame_of(frames, &position.header.frame_id)?;
    let (rotation, tolerance) = match goal.orientation_constraints.as_slice() {
        [] if offset == Vector3::zeros() => (UnitQuaternion::identity(), None),
        [] => return Err(wrong(
            "target_point_offset says nothing without an orientation; give one or leave it zero",
        )),
        [orientation] => oriented(orientation, position, frame, frames, robot)?,
        several => {
            return Err(wrong(format!(
                "there are {} orientation constraints; give one at most",
                several.len()
            )))
        }
    };
    // The offset point of the link, not the link itself, is to be in the region.
    let tool = region - rotation * offset;
    Ok(ArmGoalTarget::Pose {
        frame: frame.into(),
        pose: Isometry3::from_parts(Translation3::from(tool), rotation),
        orientation_tolerance: tolerance,
    })
}

fn frame_of(frames: &FrameNames, name: &str) -> Result<&'static str, Trouble> {
    frames.to_sim(name).map_err(|error| {
        Trouble::Code(MoveItErrorCodes::FRAME_TRANSFORM_FAILURE, error.to_string())
    })
}

/// The middle of the region, in the constraint's frame.
fn region(position: &PositionConstraint) -> Result<Vector3<f64>, Trouble> {
    let region = &position.constraint_region;
    if !region.meshes.is_empty() {
        return Err(wrong("regions of meshes are not supported; give a sphere"));
    }
    let ([shape], [at]) = (
        region.primitives.as_slice(),
        region.primitive_poses.as_slice(),
    ) else {
        return Err(wrong(format!(
            "the region has {} primitives and {} poses; give one of each",
            region.primitives.len(),
            region.primitive_poses.len()
        )));
    };
    let needed = match shape.type_ {
        SolidPrimitive::SPHERE => 1,
        SolidPrimitive::BOX => 3,
        SolidPrimitive::CYLINDER | SolidPrimitive::CONE => 2,
        other => {
            return Err(wrong(format!(
                "the region has the shape {other}; give a sphere (2) or a box (1)"
            )))
        }
    };
    for dimension in shape.dimensions.iter() {
        finite("a dimension of the region", *dimension)?;
    }
    if shape.dimensions.len() != needed || shape.dimensions.iter().any(|d| *d <= 0.0) {
        return Err(wrong(format!(
            "the region's shape {} needs {needed} dimensions greater than 0 m; a sphere of 0.001 m is exact",
            shape.type_
        )));
    }
    Ok(point(&at.position)?.coords)
}

/// An orientation in the position's frame, and its tolerance; none when it is free.
type Orientation = (UnitQuaternion<f64>, Option<[f64; 3]>);

/// Reads the orientation of a pose.
fn oriented(
    orientation: &OrientationConstraint,
    position: &PositionConstraint,
    frame: &str,
    frames: &FrameNames,
    robot: &Robot,
) -> Result<Orientation, Trouble> {
    if orientation.link_name != position.link_name {
        return Err(Trouble::Code(
            MoveItErrorCodes::INVALID_LINK_NAME,
            "position and orientation name different links; name one".into(),
        ));
    }
    let tolerance = [
        orientation.absolute_x_axis_tolerance,
        orientation.absolute_y_axis_tolerance,
        orientation.absolute_z_axis_tolerance,
    ];
    for value in tolerance {
        if finite("an orientation's tolerance", value)? < 0.0 {
            return Err(wrong(format!(
                "an orientation's tolerance is {value} rad; give 0 or more"
            )));
        }
    }
    let own = frame_of(frames, &orientation.header.frame_id)?;
    let turn = rotation(&orientation.orientation)?;
    let in_base = |name: &str| {
        robot.frame_in_base(name).map_err(|error| {
            Trouble::Code(MoveItErrorCodes::FRAME_TRANSFORM_FAILURE, error.to_string())
        })
    };
    let turn = if own == frame {
        turn
    } else {
        in_base(frame)?.rotation.inverse() * in_base(own)?.rotation * turn
    };
    let free = tolerance.iter().all(|value| *value >= FREE);
    Ok((turn, (!free).then_some(tolerance)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::empty_hall::robot;
    use ros_env::geometry_msgs::msg::Pose;
    use ros_env::moveit_msgs::msg::JointConstraint;

    fn frames() -> FrameNames {
        FrameNames {
            map: "map".into(),
            odom: "odom".into(),
            base: "base_link".into(),
        }
    }

    fn request() -> MotionPlanRequest {
        let mut position = PositionConstraint {
            link_name: "gripper_tcp".into(),
            ..Default::default()
        };
        position.header.frame_id = "base_link".into();
        let mut sphere = SolidPrimitive {
            type_: SolidPrimitive::SPHERE,
            ..Default::default()
        };
        sphere.dimensions = vec![0.001].try_into().unwrap();
        position.constraint_region.primitives = vec![sphere];
        let mut at = Pose::default();
        at.position.x = 0.5;
        at.position.z = 0.8;
        position.constraint_region.primitive_poses = vec![at];
        let mut orientation = OrientationConstraint {
            link_name: "gripper_tcp".into(),
            absolute_x_axis_tolerance: 0.1,
            absolute_y_axis_tolerance: 0.1,
            absolute_z_axis_tolerance: 0.1,
            ..Default::default()
        };
        orientation.header.frame_id = "base_link".into();
        MotionPlanRequest {
            group_name: "arm".into(),
            goal_constraints: vec![Constraints {
                position_constraints: vec![position],
                orientation_constraints: vec![orientation],
                ..Default::default()
            }],
            ..Default::default()
        }
    }

    type Edit = fn(&mut MotionPlanRequest);

    fn pose_of(goal: &ArmGoal) -> Isometry3<f64> {
        match &goal.target {
            ArmGoalTarget::Pose { pose, .. } => *pose,
            other => panic!("{other:?}"),
        }
    }

    fn code(request: &MotionPlanRequest) -> i32 {
        match read(request, &frames(), &robot()).unwrap_err() {
            Trouble::Code(code, text) => {
                assert!(!text.is_empty());
                code
            }
            Trouble::Malformed(text) => panic!("{text}"),
        }
    }

    #[test]
    fn a_pose_is_read() {
        let goal = read(&request(), &frames(), &robot()).unwrap();
        assert_eq!(pose_of(&goal), Isometry3::translation(0.5, 0.0, 0.8));
        assert_eq!(goal.path, eh_sim::ArmPathKind::Free);
    }

    #[test]
    fn the_offset_point_is_what_goes_into_the_region() {
        let mut request = request();
        let goal = &mut request.goal_constraints[0];
        goal.position_constraints[0].target_point_offset.x = 0.1;
        // A quarter turn to the left: the tool's x looks along y, so the tool is 0.1 m to the right.
        let half = std::f64::consts::FRAC_1_SQRT_2;
        goal.orientation_constraints[0].orientation.z = half;
        goal.orientation_constraints[0].orientation.w = half;
        let goal = read(&request, &frames(), &robot()).unwrap();
        let tool = pose_of(&goal).translation.vector;
        assert!(
            (tool - Vector3::new(0.5, -0.1, 0.8)).norm() < 1e-9,
            "{tool}"
        );
    }

    #[test]
    fn position_and_orientation_may_have_different_frames() {
        let mut request = request();
        // The robot looks along x of the map, so a quarter turn in the map is one in base_link (and the
        // localisation's noise is a few thousandths).
        let orientation = &mut request.goal_constraints[0].orientation_constraints[0];
        orientation.header.frame_id = "map".into();
        let half = std::f64::consts::FRAC_1_SQRT_2;
        orientation.orientation.z = half;
        orientation.orientation.w = half;
        let goal = read(&request, &frames(), &robot()).unwrap();
        let yaw = eh_sim::geometry::yaw_of(&pose_of(&goal).rotation);
        assert!((yaw - std::f64::consts::FRAC_PI_2).abs() < 0.05, "{yaw}");
    }

    #[test]
    fn lin_is_a_straight_line() {
        let mut request = request();
        request.planner_id = "LIN".into();
        for pipeline in ["", PILZ] {
            request.pipeline_id = pipeline.into();
            let goal = read(&request, &frames(), &robot()).unwrap();
            assert_eq!(goal.path, eh_sim::ArmPathKind::Line);
        }
        request.pipeline_id = "ompl".into();
        let goal = read(&request, &frames(), &robot()).unwrap();
        assert_eq!(goal.path, eh_sim::ArmPathKind::Free);
        request.pipeline_id = PILZ.into();
        request.planner_id = "CIRC".into();
        assert_eq!(code(&request), MoveItErrorCodes::PLANNING_FAILED);
    }

    #[test]
    fn numbers_that_are_none_are_refused() {
        let edits: [Edit; 6] = [
            |r| {
                r.goal_constraints[0].position_constraints[0]
                    .constraint_region
                    .primitive_poses[0]
                    .position
                    .y = f64::NAN
            },
            |r| {
                r.goal_constraints[0].position_constraints[0]
                    .target_point_offset
                    .z = f64::INFINITY
            },
            |r| {
                r.goal_constraints[0].orientation_constraints[0]
                    .orientation
                    .w = f64::NAN
            },
            |r| {
                r.goal_constraints[0].orientation_constraints[0].absolute_x_axis_tolerance =
                    f64::NAN
            },
            |r| r.max_velocity_scaling_factor = f64::NAN,
            |r| {
                r.goal_constraints[0].joint_constraints = vec![JointConstraint {
                    joint_name: "arm_1_joint".into(),
                    position: f64::NAN,
                    ..Default::default()
                }];
                r.goal_constraints[0].position_constraints.clear();
                r.goal_constraints[0].orientation_constraints.clear();
            },
        ];
        for (number, edit) in edits.iter().enumerate() {
            let mut request = request();
            edit(&mut request);
            assert!(
                matches!(
                    read(&request, &frames(), &robot()),
                    Err(Trouble::Malformed(_))
                ),
                "{number}"
            );
        }
    }

    #[test]
    fn what_is_not_supported_has_its_code() {
        use MoveItErrorCodes as Codes;
        let edits: [(i32, Edit); 6] = [
            (Codes::INVALID_GOAL_CONSTRAINTS, |r| {
                r.goal_constraints.clear()
            }),
            (Codes::INVALID_GOAL_CONSTRAINTS, |r| {
                r.goal_constraints[0].position_constraints.clear()
            }),
            (Codes::INVALID_GOAL_CONSTRAINTS, |r| {
                r.path_constraints = r.goal_constraints[0].clone()
            }),
            (Codes::FRAME_TRANSFORM_FAILURE, |r| {
                r.goal_constraints[0].position_constraints[0]
                    .header
                    .frame_id = "moon".into()
            }),
            (Codes::INVALID_LINK_NAME, |r| {
                r.goal_constraints[0].orientation_constraints[0].link_name = "elbow".into()
            }),
            (Codes::START_STATE_INVALID, |r| {
                r.start_state.joint_state.name = vec!["arm_1_joint".into()];
                r.start_state.joint_state.position = vec![1.0];
            }),
        ];
        for (expected, edit) in edits {
            let mut request = request();
            edit(&mut request);
            assert_eq!(code(&request), expected);
        }
    }
}
