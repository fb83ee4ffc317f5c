//! Sub-goals as goals of the foreign actions, and their results back.

use std::time::Duration;

use eh_executor::NativeEnd;
use eh_ros_edge::convert::command::{budget_msg, raw_pose_msg};
use eh_ros_edge::goal_client::GoalStatus;
use eh_skills::sub_goal::{ArmTarget, GripperReport};
use eh_skills::{Embodiment, Goal};
use ros_env::control_msgs::action::{
    FollowJointTrajectory_Goal, GripperCommand_Goal, GripperCommand_Result,
};
use ros_env::geometry_msgs::msg::Pose;
use ros_env::moveit_msgs::action::MoveGroup_Goal;
use ros_env::moveit_msgs::msg::{
    BoundingVolume, Constraints, JointConstraint, OrientationConstraint, PositionConstraint,
};
use ros_env::nav2_msgs::action::NavigateToPose_Goal;
use ros_env::shape_msgs::msg::SolidPrimitive;
use ros_env::trajectory_msgs::msg::JointTrajectoryPoint;

/// How far a joint of a named configuration may be off [rad].
const JOINT_TOLERANCE: f64 = 0.01;

/// Attempts that move_group's planner may make.
const PLANNING_ATTEMPTS: i32 = 5;

/// What goals of the arm and the head need beside what a program says.
#[derive(Clone, Debug)]
pub(crate) struct GoalSettings {
    pub(crate) body: Embodiment,
    pub(crate) straight_pipeline: String,
    pub(crate) straight_planner: String,
    pub(crate) planning_time: f64,
}

/// action_msgs/GoalStatus as a number.
pub(crate) const fn wire(status: GoalStatus) -> i8 {
    match status {
        GoalStatus::Unknown => 0,
        GoalStatus::Accepted => 1,
        GoalStatus::Executing => 2,
        GoalStatus::Canceling => 3,
        GoalStatus::Succeeded => 4,
        GoalStatus::Canceled => 5,
        GoalStatus::Aborted => 6,
    }
}

/// The end of a gripper goal.
pub(crate) fn gripper_end(status: GoalStatus, result: &GripperCommand_Result) -> NativeEnd {
    let report = GripperReport {
        position: result.position,
        effort: result.effort,
        stalled: result.stalled,
        reached_goal: result.reached_goal,
    };
    NativeEnd::gripper(wire(status), report)
}

pub(crate) fn navigate(goal: &Goal) -> Option<NavigateToPose_Goal> {
    let Goal::Navigate { frame_id, pose } = goal else {
        return None;
    };
    let mut message = NavigateToPose_Goal::default();
    // A zero stamp asks for the newest transform.
    message.pose.header.frame_id.clone_from(frame_id);
    message.pose.pose = raw_pose_msg(pose);
    Some(message)
}

pub(crate) fn move_arm(goal: &Goal, settings: &GoalSettings) -> Option<MoveGroup_Goal> {
    let Goal::MoveArm {
        target,
        straight,
        speed,
        allowed_contact: _,
    } = goal
    else {
        return None;
    };
    let constraints = match target {
        ArmTarget::Named(name) => Constraints {
            name: name.clone(),
            joint_constraints: settings
                .body
                .configurations
                .get(name)?
                .iter()
                .map(|(joint, position)| JointConstraint {
                    joint_name: joint.clone(),
                    position: *position,
                    tolerance_above: JOINT_TOLERANCE,
                    tolerance_below: JOINT_TOLERANCE,
                    weight: 1.0,
                })
                .collect(),
            ..Constraints::default()
        },
        ArmTarget::Tool {
            frame_id,
            pose,
            position_tolerance,
            orientation_tolerance,
        } => {
            let pose = raw_pose_msg(pose);
            let [x, y, z] = *orientation_tolerance;
            let mut position = PositionConstraint {
                link_name: settings.body.tool_link.clone(),
                constraint_region: BoundingVolume {
                    primitives: vec![SolidPrimitive {
                        type_: SolidPrimitive::SPHERE,
                        dimensions: vec![*position_tolerance].try_into().ok()?,
                        ..SolidPrimitive::default()
                    }],
                    primitive_poses: vec![Pose {
                        position: pose.position.clone(),
                        ..Pose::default()
                    }],
                    ..BoundingVolume::default()
                },
                weight: 1.0,
                ..PositionConstraint::default()
            };
            position.header.frame_id.clone_from(frame_id);
            let mut orientation = OrientationConstraint {
                orientation: pose.orientation,
                link_name: settings.body.tool_link.clone(),
                absolute_x_axis_tolerance: x,
                absolute_y_axis_tolerance: y,
                absolute_z_axis_tolerance: z,
                parameterization: OrientationConstraint::ROTATION_VECTOR,
                weight: 1.0,
                ..OrientationConstraint::default()
            };
            orientation.header.frame_id.clone_from(frame_id);
            Constraints {
                position_constraints: vec![position],
                orientation_constraints: vec![orientation],
                ..Constraints::default()
            }
        }
    };
    let mut message = MoveGroup_Goal::default();
    let request = &mut message.request;
    request.group_name.clone_from(&settings.body.arm_group);
    request.goal_constraints = vec![constraints];
    request.num_planning_attempts = PLANNING_ATTEMPTS;
    request.allowed_planning_time = settings.planning_time;
    request.max_velocity_scaling_factor = *speed;
    request.max_acceleration_scaling_factor = *speed;
    // The arm starts from where it is.
    request.start_state.is_diff = true;
    if *straight && !settings.straight_pipeline.is_empty() {
        request.pipeline_id.clone_from(&settings.straight_pipeline);
        request.planner_id.clone_from(&settings.straight_planner);
    }
    message.planning_options.planning_scene_diff.is_diff = true;
    message
        .planning_options
        .planning_scene_diff
        .robot_state
        .is_diff = true;
    Some(message)
}

pub(crate) fn gripper(goal: &Goal) -> Option<GripperCommand_Goal> {
    let Goal::Gripper { width, max_effort } = goal else {
        return None;
    };
    let mut message = GripperCommand_Goal::default();
    message.command.position = *width;
    message.command.max_effort = *max_effort;
    Some(message)
}

pub(crate) fn head(goal: &Goal, settings: &GoalSettings) -> Option<FollowJointTrajectory_Goal> {
    let Goal::Head {
        pan,
        tilt,
        duration,
    } = goal
    else {
        return None;
    };
    let mut message = FollowJointTrajectory_Goal::default();
    message.trajectory.joint_names = settings.body.head_joints.to_vec();
    message.trajectory.points = vec![JointTrajectoryPoint {
        positions: vec![*pan, *tilt],
        velocities: vec![0.0, 0.0],
        time_from_start: budget_msg((*duration).max(Duration::from_millis(50))),
        ..JointTrajectoryPoint::default()
    }];
    Some(message)
}
