//! Which detection is the object that was meant, where it was, and whether the camera looked there.

use eh_contract::geometry::Vec3;
use eh_contract::perception::{Detection, DetectionFrame};
use eh_contract::scene::SceneObject;
use eh_contract::sight::{line_of_sight, Solid};

use crate::scope::{Scope, Target};

/// Share of the field of view in which something is expected to be found.
const VIEW_SHARE: f64 = 0.9;

/// How much boxes of other objects are grown before they count as hiding something \[m\].
const INFLATE: f64 = 0.02;

/// What the frames of a run show of an object's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnTheWay {
    /// So few frames looked there that its absence would hardly have been noticed.
    HardlyLooked(usize),
    /// None of the last frames that looked there shows it.
    Missed,
    /// It was seen there, among so many looks.
    Seen(usize),
}

impl<'a> Scope<'a> {
    /// Where an object was at the start: seen before it, else where the command says.
    pub fn origin(&self, target: &Target) -> Vec3 {
        self.seen_before(target).unwrap_or(target.pose.position)
    }

    /// Where it was seen before the start.
    pub fn seen_before(&self, target: &Target) -> Option<Vec3> {
        let baseline = self.record.baseline.as_ref().ok()?;
        let (told, near) = (target.pose.position, 1.5 * self.config.same_place);
        let sight = baseline.nearest(&target.class_name, told, near)?;
        Some(sight.detection.pose.position)
    }

    /// Whether a frame shows in the hand another one of the class than this detection.
    pub fn other_in_hand(
        &self,
        target: &Target,
        frame: &DetectionFrame,
        detection: &Detection,
        hand: Vec3,
        reach: f64,
    ) -> bool {
        let others = self.others(target);
        let at = detection.pose.position;
        frame.detections.iter().any(|d| {
            let p = d.pose.position;
            let stands = others.iter().any(|o| {
                o.distance(p) < self.config.same_place && o.distance(p) < p.distance(hand)
            });
            d.class_name == target.class_name
                && p.distance(at) > self.config.same_place
                && p.distance(hand) <= reach
                && p.distance(hand) < at.distance(hand)
                && !stands
        })
    }

    /// Other objects of the class that were seen before the start.
    pub fn others(&self, target: &Target) -> Vec<Vec3> {
        let own = self.origin(target);
        let Ok(baseline) = self.record.baseline.as_ref() else {
            return Vec::new();
        };
        let places = baseline
            .sights
            .iter()
            .filter(|s| s.detection.class_name == target.class_name)
            .map(|s| s.detection.pose.position);
        // One sight is the object's own: the nearest, if it is there at all.
        let mut others: Vec<Vec3> = places.collect();
        if let Some((index, distance)) = others
            .iter()
            .map(|p| p.distance(own))
            .enumerate()
            .min_by(|a, b| a.1.total_cmp(&b.1))
        {
            if distance <= self.config.same_place {
                others.swap_remove(index);
            }
        }
        others
    }

    /// For each frame that counts the detection of the target's class nearest to a place, within a radius
    /// \[m\], unless it is one of the other objects of that class.
    pub fn hits(
        &self,
        target: &Target,
        place: Vec3,
        radius: f64,
    ) -> Vec<(&'a DetectionFrame, &'a Detection)> {
        self.hits_in(self.frames(), target, place, radius)
    }

    fn hits_in(
        &self,
        frames: Vec<&'a DetectionFrame>,
        target: &Target,
        place: Vec3,
        radius: f64,
    ) -> Vec<(&'a DetectionFrame, &'a Detection)> {
        let others = self.others(target);
        frames
            .into_iter()
            .filter_map(|frame| {
                frame
                    .detections
                    .iter()
                    .filter(|d| d.class_name == target.class_name)
                    .map(|d| (d.pose.position.distance(place), d))
                    .filter(|(distance, d)| {
                        *distance <= radius
                            && !others.iter().any(|o| {
                                let to_other = o.distance(d.pose.position);
                                to_other < self.config.same_place && to_other < *distance
                            })
                    })
                    .min_by(|a, b| a.0.total_cmp(&b.0))
                    .map(|(_, d)| (frame, d))
            })
            .collect()
    }

    /// Where an object is seen that is no longer at its place: in the newest of several frames that agree.
    pub fn seen_elsewhere(
        &self,
        target: &Target,
        origin: Vec3,
    ) -> Option<(&'a DetectionFrame, &'a Detection)> {
        let hits = self.hits(target, origin, f64::INFINITY);
        let (frame, newest) = hits.last().copied()?;
        let agree = |d: &Detection| {
            d.pose.position.distance(newest.pose.position) <= self.config.same_place
        };
        let agreeing = hits.iter().filter(|(_, d)| agree(d)).count();
        (agreeing >= 2 && 2 * agreeing > hits.len()).then_some((frame, newest))
    }

    /// Frames that count in which an object at this place would have been found: in view, and hidden by
    /// nothing that is known. `except` names what does not hide it.
    pub fn looked_at(&self, place: Vec3, except: &[&str]) -> usize {
        self.looks_in(self.frames(), place, except).len()
    }

    /// What the run itself shows of an object's place. An absence on the way casts doubt, it proves nothing; a
    /// place that fewer frames looked at than that takes may have been emptied with nobody looking.
    pub fn on_the_way(&self, target: &Target, place: Vec3, name: &str) -> OnTheWay {
        let looks = self.looks_in(self.frames_since_start(), place, &[name]);
        // Fewer than prove an absence.
        let count = (2 * self.config.absence_frames).div_ceil(3);
        let Some(last) = looks.len().checked_sub(count).and_then(|n| looks.get(n..)) else {
            return OnTheWay::HardlyLooked(looks.len());
        };
        let hits = self.hits_in(last.to_vec(), target, place, self.config.search_radius);
        if hits.is_empty() {
            OnTheWay::Missed
        } else {
            OnTheWay::Seen(looks.len())
        }
    }

    /// Whether a wall or a piece of furniture of the map stands between a place and the camera where it is now, as
    /// what a cabinet holds is behind its door: turning the camera shows no more of it.
    pub fn is_behind_furniture(&self, place: Vec3, name: &str) -> bool {
        let nodes: &[SceneObject] = self.prior.map_or(&[], |p| p.objects.as_slice());
        let mut frames = self.frames().into_iter().rev();
        let view = frames.find_map(|frame| frame.view.as_ref());
        view.is_some_and(|view| !line_of_sight(view.camera.position, place, nodes.iter(), &[name]))
    }

    fn looks_in(
        &self,
        frames: Vec<&'a DetectionFrame>,
        place: Vec3,
        except: &[&str],
    ) -> Vec<&'a DetectionFrame> {
        let nodes: &[SceneObject] = self.prior.map_or(&[], |p| p.objects.as_slice());
        let bodies: Vec<Solid> = self
            .record
            .baseline
            .as_ref()
            .map(|b| {
                b.sights
                    .iter()
                    .filter(|s| s.detection.pose.position.distance(place) > self.config.same_place)
                    .map(|s| Solid {
                        pose: s.detection.pose,
                        size: s.detection.size,
                    })
                    .collect()
            })
            .unwrap_or_default();
        // What is seen now hides as well, wherever it came from.
        let seen: Vec<Solid> = frames
            .iter()
            .rev()
            .take(self.config.frames)
            .flat_map(|f| &f.detections)
            .filter(|d| d.pose.position.distance(place) > self.config.same_place)
            .map(|d| Solid {
                pose: d.pose,
                size: d.size,
            })
            .collect();
        frames
            .into_iter()
            .filter(|frame| {
                frame.view.as_ref().is_some_and(|view| {
                    let eye = view.camera.position;
                    view.covers(place, VIEW_SHARE)
                        && line_of_sight(eye, place, nodes.iter(), except)
                        && !bodies
                            .iter()
                            .chain(&seen)
                            .any(|b| b.blocks(eye, place, -INFLATE))
                })
            })
            .collect()
    }
}
