//! The robot that ships with the harness: a seeded simulation of a mobile manipulator in a home.
//!
//! Pure: no ROS, no clock, no files. [`Robot`] is the whole of it: build it from a world file and a
//! seed, give it goals, step it, read its sensors. The same seed, goals and steps give the same bits.
//!
//! Units are SI (REP-103); frames are map, odom, base_link and those below (REP-105).
//!
//! ```
//! use std::time::Duration;
//! use eh_sim::{Pose2, Robot, Velocity};
//!
//! let world = "
//! rooms: [{id: hall, rect: [0, 0, 6, 4]}]
//! walls: [{from: [0, 0], to: [6, 0]}, {from: [6, 0], to: [6, 4]},
//!         {from: [6, 4], to: [0, 4]}, {from: [0, 4], to: [0, 0]}]
//! robot: {start: [1, 2, 0]}
//! ";
//! let mut robot = Robot::from_yaml(world, Some(7))?;
//! let goal = robot.navigate("map", Pose2::new(4.0, 2.0, 0.0))?;
//! while !robot.nav_status(goal).is_none_or(|s| s.is_terminal()) {
//!     robot.set_velocity_command(robot.nav_velocity().unwrap_or(Velocity::ZERO))?;
//!     robot.step(Duration::from_millis(20))?;
//! }
//! assert!((robot.ground_truth().robot.x - 4.0).abs() < 0.1);
//! # Ok::<(), eh_sim::SimError>(())
//! ```
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod allowed_collisions;
pub mod arm;
pub mod arm_error_code;
pub mod arm_goal;
pub mod arm_kinematics;
pub mod arm_planner;
pub mod arm_surroundings;
pub mod base;
pub mod camera;
pub mod collision_shape;
pub mod error;
pub mod fault;
pub mod fleet;
pub mod generated_world;
pub mod geometry;
pub mod goal_record;
pub mod gripper;
pub mod ground_truth;
pub mod head;
pub mod joint_state;
pub mod lidar;
pub mod localization;
pub mod nav_error_code;
pub mod navigator;
pub mod occupancy_grid;
pub mod path_follower;
pub mod path_planner;
pub mod person;
pub mod picture;
pub mod planning_scene;
pub mod progress;
pub mod random;
pub mod recovery;
pub mod robot;
pub mod robot_frames;
pub mod scenery;
pub mod schedule;
pub mod sim_event;
pub mod world;
pub mod world_file;

pub use arm::ArmStatus;
pub use arm_error_code::ArmErrorCode;
pub use arm_goal::{ArmGoal, ArmGoalTarget};
pub use arm_planner::ArmPathKind;
pub use base::Velocity;
pub use camera::{Detection, DetectionFrame, Frustum};
pub use eh_contract::semantic_map::{Door, Furniture, Room, SemanticMap, SemanticMapError};
pub use error::SimError;
pub use fault::{FaultKind, FaultParams, FaultSpec, Occasion};
pub use generated_world::generated_world;
pub use geometry::Pose2;
pub use goal_record::GoalId;
pub use gripper::{GripperState, GripperStatus};
pub use ground_truth::{GroundTruth, ObjectTruth};
pub use head::{look_at, HeadPoint, HeadStatus};
pub use joint_state::JointState;
pub use lidar::Scan;
pub use nalgebra;
pub use nav_error_code::NavErrorCode;
pub use navigator::{NavFeedback, NavStatus};
pub use robot::Robot;
pub use robot_frames::{pose_from_parts, Transform};
pub use sim_event::SimEvent;
pub use world::{Support, World};
pub use world_file::WorldFile;
