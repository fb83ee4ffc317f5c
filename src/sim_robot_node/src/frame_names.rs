//! What the frames of the simulation are called in ROS.

use eh_sim::robot_frames::{unknown_frame, FRAMES};
use eh_sim::SimError;

/// The names of the three frames that can be renamed; all others keep theirs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameNames {
    /// The simulation's `map`.
    pub map: String,
    /// The simulation's `odom`.
    pub odom: String,
    /// The simulation's `base_link`.
    pub base: String,
}

impl FrameNames {
    fn renamed(&self) -> [(&'static str, &str); 3] {
        [
            ("map", &self.map),
            ("odom", &self.odom),
            ("base_link", &self.base),
        ]
    }

    /// The name in ROS of a frame of the simulation.
    pub fn to_ros<'a>(&'a self, frame: &'a str) -> &'a str {
        let renamed = self.renamed().into_iter().find(|(own, _)| *own == frame);
        renamed.map_or(frame, |(_, name)| name)
    }

    /// The simulation's name of a frame in ROS. A slash in front, as ROS 1 wrote it, is left out.
    ///
    /// # Errors
    /// [`SimError::UnknownFrame`].
    pub fn to_sim(&self, frame: &str) -> Result<&'static str, SimError> {
        let frame = frame.strip_prefix('/').unwrap_or(frame);
        let renamed = self.renamed();
        if let Some((own, _)) = renamed.iter().find(|(_, name)| *name == frame) {
            return Ok(own);
        }
        FRAMES
            .into_iter()
            .find(|own| *own == frame && renamed.iter().all(|(renamed, _)| renamed != own))
            .ok_or_else(|| unknown_frame(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(map: &str) -> FrameNames {
        FrameNames {
            map: map.into(),
            odom: "odom".into(),
            base: "base_footprint".into(),
        }
    }

    #[test]
    fn names_go_both_ways() {
        let names = names("world");
        for (own, ros) in [
            ("map", "world"),
            ("odom", "odom"),
            ("base_link", "base_footprint"),
            ("laser", "laser"),
        ] {
            assert_eq!(names.to_ros(own), ros);
            assert_eq!(names.to_sim(ros).unwrap(), own);
        }
        assert_eq!(names.to_sim("/laser").unwrap(), "laser");
    }

    #[test]
    fn a_name_that_was_given_up_is_unknown() {
        assert!(names("world").to_sim("map").is_err());
        assert!(names("map").to_sim("map").is_ok());
        assert!(names("map").to_sim("").is_err());
    }
}
