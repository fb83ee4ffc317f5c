//! The body that the skills are done with. Filled from parameters; the defaults are those of the
//! simulated robot and are written down in `params/embodiment.yaml`.

use std::collections::BTreeMap;

use eh_contract::geometry::Vec3;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A named configuration of the arm: joint positions \[rad\] by joint name.
pub type Configuration = BTreeMap<String, f64>;

/// The body.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Embodiment {
    /// Frame of the base (REP-105).
    pub base_frame: String,
    /// Frame of the map (REP-105).
    pub map_frame: String,
    /// Radius of the circle around base_link that holds the base \[m\].
    pub base_radius: f64,
    /// Free space that is wanted between that circle and furniture \[m\]; more than what navigation keeps
    /// as its own margin plus its goal tolerance.
    pub base_clearance: f64,
    /// Wanted gap on the floor from base_link to what is to be grasped or reached \[m\].
    pub stand_off: f64,
    /// Largest such gap at which the arm still reaches \[m\].
    pub max_stand_off: f64,
    /// Wanted gap from base_link to a person \[m\].
    pub person_stand_off: f64,
    /// Name of the arm's planning group.
    pub arm_group: String,
    /// Link whose pose is planned for; x points out of the gripper, y from finger to finger.
    pub tool_link: String,
    /// Links of the gripper, which touch what it grasps.
    pub gripper_links: Vec<String>,
    /// The shoulder in base_link \[m\]: the tool's heading is taken from here to the target.
    pub shoulder: Vec3,
    /// Distance from the shoulder to the tool with the arm stretched \[m\].
    pub reach: f64,
    /// Distance from the tool link back to the palm \[m\]: how deep something fits between the fingers.
    pub finger_length: f64,
    /// Largest gap between the fingers \[m\].
    pub gripper_max_width: f64,
    /// Effort with which it closes on an object \[N\].
    pub grasp_effort: f64,
    /// Named configurations of the arm; stow and carry have to be among them.
    pub configurations: BTreeMap<String, Configuration>,
    /// Joint whose position is the gap between the fingers \[m\].
    pub gripper_joint: String,
    /// Fingers nearer than this are closed on nothing \[m\].
    pub gripper_closed_width: f64,
    /// Fingers further apart than this are open \[m\].
    pub gripper_open_width: f64,
    /// Whether joint states carry the fingers' force.
    pub gripper_effort_reported: bool,
    /// Least force of a grip \[N\]; below it the fingers only touch.
    pub gripper_contact_effort: f64,
    /// The head's pan joint (positive to the left) and tilt joint (positive down).
    pub head_joints: [String; 2],
    /// Least and largest pan \[rad\].
    pub head_pan_limits: [f64; 2],
    /// Least and largest tilt \[rad\].
    pub head_tilt_limits: [f64; 2],
    /// Where the pan axis and the tilt axis meet, in base_link \[m\].
    pub neck: Vec3,
    /// The camera in the head's tilt link (x forward, z up) \[m\].
    pub camera: Vec3,
    /// Time that a turn of the head takes at most \[s\].
    pub head_turn_time: f64,
}

impl Default for Embodiment {
    fn default() -> Self {
        let arm = |positions: [f64; 5]| {
            (1..)
                .zip(positions)
                .map(|(i, q)| (format!("arm_{i}_joint"), q))
                .collect::<Configuration>()
        };
        // Folded with the tool straight down; see params/embodiment.yaml.
        Embodiment {
            base_frame: "base_link".into(),
            map_frame: "map".into(),
            base_radius: 0.27,
            base_clearance: 0.10,
            stand_off: 0.55,
            max_stand_off: 0.69,
            person_stand_off: 0.8,
            arm_group: "arm".into(),
            tool_link: "gripper_tcp".into(),
            gripper_links: vec!["gripper_tcp".into(), "arm_5_link".into()],
            shoulder: Vec3::new(0.08, 0.0, 0.75),
            reach: 0.88,
            finger_length: 0.09,
            gripper_max_width: 0.10,
            grasp_effort: 20.0,
            configurations: [
                ("stow".to_string(), arm([0.0, 2.0, -2.65, -0.9208, 0.0])),
                ("ready".to_string(), arm([0.0, 1.7, -2.0, 0.3, 0.0])),
                ("carry".to_string(), arm([0.0, 2.04, -1.69, -1.9208, 0.0])),
            ]
            .into(),
            gripper_joint: "gripper_joint".into(),
            gripper_closed_width: 0.004,
            gripper_open_width: 0.09,
            gripper_effort_reported: true,
            gripper_contact_effort: 1.0,
            head_joints: ["head_pan_joint".into(), "head_tilt_joint".into()],
            head_pan_limits: [-2.6, 2.6],
            head_tilt_limits: [-0.8, 1.2],
            neck: Vec3::new(-0.08, 0.0, 1.2),
            camera: Vec3::new(0.06, 0.0, 0.05),
            head_turn_time: 1.5,
        }
    }
}

impl Embodiment {
    /// Checks every number and name.
    ///
    /// # Errors
    /// [`EmbodimentError`] that names the parameter, its value and the limit.
    pub fn check(&self) -> Result<(), EmbodimentError> {
        let number = |name: &str, value: f64, low: f64, high: f64| {
            if value.is_finite() && value >= low && value <= high {
                Ok(())
            } else {
                Err(EmbodimentError::Number {
                    name: name.into(),
                    value,
                    low,
                    high,
                })
            }
        };
        number("base_radius", self.base_radius, 0.01, 5.0)?;
        number("base_clearance", self.base_clearance, 0.0, 2.0)?;
        number("stand_off", self.stand_off, self.base_radius, 10.0)?;
        number("max_stand_off", self.max_stand_off, self.stand_off, 10.0)?;
        number(
            "person_stand_off",
            self.person_stand_off,
            self.base_radius,
            10.0,
        )?;
        number("reach", self.reach, 0.05, 10.0)?;
        number("finger_length", self.finger_length, 0.0, 1.0)?;
        number("gripper_max_width", self.gripper_max_width, 0.001, 1.0)?;
        number("grasp_effort", self.grasp_effort, 0.0, 1000.0)?;
        number(
            "gripper_closed_width",
            self.gripper_closed_width,
            0.0,
            self.gripper_max_width,
        )?;
        number(
            "gripper_open_width",
            self.gripper_open_width,
            self.gripper_closed_width,
            1.0,
        )?;
        number(
            "gripper_contact_effort",
            self.gripper_contact_effort,
            0.0,
            1000.0,
        )?;
        number("head_turn_time", self.head_turn_time, 0.05, 60.0)?;
        for (name, v) in [
            ("shoulder", self.shoulder),
            ("neck", self.neck),
            ("camera", self.camera),
        ] {
            for (axis, value) in [("x", v.x), ("y", v.y), ("z", v.z)] {
                number(&format!("{name}.{axis}"), value, -5.0, 5.0)?;
            }
        }
        for (name, [low, high]) in [
            ("head_pan_limits", self.head_pan_limits),
            ("head_tilt_limits", self.head_tilt_limits),
        ] {
            number(name, low, -6.3, 6.3)?;
            number(name, high, low, 6.3)?;
        }
        for (name, text) in [
            ("base_frame", &self.base_frame),
            ("map_frame", &self.map_frame),
            ("arm_group", &self.arm_group),
            ("tool_link", &self.tool_link),
            ("gripper_joint", &self.gripper_joint),
        ] {
            if text.is_empty() {
                return Err(EmbodimentError::Empty { name: name.into() });
            }
        }
        for name in ["stow", "carry"] {
            if self.configurations.get(name).is_none_or(BTreeMap::is_empty) {
                return Err(EmbodimentError::NoConfiguration { name: name.into() });
            }
        }
        for (name, joints) in &self.configurations {
            for (joint, value) in joints {
                number(&format!("{name}.{joint}"), *value, -100.0, 100.0)?;
            }
        }
        Ok(())
    }
}

/// Why a body can't be used.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum EmbodimentError {
    /// A number is out of its range.
    #[error("the embodiment's {name} is {value}, it must be from {low} to {high} (SI units); correct params/embodiment.yaml")]
    Number {
        /// Which.
        name: String,
        /// Its value.
        value: f64,
        /// Least.
        low: f64,
        /// Largest.
        high: f64,
    },
    /// A name is empty.
    #[error("the embodiment's {name} is empty; name it in params/embodiment.yaml")]
    Empty {
        /// Which.
        name: String,
    },
    /// A configuration is missing.
    #[error(
        "the embodiment has no configuration \"{name}\"; give its joints in params/embodiment.yaml"
    )]
    NoConfiguration {
        /// Which.
        name: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_usable_and_bad_numbers_are_named() {
        Embodiment::default().check().unwrap();
        let bad = Embodiment {
            reach: f64::NAN,
            ..Embodiment::default()
        };
        assert!(bad.check().unwrap_err().to_string().contains("reach"));
        let bad = Embodiment {
            max_stand_off: 0.1,
            ..Embodiment::default()
        };
        assert!(bad
            .check()
            .unwrap_err()
            .to_string()
            .contains("max_stand_off"));
        let bad = Embodiment {
            configurations: BTreeMap::new(),
            ..Embodiment::default()
        };
        assert!(bad.check().unwrap_err().to_string().contains("stow"));
    }
}
