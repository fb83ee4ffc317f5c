//! The ROS context of a process with one node, with parameter files as every other client library reads
//! them.
//!
//! rclrs 0.8 takes from a parameter file only the sections named `/**` or exactly like the node's full
//! name; `protection_node:`, `/*/protection_node:` or `/**/protection_node:`, which rclcpp and rclpy take as
//! well, it passes over without a word. So each file is read here first, and what concerns the node is
//! handed on as `/**`.

use std::path::{Path, PathBuf};

use rclrs::{Context, InitOptions, RclrsError};
use serde_yaml_ng::{Mapping, Value};

/// The context could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    /// A parameter file can't be read.
    #[error("parameter file {path} can't be read: {reason}; correct the path or the file")]
    ParameterFile {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// What concerns this node can't be handed on.
    #[error("{path} can't be written: {reason}; free some space or set TMPDIR")]
    Temporary {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// ROS refuses the arguments.
    #[error("ROS could not be initialised: {0}; check the arguments after --ros-args")]
    Ros(RclrsError),
}

/// Creates the context of a process whose only node is called `node_name` unless it is renamed, from the
/// command line and the environment.
///
/// # Errors
///
/// [`ContextError`] that names the file or the arguments.
pub fn from_env(node_name: &str) -> Result<Context, ContextError> {
    from_arguments(std::env::args().collect(), node_name)
}

/// As [`from_env`], from these arguments; the first one is the program.
///
/// # Errors
///
/// [`ContextError`] that names the file or the arguments.
pub fn from_arguments(arguments: Vec<String>, node_name: &str) -> Result<Context, ContextError> {
    let full_name = full_name(&arguments, node_name);
    let directory = tempfile::tempdir().map_err(|error| ContextError::Temporary {
        path: std::env::temp_dir(),
        reason: error.to_string(),
    })?;
    let mut handed_on: Vec<String> = Vec::with_capacity(arguments.len());
    let mut given = arguments.into_iter();
    while let Some(argument) = given.next() {
        if argument != "--params-file" {
            handed_on.push(argument);
            continue;
        }
        let Some(file) = given.next() else {
            // ROS says what is missing.
            handed_on.push(argument);
            break;
        };
        let written = directory.path().join(format!("{}.yaml", handed_on.len()));
        if rewrite(Path::new(&file), &full_name, &written)? {
            handed_on.push(argument);
            handed_on.push(written.to_string_lossy().into_owned());
        }
    }
    // The files are read while the context is made and not later.
    Context::new(handed_on, InitOptions::default()).map_err(ContextError::Ros)
}

/// Returns whether the file has anything for the node.
fn rewrite(file: &Path, full_name: &str, written: &Path) -> Result<bool, ContextError> {
    let unreadable = |reason: String| ContextError::ParameterFile {
        path: file.into(),
        reason,
    };
    let text = std::fs::read_to_string(file).map_err(|error| unreadable(error.to_string()))?;
    let Some(text) = sections_for(&text, full_name).map_err(unreadable)? else {
        return Ok(false);
    };
    std::fs::write(written, text).map_err(|error| ContextError::Temporary {
        path: written.into(),
        reason: error.to_string(),
    })?;
    Ok(true)
}

/// The parameters of a file that concern a node, as one section `/**`; `None`: there are none.
fn sections_for(text: &str, full_name: &str) -> Result<Option<String>, String> {
    let document: Value = serde_yaml_ng::from_str(text).map_err(|error| error.to_string())?;
    let mut taken = Mapping::new();
    match document {
        Value::Null => {}
        Value::Mapping(sections) => collect(&sections, "", full_name, &mut taken)?,
        _ => return Err("it has to begin with names of nodes".into()),
    }
    if taken.is_empty() {
        return Ok(None);
    }
    let section = Mapping::from_iter([("ros__parameters".into(), Value::Mapping(taken))]);
    let whole = Mapping::from_iter([("/**".into(), Value::Mapping(section))]);
    serde_yaml_ng::to_string(&whole)
        .map(Some)
        .map_err(|error| error.to_string())
}

/// Goes through sections; namespaces may be written as sections of sections.
fn collect(
    sections: &Mapping,
    prefix: &str,
    full_name: &str,
    taken: &mut Mapping,
) -> Result<(), String> {
    for (key, content) in sections {
        let (Some(key), Value::Mapping(content)) = (key.as_str(), content) else {
            return Err(format!(
                "section {key:?} below '{prefix}' has to be the name of a node with ros__parameters"
            ));
        };
        if key == "ros__parameters" {
            if matches(prefix, full_name) {
                merge(content, taken);
            }
        } else {
            let inner = format!("{prefix}/{}", key.trim_matches('/'));
            collect(content, &inner, full_name, taken)?;
        }
    }
    Ok(())
}

fn merge(from: &Mapping, into: &mut Mapping) {
    for (key, value) in from {
        match (into.get_mut(key), value) {
            (Some(Value::Mapping(old)), Value::Mapping(new)) => merge(new, old),
            _ => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Whether a pattern of node names covers a full name: `*` stands for one part, `**` for any number.
fn matches(pattern: &str, full_name: &str) -> bool {
    let parts = |text: &str| -> Vec<String> {
        text.split('/')
            .filter(|part| !part.is_empty())
            .map(String::from)
            .collect()
    };
    covers(&parts(pattern), &parts(full_name))
}

fn covers(pattern: &[String], name: &[String]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (None, Some(_)) => false,
        (Some((first, rest)), _) if first == "**" => {
            (0..=name.len()).any(|n| covers(rest, name.get(n..).unwrap_or_default()))
        }
        (Some(_), None) => false,
        (Some((first, rest)), Some((part, others))) => {
            (first == "*" || first == part) && covers(rest, others)
        }
    }
}

/// The node's full name after the remap rules `__node` and `__ns`; the last of each wins.
fn full_name(arguments: &[String], node_name: &str) -> String {
    let rule = |name: &str| {
        arguments
            .iter()
            .filter_map(|argument| argument.strip_prefix(name)?.strip_prefix(":="))
            .next_back()
            .map(str::to_owned)
    };
    let namespace = rule("__ns").unwrap_or_default();
    let name = rule("__node").unwrap_or_else(|| node_name.into());
    format!("{}/{name}", namespace.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_cover_names_as_in_the_other_client_libraries() {
        for pattern in [
            "/**", "/**/node", "/a/node", "a/node", "/*/node", "/a/*", "/a/**",
        ] {
            assert!(matches(pattern, "/a/node"), "{pattern}");
        }
        for pattern in ["", "node", "/b/node", "/*", "/**/other", "/a/node/b"] {
            assert!(!matches(pattern, "/a/node"), "{pattern}");
        }
        assert!(matches("/**/node", "/node"));
        assert!(matches("node", "/node"));
    }

    #[test]
    fn names_follow_the_remap_rules() {
        let arguments = ["x", "--ros-args", "-r", "__ns:=/a", "-r", "__node:=b"].map(String::from);
        assert_eq!(full_name(&arguments, "node"), "/a/b");
        assert_eq!(full_name(&[], "node"), "/node");
    }

    fn parameters(text: &str, name: &str) -> Value {
        let text = sections_for(text, name).unwrap().unwrap();
        let value: Value = serde_yaml_ng::from_str(&text).unwrap();
        value["/**"]["ros__parameters"].clone()
    }

    #[test]
    fn later_sections_win_and_others_are_left_out() {
        let text = "
/**: {ros__parameters: {a: 1, b: {c: 1, d: 1}}}
/**/node: {ros__parameters: {a: 2, b: {c: 2}}}
other: {ros__parameters: {a: 3}}
robot: {node: {ros__parameters: {e: 4}}}
";
        let taken = parameters(text, "/node");
        assert_eq!(taken["a"], 2);
        assert_eq!(taken["b"]["c"], 2);
        assert_eq!(taken["b"]["d"], 1);
        assert!(taken.get("e").is_none());
        assert_eq!(parameters(text, "/robot/node")["e"], 4);
        assert!(parameters(text, "/other").get("b").is_some());
    }

    #[test]
    fn files_without_anything_for_the_node_are_no_error() {
        for text in ["", "# nothing\n", "other: {ros__parameters: {a: 1}}"] {
            assert_eq!(sections_for(text, "/node"), Ok(None));
        }
    }

    #[test]
    fn files_that_are_no_parameter_files_are_refused() {
        for text in [
            "just text",
            "- a\n- b",
            "node: 3",
            "a: {b: [1]}",
            "a: {ros__parameters: 1}",
            ":\n :",
        ] {
            assert!(sections_for(text, "/node").is_err(), "{text}");
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let arguments = ["x", "--ros-args", "--params-file", "/nowhere/p.yaml"].map(String::from);
        let error = from_arguments(arguments.into(), "node")
            .err()
            .map(|e| e.to_string());
        assert!(error.is_some_and(|e| e.contains("/nowhere/p.yaml")));
    }
}
