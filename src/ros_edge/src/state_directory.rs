//! Where a node's durable files live.

use std::path::{Path, PathBuf};

use rclrs::Node;

use crate::params::{self, ParameterError};

/// Declares the parameter `state_directory` and gives the folder: the parameter's value, or, if that is
/// empty, `embodied_harness/<namespace>` in `$ROS_HOME`, else in `~/.ros`; `root` stands for no namespace.
///
/// # Errors
///
/// [`ParameterError`] if the value is no text.
pub fn state_directory(node: &Node) -> Result<PathBuf, ParameterError> {
    let given = params::text(
        node,
        "state_directory",
        "",
        "Folder of the durable files. Empty: embodied_harness/<namespace> in $ROS_HOME or ~/.ros.",
    )?;
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    Ok(choose(
        &given,
        variable("ROS_HOME").map(PathBuf::from),
        variable("HOME").map(PathBuf::from),
        &node.namespace(),
    ))
}

fn choose(
    given: &str,
    ros_home: Option<PathBuf>,
    home: Option<PathBuf>,
    namespace: &str,
) -> PathBuf {
    if !given.is_empty() {
        return PathBuf::from(given);
    }
    let base = ros_home
        .or_else(|| home.map(|home| home.join(".ros")))
        .unwrap_or_else(|| std::env::temp_dir().join("ros"));
    let namespace = match namespace.trim_matches('/') {
        "" => Path::new("root"),
        name => Path::new(name),
    };
    base.join("embodied_harness").join(namespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parameter_wins_then_ros_home_then_home() {
        let path = |text: &str| Some(PathBuf::from(text));
        let chosen = |given, ros_home, home, namespace| {
            choose(given, ros_home, home, namespace)
                .to_string_lossy()
                .into_owned()
        };
        assert_eq!(chosen("/s", path("/r"), path("/h"), "/"), "/s");
        assert_eq!(
            chosen("", path("/r"), path("/h"), "/"),
            "/r/embodied_harness/root"
        );
        assert_eq!(
            chosen("", None, path("/h"), "/a/b"),
            "/h/.ros/embodied_harness/a/b"
        );
    }
}
