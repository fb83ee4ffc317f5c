//! Faults as they are asked for: by the service and by the parameter.

use eh_sim::{FaultKind, FaultSpec};
use ros_env::embodied_harness::srv::InjectFault_Request;
use serde_json::{Map, Value};

/// Longest text of parameters, bytes.
const LONGEST: usize = 64 * 1024;

/// The servers that faults of servers can be narrowed to.
pub(crate) const SERVERS: [&str; 4] = [
    "navigate_to_pose",
    "move_action",
    "gripper_controller/gripper_cmd",
    "head_controller/follow_joint_trajectory",
];

/// The fault that a request of the service means. `at`, `on` and `nth` may stand among its parameters.
///
/// # Errors
/// A sentence that says what is wrong.
pub(crate) fn of_service(
    kind: FaultKind,
    request: &InjectFault_Request,
) -> Result<FaultSpec, String> {
    let text = request.params_json.trim();
    if text.len() > LONGEST {
        return Err(format!(
            "params_json has {} bytes; at most {LONGEST}",
            text.len()
        ));
    }
    let mut params: Map<String, Value> = if text.is_empty() {
        Map::new()
    } else {
        serde_json::from_str(text)
            .map_err(|error| format!("params_json is not one JSON object: {error}"))?
    };
    let mut spec = Map::new();
    for condition in ["at", "on", "nth"] {
        if let Some(value) = params.remove(condition) {
            spec.insert(condition.into(), value);
        }
    }
    spec.insert("fault".into(), kind.name().into());
    spec.insert("count".into(), request.count.max(1).into());
    spec.insert("params".into(), Value::Object(params));
    let spec: FaultSpec = serde_json::from_value(Value::Object(spec))
        .map_err(|error| format!("params_json: {error}"))?;
    check_server(spec)
}

/// The faults of the parameter: names separated by commas, or a YAML list as in a world file.
///
/// # Errors
/// A sentence that says what is wrong.
pub(crate) fn of_parameter(text: &str) -> Result<Vec<FaultSpec>, String> {
    let text = text.trim();
    if text.starts_with(['[', '-', '{']) {
        let specs: Vec<FaultSpec> = serde_yaml_ng::from_str(text).map_err(|error| {
            format!("it is no list of faults: {error}; write [{{fault: grasp_slip}}] or a name")
        })?;
        return specs.into_iter().map(check_server).collect();
    }
    text.split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(|name| name.parse().map(FaultSpec::new).map_err(|e| e.to_string()))
        .collect()
}

fn check_server(spec: FaultSpec) -> Result<FaultSpec, String> {
    match &spec.params.server {
        Some(server) if !SERVERS.contains(&server.as_str()) => Err(format!(
            "there is no server '{}'; use one of: {}",
            server.chars().take(64).collect::<String>(),
            SERVERS.join(", ")
        )),
        _ => Ok(spec),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(count: u32, params: &str) -> Result<FaultSpec, String> {
        of_service(
            FaultKind::NavAbort,
            &InjectFault_Request {
                count,
                params_json: params.into(),
                ..Default::default()
            },
        )
    }

    #[test]
    fn a_request_is_read() {
        let spec = asked(3, r#"{"after_s": 0.5, "code": 105, "nth": 2}"#).unwrap();
        assert_eq!(
            (spec.fault, spec.count, spec.nth),
            (FaultKind::NavAbort, 3, 2)
        );
        assert_eq!(spec.params.after_s, Some(0.5));
        assert_eq!(spec.params.code, Some(105));
        assert_eq!(asked(0, "").unwrap().count, 1);
    }

    #[test]
    fn what_is_no_object_or_has_unknown_fields_is_refused() {
        for params in ["[]", "{", "7", r#"{"after": 1}"#, r#"{"after_s": "x"}"#] {
            assert!(
                asked(1, params).unwrap_err().contains("params_json"),
                "{params}"
            );
        }
        assert!(asked(1, &" {}".repeat(LONGEST)).is_err());
        let error = asked(1, r#"{"server": "nav"}"#).unwrap_err();
        assert!(error.contains("navigate_to_pose"), "{error}");
    }

    #[test]
    fn the_parameter_takes_names_or_a_list() {
        assert!(of_parameter(" ").unwrap().is_empty());
        let kinds = |text| -> Vec<FaultKind> {
            of_parameter(text)
                .unwrap()
                .iter()
                .map(|s| s.fault)
                .collect()
        };
        assert_eq!(
            kinds("grasp_slip, nav_abort"),
            [FaultKind::GraspSlip, FaultKind::NavAbort]
        );
        assert_eq!(
            kinds("[{fault: lost_ack, params: {server: move_action}}]"),
            [FaultKind::LostAck]
        );
        assert!(of_parameter("gremlin").unwrap_err().contains("grasp_slip"));
        assert!(of_parameter("[{fault: lost_ack, params: {server: x}}]").is_err());
    }
}
