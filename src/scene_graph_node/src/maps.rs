//! `manage_scene`: which maps there are, which one is in use, and a scene as JSON.

use std::sync::Arc;

use eh_contract::id::check_id;
use eh_contract::semantic_map::SemanticMap;
use eh_scene::{ChangeSet, Scene, SceneError};
use parking_lot::Mutex;
use rclrs::{log_info, log_warn};
use ros_env::embodied_harness::srv::{ManageScene_Request, ManageScene_Response};

use crate::node::{Core, Shared};
use crate::scene_keeper::SceneKeeper;
use crate::services::invalid;

/// The keeper, until the node ends.
pub(crate) type Keeper = Arc<Mutex<Option<SceneKeeper>>>;

/// Longest semantic map in bytes.
const MAX_MAP: usize = 4 * 1024 * 1024;

/// When the thread that writes has no room or has ended.
const BEHIND: &str =
    "the disk is behind; nothing was changed: look at the node's log, then ask again";

/// Answers a request.
pub(crate) async fn manage(
    shared: Arc<Shared>,
    keeper: Keeper,
    request: ManageScene_Request,
) -> ManageScene_Response {
    let mut response = ManageScene_Response::default();
    let done = match request.operation {
        ManageScene_Request::OPERATION_LIST => list(&keeper, &mut response).await,
        ManageScene_Request::OPERATION_SWITCH => switch(&shared, &keeper, &request).await,
        ManageScene_Request::OPERATION_EXPORT => export(&shared, &mut response),
        ManageScene_Request::OPERATION_IMPORT => import(&shared, &request),
        other => Err(invalid(format!(
            "operation {other} is none; use 1 (list), 2 (switch), 3 (export) or 4 (import)"
        ))),
    };
    if let Err(error) = done {
        log_warn!(shared.node.logger(), "manage_scene: {error}");
        response.error_code = error.code().code();
        response.error_msg = error.to_string();
    }
    let core = shared.core.lock();
    let graph = core.scene.graph();
    response.map_id = graph.map_id().into();
    response.version = graph.version();
    response.objects = u32::try_from(graph.live_count()).unwrap_or(u32::MAX);
    // One that was never written yet is known as well.
    let is_listing = request.operation == ManageScene_Request::OPERATION_LIST;
    if is_listing && response.error_code == 0 && !response.map_ids.contains(&response.map_id) {
        response.map_ids.push(response.map_id.clone());
        response.map_ids.sort();
    }
    response
}

async fn list(keeper: &Keeper, response: &mut ManageScene_Response) -> Result<(), SceneError> {
    let answer = keeper.lock().as_ref().and_then(SceneKeeper::maps);
    let answer = answer.ok_or_else(|| invalid(BEHIND.into()))?;
    response.map_ids = answer
        .await
        .map_err(|_| invalid(BEHIND.into()))?
        .map_err(invalid)?;
    Ok(())
}

/// Takes up the scene of another map. What was known of the one before is handed to the disk first.
async fn switch(
    shared: &Shared,
    keeper: &Keeper,
    request: &ManageScene_Request,
) -> Result<(), SceneError> {
    let map_id = request.map_id.as_str();
    check_id("map_id", map_id).map_err(|e| invalid(e.to_string()))?;
    let map = semantic_map(&request.semantic_map_yaml)?;
    let answer = {
        let mut core = shared.core.lock();
        if core.switching {
            return Err(invalid("another switch is under way; ask again".into()));
        }
        if core.scene.graph().map_id() == map_id {
            if let Some(map) = &map {
                core.scene.load_map(map, shared.now());
            }
            return Ok(());
        }
        let guard = keeper.lock();
        let keeper = guard.as_ref().ok_or_else(|| invalid(BEHIND.into()))?;
        hand_over(&mut core, keeper);
        // What comes back after all of it is written is what was there last.
        let answer = if core.unwritten.is_empty() {
            keeper.read(map_id)
        } else {
            None
        };
        let answer = answer.ok_or_else(|| invalid(BEHIND.into()))?;
        core.switching = true;
        answer
    };
    let read = answer.await;
    let mut core = shared.core.lock();
    core.switching = false;
    let known = read.map_err(|_| invalid(BEHIND.into()))?.map_err(invalid)?;
    take_up(shared, &mut core, keeper, map_id, known, map.as_ref())
}

fn semantic_map(text: &str) -> Result<Option<SemanticMap>, SceneError> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    if text.len() > MAX_MAP {
        return Err(invalid(format!(
            "the semantic map has {} bytes, the limit is {MAX_MAP}",
            text.len()
        )));
    }
    SemanticMap::from_yaml(text)
        .map(Some)
        .map_err(|e| invalid(format!("the semantic map can't be used: {e}")))
}

/// Hands to the disk what it has not got; what it does not take stays, in its order.
pub(crate) fn hand_over(core: &mut Core, keeper: &SceneKeeper) {
    let batch = core.scene.take_changes();
    let mut batches = std::mem::take(&mut core.unwritten);
    if !batch.is_empty() {
        batches.push(batch);
    }
    for batch in batches {
        // Behind one that was not taken none is tried, so that none overtakes it.
        if core.unwritten.is_empty() {
            core.unwritten.extend(keeper.keep(batch));
        } else {
            core.unwritten.push(batch);
        }
    }
}

fn take_up(
    shared: &Shared,
    core: &mut Core,
    keeper: &Keeper,
    map_id: &str,
    known: ChangeSet,
    map: Option<&SemanticMap>,
) -> Result<(), SceneError> {
    let p = &shared.parameters;
    let now = shared.now();
    // In simulation the clock may not have begun; then ages are judged when it has.
    let at = if now.is_never() { known.stamp } else { now };
    let mut scene = Scene::new(map_id, &p.map_frame, p.scene.clone(), p.lexicon.clone())?;
    let remembered = known.objects.len();
    scene.restore(known, at)?;
    if let Some(map) = map {
        scene.load_map(map, at);
    }
    // What came in while the disk was read belongs to the old map.
    if let Some(keeper) = keeper.lock().as_ref() {
        hand_over(core, keeper);
    }
    log_info!(
        shared.node.logger(),
        "map \"{}\" instead of \"{}\": {remembered} nodes remembered",
        map_id,
        core.scene.graph().map_id()
    );
    core.scene = scene;
    core.begin_anew();
    shared.publish(core);
    Ok(())
}

fn export(shared: &Shared, response: &mut ManageScene_Response) -> Result<(), SceneError> {
    response.scene_json = shared.core.lock().scene.export(shared.now())?;
    Ok(())
}

fn import(shared: &Shared, request: &ManageScene_Request) -> Result<(), SceneError> {
    let mut core = shared.core.lock();
    let in_use = core.scene.graph().map_id().to_string();
    if !request.map_id.is_empty() && request.map_id != in_use {
        return Err(invalid(format!(
            "the scene is to be of map \"{}\", in use is \"{in_use}\"; switch first",
            request.map_id.chars().take(64).collect::<String>()
        )));
    }
    let forgotten = core.scene.import(&request.scene_json, shared.now())?;
    log_info!(
        shared.node.logger(),
        "scene of map \"{in_use}\" imported: {} nodes, {forgotten} with stamps of the future that are not believed",
        core.scene.graph().live_count()
    );
    core.begin_anew();
    shared.publish(&mut core);
    Ok(())
}
