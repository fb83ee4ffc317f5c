//! The whole: graph, tracker, robot, effects and queries of one map.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use eh_contract::belief::STATE_SEEN_AT;
use eh_contract::command::Precondition;
use eh_contract::condition::ROBOT;
use eh_contract::geometry::{angle_difference, Pose};
use eh_contract::id::check_id;
use eh_contract::perception::DetectionFrame;
use eh_contract::prior::scene_of_map;
use eh_contract::scene::{Kind, Relation, RelationKind, SceneObject, SceneSnapshot, Source};
use eh_contract::semantic_map::SemanticMap;
use eh_contract::verdict::{Outcome, Verdict};
use eh_contract::Stamp;

use crate::brief;
use crate::config::SceneConfig;
use crate::decay::decay;
use crate::effects::{self, STATE_HELD_BY};
use crate::error::SceneError;
use crate::exchange::SceneFile;
use crate::graph::{ChangeSet, Edit, SceneGraph};
use crate::lexicon::Lexicon;
use crate::outline::{self, Outline};
use crate::plan_check::{self, Plan, PlanReport};
use crate::precondition;
use crate::query::{self, Query};
use crate::relations;
use crate::similarity::{self, Ranked, Vectors};
use crate::tracker::{Observed, Tracker};

/// A clock that goes back by more than this was set back; less is jitter between publishers.
pub(crate) const CLOCK_STEP: Duration = Duration::from_secs(1);

/// How often what goes by itself is doubted; much shorter than any half-life that makes sense.
const DECAY_STEP: Duration = Duration::from_secs(1);

/// How far above the floor something is held while the tool's place is not known \[m\].
const HELD_HEIGHT: f64 = 0.8;

/// The scene of one map.
#[derive(Clone, Debug)]
pub struct Scene {
    pub(crate) config: SceneConfig,
    lexicon: Lexicon,
    pub(crate) graph: SceneGraph,
    pub(crate) tracker: Tracker,
    now: Stamp,
    /// Until when what goes by itself has been doubted.
    decayed: Stamp,
    base: Option<Pose>,
    applied: VecDeque<String>,
    applied_set: BTreeSet<String>,
    applied_new: Vec<String>,
}

impl Scene {
    /// Creates an empty scene; `frame_id` is the frame of all poses, normally map.
    ///
    /// # Errors
    /// [`SceneError`] when the configuration or a name can't be used.
    pub fn new(
        map_id: &str,
        frame_id: &str,
        config: SceneConfig,
        lexicon: Lexicon,
    ) -> Result<Self, SceneError> {
        config.check()?;
        check_id("map_id", map_id).map_err(|e| SceneError::InvalidRequest {
            reason: e.to_string(),
        })?;
        Ok(Scene {
            config,
            lexicon,
            graph: SceneGraph::new(map_id, frame_id),
            tracker: Tracker::default(),
            now: Stamp::NEVER,
            decayed: Stamp::NEVER,
            base: None,
            applied: VecDeque::new(),
            applied_set: BTreeSet::new(),
            applied_new: Vec::new(),
        })
    }

    /// The graph, for reading.
    pub fn graph(&self) -> &SceneGraph {
        &self.graph
    }

    /// The thresholds.
    pub fn config(&self) -> &SceneConfig {
        &self.config
    }

    /// The words.
    pub fn lexicon(&self) -> &Lexicon {
        &self.lexicon
    }

    /// Takes note of the time. Returns how many nodes lost a stamp because the clock was set back.
    pub fn advance(&mut self, now: Stamp) -> usize {
        let set_back = self.now.since(now) > CLOCK_STEP;
        if !set_back {
            self.now = self.now.max(now);
            if self.now.since(self.decayed) >= DECAY_STEP {
                for name in decay(&mut self.graph, self.decayed, self.now, &self.config) {
                    self.tracker.forget(&name);
                }
                self.decayed = self.now;
            }
            return 0;
        }
        self.now = now;
        self.decayed = now;
        self.tracker.clock_set_back(now);
        self.graph.forget_future(now)
    }

    /// Puts durable records back; call before [`Scene::load_map`]. Records of another map are refused.
    ///
    /// # Errors
    /// [`SceneError::InvalidRequest`] for another map.
    pub fn restore(&mut self, records: ChangeSet, now: Stamp) -> Result<(), SceneError> {
        if records.map_id != self.graph.map_id() {
            return Err(SceneError::InvalidRequest {
                reason: format!(
                    "the records are of map \"{}\", this is map \"{}\"; give each map its own id",
                    records.map_id,
                    self.graph.map_id()
                ),
            });
        }
        // The absence counts: what goes by itself went on meanwhile.
        self.decayed = records.stamp;
        for run in &records.applied {
            self.remember_applied(run);
        }
        self.applied_new.clear();
        self.graph.restore(records);
        // Where the robot is and what is near it, it will say itself; what it held, a look or the gripper
        // must confirm, but until then it is the best that is known.
        let near: Vec<String> = self.graph.objects_of(ROBOT, RelationKind::Near);
        for name in near {
            self.graph.unrelate(ROBOT, RelationKind::Near, &name, now);
        }
        self.now = now;
        self.graph.forget_future(now);
        Ok(())
    }

    /// Loads the annotated map: rooms, doors, furniture and places. What the map says of them replaces
    /// what was known; when they were looked at is kept. Nodes of the map that it no longer has go.
    pub fn load_map(&mut self, map: &SemanticMap, now: Stamp) {
        let prior = scene_of_map(map, self.graph.frame_id());
        let keep: BTreeSet<String> = prior.objects.iter().map(|o| o.r#ref.clone()).collect();
        self.graph.drop_map_nodes_except(&keep, now);
        for mut object in prior.objects {
            if let Some(known) = self.graph.get(&object.r#ref) {
                if let Some(seen) = known.state.get(STATE_SEEN_AT) {
                    object.state.insert(STATE_SEEN_AT.into(), seen.clone());
                }
                object.version = known.version;
                if *known == object {
                    continue;
                }
            }
            self.graph.insert(object, now);
        }
        let names: BTreeSet<(String, RelationKind)> = prior
            .relations
            .iter()
            .map(|r| (r.subject.clone(), r.relation))
            .collect();
        for (subject, relation) in names {
            let wanted: BTreeSet<&str> = prior
                .relations
                .iter()
                .filter(|r| r.subject == subject && r.relation == relation)
                .map(|r| r.object.as_str())
                .collect();
            for object in self.graph.objects_of(&subject, relation) {
                if !wanted.contains(object.as_str()) {
                    self.graph.unrelate(&subject, relation, &object, now);
                }
            }
        }
        for relation in prior.relations {
            if !self
                .graph
                .has(&relation.subject, relation.relation, &relation.object)
            {
                self.graph.relate(Relation {
                    stamp: now,
                    ..relation
                });
            }
        }
    }

    /// Works off one frame of detections.
    ///
    /// # Errors
    /// As [`Tracker::observe`].
    pub fn observe(&mut self, frame: &DetectionFrame, now: Stamp) -> Result<Observed, SceneError> {
        self.advance(now);
        self.tracker
            .observe(&mut self.graph, frame, now, &self.config, &self.lexicon)
    }

    /// As [`Scene::observe`], with the tool in the map at the time of the frame, so that what the robot
    /// carries is expected where the camera saw it, and not where the tool has moved since.
    ///
    /// # Errors
    /// As [`Tracker::observe`], and [`SceneError::Geometry`] for a pose that is none.
    pub fn observe_with_tool(
        &mut self,
        frame: &DetectionFrame,
        tool: Pose,
        now: Stamp,
    ) -> Result<Observed, SceneError> {
        tool.check("tool")?;
        self.follow(Some(tool), tool, frame.stamp, false);
        self.observe(frame, now)
    }

    /// Moves what is held to where the tool is.
    fn follow(&mut self, tool: Option<Pose>, held_pose: Pose, stamp: Stamp, moved: bool) {
        self.tracker.tool = tool;
        for name in self.graph.objects_of(ROBOT, RelationKind::Holds) {
            let edit = self.graph.edit(&name, stamp, |o| {
                o.pose.position = held_pose.position;
                if moved {
                    Edit::Changed
                } else {
                    Edit::Refreshed
                }
            });
            if edit == Edit::Changed {
                relations::relate_object(
                    &mut self.graph,
                    &name,
                    stamp,
                    Source::Execution,
                    &self.config,
                );
            }
        }
    }

    /// Moves what is held to where the tool is now.
    pub(crate) fn follow_tool(&mut self, stamp: Stamp) {
        if let Some(tool) = self.tracker.tool {
            self.follow(Some(tool), tool, stamp, true);
        }
    }

    /// The base and, when it is known, the tool in the map at a time. What the robot holds follows.
    ///
    /// # Errors
    /// [`SceneError::Geometry`] for a pose that is none.
    pub fn set_robot(
        &mut self,
        base: Pose,
        tool: Option<Pose>,
        stamp: Stamp,
        now: Stamp,
    ) -> Result<(), SceneError> {
        self.advance(now);
        base.check("base")?;
        if let Some(tool) = &tool {
            tool.check("tool")?;
        }
        let (step, turn) = (
            self.config.significant_robot_move,
            self.config.significant_robot_turn,
        );
        let known = self.graph.get(ROBOT).is_some();
        let mut moved = true;
        if known {
            let before = self.base;
            let edit = self.graph.edit(ROBOT, stamp, |o| {
                o.last_seen = o.last_seen.max(stamp);
                o.pose = base;
                let far = before.is_none_or(|b| {
                    b.position.distance(base.position) > step
                        || angle_difference(b.yaw(), base.yaw()).abs() > turn
                });
                if far {
                    Edit::Changed
                } else {
                    Edit::Refreshed
                }
            });
            moved = edit == Edit::Changed;
        } else {
            self.graph.insert(
                SceneObject {
                    r#ref: ROBOT.into(),
                    kind: Kind::Robot,
                    class_name: ROBOT.into(),
                    frame_id: self.graph.frame_id().into(),
                    pose: base,
                    confidence: 1.0,
                    first_seen: stamp,
                    last_seen: stamp,
                    source: Source::Perception,
                    ..SceneObject::default()
                },
                stamp,
            );
        }
        if moved {
            self.base = Some(base);
            relations::relate_robot(&mut self.graph, stamp, &self.config);
        }
        let mut held_pose = tool.unwrap_or(base);
        if tool.is_none() {
            held_pose.position.z += HELD_HEIGHT;
        }
        self.follow(tool, held_pose, stamp, moved);
        Ok(())
    }

    /// Applies the effects of a run that was judged a success.
    ///
    /// # Errors
    /// [`SceneError::VerdictNotSuccess`], [`SceneError::AlreadyApplied`], or what is malformed or unknown;
    /// then nothing was changed.
    pub fn apply_effects(
        &mut self,
        verdict: &Verdict,
        effects_json: &str,
        now: Stamp,
    ) -> Result<(), SceneError> {
        self.advance(now);
        if verdict.outcome != Outcome::Success {
            return Err(SceneError::VerdictNotSuccess {
                run_id: verdict.run_id.chars().take(64).collect(),
                outcome: outcome_name(verdict.outcome).into(),
            });
        }
        check_id("run_id", &verdict.run_id).map_err(|e| SceneError::InvalidRequest {
            reason: e.to_string(),
        })?;
        let key = format!("{}#{}", verdict.run_id, verdict.segment);
        if self.applied_set.contains(&key) {
            return Err(SceneError::AlreadyApplied {
                run_id: verdict.run_id.clone(),
            });
        }
        let effects = effects::parse_effects(effects_json)?;
        effects::check_effects(&self.graph, &effects)?;
        let stamp = if verdict.stamp.is_never() || verdict.stamp > now {
            now
        } else {
            verdict.stamp
        };
        effects::apply(
            &mut self.graph,
            &mut self.tracker,
            &effects,
            &verdict.run_id,
            stamp,
            &self.config,
        )?;
        self.remember_applied(&key);
        Ok(())
    }

    fn remember_applied(&mut self, key: &str) {
        if !self.applied_set.insert(key.into()) {
            return;
        }
        self.applied.push_back(key.into());
        self.applied_new.push(key.into());
        while self.applied.len() > self.config.max_applied {
            if let Some(oldest) = self.applied.pop_front() {
                self.applied_set.remove(&oldest);
            }
        }
    }

    /// Objects that pass the filters of a query, with the edges that go out from them.
    ///
    /// # Errors
    /// As [`query::find`].
    pub fn find(&self, query: &Query) -> Result<(Vec<SceneObject>, Vec<Relation>), SceneError> {
        let objects: Vec<SceneObject> = query::find(&self.graph, query, &self.lexicon)?
            .into_iter()
            .cloned()
            .collect();
        let relations = self.relations_from(&objects);
        Ok((objects, relations))
    }

    /// Edges that begin at nodes.
    pub fn relations_from(&self, objects: &[SceneObject]) -> Vec<Relation> {
        objects
            .iter()
            .flat_map(|o| self.graph.from_subject(&o.r#ref))
            .cloned()
            .collect()
    }

    /// Objects that pass every filter of a query and fit its text by words or by their vector.
    ///
    /// # Errors
    /// As [`similarity::find_like`].
    pub fn find_like(
        &self,
        query: &Query,
        vectors: &Vectors,
        asked: &[f32],
        least: f64,
    ) -> Result<Vec<Ranked<'_>>, SceneError> {
        similarity::find_like(&self.graph, query, &self.lexicon, vectors, asked, least)
    }

    /// Checks preconditions at the present version.
    ///
    /// # Errors
    /// As [`precondition::check`].
    pub fn check(&self, preconditions: &[Precondition], now: Stamp) -> Result<(), SceneError> {
        precondition::check(&self.graph, preconditions, now)
    }

    /// A short text for a planner.
    pub fn brief(&self, focus: &str, budget: usize, now: Stamp) -> String {
        brief::brief(&self.graph, focus, budget, now, &self.lexicon)
    }

    /// A consistent copy of everything.
    pub fn snapshot(&self) -> SceneSnapshot {
        self.graph.snapshot()
    }

    /// The whole scene as JSON.
    ///
    /// # Errors
    /// As [`SceneFile::to_json`].
    pub fn export(&self, now: Stamp) -> Result<String, SceneError> {
        SceneFile::of(&self.graph, now).to_json()
    }

    /// Puts an exported scene in the place of this one. The robot, and which runs were applied, stay as they are.
    /// Stamps stay as they were written; those in the future are not known any more, and their number comes back.
    ///
    /// # Errors
    /// As [`SceneFile::from_json`]; [`SceneError::InvalidRequest`] for a scene of another map or frame, and while
    /// the robot holds something. Then nothing was changed.
    pub fn import(&mut self, text: &str, now: Stamp) -> Result<usize, SceneError> {
        let refused = |reason: String| {
            Err(SceneError::InvalidRequest {
                reason: format!("the scene is refused, nothing was changed: {reason}"),
            })
        };
        let file = SceneFile::from_json(text, &self.config)?;
        if file.map_id != self.graph.map_id() {
            return refused(format!(
                "it is of map \"{}\", in use is \"{}\"; switch to its map first",
                file.map_id,
                self.graph.map_id()
            ));
        }
        if file.frame_id != self.graph.frame_id() {
            return refused(format!(
                "its poses are in frame \"{}\", those here in \"{}\"",
                file.frame_id.chars().take(64).collect::<String>(),
                self.graph.frame_id()
            ));
        }
        if let Some(held) = self.graph.objects_of(ROBOT, RelationKind::Holds).first() {
            return refused(format!("the robot holds {held}; set it down first"));
        }
        self.advance(now);
        let (objects, relations, counters) = file.into_parts();
        self.graph.replace(objects, relations, counters, now);
        // What was seen of the nodes that were there before says nothing about these.
        let (tool, grip) = (self.tracker.tool, std::mem::take(&mut self.tracker.grip));
        self.tracker = Tracker::default();
        (self.tracker.tool, self.tracker.grip) = (tool, grip);
        self.base = None;
        Ok(self.graph.forget_future(now))
    }

    /// What a planner sees that has opened these names, see [`outline::outline`].
    ///
    /// # Errors
    /// As [`outline::outline`].
    pub fn outline(
        &self,
        open: &BTreeSet<String>,
        text: &str,
        budget: usize,
        now: Stamp,
    ) -> Result<Outline, SceneError> {
        outline::outline(&self.graph, open, text, budget, now, &self.lexicon)
    }

    /// Edges with one of these names at an end, see [`query::relations`], and the nodes at their ends.
    ///
    /// # Errors
    /// As [`query::relations`].
    pub fn relations(
        &self,
        refs: &[String],
        kinds: &str,
        limit: usize,
    ) -> Result<(Vec<SceneObject>, Vec<Relation>), SceneError> {
        let found = query::relations(&self.graph, refs, kinds, limit)?;
        let ends: BTreeSet<&str> = found
            .iter()
            .flat_map(|r| [r.subject.as_str(), r.object.as_str()])
            .collect();
        let objects = ends.into_iter().filter_map(|name| self.graph.get(name));
        Ok((objects.cloned().collect(), found))
    }

    /// Whether a plan can work, see [`plan_check::check_plan`].
    ///
    /// # Errors
    /// As [`plan_check::check_plan`].
    pub fn check_plan(&self, plan: &Plan, now: Stamp) -> Result<PlanReport, SceneError> {
        plan_check::check_plan(&self.graph, plan, now)
    }

    /// Nodes and edges that changed after a version.
    pub fn changes_since(&self, version: u64) -> (Vec<SceneObject>, Vec<Relation>) {
        self.graph.changes_since(version)
    }

    /// What has to be made durable since the last call.
    pub fn take_changes(&mut self) -> ChangeSet {
        let mut changes = self.graph.take_changes();
        changes.applied = std::mem::take(&mut self.applied_new);
        changes
    }

    /// Counts of live nodes by kind, for a log line.
    pub fn counts(&self) -> BTreeMap<Kind, usize> {
        let mut out = BTreeMap::new();
        for object in self.graph.live() {
            *out.entry(object.kind).or_insert(0) += 1;
        }
        out
    }

    /// Who holds an object, by its state.
    pub fn held_by(&self, name: &str) -> Option<&str> {
        self.graph
            .get(name)?
            .state
            .get(STATE_HELD_BY)
            .map(String::as_str)
    }
}

const fn outcome_name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Process => "PROCESS",
        Outcome::Success => "SUCCESS",
        Outcome::Failure => "FAILURE",
        Outcome::Unknown => "UNKNOWN",
    }
}
