//! What of ours is in the planning scene of the arm's planner (MoveIt's PlanningScene).
//!
//! A step of a program says what of ours is to be there afterwards, not what to do: so it can be done again
//! after a crash, and an empty wish cleans up. Ours is what carries [`PREFIX`]; nothing else is touched.

use std::collections::{BTreeMap, BTreeSet};

use eh_contract::error_code::ErrorCode;
use eh_contract::geometry::{Pose, Vec3};
use nalgebra::{Isometry3, Translation3};

use crate::embodiment::Embodiment;
use crate::fingers::{self, Hand};
use crate::grasp::{known_size, tool_rotation, HeldGrasp};
use crate::program::{Context, Failure};
use crate::sub_goal::SubGoalOutcome;

/// What the names of our objects begin with.
pub const PREFIX: &str = "harness/";

/// The name under which MoveIt keeps what sensors see in the allowed collision matrix.
pub const SENSED: &str = "<octomap>";

/// How much higher or lower than a surface something may be that stands on it \[m\].
const STANDS: f64 = 0.05;

/// A box in a frame.
#[derive(Clone, Debug, PartialEq)]
pub struct SceneBox {
    /// Its name, with [`PREFIX`].
    pub id: String,
    /// Frame of the pose.
    pub frame_id: String,
    /// Its middle.
    pub pose: Pose,
    /// Its full lengths \[m\], each greater than zero.
    pub size: Vec3,
}

/// A box that moves with a link.
#[derive(Clone, Debug, PartialEq)]
pub struct AttachedBox {
    /// The box; its frame is the link.
    pub object: SceneBox,
    /// Links that may touch it.
    pub touch_links: Vec<String>,
}

/// What of ours is wanted in the scene; everything else of ours is to go.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SceneWanted {
    /// In the world.
    pub world: Vec<SceneBox>,
    /// In the gripper.
    pub attached: Option<AttachedBox>,
    /// Pairs that may touch, one of each ours.
    pub contacts: Vec<[String; 2]>,
}

/// MoveIt's allowed collision matrix.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContactMatrix {
    /// Links and objects.
    pub names: Vec<String>,
    /// As many rows of as many entries.
    pub rows: Vec<Vec<bool>>,
    /// What holds where no pair is given.
    pub defaults: BTreeMap<String, bool>,
}

/// What is known to be in the scene.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SceneKnown {
    /// Ids of the world's objects.
    pub world: BTreeSet<String>,
    /// Ids of attached objects, and the link of each.
    pub attached: BTreeMap<String, String>,
    /// The allowed contacts.
    pub matrix: ContactMatrix,
}

/// What has to be done to a scene.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SceneDifference {
    /// Ids to let go, and the link of each; they are in the world then.
    pub detach: Vec<(String, String)>,
    /// To attach; if the world has one of this id it is taken from there.
    pub attach: Option<AttachedBox>,
    /// Ids to remove from the world, after the above.
    pub remove: Vec<String>,
    /// To add to the world, instead of one of the same id.
    pub add: Vec<SceneBox>,
    /// The whole new matrix; `None`: it stays.
    pub matrix: Option<ContactMatrix>,
}

impl SceneDifference {
    /// True when nothing is to be done.
    pub fn is_empty(&self) -> bool {
        *self == SceneDifference::default()
    }
}

impl ContactMatrix {
    /// Whether a matrix has a row for each name and an entry for each pair.
    pub fn is_sound(&self) -> bool {
        let n = self.names.len();
        self.rows.len() == n && self.rows.iter().all(|row| row.len() == n)
    }

    /// The matrix without the names that are ours.
    fn without_ours(&self) -> Self {
        let kept: Vec<bool> = self.names.iter().map(|n| !n.starts_with(PREFIX)).collect();
        fn only<T: Clone>(all: &[T], kept: &[bool]) -> Vec<T> {
            all.iter()
                .zip(kept)
                .filter(|(_, keep)| **keep)
                .map(|(v, _)| v.clone())
                .collect()
        }
        ContactMatrix {
            names: only(&self.names, &kept),
            rows: only(&self.rows, &kept)
                .iter()
                .map(|row| only(row, &kept))
                .collect(),
            defaults: self.defaults.clone(),
        }
    }

    /// The same contacts, in the order of the names.
    fn sorted(&self) -> Self {
        let mut order: Vec<usize> = (0..self.names.len()).collect();
        order.sort_by_key(|i| self.names.get(*i));
        fn pick<T: Clone>(all: &[T], order: &[usize]) -> Vec<T> {
            order.iter().filter_map(|i| all.get(*i).cloned()).collect()
        }
        ContactMatrix {
            names: pick(&self.names, &order),
            rows: pick(&self.rows, &order)
                .iter()
                .map(|row| pick(row, &order))
                .collect(),
            defaults: self.defaults.clone(),
        }
    }

    /// The place of a name, which is given a row where it has none. A new name touches nothing that its
    /// defaults do not allow.
    fn place(&mut self, name: &str) -> usize {
        if let Some(found) = self.names.iter().position(|n| n == name) {
            return found;
        }
        let own = self.defaults.get(name).copied();
        let entries: Vec<bool> = self
            .names
            .iter()
            .map(|other| match (own, self.defaults.get(other)) {
                (Some(a), Some(b)) => a && *b,
                (Some(one), None) => one,
                (None, Some(one)) => *one,
                (None, None) => false,
            })
            .collect();
        for (row, entry) in self.rows.iter_mut().zip(&entries) {
            row.push(*entry);
        }
        let mut row = entries;
        row.push(false);
        self.rows.push(row);
        self.names.push(name.into());
        self.names.len() - 1
    }

    fn allow(&mut self, [a, b]: &[String; 2]) {
        let (i, j) = (self.place(a), self.place(b));
        for (row, column) in [(i, j), (j, i)] {
            if let Some(entry) = self.rows.get_mut(row).and_then(|r| r.get_mut(column)) {
                *entry = true;
            }
        }
    }
}

/// What has to be done so that of ours there is what is wanted, and nothing else.
pub fn difference(known: &SceneKnown, wanted: &SceneWanted) -> SceneDifference {
    let ours = |id: &str| id.starts_with(PREFIX);
    let wanted_attached = wanted.attached.as_ref().map(|a| a.object.id.as_str());
    let detach: Vec<(String, String)> = known
        .attached
        .iter()
        .filter(|(id, _)| ours(id) && Some(id.as_str()) != wanted_attached)
        .map(|(id, link)| (id.clone(), link.clone()))
        .collect();
    // As it was attached it stays: where it sits in the gripper was known best when it was grasped.
    let attach = wanted
        .attached
        .clone()
        .filter(|a| !known.attached.contains_key(&a.object.id));
    let is_wanted = |id: &str| wanted.world.iter().any(|b| b.id == id);
    let taken = attach.as_ref().map(|a| a.object.id.as_str());
    let remove: BTreeSet<String> = known
        .world
        .iter()
        .filter(|id| ours(id) && Some(id.as_str()) != taken)
        .chain(detach.iter().map(|(id, _)| id))
        .filter(|id| !is_wanted(id))
        .cloned()
        .collect();
    let mut matrix = known.matrix.without_ours();
    for pair in &wanted.contacts {
        matrix.allow(pair);
    }
    SceneDifference {
        detach,
        attach,
        remove: remove.into_iter().collect(),
        add: wanted.world.clone(),
        matrix: (matrix.sorted() != known.matrix.sorted()).then_some(matrix),
    }
}

/// The name of a scene object in the planning scene.
pub fn scene_id(name: &str) -> String {
    format!("{PREFIX}{name}")
}

/// The box of a scene object whose middle is at a pose in base_link.
pub(crate) fn boxed(name: &str, pose: Pose, size: Vec3, body: &Embodiment) -> SceneBox {
    SceneBox {
        id: scene_id(name),
        frame_id: body.base_frame.clone(),
        pose,
        size: known_size(size),
    }
}

/// What something stands on, if it does: `pose` and `size` of the support, the bottom of the thing, all in
/// base_link. A shelf that it is in would be a wall around it.
pub(crate) fn support_below(
    name: &str,
    pose: Pose,
    size: Vec3,
    bottom: f64,
    body: &Embodiment,
) -> Option<SceneBox> {
    let known = [size.x, size.y, size.z]
        .iter()
        .all(|v| v.is_finite() && *v > 0.0);
    let top = pose.position.z + 0.5 * size.z;
    (known && (bottom - top).abs() <= STANDS).then(|| boxed(name, pose, size, body))
}

/// What is held, as it sits in the gripper.
pub(crate) fn attached(held: &HeldGrasp, body: &Embodiment) -> AttachedBox {
    AttachedBox {
        object: SceneBox {
            id: scene_id(&held.object),
            frame_id: body.tool_link.clone(),
            pose: in_tool(held),
            size: held.size,
        },
        touch_links: body.gripper_links.clone(),
    }
}

/// Where what is held is in the tool's frame. Where that was not noted: upright, as it is grasped.
pub(crate) fn in_tool(held: &HeldGrasp) -> Pose {
    held.in_tool.unwrap_or_else(|| {
        let turn = tool_rotation(0.0, held.approach.pitch());
        let up = Translation3::new(0.0, 0.0, 0.5 * held.size.z - held.above_bottom);
        (Isometry3::from_parts(Translation3::identity(), turn.inverse()) * up).into()
    })
}

/// The contacts of the gripper with an object.
pub(crate) fn grip(name: &str, body: &Embodiment) -> Vec<[String; 2]> {
    body.gripper_links
        .iter()
        .map(|link| [link.clone(), scene_id(name)])
        .collect()
}

/// The contacts of an object with what it stands on, as far as that is in the scene, and with what is
/// sensed of it.
pub(crate) fn standing(name: &str, support: Option<&SceneBox>) -> Vec<[String; 2]> {
    let sensed = [scene_id(name), SENSED.to_string()];
    support
        .map(|s| [scene_id(name), s.id.clone()])
        .into_iter()
        .chain([sensed])
        .collect()
}

/// What is right whenever nothing moves: what is held is attached, and that is all.
pub(crate) fn at_rest(context: &Context<'_>) -> SceneWanted {
    let held = match fingers::hand(context.gripper, context.held, context.body) {
        Hand::Holds(held) | Hand::Unmeasured(held) => Some(held),
        Hand::Empty | Hand::Stranger(_) => None,
    };
    SceneWanted {
        attached: held.map(|held| attached(held, context.body)),
        ..SceneWanted::default()
    }
}

/// `None` for a change of the scene that was done.
pub(crate) fn scene_failure(outcome: &SubGoalOutcome) -> Option<Failure> {
    match outcome {
        SubGoalOutcome::Succeeded | SubGoalOutcome::Gripper(_) | SubGoalOutcome::Observed(_) => None,
        SubGoalOutcome::Rejected { message } | SubGoalOutcome::Aborted { message, .. } => {
            Some(Failure::new(
                ErrorCode::ManipulationFailed,
                format!("the planning scene was not changed: {message}; see move_group's log, or set planning_scene to false"),
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grasp::Approach;
    use proptest::prelude::*;

    fn cup() -> SceneBox {
        boxed(
            "cup_1",
            Pose::default(),
            Vec3::new(0.08, 0.08, 0.1),
            &Embodiment::default(),
        )
    }

    fn in_hand() -> AttachedBox {
        AttachedBox {
            object: cup(),
            touch_links: vec!["hand".into()],
        }
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|n| (*n).to_string()).collect()
    }

    /// What a scene is after a difference was applied, by MoveIt's rules.
    fn applied(known: &SceneKnown, change: &SceneDifference) -> SceneKnown {
        let mut scene = known.clone();
        for (id, _) in &change.detach {
            assert!(scene.attached.remove(id).is_some(), "{id} is not attached");
            scene.world.insert(id.clone());
        }
        if let Some(a) = &change.attach {
            scene.world.remove(&a.object.id);
            scene
                .attached
                .insert(a.object.id.clone(), a.object.frame_id.clone());
        }
        for id in &change.remove {
            assert!(scene.world.remove(id), "{id} is not in the world");
        }
        scene.world.extend(change.add.iter().map(|b| b.id.clone()));
        if let Some(matrix) = &change.matrix {
            assert!(matrix.is_sound());
            scene.matrix = matrix.clone();
        }
        scene
    }

    #[test]
    fn what_is_attached_goes_back_through_the_world_and_out_of_it() {
        let mut known = SceneKnown::default();
        known.world.insert("table".into());
        let placed = applied(
            &known,
            &difference(
                &known,
                &SceneWanted {
                    world: vec![cup()],
                    ..SceneWanted::default()
                },
            ),
        );
        assert!(placed.world.contains("harness/cup_1"));
        let wanted = SceneWanted {
            attached: Some(in_hand()),
            ..SceneWanted::default()
        };
        let change = difference(&placed, &wanted);
        assert_eq!(
            change.remove,
            names(&[]),
            "attaching takes it from the world"
        );
        let held = applied(&placed, &change);
        // The same again, as after a crash: nothing is to be done.
        assert!(difference(&held, &wanted).is_empty());
        let change = difference(&held, &SceneWanted::default());
        assert_eq!(change.detach.len(), 1);
        assert_eq!(change.remove, names(&["harness/cup_1"]));
        let clean = applied(&held, &change);
        assert_eq!(clean.world.iter().collect::<Vec<_>>(), ["table"]);
        assert!(clean.attached.is_empty());
        assert!(difference(&clean, &SceneWanted::default()).is_empty());
    }

    #[test]
    fn contacts_of_others_stay_as_they_are() {
        let matrix = ContactMatrix {
            names: names(&["elbow", "hand", "harness/old"]),
            rows: vec![
                vec![false, true, true],
                vec![true, false, true],
                vec![true, true, false],
            ],
            defaults: [("hand".to_string(), true)].into(),
        };
        let known = SceneKnown {
            matrix: matrix.clone(),
            ..SceneKnown::default()
        };
        let wanted = SceneWanted {
            contacts: vec![["hand".into(), "harness/cup_1".into()]],
            ..SceneWanted::default()
        };
        let new = difference(&known, &wanted).matrix.unwrap();
        assert_eq!(new.names, names(&["elbow", "hand", "harness/cup_1"]));
        assert_eq!(
            new.rows,
            vec![
                vec![false, true, false],
                vec![true, false, true],
                vec![false, true, false],
            ]
        );
        assert_eq!(new.defaults, matrix.defaults);
        // A link that had no row and a default: with a row it touches what it touched before.
        let wanted = SceneWanted {
            contacts: vec![["finger".into(), "harness/cup_1".into()]],
            ..SceneWanted::default()
        };
        let new = difference(&known, &wanted).matrix.unwrap();
        let row = new.names.iter().position(|n| n == "finger").unwrap();
        assert_eq!(new.rows[row], vec![false, true, false, true]);
    }

    #[test]
    fn what_is_held_hangs_as_it_was_grasped() {
        let body = Embodiment::default();
        let held = |approach| HeldGrasp {
            object: "cup_1".into(),
            approach,
            above_bottom: 0.07,
            size: Vec3::new(0.08, 0.08, 0.1),
            in_tool: None,
        };
        // The tool is 0.02 m above the middle. Looking down, its x is the world's -z.
        let top = attached(&held(Approach::Top), &body).object.pose;
        assert!((top.position.x - 0.02).abs() < 1e-9, "{top:?}");
        let level = attached(&held(Approach::Level), &body).object.pose;
        assert!((level.position.z + 0.02).abs() < 1e-9, "{level:?}");
        let noted = HeldGrasp {
            in_tool: Some(Pose::planar(0.01, 0.0, 0.3)),
            ..held(Approach::Top)
        };
        assert_eq!(
            attached(&noted, &body).object.pose,
            Pose::planar(0.01, 0.0, 0.3)
        );
    }

    #[test]
    fn only_what_it_stands_on_is_a_support() {
        let body = Embodiment::default();
        let table = Pose {
            position: Vec3::new(1.0, 0.0, 0.37),
            ..Pose::default()
        };
        let size = Vec3::new(0.9, 0.7, 0.74);
        assert!(support_below("t", table, size, 0.75, &body).is_some());
        // In a shelf, or with a size that is not known.
        assert!(support_below("t", table, size, 0.4, &body).is_none());
        let unknown = Vec3::new(0.0, 0.7, 0.74);
        assert!(support_below("t", table, unknown, 0.74, &body).is_none());
    }

    proptest! {
        /// From any scene, a difference is possible by MoveIt's rules, reaches what is wanted, leaves what
        /// is not ours alone, and done again changes no id.
        #[test]
        fn a_difference_reaches_what_is_wanted(world in 0u8..16, held in 0u8..4, want_world in proptest::bool::ANY,
                                               want_held in proptest::bool::ANY, contacts in 0usize..3) {
            let ids = ["harness/cup_1", "harness/table_1", "table", "harness/old"];
            let known = SceneKnown {
                world: ids.iter().enumerate().filter(|(i, _)| world & (1 << i) != 0)
                    .map(|(_, id)| (*id).to_string()).collect(),
                attached: ["harness/bowl_1", "tool"].iter().enumerate().filter(|(i, _)| held & (1 << i) != 0)
                    .map(|(_, id)| ((*id).to_string(), "hand".to_string())).collect(),
                matrix: ContactMatrix {
                    names: names(&["hand", "harness/old"]),
                    rows: vec![vec![false, true], vec![true, false]],
                    defaults: BTreeMap::new(),
                },
            };
            let wanted = SceneWanted {
                world: if want_world && !want_held { vec![cup()] } else { vec![] },
                attached: want_held.then(in_hand),
                contacts: [["hand", "harness/cup_1"], ["harness/cup_1", SENSED]][..contacts.min(2)].iter()
                    .map(|[a, b]| [(*a).to_string(), (*b).to_string()]).collect(),
            };
            let after = applied(&known, &difference(&known, &wanted));
            let ours: Vec<&String> = after.world.iter().filter(|id| id.starts_with(PREFIX)).collect();
            prop_assert_eq!(ours.len(), wanted.world.len());
            prop_assert_eq!(after.world.contains("table"), known.world.contains("table"));
            prop_assert_eq!(after.attached.contains_key("tool"), known.attached.contains_key("tool"));
            prop_assert_eq!(after.attached.keys().filter(|id| id.starts_with(PREFIX)).count(), usize::from(want_held));
            let again = difference(&after, &wanted);
            prop_assert!(again.detach.is_empty() && again.attach.is_none() && again.remove.is_empty());
            prop_assert!(again.matrix.is_none());
        }
    }
}
