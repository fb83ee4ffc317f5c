//! Transforms between frames: what `/tf` and `/tf_static` said in the last seconds.
//!
//! The tree, its history and the interpolation are those of the `transforms` crate; this adds the
//! messages, an age limit, a bound on the number of frames, and what to do when time jumps back.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use nalgebra::{Isometry3, Quaternion as NaQuaternion, Translation3, UnitQuaternion};
use rclrs::{log_warn, IntoPrimitiveOptions, Node, RclrsError, ToLogParams, WorkerSubscription};
use ros_env::geometry_msgs::msg::TransformStamped;
use ros_env::tf2_msgs::msg::TFMessage;
use transforms::errors::RegistryError;
use transforms::geometry::{Quaternion, Transform, Vector3};
use transforms::time::{Stamp, Timestamp};
use transforms::Registry;

use crate::convert::{self, ConvertError};
use crate::qos;
use crate::streams::Streams;

/// How much history is kept, as tf2 does by default.
pub const HISTORY: Duration = Duration::from_secs(10);

/// How many frames are kept at most: more than any robot has, little enough to bound the memory.
pub const MOST_FRAMES: usize = 2048;

/// A transform cannot be given, or was not taken in.
#[derive(Debug, thiserror::Error)]
pub enum TfError {
    /// No transform ever named the frame.
    #[error(
        "frame '{0}' is unknown: no transform has named it yet; check its publisher and spelling"
    )]
    UnknownFrame(String),
    /// Both frames are known, but nothing connects them.
    #[error("no chain of transforms connects '{source_frame}' with '{target_frame}'")]
    NotConnected {
        /// The frame that is asked for.
        target_frame: String,
        /// The frame that is transformed.
        source_frame: String,
    },
    /// The time lies before or after what is known.
    #[error("the transform at {requested_s:.3} s is not known ({reason}); wait for it or ask for another time")]
    Extrapolation {
        /// The time asked for, seconds.
        requested_s: f64,
        /// What is known.
        reason: String,
    },
    /// The newest transform is older than allowed.
    #[error("the newest transform from '{source_frame}' to '{target_frame}' is {age_s:.3} s old, more than {limit_s:.3} s: is its publisher alive?")]
    TooOld {
        /// The frame that is asked for.
        target_frame: String,
        /// The frame that is transformed.
        source_frame: String,
        /// Its age, seconds.
        age_s: f64,
        /// The limit, seconds.
        limit_s: f64,
    },
    /// A transform with a number that is not finite, or with a rotation that is none.
    #[error("the transform from '{child}' to '{parent}' is refused: {reason}")]
    Refused {
        /// Its parent frame.
        parent: String,
        /// Its child frame.
        child: String,
        /// Why.
        reason: String,
    },
}

/// A lookup's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct TfLookup {
    /// Maps coordinates in the source frame to coordinates in the target frame.
    pub transform: Isometry3<f64>,
    /// The time that it holds for, nanoseconds; None if all parts are fixed.
    pub stamp_ns: Option<i64>,
}

#[derive(Debug)]
struct State {
    registry: Registry,
    /// Child frames of changing transforms, with the newest stamp of each.
    children: HashSet<String>,
}

/// The transforms of the last [`HISTORY`]. Clones share one buffer.
#[derive(Debug, Clone)]
pub struct TfBuffer {
    state: Arc<RwLock<State>>,
}

impl Default for TfBuffer {
    fn default() -> Self {
        Self::new()
    }
}

impl TfBuffer {
    /// Creates an empty buffer.
    pub fn new() -> Self {
        Self {
            state: Arc::new(RwLock::new(State {
                registry: Registry::with_max_age(HISTORY),
                children: HashSet::new(),
            })),
        }
    }

    /// Takes in one transform: `transform` maps coordinates in `child` to coordinates in `parent`, at
    /// `stamp_ns`, or always if that is None.
    ///
    /// A stamp more than [`HISTORY`] before the newest one of the frame means that time has jumped back
    /// (a simulation was restarted): the frame's history is dropped then. A frame that comes with another
    /// parent moves there.
    ///
    /// # Errors
    ///
    /// [`TfError::Refused`] if numbers are not finite, a name is empty, a cycle would arise, a fixed
    /// frame comes as a changing one, or there are too many frames.
    pub fn insert(
        &self,
        parent: &str,
        child: &str,
        stamp_ns: Option<i64>,
        transform: &Isometry3<f64>,
    ) -> Result<(), TfError> {
        let refused = |reason: String| TfError::Refused {
            parent: parent.into(),
            child: child.into(),
            reason,
        };
        if parent.is_empty() || child.is_empty() {
            return Err(refused("a frame's name is empty".into()));
        }
        let stamp = match stamp_ns {
            None => Stamp::Static,
            Some(nanoseconds) => Stamp::At(
                timestamp(nanoseconds)
                    .ok_or_else(|| refused(format!("its stamp {nanoseconds} ns is negative")))?,
            ),
        };
        let translation = transform.translation.vector;
        let rotation = transform.rotation;
        let entry = Transform::new(
            parent,
            child,
            Vector3::new(translation.x, translation.y, translation.z),
            Quaternion {
                w: rotation.w,
                x: rotation.i,
                y: rotation.j,
                z: rotation.k,
            },
            stamp,
        )
        .map_err(|error| refused(error.to_string()))?;

        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if !state.children.contains(child) && state.children.len() >= MOST_FRAMES {
            return Err(refused(format!("there are {MOST_FRAMES} frames already")));
        }
        if let Stamp::At(at) = stamp {
            if state.has_jumped_back(parent, child, at) {
                state.registry.remove_frame(child);
            }
        }
        let again = entry.clone();
        match state.registry.add_transform(entry) {
            Err(RegistryError::ReparentingNotSupported { .. }) => state
                .registry
                .reparent_frame(again)
                .map_err(|error| refused(error.to_string()))?,
            other => other.map_err(|error| refused(error.to_string()))?,
        };
        state.children.insert(child.into());
        Ok(())
    }

    /// Takes in one transform as published.
    ///
    /// # Errors
    ///
    /// As [`TfBuffer::insert`].
    pub fn insert_message(&self, message: &TransformStamped, fixed: bool) -> Result<(), TfError> {
        let parent = frame_name(&message.header.frame_id);
        let child = frame_name(&message.child_frame_id);
        let transform = convert::transform(&message.transform).map_err(|error: ConvertError| {
            TfError::Refused {
                parent: parent.into(),
                child: child.into(),
                reason: error.to_string(),
            }
        })?;
        let stamp = (!fixed).then(|| convert::time_ns(&message.header.stamp));
        self.insert(parent, child, stamp, &transform)
    }

    /// Gives the transform at a given time, nanoseconds, interpolated between the two nearest.
    ///
    /// # Errors
    ///
    /// [`TfError`] if a frame is unknown, nothing connects them, or the time is not covered. There is no
    /// extrapolation.
    pub fn lookup(
        &self,
        target_frame: &str,
        source_frame: &str,
        stamp_ns: i64,
    ) -> Result<TfLookup, TfError> {
        let (target, source) = (frame_name(target_frame), frame_name(source_frame));
        let at = timestamp(stamp_ns).ok_or_else(|| TfError::Extrapolation {
            requested_s: crate::clock::seconds(stamp_ns),
            reason: "it lies before the epoch".into(),
        })?;
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.known(target)?;
        state.known(source)?;
        let found = state
            .registry
            .get_transform(target, source, at)
            .map_err(|error| lookup_error(error, stamp_ns))?;
        Ok(TfLookup {
            transform: isometry(&found),
            stamp_ns: Some(stamp_ns),
        })
    }

    /// Gives the newest transform that all parts of the chain know, if it is not older than `limit` at
    /// `now_ns`. Fixed chains have no age.
    ///
    /// # Errors
    ///
    /// [`TfError`] if a frame is unknown, nothing connects them, or the newest transform is too old.
    pub fn lookup_latest(
        &self,
        target_frame: &str,
        source_frame: &str,
        now_ns: i64,
        limit: Duration,
    ) -> Result<TfLookup, TfError> {
        let (target, source) = (frame_name(target_frame), frame_name(source_frame));
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.known(target)?;
        state.known(source)?;
        let stamp = state
            .registry
            .latest_common_time(target, source)
            .map_err(|error| lookup_error(error, now_ns))?;
        let at = match stamp {
            Stamp::Static => Timestamp::zero(),
            Stamp::At(at) => at,
        };
        let stamp_ns = stamp.at().map(nanoseconds);
        if let Some(stamp_ns) = stamp_ns {
            let age_s = crate::clock::seconds(now_ns.saturating_sub(stamp_ns));
            if age_s > limit.as_secs_f64() {
                return Err(TfError::TooOld {
                    target_frame: target.into(),
                    source_frame: source.into(),
                    age_s,
                    limit_s: limit.as_secs_f64(),
                });
            }
        }
        let found = state
            .registry
            .get_transform(target, source, at)
            .map_err(|error| lookup_error(error, now_ns))?;
        Ok(TfLookup {
            transform: isometry(&found),
            stamp_ns,
        })
    }
}

impl State {
    /// Whether a stamp lies further before the newest one of the frame than any delay explains.
    fn has_jumped_back(&self, parent: &str, child: &str, at: Timestamp) -> bool {
        match self.registry.latest_common_time(parent, child) {
            Ok(Stamp::At(newest)) => {
                let history = i64::try_from(HISTORY.as_nanos()).unwrap_or(i64::MAX);
                nanoseconds(newest).saturating_sub(nanoseconds(at)) > history
            }
            _ => false,
        }
    }

    /// The registry answers for equal names of frames it has never heard of; we do not.
    fn known(&self, frame: &str) -> Result<(), TfError> {
        match self.registry.latest_common_time(frame, "") {
            Err(RegistryError::UnknownFrame(name)) if name == frame => {
                Err(TfError::UnknownFrame(frame.into()))
            }
            _ => Ok(()),
        }
    }
}

/// Frame names of old had a leading slash.
fn frame_name(name: &str) -> &str {
    name.strip_prefix('/').unwrap_or(name)
}

fn timestamp(nanoseconds: i64) -> Option<Timestamp> {
    u64::try_from(nanoseconds).ok().map(Timestamp::from_nanos)
}

fn nanoseconds(stamp: Timestamp) -> i64 {
    i64::try_from(stamp.as_nanos()).unwrap_or(i64::MAX)
}

fn isometry(transform: &Transform) -> Isometry3<f64> {
    let translation = transform.translation();
    let rotation = transform.rotation();
    Isometry3::from_parts(
        Translation3::new(translation.x, translation.y, translation.z),
        UnitQuaternion::new_normalize(NaQuaternion::new(
            rotation.w, rotation.x, rotation.y, rotation.z,
        )),
    )
}

fn lookup_error(error: RegistryError, requested_ns: i64) -> TfError {
    match error {
        RegistryError::UnknownFrame(frame) => TfError::UnknownFrame(frame),
        RegistryError::Disconnected {
            target_frame,
            source_frame,
        } => TfError::NotConnected {
            target_frame,
            source_frame,
        },
        other => TfError::Extrapolation {
            requested_s: crate::clock::seconds(requested_ns),
            reason: other.to_string(),
        },
    }
}

/// A buffer that listens to `/tf_static` as long as this value lives, and to `/tf` while it is wanted.
pub struct TfListener {
    /// The buffer that is filled.
    pub buffer: TfBuffer,
    node: Node,
    streams: Streams,
    changing: Mutex<Option<WorkerSubscription<TFMessage, ()>>>,
    _fixed: WorkerSubscription<TFMessage, ()>,
}

impl TfListener {
    /// Creates the subscriptions. The topics are `tf` and `tf_static` below the root, as tf2 has them;
    /// remap rules apply.
    ///
    /// # Errors
    ///
    /// If ROS refuses a subscription.
    pub fn new(node: &Node, streams: &Streams) -> Result<Self, RclrsError> {
        let listener = Self::fixed_only(node, streams)?;
        listener.listen(true)?;
        Ok(listener)
    }

    /// As [`TfListener::new`], but hears of changing transforms only after [`TfListener::listen`].
    ///
    /// # Errors
    ///
    /// If ROS refuses a subscription.
    pub fn fixed_only(node: &Node, streams: &Streams) -> Result<Self, RclrsError> {
        let buffer = TfBuffer::new();
        Ok(Self {
            _fixed: subscribe(node, streams, &buffer, "/tf_static", true)?,
            changing: Mutex::new(None),
            node: node.clone(),
            streams: streams.clone(),
            buffer,
        })
    }

    /// Begins to listen to changing transforms, or stops it: whoever does not need them is not woken by
    /// them. Of what was heard before, the age limit of a lookup decides.
    ///
    /// # Errors
    ///
    /// If ROS refuses the subscription.
    pub fn listen(&self, wanted: bool) -> Result<(), RclrsError> {
        let mut changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        if !wanted {
            *changing = None;
        } else if changing.is_none() {
            *changing = Some(subscribe(
                &self.node,
                &self.streams,
                &self.buffer,
                "/tf",
                false,
            )?);
        }
        Ok(())
    }
}

fn subscribe(
    node: &Node,
    streams: &Streams,
    buffer: &TfBuffer,
    topic: &'static str,
    fixed: bool,
) -> Result<WorkerSubscription<TFMessage, ()>, RclrsError> {
    let buffer = buffer.clone();
    let logger = node.logger().clone();
    let profile = if fixed { qos::tf_static() } else { qos::tf() };
    streams.create_subscription::<TFMessage, _>(topic.qos(profile), move |message: TFMessage| {
        for transform in &message.transforms {
            if let Err(error) = buffer.insert_message(transform, fixed) {
                log_warn!(logger.throttle(Duration::from_secs(5)), "{error}");
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::Vector3 as NaVector3;

    const SECOND: i64 = 1_000_000_000;

    fn along_x(x: f64) -> Isometry3<f64> {
        Isometry3::translation(x, 0.0, 0.0)
    }

    /// map -> base moves 1 m/s along x from second 10 to 12; base -> camera is fixed, 0.5 m above.
    fn moving() -> TfBuffer {
        let buffer = TfBuffer::new();
        for second in 10..=12 {
            buffer
                .insert(
                    "map",
                    "base",
                    Some(second * SECOND),
                    &along_x(second as f64 - 10.0),
                )
                .unwrap();
        }
        let up = Isometry3::translation(0.0, 0.0, 0.5);
        buffer.insert("base", "camera", None, &up).unwrap();
        buffer
    }

    #[test]
    fn a_lookup_interpolates_and_composes() {
        let found = moving()
            .lookup("map", "camera", 10 * SECOND + SECOND / 4)
            .unwrap();
        // A quarter of the way from 0 m to 1 m.
        let expected = NaVector3::new(0.25, 0.0, 0.5);
        assert!((found.transform.translation.vector - expected).norm() < 1e-12);
        let back = moving()
            .lookup("camera", "map", 10 * SECOND + SECOND / 4)
            .unwrap();
        assert!((back.transform.translation.vector + expected).norm() < 1e-12);
    }

    #[test]
    fn there_is_no_extrapolation() {
        for time in [9 * SECOND, 13 * SECOND, -1, i64::MIN, i64::MAX] {
            let error = moving().lookup("map", "camera", time).unwrap_err();
            assert!(matches!(error, TfError::Extrapolation { .. }), "{error}");
        }
    }

    #[test]
    fn the_newest_transform_has_an_age_limit() {
        let limit = Duration::from_millis(500);
        let found = moving().lookup_latest("map", "camera", 12 * SECOND + SECOND / 2, limit);
        assert_eq!(found.unwrap().stamp_ns, Some(12 * SECOND));
        let error = moving()
            .lookup_latest("map", "camera", 12 * SECOND + SECOND / 2 + 1, limit)
            .unwrap_err();
        assert!(matches!(error, TfError::TooOld { .. }), "{error}");
        // A fixed chain has no age.
        let fixed = moving()
            .lookup_latest("base", "camera", i64::MAX, limit)
            .unwrap();
        assert_eq!(fixed.stamp_ns, None);
    }

    #[test]
    fn unknown_and_unconnected_frames_are_told_apart() {
        let buffer = moving();
        buffer.insert("world", "moon", None, &along_x(1.0)).unwrap();
        for (target, source) in [("map", "cup"), ("cup", "map"), ("cup", "cup")] {
            let error = buffer.lookup(target, source, 11 * SECOND).unwrap_err();
            assert!(
                matches!(&error, TfError::UnknownFrame(name) if name == "cup"),
                "{error}"
            );
        }
        let error = buffer.lookup("base", "moon", 11 * SECOND).unwrap_err();
        assert!(matches!(error, TfError::NotConnected { .. }), "{error}");
        assert!(buffer.lookup("map", "map", 11 * SECOND).is_ok());
        assert!(buffer.lookup("/map", "/base", 11 * SECOND).is_ok());
    }

    #[test]
    fn time_that_jumps_back_drops_the_history() {
        let buffer = moving();
        // More than 10 s before second 12.
        buffer
            .insert("map", "base", Some(SECOND), &along_x(7.0))
            .unwrap();
        let found = buffer
            .lookup_latest("map", "base", SECOND, Duration::from_secs(1))
            .unwrap();
        assert_eq!(found.stamp_ns, Some(SECOND));
        assert_eq!(found.transform.translation.x, 7.0);
    }

    #[test]
    fn a_late_transform_within_the_history_changes_nothing_newer() {
        let buffer = moving();
        buffer
            .insert("map", "base", Some(9 * SECOND), &along_x(-1.0))
            .unwrap();
        let found = buffer
            .lookup_latest("map", "base", 12 * SECOND, Duration::from_secs(1))
            .unwrap();
        assert_eq!(found.stamp_ns, Some(12 * SECOND));
    }

    #[test]
    fn a_frame_can_move_to_another_parent() {
        let buffer = TfBuffer::new();
        buffer
            .insert("table", "cup", Some(SECOND), &along_x(1.0))
            .unwrap();
        buffer
            .insert("gripper", "cup", Some(2 * SECOND), &along_x(2.0))
            .unwrap();
        let found = buffer.lookup("gripper", "cup", 2 * SECOND).unwrap();
        assert_eq!(found.transform.translation.x, 2.0);
    }

    #[test]
    fn bad_transforms_are_refused_and_leave_the_buffer_as_it_was() {
        let buffer = moving();
        let not_a_number = along_x(f64::NAN);
        assert!(buffer
            .insert("map", "base", Some(12 * SECOND), &not_a_number)
            .is_err());
        assert!(buffer
            .insert("map", "base", Some(-1), &along_x(0.0))
            .is_err());
        assert!(buffer
            .insert("", "base", Some(SECOND), &along_x(0.0))
            .is_err());
        assert!(buffer
            .insert("map", "map", Some(SECOND), &along_x(0.0))
            .is_err());
        assert!(
            buffer.insert("camera", "map", None, &along_x(0.0)).is_err(),
            "a cycle"
        );
        assert!(
            buffer.insert("map", "base", None, &along_x(0.0)).is_err(),
            "fixed and changing"
        );
        assert!(buffer.lookup("map", "camera", 11 * SECOND).is_ok());
    }

    #[test]
    fn the_number_of_frames_is_bounded() {
        let buffer = TfBuffer::new();
        for index in 0..MOST_FRAMES {
            buffer
                .insert("map", &format!("frame_{index}"), None, &along_x(0.0))
                .unwrap();
        }
        assert!(buffer
            .insert("map", "one_more", None, &along_x(0.0))
            .is_err());
        assert!(buffer.insert("map", "frame_0", None, &along_x(1.0)).is_ok());
    }
}
