//! What the fingers say about what is between them.

use crate::embodiment::Embodiment;
use crate::grasp::HeldGrasp;

/// The gripper's joint as its driver reports it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GripperReading {
    /// Gap between the fingers \[m\].
    pub width: f64,
    /// Force of the fingers \[N\]; `None` where the driver tells none.
    pub effort: Option<f64>,
}

/// What the fingers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fingers {
    /// They meet: nothing is between them.
    Closed,
    /// They are as far apart as when they let go.
    Open,
    /// In between, without force.
    Loose,
    /// In between, and something keeps them apart.
    Gripping,
    /// In between, and no force is measured: it may be either.
    Unknown,
}

/// What the gripper holds, as far as can be told.
#[derive(Clone, Debug, PartialEq)]
pub enum Hand<'a> {
    /// Nothing.
    Empty,
    /// What this executor grasped last.
    Holds(&'a HeldGrasp),
    /// Something that this executor did not grasp.
    Stranger(GripperReading),
    /// This executor grasped this last, and nothing tells whether it is still there.
    Unmeasured(&'a HeldGrasp),
}

/// What a reading says.
pub fn fingers(reading: &GripperReading, body: &Embodiment) -> Fingers {
    if !reading.width.is_finite() {
        return Fingers::Unknown;
    }
    if reading.width <= body.gripper_closed_width {
        return Fingers::Closed;
    }
    if reading.width >= body.gripper_open_width {
        return Fingers::Open;
    }
    match reading.effort.filter(|e| e.is_finite()) {
        Some(effort) if body.gripper_effort_reported => {
            if effort.abs() < body.gripper_contact_effort {
                Fingers::Loose
            } else {
                Fingers::Gripping
            }
        }
        Some(_) | None => Fingers::Unknown,
    }
}

/// What the gripper holds, from what is measured and what is remembered.
///
/// A robot that measures nothing and remembers nothing is taken for empty-handed, since a gripper that was
/// left half open looks the same.
pub fn hand<'a>(
    reading: Option<GripperReading>,
    held: Option<&'a HeldGrasp>,
    body: &Embodiment,
) -> Hand<'a> {
    match (reading.map(|r| (fingers(&r, body), r)), held) {
        (Some((Fingers::Closed | Fingers::Open | Fingers::Loose, _)), _) => Hand::Empty,
        (Some((Fingers::Gripping, _)), Some(held)) => Hand::Holds(held),
        (Some((Fingers::Gripping, reading)), None) => Hand::Stranger(reading),
        // A gap that is not closed and not open, after a grasp of ours: it holds what it was closed on.
        (Some((Fingers::Unknown, reading)), Some(held)) if reading.width.is_finite() => {
            Hand::Holds(held)
        }
        (Some((Fingers::Unknown, _)) | None, Some(held)) => Hand::Unmeasured(held),
        (Some((Fingers::Unknown, _)) | None, None) => Hand::Empty,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grasp::Approach;
    use eh_contract::geometry::Vec3;

    fn reading(width: f64, effort: Option<f64>) -> GripperReading {
        GripperReading { width, effort }
    }

    #[test]
    fn force_between_the_limits_is_a_grip() {
        let body = Embodiment::default();
        for (width, effort, expected) in [
            (0.0, Some(20.0), Fingers::Closed),
            (0.004, Some(20.0), Fingers::Closed),
            (0.07, Some(20.0), Fingers::Gripping),
            (0.07, Some(-20.0), Fingers::Gripping),
            (0.07, Some(0.9), Fingers::Loose),
            (0.07, None, Fingers::Unknown),
            (0.07, Some(f64::NAN), Fingers::Unknown),
            (0.09, Some(20.0), Fingers::Open),
            (f64::NAN, Some(20.0), Fingers::Unknown),
        ] {
            assert_eq!(
                fingers(&reading(width, effort), &body),
                expected,
                "{width} {effort:?}"
            );
        }
        let mute = Embodiment {
            gripper_effort_reported: false,
            ..body
        };
        assert_eq!(fingers(&reading(0.07, Some(0.0)), &mute), Fingers::Unknown);
    }

    #[test]
    fn memory_alone_proves_nothing_and_measurement_alone_names_nobody() {
        let body = Embodiment::default();
        let held = HeldGrasp {
            object: "cup_1".into(),
            approach: Approach::Top,
            above_bottom: 0.05,
            size: Vec3::new(0.08, 0.08, 0.1),
            in_tool: None,
        };
        let hand = |reading, held| super::hand(reading, held, &body);
        let grip = Some(reading(0.07, Some(20.0)));
        assert_eq!(hand(grip, Some(&held)), Hand::Holds(&held));
        assert!(matches!(hand(grip, None), Hand::Stranger(r) if r.width == 0.07));
        assert_eq!(
            hand(Some(reading(0.0, Some(0.0))), Some(&held)),
            Hand::Empty
        );
        assert_eq!(hand(None, Some(&held)), Hand::Unmeasured(&held));
        assert_eq!(
            hand(Some(reading(f64::NAN, None)), Some(&held)),
            Hand::Unmeasured(&held)
        );
        assert_eq!(hand(None, None), Hand::Empty);
        assert_eq!(hand(Some(reading(0.05, None)), None), Hand::Empty);
        assert_eq!(
            hand(Some(reading(0.05, None)), Some(&held)),
            Hand::Holds(&held)
        );
    }
}
