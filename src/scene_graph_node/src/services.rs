//! What the node is asked: queries, effects, plans, images and maps.

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Arc;

use eh_contract::geometry::Vec3;
use eh_contract::scene::{Relation, SceneObject};
use eh_contract::{ErrorCode, Stamp};
use eh_ros_edge::convert::command::{budget, precondition, stamp_msg};
use eh_ros_edge::convert::{scene as convert_scene, verdict as convert_verdict};
use eh_scene::effects::require;
use eh_scene::plan_check::Plan;
use eh_scene::{Query, Scene, SceneError};
use rclrs::{log_info, log_warn, RclrsError};
use ros_env::embodied_harness::srv::{
    ApplyEffects, ApplyEffects_Request, ApplyEffects_Response, CheckPlan, CheckPlan_Request,
    CheckPlan_Response, GetObjectImage, GetObjectImage_Request, GetObjectImage_Response,
    ManageScene, ManageScene_Request, QueryScene, QueryScene_Request, QueryScene_Response,
};

use crate::maps::{manage, Keeper};
use crate::node::{Core, Shared};
use crate::vectors;

pub(crate) fn invalid(reason: String) -> SceneError {
    SceneError::InvalidRequest { reason }
}

/// Creates the services.
pub(crate) fn serve(
    shared: &Arc<Shared>,
    keeper: &Keeper,
) -> Result<Vec<Box<dyn Any>>, RclrsError> {
    let node = &shared.node;
    let take = shared.clone();
    let query: Box<dyn Any> = match &shared.vectors {
        None => Box::new(node.create_service::<QueryScene, _>(
            "query_scene",
            move |request: QueryScene_Request| take.query(&request),
        )?),
        Some(search) => {
            let search = search.clone();
            Box::new(node.create_async_service::<QueryScene, _>(
                "query_scene",
                move |request: QueryScene_Request| {
                    vectors::query(take.clone(), search.clone(), request)
                },
            )?)
        }
    };
    let take = shared.clone();
    let apply = node.create_service::<ApplyEffects, _>(
        "apply_effects",
        move |request: ApplyEffects_Request| take.apply(&request),
    )?;
    let take = shared.clone();
    let plan = node
        .create_service::<CheckPlan, _>("check_plan", move |request: CheckPlan_Request| {
            take.check_plan(&request)
        })?;
    let take = shared.clone();
    let image = node.create_service::<GetObjectImage, _>(
        "get_object_image",
        move |request: GetObjectImage_Request| take.object_image(&request),
    )?;
    let (take, keep) = (shared.clone(), keeper.clone());
    let maps = node.create_async_service::<ManageScene, _>(
        "manage_scene",
        move |request: ManageScene_Request| manage(take.clone(), keep.clone(), request),
    )?;
    Ok(vec![
        query,
        Box::new(apply),
        Box::new(plan),
        Box::new(image),
        Box::new(maps),
    ])
}

impl Shared {
    /// Takes in what is newest, since it may decide an answer.
    fn look_first(&self, core: &mut Core, now: Stamp) {
        self.follow_robot(core, now);
        self.feel_gripper(core, now);
        self.work_off_frames(core, now);
    }

    /// Answers from what is known here.
    pub(crate) fn query(&self, request: &QueryScene_Request) -> QueryScene_Response {
        self.read(|scene, now, response| answer(scene, request, now, response))
    }

    /// Answers FIND with the nodes that `find` finds in the scene.
    pub(crate) fn query_with(
        &self,
        request: &QueryScene_Request,
        find: impl FnOnce(
            &Scene,
            &Query,
            &mut QueryScene_Response,
        ) -> Result<Vec<SceneObject>, SceneError>,
    ) -> QueryScene_Response {
        self.read(|scene, _, response| {
            let objects = find(scene, &filters(request), response)?;
            let relations = scene.relations_from(&objects);
            fill(response, &objects, &relations);
            Ok(())
        })
    }

    /// Answers from the newest scene.
    fn read(
        &self,
        answer: impl FnOnce(&Scene, Stamp, &mut QueryScene_Response) -> Result<(), SceneError>,
    ) -> QueryScene_Response {
        let now = self.now();
        let mut core = self.core.lock();
        self.look_first(&mut core, now);
        let mut response = QueryScene_Response {
            version: core.scene.graph().version(),
            map_id: core.scene.graph().map_id().into(),
            failed_precondition: -1,
            ..Default::default()
        };
        if let Err(error) = answer(&core.scene, now, &mut response) {
            response.error_code = error.code().code();
            response.error_msg = error.to_string();
            response.failed_precondition = index(error.failed_precondition());
        }
        response
    }

    fn check_plan(&self, request: &CheckPlan_Request) -> CheckPlan_Response {
        let now = self.now();
        // It is read before anybody waits for it.
        let plan = Plan::from_json(&request.plan_json);
        let mut core = self.core.lock();
        self.look_first(&mut core, now);
        let mut response = CheckPlan_Response {
            version: core.scene.graph().version(),
            map_id: core.scene.graph().map_id().into(),
            failed_step: -1,
            ..Default::default()
        };
        match plan.and_then(|plan| core.scene.check_plan(&plan, now)) {
            Ok(report) => response.open = report.open,
            Err(error) => {
                response.error_code = error.code().code();
                response.error_msg = error.to_string();
                response.failed_step = index(error.failed_step());
            }
        }
        response
    }

    fn apply(&self, request: &ApplyEffects_Request) -> ApplyEffects_Response {
        let now = self.now();
        let mut core = self.core.lock();
        let result = convert_verdict::verdict(&request.verdict)
            .map_err(|e| invalid(e.to_string()))
            .and_then(|verdict| {
                core.scene
                    .apply_effects(&verdict, &request.effects_json, now)
                    .map(|()| verdict)
            });
        let (code, message) = match result {
            Ok(verdict) => {
                log_info!(
                    self.node.logger(),
                    "effects of run {} applied: {}",
                    verdict.run_id,
                    request.effects_json
                );
                (ErrorCode::None, String::new())
            }
            Err(error) => {
                log_warn!(self.node.logger(), "effects refused: {error}");
                (error.code(), error.to_string())
            }
        };
        let response = ApplyEffects_Response {
            error_code: code.code(),
            error_msg: message,
            version: core.scene.graph().version(),
        };
        self.publish(&mut core);
        response
    }

    fn object_image(&self, request: &GetObjectImage_Request) -> GetObjectImage_Response {
        let now = self.now();
        let mut core = self.core.lock();
        self.look_first(&mut core, now);
        self.work_off_images(&mut core);
        self.image_of(&core, request, now)
            .unwrap_or_else(|error| GetObjectImage_Response {
                error_code: error.code().code(),
                error_msg: error.to_string(),
                ..Default::default()
            })
    }

    fn image_of(
        &self,
        core: &Core,
        request: &GetObjectImage_Request,
        now: Stamp,
    ) -> Result<GetObjectImage_Response, SceneError> {
        let object = require(core.scene.graph(), &request.ref_)?;
        if self.parameters.image_topic.is_empty() {
            return Err(invalid(
                "no camera is set; start the node with the parameter image_topic".into(),
            ));
        }
        let found = core.camera.memory.look(
            &object.pose,
            object.size,
            object.last_seen,
            request.margin,
            budget(&request.max_age),
            now,
        );
        let found = found.map_err(|error| {
            let trouble = core.camera.trouble.as_deref();
            invalid(match trouble {
                Some(trouble) => format!("{error}; the newest image was left out: {trouble}"),
                None => error.to_string(),
            })
        })?;
        let mut response = GetObjectImage_Response {
            x: found.crop.x,
            y: found.crop.y,
            share: found.crop.share,
            ..Default::default()
        };
        let image = &mut response.image;
        image.header.stamp = stamp_msg(found.stamp);
        image.header.frame_id = found.frame_id;
        image.encoding = found.encoding;
        image.width = found.crop.width;
        image.height = found.crop.height;
        image.step = found.crop.width * found.pixel;
        image.data = found.bytes;
        Ok(response)
    }
}

/// An index in an answer; -1: none.
fn index(index: Option<usize>) -> i32 {
    index.and_then(|i| i32::try_from(i).ok()).unwrap_or(-1)
}

fn size(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Fills in the answer of a query.
fn answer(
    scene: &Scene,
    request: &QueryScene_Request,
    now: Stamp,
    response: &mut QueryScene_Response,
) -> Result<(), SceneError> {
    let (objects, relations) = match request.operation {
        QueryScene_Request::OPERATION_FIND => {
            scene.find(&filters(request))?
        }
        QueryScene_Request::OPERATION_CHECK => {
            let preconditions = request
                .preconditions
                .iter()
                .map(precondition)
                .collect::<Result<Vec<_>, _>>()
                .map_err(|e| invalid(e.to_string()))?;
            scene.check(&preconditions, now)?;
            (Vec::new(), Vec::new())
        }
        QueryScene_Request::OPERATION_BRIEF => {
            check_focus(request)?;
            response.brief = scene.brief(&request.focus, size(request.token_budget), now);
            (Vec::new(), Vec::new())
        }
        QueryScene_Request::OPERATION_ALL => {
            let all = scene.snapshot();
            (all.objects, all.relations)
        }
        QueryScene_Request::OPERATION_CHANGES => scene.changes_since(request.since_version),
        QueryScene_Request::OPERATION_OUTLINE => {
            check_focus(request)?;
            let open: BTreeSet<String> = request.refs.iter().cloned().collect();
            let budget = size(request.token_budget);
            let found = scene.outline(&open, &request.focus, budget, now)?;
            response.brief = found.text;
            (found.objects, found.relations)
        }
        QueryScene_Request::OPERATION_RELATIONS => {
            scene.relations(&request.refs, &request.text, size(request.limit))?
        }
        other => {
            return Err(invalid(format!(
                "operation {other} is none; use 1 (find), 2 (check), 3 (brief), 4 (all), 5 (changes), 6 (outline) or 7 (relations)"
            )))
        }
    };
    fill(response, &objects, &relations);
    Ok(())
}

/// The filters of FIND.
fn filters(request: &QueryScene_Request) -> Query {
    let origin = &request.origin;
    Query {
        refs: request.refs.clone(),
        class_name: request.class_name.clone(),
        attributes: convert_scene::key_values(&request.attributes),
        text: request.text.clone(),
        within: request.within.clone(),
        nearest: request
            .nearest
            .then(|| Vec3::new(origin.x, origin.y, origin.z)),
        max_distance: request.max_distance,
        limit: size(request.limit),
    }
}

fn fill(response: &mut QueryScene_Response, objects: &[SceneObject], relations: &[Relation]) {
    response.objects = objects
        .iter()
        .map(convert_scene::scene_object_msg)
        .collect();
    response.relations = relations.iter().map(convert_scene::relation_msg).collect();
}

fn check_focus(request: &QueryScene_Request) -> Result<(), SceneError> {
    if request.focus.len() > eh_scene::query::MAX_TEXT {
        return Err(invalid(format!(
            "the focus has {} bytes, the limit is {}; shorten it",
            request.focus.len(),
            eh_scene::query::MAX_TEXT
        )));
    }
    Ok(())
}
