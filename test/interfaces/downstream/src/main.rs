//! An executor with one skill, waving, written against the installed interfaces alone.

use rclrs::{Context, CreateBasicExecutor, IntoPrimitiveOptions, RequestedGoal, SpinOptions};
use ros_env::embodied_harness::action::{ExecuteSkill, ExecuteSkill_Result};
use ros_env::embodied_harness::msg::{SkillCatalog, SkillDescriptor};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut executor = Context::default_from_env()?.create_basic_executor();
    let node = executor.create_node("wave_skill_node")?;

    let catalog = node.create_publisher::<SkillCatalog>(
        "skill_catalog".reliable().transient_local().keep_last(1),
    )?;
    catalog.publish(SkillCatalog {
        executor: "wave_skill_node".into(),
        robot_id: "r1".into(),
        skills: vec![SkillDescriptor {
            name: "wave".into(),
            action_name: "wave_skill_node/execute_skill".into(),
            risk: SkillDescriptor::RISK_REVERSIBLE,
            ..Default::default()
        }],
        ..Default::default()
    })?;

    let _server = node.create_action_server(
        "wave_skill_node/execute_skill",
        |requested: RequestedGoal<ExecuteSkill>| async move {
            let goal = requested.accept().execute();
            let skill = &goal.goal().command.skill;
            let mut result = ExecuteSkill_Result::default();
            if skill == "wave" {
                goal.succeeded_with(result)
            } else {
                result.error_code = ExecuteSkill_Result::UNKNOWN_SKILL;
                result.error_msg = format!("this executor can only wave, not '{skill}'");
                goal.aborted_with(result)
            }
        },
    )?;
    println!("ready");
    executor
        .spin(SpinOptions::default())
        .into_iter()
        .next()
        .map_or(Ok(()), |error| Err(error.into()))
}
