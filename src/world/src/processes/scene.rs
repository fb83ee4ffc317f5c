//! The scene graph as `scene_graph_node` runs it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use eh_contract::scene::RelationKind;
use eh_contract::semantic_map::SemanticMap;
use eh_contract::ErrorCode;
use eh_ledger::admission::SceneCheck;
use eh_scene::lexicon::Lexicon;
use eh_scene::{ChangeSet, GripReading, Scene, SceneConfig, SceneError};

use crate::clock::Every;
use crate::context::{Context, Process};
use crate::failpoint::{own, Crash, Moment};
use crate::message::{Body, Letter, Motion, News, Reply, Request};

/// Name of the map.
const MAP: &str = "world";

/// As the node's parameter embodiment.gripper_joint.
const GRIPPER_JOINT: &str = "gripper_joint";

/// As the node's parameters publish_period and persist_period.
const PUBLISH: Duration = Duration::from_millis(500);
const PERSIST: Duration = Duration::from_secs(1);
/// Without a new version the graph goes out this often.
const REFRESH: Duration = Duration::from_secs(1);
const CYCLE: Duration = Duration::from_millis(60);

/// The scene graph.
#[derive(Debug)]
pub struct SceneProcess {
    scene: Scene,
    motion: Option<Arc<Motion>>,
    followed: Option<Arc<Motion>>,
    unwritten: Vec<ChangeSet>,
    published: Option<(u64, u64, Duration)>,
    cycle: Every,
    persist: Every,
}

impl SceneProcess {
    /// Takes up what an earlier life left on the disk.
    ///
    /// # Errors
    /// [`SceneError`] when the scene's own defaults or records can't be used.
    pub fn new(
        map: &SemanticMap,
        written: &[ChangeSet],
        context: &Context<'_>,
    ) -> Result<Self, SceneError> {
        let mut scene = Scene::new(MAP, "map", SceneConfig::default(), Lexicon::builtin())?;
        scene.restore(folded(written), context.stamp())?;
        scene.load_map(map, context.stamp());
        Ok(SceneProcess {
            scene,
            motion: None,
            followed: None,
            unwritten: Vec::new(),
            published: None,
            cycle: Every::new(CYCLE),
            persist: Every::new(PERSIST),
        })
    }

    fn follow(&mut self, context: &Context<'_>) {
        let Some(motion) = &self.motion else { return };
        if self
            .followed
            .as_ref()
            .is_some_and(|f| Arc::ptr_eq(f, motion))
        {
            return;
        }
        self.followed = Some(Arc::clone(motion));
        let (base, tool) = (motion.base_in_map, Some(motion.tool_in_map));
        // A pose that is none is left out, as in the node.
        let _ = self
            .scene
            .set_robot(base, tool, motion.stamp, context.stamp());
        let fingers = motion.joints.iter().find(|j| j.name == GRIPPER_JOINT);
        if let Some(fingers) = fingers {
            let reading = GripReading {
                stamp: motion.stamp,
                width: fingers.position,
                effort: Some(fingers.effort),
            };
            let _ = self.scene.feel_gripper(&reading, context.stamp());
        }
    }

    fn publish(&mut self, context: &mut Context<'_>) {
        let graph = self.scene.graph();
        let (version, revision, now) = (graph.version(), graph.revision(), context.time());
        let due = match self.published {
            None => true,
            Some((v, r, at)) => {
                let since = now.saturating_sub(at);
                (v != version && since >= PUBLISH) || (r != revision && since >= REFRESH)
            }
        };
        if due {
            self.published = Some((version, revision, now));
            let snapshot = Arc::new(self.scene.snapshot());
            context.publish(News::SceneGraph(snapshot));
        }
    }

    fn write(&mut self, context: &mut Context<'_>) -> Result<(), Crash> {
        let batch = self.scene.take_changes();
        if !batch.is_empty() {
            self.unwritten.push(batch);
        }
        while let Some(batch) = self.unwritten.first() {
            let batch = batch.clone();
            match context.commit(own::SCENE_WRITE, |d| &mut d.scene, batch)? {
                Ok(()) => {
                    self.unwritten.remove(0);
                }
                // Tried again with the next one, in order.
                Err(_) => break,
            }
        }
        Ok(())
    }

    fn check(
        &mut self,
        preconditions: &[eh_contract::command::Precondition],
        context: &Context<'_>,
    ) -> SceneCheck {
        self.follow(context);
        match self.scene.check(preconditions, context.stamp()) {
            Ok(()) => SceneCheck::Holds,
            Err(error) => match error.code() {
                ErrorCode::SceneStalePrecondition
                | ErrorCode::PredicateNotMet
                | ErrorCode::RefNotFound => SceneCheck::Fails {
                    index: error.failed_precondition().unwrap_or(0),
                    reason: error.to_string(),
                },
                _ => SceneCheck::Unavailable {
                    reason: error.to_string(),
                },
            },
        }
    }
}

impl Process for SceneProcess {
    fn receive(&mut self, letter: Letter, context: &mut Context<'_>) -> Result<(), Crash> {
        match letter.body {
            Body::News(News::Motion(motion)) => self.motion = Some(motion),
            Body::News(News::Sight(sight)) => {
                let stamp = context.stamp();
                // A frame that is refused, being too old, is left out, as in the node.
                let _ = self
                    .scene
                    .observe_with_tool(&sight.in_map, sight.tool_in_map, stamp);
            }
            Body::Request { call, request } => {
                let (name, reply) = match request {
                    Request::ReadScene => {
                        self.follow(context);
                        let all = Arc::new(self.scene.snapshot());
                        (own::SCENE_ANSWER, Reply::Scene(all))
                    }
                    Request::CheckScene(preconditions) => {
                        let check = self.check(&preconditions, context);
                        (own::SCENE_ANSWER, Reply::Checked(check))
                    }
                    Request::ApplyEffects { verdict, effects } => {
                        let stamp = context.stamp();
                        let applied = self
                            .scene
                            .apply_effects(&verdict, &effects, stamp)
                            .map_err(|e| (e.code(), e.to_string()));
                        self.publish(context);
                        (own::SCENE_APPLIED, Reply::Applied(applied))
                    }
                    _ => return Ok(()),
                };
                context.pass(name, Moment::Before)?;
                context.reply(letter.from, call, reply);
                context.pass(name, Moment::After)?;
            }
            Body::News(_) | Body::Reply { .. } => {}
        }
        Ok(())
    }

    fn step(&mut self, context: &mut Context<'_>) -> Result<(), Crash> {
        let now = context.time();
        if self.cycle.is_due(now) {
            self.scene.advance(context.stamp());
            self.follow(context);
            self.publish(context);
        }
        if self.persist.is_due(now) {
            self.write(context)?;
        }
        Ok(())
    }
}

/// All batches as one, as the store reads them.
fn folded(written: &[ChangeSet]) -> ChangeSet {
    let mut objects = BTreeMap::new();
    let mut relations = BTreeMap::new();
    let mut counters = BTreeMap::new();
    let mut out = ChangeSet {
        map_id: MAP.into(),
        ..ChangeSet::default()
    };
    for batch in written {
        out.version = out.version.max(batch.version);
        out.stamp = out.stamp.max(batch.stamp);
        for name in &batch.removed_objects {
            objects.remove(name);
        }
        for (subject, relation, object) in &batch.removed_relations {
            let key: (String, RelationKind, String) = (subject.clone(), *relation, object.clone());
            relations.remove(&key);
        }
        for object in &batch.objects {
            objects.insert(object.r#ref.clone(), object.clone());
        }
        for relation in &batch.relations {
            let key = (
                relation.subject.clone(),
                relation.relation,
                relation.object.clone(),
            );
            relations.insert(key, relation.clone());
        }
        for (class, number) in &batch.counters {
            counters.insert(class.clone(), *number);
        }
        out.applied.extend(batch.applied.iter().cloned());
    }
    out.objects = objects.into_values().collect();
    out.relations = relations.into_values().collect();
    out.counters = counters.into_iter().collect();
    out
}
